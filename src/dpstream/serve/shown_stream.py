"""ShownStream: what pages, downloads and the API ask of a stream, whatever it counts; everything here is public."""

from __future__ import annotations

import hashlib
import re
from abc import ABC, abstractmethod
from collections.abc import Sequence
from functools import cached_property
from typing import Any

import polars as pl

from dpstream.errors import InvalidArgument
from dpstream.events.calendar import Calendar
from dpstream.events.windows import Window
from dpstream.store import StreamInfo

__all__ = ["ShownStream", "slug_of", "thinned"]

#: Windows that people ask for, of which those are shown that are a whole number of steps.
USUAL_WINDOWS = ("1d", "7d", "1mo", "1y")


def slug_of(name: str) -> str:
    """Return a name for files and addresses: the stream's own if that is harmless, else with a digest of it.

    >>> slug_of("visits"), slug_of("../Visits")
    ('visits', 'visits-1eb25ed54e4c')
    """
    plain = re.sub("[^a-z0-9_-]+", "-", name.lower()).strip("-")[:40]
    if plain == name:
        return name
    digest = hashlib.sha256(name.encode("utf-8", "backslashreplace")).hexdigest()[:12]
    return f"{plain}-{digest}" if plain else digest


class ShownStream(ABC):
    """A stream with its successors as of one moment.

    Parameters
    ----------
    parts
        The streams of the series, oldest first.
    calendar
        When steps begin; None: steps have no dates.
    windows
        The windows that the stream was made for; (): usual ones are shown.

    Attributes
    ----------
    parts, info
        The streams of the series, and the last of them.
    name, slug, t
        The name of the first one, the same for addresses, and how many steps all of them have released.
    discovers
        Whether categories are names that were discovered, so that there may be very many.
    """

    discovers = False

    def __init__(self, parts: Sequence[StreamInfo], calendar: Calendar | None, windows: Sequence[str]) -> None:
        self.parts = list(parts)
        self.info: StreamInfo = self.parts[-1]
        self.name = self.parts[0].name
        self.slug = slug_of(self.name)
        self.t = sum(part.t for part in self.parts)
        self._calendar, self._asked = calendar, tuple(windows)

    @property
    def every(self) -> str | None:
        """How long a step is; None if steps have no dates."""
        return None if self._calendar is None else self._calendar.every

    def date_of(self, step: int) -> object | None:
        """Return when a step that was released begins; None if steps have no dates."""
        if self._calendar is None:
            return None
        found: object = self._calendar.shown(step - 1, 1)[0]
        return found

    @property
    def last_date(self) -> object | None:
        """The last day of the last step that was released, or when that begins; None if steps have no dates."""
        if self._calendar is None:
            return None
        found: object = self._calendar.last_days(self.t - 1, 1)[0]
        return found

    @cached_property
    def windows(self) -> tuple[Window, ...]:
        """The windows that are shown, shortest first: those that the stream was made for, else usual ones.

        None but the shortest that is longer than what was released.
        """
        asked = self._asked or (USUAL_WINDOWS if self.every is not None else ("1", "7"))
        found: dict[int, Window] = {}
        for text in asked:
            try:
                window = Window(text)
                found.setdefault(window.longest(self.every), window)
            except InvalidArgument:  # no whole number of steps
                continue
        shortest = min(found, default=0)
        return tuple(found[length] for length in sorted(found) if length <= max(self.t, shortest))

    # -- releases -----------------------------------------------------------------------------------------------------

    @property
    @abstractmethod
    def names(self) -> Sequence[str]:
        """The categories; () for a single number."""

    @property
    @abstractmethod
    def table(self) -> pl.DataFrame:
        """All releases: step, start (if steps have dates), category (if there are any), value, stddev, low, high."""

    @abstractmethod
    def select(self, first: int, last: int, category: str | None = None) -> pl.DataFrame:
        """Return the releases of the steps from `first` to `last`, of one category if it is given."""

    @abstractmethod
    def totals(self, category: str | None) -> pl.DataFrame:
        """Return the running total of one category: step, start (if there are dates), value, low, high."""

    @abstractmethod
    def bars(self, window: Window, category: str | None) -> pl.DataFrame:
        """Return what was counted of one category in each window, one after the other; see `window_figures`."""

    @property
    @abstractmethod
    def last_windows(self) -> pl.DataFrame | None:
        """The last release with its windows; one row for each category. None before the first release."""

    @property
    @abstractmethod
    def course(self) -> Sequence[float]:
        """A few numbers, oldest first, that show how the stream went."""

    @cached_property
    def largest(self) -> pl.DataFrame | None:
        """`last_windows`, largest total first."""
        frame = self.last_windows
        return None if frame is None else frame.sort("value", descending=True, maintain_order=True)

    def find(self, text: str) -> list[str]:
        """Return the categories that hold this text, in whatever case, largest total first."""
        if self.largest is None or not self.names:
            return []
        wanted = text.casefold()
        return [name for name in self.largest["category"] if wanted in name.casefold()]

    def between(self, first: str | None, last: str | None, category: str | None = None) -> pl.DataFrame:
        """Return the releases from one step, or date, to another; None: the first, or the last.

        Raises
        ------
        InvalidArgument
            If one is no step and no date, or there is no such category.
        """
        if category is not None and category not in self.names:
            raise InvalidArgument("category", category[:100], "one of this stream's, spelled as in its releases")
        begin = 1 if first is None else max(self._step("from", first), 1)
        end = self.t if last is None else min(self._step("to", last, end_of_day=True), self.t)
        return self.select(begin, max(end, begin - 1), category)

    def _step(self, argument: str, text: str, *, end_of_day: bool = False) -> int:
        from dpstream.events.calendar import parse_moment

        calendar = self._calendar
        if re.fullmatch("[0-9]{1,18}", text) and (calendar is None or len(text) < 8):
            return int(text)
        if calendar is None:
            raise InvalidArgument(argument, text[:100], "the number of a step: steps of this stream have no dates")
        moment = parse_moment(argument, text[:100], calendar.zone, end_of_day=end_of_day)
        # Steps are compared as far as they are released: a calendar up to the year 3000 would take much memory.
        begins = calendar.begins(0, self.t + 1)
        return int(begins.to_physical().search_sorted(moment.cast(begins.dtype).to_physical()[0], side="right"))

    # -- words --------------------------------------------------------------------------------------------------------

    @property
    @abstractmethod
    def protection(self) -> str:
        """The paragraph on protection and exactness, for everyone who reads the figures."""

    @property
    @abstractmethod
    def limit(self) -> str:
        """The sentence on what of a person counts in the whole stream; "" where each row is protected by itself."""

    @property
    @abstractmethod
    def promises(self) -> list[str]:
        """What exactly is promised, to whom and against whom: a paragraph for each stream of the series."""

    @property
    @abstractmethod
    def registry_entry(self) -> dict[str, Any]:
        """A draft for OpenDP's registry of deployments."""


def thinned(frame: pl.DataFrame, points: str | None) -> pl.DataFrame:
    """Return the rows of at most so many steps, evenly, the first and the last among them; None: all rows.

    Raises
    ------
    InvalidArgument
        If `points` is no whole number from 2 to 10^6.
    """
    if points is None:
        return frame
    if not re.fullmatch("[0-9]{1,7}", points) or not 2 <= int(points) <= 10**6:
        raise InvalidArgument("points", points[:100], "a whole number from 2 to 1,000,000")
    steps = frame["step"].unique().sort()
    if steps.len() <= int(points):
        return frame
    at = [round(i * (steps.len() - 1) / (int(points) - 1)) for i in range(int(points))]
    return frame.filter(pl.col("step").is_in(steps[at].implode()))
