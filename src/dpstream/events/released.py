"""Released: the releases of a counter together with what they count; all of it is public."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from decimal import Decimal

import numpy as np
import polars as pl
from numpy.typing import ArrayLike, NDArray

from dpstream.events.amounts import AmountReader
from dpstream.events.calendar import Calendar
from dpstream.events.release_table import ReleaseTable
from dpstream.events.windows import Window
from dpstream.release.change_errors import change_errors
from dpstream.release.series_errors import ErrorBars
from dpstream.release.settings import StreamSettings

__all__ = ["Released", "in_amounts"]


@dataclass(frozen=True)
class Released:
    """All releases that a counter has made so far, and what they are of.

    Attributes
    ----------
    settings
        Those of the counter.
    values
        The releases, one row for each step, in whole units.
    calendar
        When steps begin; None: steps have no dates.
    names
        The categories, in order; () for single numbers.
    unit
        What a whole number stands for: 0.01 where cents are counted.
    error_bars
        What computes error bars, where they do not follow from the settings of one stream (`SeriesErrors`).
    """

    settings: StreamSettings
    values: NDArray[np.int64]
    calendar: Calendar | None = None
    names: tuple[str, ...] = ()
    unit: Decimal = Decimal(1)
    error_bars: ErrorBars | None = None

    def errors(
        self, t: ArrayLike, since: ArrayLike, confidence: float
    ) -> tuple[NDArray[np.float64], NDArray[np.int64]]:
        """Return the standard deviation and half width of the changes from release since[i] to t[i]."""
        if self.error_bars is not None:
            return self.error_bars(t, since, confidence)
        return change_errors(self.settings, t, since, confidence)

    @property
    def empty(self) -> bool:
        """Whether there is nothing to tell."""
        return not len(self.values)

    def known(self, t: ArrayLike, since: ArrayLike) -> NDArray[np.bool_]:
        """Return for each window, from release since[i] to t[i], and category whether it can be told."""
        windows = np.broadcast(np.asarray(t), np.asarray(since)).size
        return np.ones((windows, len(self.names) or 1), dtype=np.bool_)

    @property
    def left_out(self) -> str:
        """What is not among these categories, in words; "" if nothing is."""
        return ""

    def largest(self, _count: int) -> Released:
        """Return what a picture has room for: all categories, which somebody has listed."""
        return self

    @property
    def every(self) -> str | None:
        """How long a step is; None if steps have no dates."""
        return None if self.calendar is None else self.calendar.every

    def table(
        self, *, confidence: float = 0.95, windows: Iterable[Window] = (), last: int | None = None
    ) -> pl.DataFrame:
        """Return all releases, or those of the last few steps, with their error bars, and those of windows."""
        table = ReleaseTable(
            self.settings, self.calendar, self.names, confidence=confidence, windows=windows, errors=self.errors
        )
        before = 0 if last is None else max(0, len(self.values) - last)
        table.skip(self.values[:before])
        frame = table.rows(self.values[before:])
        return in_amounts(
            frame, self.unit, [name for name in frame.columns if name not in ("step", "start", "category")]
        )


def in_amounts(frame: pl.DataFrame, unit: Decimal, columns: Iterable[str]) -> pl.DataFrame:
    """Return a table with amounts in place of numbers of units, in these columns."""
    if unit == 1:
        return frame
    reader, found = AmountReader(unit, "."), []
    for name in columns:
        if frame[name].dtype.is_float():
            # By way of text: 0.07 times 3 would be 0.21000000000000002.
            amounts = [float(f"{one * float(unit):.5g}") for one in frame[name].to_list()]
            found.append(pl.Series(name, amounts, dtype=pl.Float64))
        else:
            found.append(frame.select(reader.in_unit(pl.col(name))).to_series())
    return frame.with_columns(found)
