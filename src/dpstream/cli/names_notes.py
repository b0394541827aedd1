"""What `dpstream count --discover` says on standard error."""

from __future__ import annotations

import numpy as np

from dpstream.cli.budget_options import budget_in_words
from dpstream.cli.count_notes import Notes
from dpstream.events.discovery_run import DiscoveryRun
from dpstream.release.limit_words import names_limit_in_words

__all__ = ["NamesNotes"]


class NamesNotes(Notes):
    """Prints the notes of a run that counts by names."""

    _run: DiscoveryRun

    def _promise(self) -> str:
        options, found = self._run.options, self._run.discovery
        return (
            f"Budget {budget_in_words(options.budget)} for all releases together protects every user."
            f" {names_limit_in_words(found.names_per_person, found.per_name)} {self._threshold()}"
        )

    def _threshold(self) -> str:
        settings = self._run.settings
        return (
            f"A name is published once its noisy number of users reaches {settings.threshold:,}: with"
            f" {settings.appears_from():,} users it appears with a chance of 95 %."
        )

    def _largest_error(self) -> int:
        settings = self._run.settings
        widest = int(np.argmax(settings.mechanism.squared_row_norms(settings.horizon))) + 1
        return settings.half_width(widest, self._run.options.confidence)

    def _windows(self) -> str:
        """How exact each window is where it is least so, among the releases of this run and those before."""
        return f"Windows: {self._window_errors()}; for names that were published when the window began."

    def _choice(self) -> str:
        name = type(self._run.settings.mechanism).__name__
        return f"Mechanism: {name}, {'the least error that names can have' if self._auto else 'as asked'}."

    @property
    def _auto(self) -> bool:
        return self._run.options.mechanism == "auto"

    def _dropped(self, report_dropped: float | None) -> None:
        found = self._run.discovery
        self.note(
            f"Names beyond the first {found.names_per_person:,} of each user, and more than {found.per_name:,}"
            f" {'row' if found.per_name == 1 else 'rows'} of one, are not counted. Their number is not shown,"
            " because it is a figure about people."
        )
