"""Releases as a table: values, error bars, windows, and views of them that are easier to read."""

from __future__ import annotations

from collections.abc import Iterable
from functools import partial
from typing import Any

import numpy as np
import polars as pl
from numpy.typing import NDArray

from dpstream.arguments import check_probability
from dpstream.errors import InvalidArgument
from dpstream.events.calendar import Calendar
from dpstream.events.windows import Window
from dpstream.release.change_errors import change_errors
from dpstream.release.series_errors import ErrorBars
from dpstream.release.settings import StreamSettings
from dpstream.release.sum_errors import sum_errors

__all__ = ["TOTAL", "ReleaseTable", "significant"]

#: The category that is the sum of all others.
TOTAL = "total"

WholeArray = NDArray[np.int64]


class ReleaseTable:
    """Makes tables of the releases of a counter, which are given in order and in pieces.

    Parameters
    ----------
    settings
        Those of the counter, from which the error bars follow.
    calendar
        When steps begin; None: steps have no dates.
    names
        The categories, in order; () for a single number.
    confidence
        The chance that the number without noise is between `low` and `high`, for each number on its own.
    windows
        The windows whose changes are told beside the total: from the same releases, without further budget.
    non_negative, monotone
        Also the views `non_negative` (the released value, or 0 if that is less; also of each window) and `monotone`
        (the largest value released so far). They are computed from the releases, so they cost no budget, and a later
        release changes none of them. The error bars are those of the releases: these views have no exact ones.
    total
        Also the sum of all categories, as a category `total`: from the same releases, without further budget.
    errors
        What computes the error bars, where they do not follow from the settings of one stream (`SeriesErrors`).

    Examples
    --------
    >>> import dpstream as dp
    >>> counter = dp.Counter(100, dp.zcdp(0.5), key=bytes(32), mechanism=dp.mechanisms.SmoothBinary(100))
    >>> table = ReleaseTable(counter.settings, windows=[Window("2")])
    >>> table.rows(counter.extend([5, 7, 9])).row(-1, named=True)  # the last two steps: 16, and 19 ± 9 is released
    {'step': 3, 'value': 24, 'stddev': 3.5146, 'low': 17, 'high': 31,
     'last_2': 19, 'last_2_stddev': 4.6042, 'last_2_low': 10, 'last_2_high': 28}
    """

    def __init__(
        self,
        settings: StreamSettings,
        calendar: Calendar | None = None,
        names: tuple[str, ...] = (),
        *,
        confidence: float = 0.95,
        windows: Iterable[Window] = (),
        non_negative: bool = False,
        monotone: bool = False,
        total: bool = False,
        errors: ErrorBars | None = None,
    ) -> None:
        if len(settings.shape) > 1 or settings.lane != "exact":
            raise InvalidArgument("settings", settings, "those of a counter of single numbers or of categories")
        if total and (not names or TOTAL in names or errors is not None):
            raise InvalidArgument("total", True, "used with categories of one stream, none of which is called 'total'")
        self._calendar, self._names = calendar, (*names, TOTAL) if total else names
        self._settings, self._total = settings, total
        self._errors = partial(change_errors, settings) if errors is None else errors
        self._confidence = check_probability("confidence", confidence)
        self._windows = tuple(windows)
        self._non_negative, self._monotone = non_negative, monotone
        every = None if calendar is None else calendar.every
        self._kept_at_most = max((window.longest(every) for window in self._windows), default=0)
        shape = (len(self._names),) if total else settings.shape
        self._past = np.zeros((0, *shape), dtype=np.int64)
        self._highest = np.full(shape, np.iinfo(np.int64).min)
        #: How many releases were taken.
        self.t = 0

    def skip(self, values: WholeArray) -> None:
        """Take releases that are not to be in a table, but that later windows need."""
        values = self._with_total(values)
        self._keep(self._with_past(values))
        if len(values):
            self._highest = np.maximum(self._highest, values.max(axis=0))
        self.t += len(values)

    def rows(self, values: WholeArray) -> pl.DataFrame:
        """Return the next releases as a table, one row for each step and category."""
        first, count = self.t, len(values)
        values = self._with_total(values)
        columns: dict[str, Any] = {"step": np.arange(first + 1, first + count + 1)}
        if self._calendar is not None:
            self._calendar.lay_out(first + count)
            columns["start"] = self._calendar.shown(first, count)
        stddev, off = self._error_bars(columns["step"], np.zeros_like(columns["step"]))
        numbers = {"value": values, **self._bars("", values, stddev, off)}
        if self._non_negative:
            numbers["non_negative"] = np.maximum(values, 0)
        if self._monotone:
            highest = np.maximum.accumulate(np.concatenate([self._highest[None], values]))
            numbers["monotone"], self._highest = highest[1:], highest[-1]
        known = self._with_past(values)
        for window in self._windows:
            since = window.since(self._calendar, first, count)
            change = self._change(known, values, since)
            errors = self._error_bars(columns["step"], since)
            numbers |= {window.name: change, **self._bars(f"{window.name}_", change, *errors)}
            if self._non_negative:
                numbers[f"{window.name}_non_negative"] = np.maximum(change, 0)
        self._keep(known)
        self.t += count
        return self._frame(columns, numbers, count)

    def _with_total(self, values: WholeArray) -> WholeArray:
        return np.append(values, values.sum(axis=1, keepdims=True), axis=1) if self._total else values

    def _error_bars(self, step: WholeArray, since: WholeArray) -> tuple[NDArray[np.float64], WholeArray]:
        """Return standard deviations and half widths; with a grand total, of every category and of the total."""
        stddev, off = self._errors(step, since, self._confidence)
        if not self._total:
            return stddev, off
        k = len(self._names) - 1
        sum_stddev, sum_off = sum_errors(self._settings, k, step, since, self._confidence)
        return (
            np.append(np.repeat(stddev[:, None], k, axis=1), sum_stddev[:, None], axis=1),
            np.append(np.repeat(off[:, None], k, axis=1), sum_off[:, None], axis=1),
        )

    def _with_past(self, values: WholeArray) -> WholeArray:
        return np.concatenate([self._past, values]) if self._kept_at_most else values

    def _keep(self, known: WholeArray) -> None:
        """Keep the releases that later windows begin after."""
        self._past = known[max(len(known) - self._kept_at_most, 0) :] if self._kept_at_most else known[:0]

    def _change(self, known: WholeArray, values: WholeArray, since: WholeArray) -> WholeArray:
        """Return each value less the release before its window, which is among `known`, the last releases."""
        before = self.t + len(values) - len(known)
        earlier = known[np.maximum(since - 1 - before, 0)]
        earlier[since == 0] = 0
        return np.asarray(values - earlier)

    def _bars(self, prefix: str, values: WholeArray, stddev: NDArray[np.float64], off: WholeArray) -> dict[str, Any]:
        if off.ndim == 1:
            off = off.reshape(-1, *[1] * (values.ndim - 1))
        return {f"{prefix}stddev": significant(stddev), f"{prefix}low": values - off, f"{prefix}high": values + off}

    def _frame(self, columns: dict[str, Any], numbers: dict[str, Any], count: int) -> pl.DataFrame:
        """Lay categories below each other, a step's one after the other."""
        frame = pl.DataFrame(columns)
        if self._names:
            k = len(self._names)
            frame = frame[np.repeat(np.arange(count), k)]
            frame = frame.with_columns(category=pl.Series(self._names)[np.tile(np.arange(k), count)])
            numbers = {
                name: np.repeat(each, k) if each.ndim == 1 else each.reshape(-1) for name, each in numbers.items()
            }
        return frame.with_columns(pl.Series(name, each) for name, each in numbers.items())


def significant(stddev: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return numbers with five significant digits.

    By way of text: rounding in floating point would give 6.846299999999999e-79.
    """
    return np.array([float(f"{one:.5g}") for one in stddev.ravel().tolist()], dtype=np.float64).reshape(stddev.shape)
