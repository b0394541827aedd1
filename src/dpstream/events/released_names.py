"""ReleasedNames: the releases of names that nobody listed beforehand, with what they count; all of it is public."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field, replace

import numpy as np
import polars as pl
from numpy.typing import ArrayLike, NDArray

from dpstream.events.calendar import Calendar
from dpstream.events.discovery_table import NamesTable
from dpstream.events.released import Released
from dpstream.events.windows import Window
from dpstream.release.open_settings import OpenSettings
from dpstream.store import NamedRelease

__all__ = ["ReleasedNames", "released_names"]


@dataclass(frozen=True)
class ReleasedNames(Released):
    """All releases of names so far; its attributes are those of `Released`, `names` in the order of publication.

    Attributes
    ----------
    since
        The step in which each name was published, 0 for declared ones. `values` before that are 0 and mean nothing.
    among
        How many names are published, of which these are some.
    """

    settings: OpenSettings  # type: ignore[assignment]  # names have settings of their own
    since: NDArray[np.int64] = field(default_factory=lambda: np.zeros(0, dtype=np.int64))
    among: int = 0

    @property
    def empty(self) -> bool:
        """Whether no name is published."""
        return not (len(self.values) and self.names)

    def known(self, t: ArrayLike, since: ArrayLike) -> NDArray[np.bool_]:
        """Return for each window and name whether it was published when the window began, or ended if it is the first.

        Before the first step everything is 0, so that a window from there on is the total.
        """
        end, begin = (np.asarray(each).reshape(-1, 1) for each in (t, since))
        return np.asarray((self.since <= end) & ((begin == 0) | (self.since <= begin)))

    @property
    def left_out(self) -> str:
        """How many names there are, if these are not all."""
        return (
            f"the {len(self.names)} largest of {self.among:,} published names" if len(self.names) < self.among else ""
        )

    def largest(self, count: int) -> ReleasedNames:
        """Return the names with the largest last releases, largest first."""
        if self.empty or len(self.names) <= count:
            return self
        chosen = np.argsort(-self.values[-1], kind="stable")[:count]
        names = tuple(self.names[i] for i in chosen.tolist())
        return replace(self, values=self.values[:, chosen], names=names, since=self.since[chosen])

    def table(
        self, *, confidence: float = 0.95, windows: Iterable[Window] = (), last: int | None = None
    ) -> pl.DataFrame:
        """Return all releases with their error bars, and those of windows: from the step of publication on."""
        table = NamesTable(self.settings, self.calendar, confidence=confidence, windows=windows)
        order = np.argsort(self.since, kind="stable")
        names, since, values = tuple(self.names[i] for i in order.tolist()), self.since[order], self.values[:, order]
        ends = np.searchsorted(since, np.arange(1, len(values) + 1), side="right").tolist()
        releases = [NamedRelease(t, names[:k], values[t - 1, :k]) for t, k in enumerate(ends, start=1)]
        before = 0 if last is None else max(0, len(releases) - last)
        table.skip(releases[:before])
        return table.rows(releases[before:])


def released_names(
    settings: OpenSettings, releases: Iterable[NamedRelease], calendar: Calendar | None
) -> ReleasedNames:
    """Return all releases of a stream of names, which are given from the first step on."""
    listed = list(releases)
    names = listed[-1].names if listed else settings.declared
    values = np.zeros((len(listed), len(names)), dtype=np.int64)
    since = np.zeros(len(names), dtype=np.int64)
    known = len(settings.declared)
    for release in listed:
        values[release.step - 1, : len(release.values)] = release.values
        since[known : len(release.names)] = release.step
        known = len(release.names)
    return ReleasedNames(settings, values, calendar, names, since=since, among=len(names))
