"""What to publish beside figures of names that nobody listed beforehand: how they are protected, how exact they are."""

from __future__ import annotations

from dataclasses import dataclass

from dpstream.release.error_bars import widest_window
from dpstream.release.limit_words import names_limit_in_words
from dpstream.release.open_settings import OpenSettings
from dpstream.release.protection import ProtectionText

__all__ = ["NamesProtection"]


@dataclass(frozen=True)
class NamesProtection(ProtectionText):
    """Says how published names and their figures are protected; its attributes are those of `ProtectionText`.

    `rows_per_person` is that of one name: `settings.per_name`.

    Examples
    --------
    >>> import dpstream as dp
    >>> terms = dp.OpenCounter(365, dp.approx_dp(6, 1e-9), names_per_person=3).settings
    >>> text = NamesProtection(terms, "searches", rows_per_person=terms.per_name)
    >>> "A name is published once the number of people who brought it reaches 36, noise included" in text.paragraph()
    True
    """

    settings: OpenSettings  # type: ignore[assignment]  # names have settings of their own

    @property
    def limit(self) -> str:
        return names_limit_in_words(self.settings.names_per_person, self.settings.per_name)

    def _limits(self) -> str:
        s = self.settings
        return (
            f"{self.limit} A name is published once the number of people who brought it reaches {s.threshold:,}, noise"
            f" included, so that with {s.appears_from():,} people it appears with a chance of 95 %; the figures say"
            " nothing about other names. "
        )

    def _too_high(self) -> str:
        return (
            "The noise raises a figure as often as it lowers one, but figures of names that have just been published"
            " are raised more often."
        )

    def _method(self) -> str:
        return f"{super()._method()}, and a threshold by the exact law of that noise"

    def _domain(self) -> str:
        return f"Logs of {self.counted}, each with a time, a person and a name; the names are not known beforehand."

    def _fixed(self) -> str:
        return (
            "The dates of steps, the settings and names that were declared beforehand, which do not depend on the data."
        )

    def _unit_details(self, who: str) -> str:
        return f"Adjacent are data sets that differ in one {who} more or less. {self._limits()}".strip()

    def window_errors(self) -> dict[str, int]:
        s = self.settings
        return {
            words: widest_window(s.mechanism, s.scale, min(length, s.horizon), s.horizon, self.confidence)
            for words, length in self.windows.items()
        }
