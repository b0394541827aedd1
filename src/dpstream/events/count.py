"""count: the run of `dpstream count` on a data frame of Polars or pandas, with and without a store."""

from __future__ import annotations

import datetime as dt
import os
import warnings
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, Literal, TypeVar

import polars as pl

from dpstream.budget import Budget, check_budget
from dpstream.errors import CountWarning, InvalidArgument, MissingExtra
from dpstream.events.count_settings import BUDGET
from dpstream.events.counting import CountRun
from dpstream.events.findings import found_afterwards, found_before
from dpstream.events.tally import Late
from dpstream.mechanisms.base import Mechanism

if TYPE_CHECKING:
    from decimal import Decimal

__all__ = ["count"]

F = TypeVar("F")
#: A date or a moment: as text (2026-01-31, 2026-01-31T06:00) or as Python's own.
Moment = str | dt.date


def count(
    frame: F,
    *,
    time: str | None = None,
    every: str | None = None,
    start: Moment | None = None,
    through: Moment | None = None,
    until: Moment | None = None,
    horizon: int | None = None,
    unbounded: bool = False,
    budget: Budget | None = None,
    windows: Sequence[str] = (),
    by: str | None = None,
    values: Sequence[str] | None = None,
    undeclared: Literal["refuse", "other"] | None = None,
    value: str | None = None,
    per_person: int | float | str | Decimal | None = None,
    unit: int | float | str | Decimal | None = None,
    clip: bool = False,
    where: Sequence[str] = (),
    missing: str | None = None,
    discover: bool = False,
    names_per_person: int | None = None,
    per_name: int | None = None,
    max_pairs: int | None = None,
    user: str | None = None,
    max_contributions: int | None = None,
    max_users: int | None = None,
    fold_case: bool = False,
    mechanism: str | Mechanism | None = None,
    confidence: float | None = None,
    time_format: str | None = None,
    time_zone: str | None = None,
    decimal: Literal[".", ","] | None = None,
    non_negative: bool = False,
    monotone: bool = False,
    total: bool = False,
    store: str | os.PathLike[str] | None = None,
    name: str | None = None,
    batch: str | None = None,
    late: Late | None = None,
    whole_log: bool = False,
    everything: bool = False,
) -> F:
    """Return private running totals of the events in a data frame: what `dpstream count` does, step by step.

    Parameters
    ----------
    frame
        One row for each event, in any order: a data frame of Polars or pandas.
    time, every
        The column that says when a row happened, and how long a step is ("15m", "1h", "1d", "1w", "1mo"); "1d" if left
        out.
    start, through
        The dates of the first step and of the last to release; "now" or "yesterday" is every step that has ended. With
        a store nothing is released without `through`: rows are kept, and the table is empty. Without a store the data
        decide if they are left out, which shows when the first and the last person came.
    until, horizon, unbounded
        The date of the last step there will ever be, or how many steps, or that there is no last one. Without a store,
        `through` is taken if none of them is given.
    budget
        What all releases together may reveal.
    windows
        Also what was counted in the last so many days or months: ("1d", "7d", "1mo").
    by, values, undeclared
        A column of categories, and the categories there are. Others are refused, or counted as "other".
    discover, names_per_person, per_name, max_pairs
        Count by names in `by` that nobody listed beforehand: a name is published once enough users have brought it. How
        many names of one user count (and how many rows of each), over all steps, and how many pairs of a user and a
        name a store has room for. `values` are then names that are public. docs/discovery.md.
    value, per_person, unit, clip
        A column of amounts to add up, the largest size of one, the smallest difference between two ("0.01"), and
        whether larger ones are cut to `per_person`.
    where, missing
        Count rows with these cells only ("COLUMN=VALUE"); what becomes of rows with empty cells ("refuse", "skip", or a
        value).
    user, max_contributions, max_users, fold_case
        The column of user ids, how many rows of one are counted in the whole stream, how many users a store has room
        for, and whether letter case does not matter. People use up their limit, so figures fall behind: `low` and
        `high` are about the counted rows, not about all rows.
    mechanism, confidence
        As for `dpstream.Counter` and its `estimate`.
    time_format, time_zone, decimal
        How timestamps are written, whose days are counted, and what stands before the fraction of amounts in text.
    non_negative, monotone, total
        Columns that are easier to read, beside each release; and the sum of all categories, as the category "total".
    store, name
        A file that remembers rows, releases and settings, and the stream's name in it. A stream that is there needs
        no settings. Rows go into open steps, which `through` closes.
    batch
        With a store: a name of this frame's rows. A frame whose batch was counted before adds nothing: give the same
        name when you try again. Without a name every frame counts, even if it is equal to an earlier one.
    late, whole_log
        With a store: what becomes of rows of released steps ("next": counted in the next one, "refuse", "drop"), and
        whether every frame is the whole log instead of new rows, which needs `through`.
    everything
        With a store: return all releases, not only those of this call.

    Returns
    -------
    frame
        Of the same kind: step, start, category, value, stddev, low, high, and four columns for each window. What was
        left out, moved or taken from the data is said by `dpstream.errors.CountWarning`, for you only.

    Raises
    ------
    SettingsMissing, StoreMismatch, InvalidArgument
        If settings are missing, differ from those of the stream, or are not allowed.
    SourceError, ReleaseRefused
        If a row cannot be counted, or a release should not be made. Nothing is released then.

    Guarantee
    ---------
    All releases together keep the budget for every single row or, with `user`, for every user, of whom at most
    `max_contributions` rows are counted in the whole stream. Which steps are released does not depend on the data if
    `start` is given, and `through` or a store. Without a store every call spends the budget anew.

    Examples
    --------
    >>> import dpstream as dp, polars as pl
    >>> visits = pl.DataFrame({"when": ["2025-01-01", "2025-01-01", "2025-01-03"]})
    >>> budget = dp.approx_dp(epsilon=1, delta=1e-6)
    >>> table = dp.count(visits, time="when", start="2025-01-01", through="2025-01-03", budget=budget)
    >>> table.columns
    ['step', 'start', 'value', 'stddev', 'low', 'high']
    >>> [str(day) for day in table["start"]]
    ['2025-01-01', '2025-01-02', '2025-01-03']
    """
    settings: dict[str, Any] = {
        "time": time,
        "every": every,
        "start": _text(start),
        "through": _text(through),
        "until": _text(until),
        "horizon": horizon,
        "unbounded": unbounded or None,
        "windows": tuple(windows) or None,
        "by": by,
        "categories": None if values is None else tuple(values),
        "undeclared": undeclared,
        "value": value,
        "per_person": per_person,
        "unit": unit,
        "clip": clip or None,
        "where": tuple(where) or None,
        "missing": missing,
        "discover": discover or None,
        "names_per_person": names_per_person,
        "per_name": per_name,
        "max_pairs": max_pairs,
        "user": user,
        "max_contributions": max_contributions,
        "max_users": max_users,
        "fold_case": fold_case or None,
        "mechanism": mechanism,
        "confidence": confidence,
        "time_format": time_format,
        "time_zone": time_zone,
        "decimal": decimal,
        "any_order": True,
        "non_negative": non_negative or None,
        "monotone": monotone or None,
        "total": total or None,
        "store": store,
        "name": name,
        "late": late,
        "whole_log": whole_log or None,
    }
    if budget is not None:
        checked = check_budget(budget)
        settings |= {part: getattr(checked, part) for part in BUDGET if hasattr(checked, part)}
    run = CountRun.of(settings)
    try:
        run.take(_as_polars(frame, run.tally.columns), batch)
        run.open()
        for text, warning in found_before(run):
            if warning:
                warnings.warn(text, CountWarning, stacklevel=2)
        run.ingest()
        releases = pl.concat(run.frames(run.closed, everything=everything))
        for text, warning in found_afterwards(run):
            if warning:
                warnings.warn(text, CountWarning, stacklevel=2)
    finally:
        run.close()
    result: F = _like(frame, releases)
    return result


def _text(moment: Moment | None) -> str | None:
    return moment.isoformat() if isinstance(moment, dt.date) else moment


def _is_pandas(frame: object) -> bool:
    return type(frame).__module__.partition(".")[0] == "pandas"


def _as_polars(frame: Any, columns: list[str]) -> pl.DataFrame:
    """Return these columns of a data frame, as far as they are there."""
    if isinstance(frame, pl.LazyFrame):
        frame = frame.collect()
    if isinstance(frame, pl.DataFrame):
        return frame
    if not _is_pandas(frame) or not hasattr(frame, "columns"):
        raise InvalidArgument("frame", type(frame).__name__, "a data frame of Polars or pandas")
    try:
        present = [column for column in dict.fromkeys(columns) if column in frame.columns]
        return pl.DataFrame(pl.from_pandas(frame[present or list(frame.columns)]))
    except ModuleNotFoundError:
        raise MissingExtra(extra="pandas", needs="pyarrow") from None


def _like(frame: Any, releases: pl.DataFrame) -> Any:
    """Return releases as a data frame of the same kind."""
    return releases.to_pandas() if _is_pandas(frame) else releases
