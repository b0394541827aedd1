"""CountOptions: what is counted, in which steps, for whom, and where it is kept, checked."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass, fields
from decimal import Decimal
from functools import partial
from pathlib import Path
from typing import Any

import polars as pl

from dpstream.arguments import check_probability, check_whole
from dpstream.budget import Budget, approx_dp, pure_dp, zcdp
from dpstream.errors import BudgetError, InvalidArgument, SettingsMissing
from dpstream.events.calendar import Calendar, check_every, parse_moment
from dpstream.events.count_settings import BUDGET, ENDS, missing
from dpstream.events.discovery import Discovery, EventTally
from dpstream.events.file_options import FileOptions
from dpstream.events.last_step import last_step
from dpstream.events.measure import Measure
from dpstream.events.release_table import TOTAL
from dpstream.events.row_rules import RowFilter, RowRules
from dpstream.events.tally import Late, TimeTally
from dpstream.events.timestamps import Timestamps
from dpstream.events.windows import Window, windows_of
from dpstream.mechanisms.base import Mechanism, NoiseLaw
from dpstream.mechanisms.catalogue import mechanism_named

__all__ = ["CountOptions", "budget_of"]

#: The largest value that a row may have.
MOST_PER_ROW = 2**40
#: Rows are counted for so many steps at most where there is no horizon.
ENDLESS = 2**30
#: The settings that say how files are written.
FILE_OPTIONS = tuple(field.name for field in fields(FileOptions))


@dataclass(frozen=True)
class CountOptions:
    """What is counted, in which steps, for whom, and where it is kept.

    Attributes
    ----------
    measure, budget
        What a row adds, and what all releases together may give away.
    time, every
        The column of timestamps and how long a step is.
    time_format, time_zone
        See `Timestamps`.
    files
        How files are written.
    rules
        Which rows are counted.
    start
        A date of the first step; None: the first row's.
    through
        A date of the last step to release in this run, "now" or "yesterday" (see `last_step`). None: with a store
        nothing is released; without one, with `until` the last step that has ended by the clock, else the last row's.
    horizon, until
        How many steps there will ever be, or the date of the last; None and None: there is no last step.
    any_order
        Whether rows come in any order; with a store they do.
    late
        With a store: what becomes of rows whose steps were released before, see `Late`. None: "next".
    whole_log
        With a store: every run gets the whole log, and the rows of released steps are those that were counted.
    user, max_contributions, max_users, fold_case
        The column of user ids, how many rows of one user are counted, how many users a store has room for, and whether
        ids that differ in letter case only are one user.
    mechanism
        "auto", a mechanism, or a function that makes one for a horizon and a noise law. "auto" is fitted to `windows`.
    confidence, windows, non_negative, monotone, total
        What is told beside each total; see `ReleaseTable`.
    store, name
        The file that remembers the stream, and the stream's name in it.
    discovery
        How names that nobody listed beforehand are found; None: categories are declared, or there are none.
    """

    measure: Measure
    budget: Budget
    time: str
    every: str = "1d"
    time_format: str | None = None
    time_zone: str | None = None
    files: FileOptions = FileOptions()  # noqa: RUF009 - it never changes
    rules: RowRules = RowRules()  # noqa: RUF009 - it never changes
    start: str | None = None
    through: str | None = None
    horizon: int | None = None
    until: str | None = None
    any_order: bool = False
    late: Late | None = None
    whole_log: bool = False
    user: str | None = None
    max_contributions: int = 1
    max_users: int = 1_000_000
    fold_case: bool = False
    mechanism: str | Mechanism | Callable[[int | None, NoiseLaw], Mechanism] = "auto"
    confidence: float = 0.95
    windows: tuple[Window, ...] = ()
    non_negative: bool = False
    monotone: bool = False
    total: bool = False
    store: Path | None = None
    name: str = "count"
    discovery: Discovery | None = None

    def __post_init__(self) -> None:
        check_every(self.every)
        for window in self.windows:
            window.longest(self.every)
        if self.total and (not self.measure.by or TOTAL in self.measure.names):
            raise InvalidArgument("total", True, "used with `by`, and with no category that is called total")
        if self.monotone and self.measure.value is not None:
            raise InvalidArgument(
                "monotone", True, "left out with `value`: amounts may be negative, and totals may fall"
            )

    @classmethod
    def of(cls, settings: Mapping[str, Any]) -> CountOptions:
        """Check settings by name (see `count_settings`) and return what they mean.

        Parameters
        ----------
        settings
            Those that were given; what is not there, or None, has its default.

        Raises
        ------
        SettingsMissing
            If there are some without which nothing can be counted.
        InvalidArgument
            If one is not allowed, or does not go with another.
        """
        given = {name: value for name, value in settings.items() if value is not None}
        lacking = missing(given)
        if lacking:
            raise SettingsMissing(missing=lacking)
        user, times = given.get("user"), given.get("max_contributions")
        discovery = Discovery.of(given)
        if discovery is None and (user is None) != (times is None):
            absent = "user" if user is None else "max_contributions"
            raise InvalidArgument(absent, None, "given: `user` and `max_contributions` go together")
        horizon, chosen = given.get("horizon"), given.get("mechanism", "auto")
        by_name = isinstance(chosen, str) and chosen != "auto"
        return cls(
            measure=_measure(given),
            budget=budget_of(given),
            time=given["time"],
            every=given.get("every", "1d"),
            time_format=given.get("time_format"),
            time_zone=given.get("time_zone"),
            files=FileOptions(**{name: given[name] for name in FILE_OPTIONS if name in given}),
            rules=RowRules(tuple(given.get("where", ())), given.get("missing", "refuse")),
            start=given.get("start"),
            through=given.get("through"),
            horizon=None if horizon is None else check_whole("horizon", horizon),
            # Without a store there is no other run: the last step to release is the last there is.
            until=given.get("until") if any(end in given for end in ENDS) else given.get("through"),
            # Files of a day hold late rows, in whatever order they came.
            any_order=bool(given.get("any_order") or given.get("store")),
            late=_one_of("late", given.get("late"), ("next", "refuse", "drop")),
            whole_log=bool(given.get("whole_log")),
            user=user,
            max_contributions=1 if times is None else check_whole("max_contributions", times),
            max_users=check_whole("max_users", given.get("max_users", 1_000_000)),
            fold_case=bool(given.get("fold_case")),
            mechanism=partial(mechanism_named, chosen) if by_name else chosen,
            confidence=check_probability("confidence", given.get("confidence", 0.95)),
            windows=windows_of(given.get("windows", ())),
            non_negative=bool(given.get("non_negative")),
            monotone=bool(given.get("monotone")),
            total=bool(given.get("total")),
            store=None if given.get("store") is None else Path(given["store"]),
            name=given.get("name", "count"),
            discovery=discovery,
        )

    @property
    def end(self) -> str | None:
        """Which step is the last to be released, in the words of `through`.

        None: with a store nothing is released, and without one the data decide.
        """
        if self.through is None and self.until is not None and self.store is None:
            return "now"
        return self.through

    def row_filter(self) -> RowFilter:
        """Return what applies the rules to the rows of a run."""
        return RowFilter(self.rules, self.measure, self.time, self.user)

    def tally(
        self,
        seen: int = 0,
        *,
        in_ledger: bool = False,
        series_start: pl.Series | None = None,
        calendar: Calendar | None = None,
    ) -> TimeTally:
        """Return what adds the rows of a run up; nobody is limited yet.

        Parameters
        ----------
        seen
            How many steps were released before.
        in_ledger
            Whether rows go into the open steps of a store.
        series_start
            When the first of the streams began that this one goes on with.
        calendar
            The steps from `start` on, if somebody has laid them out before.
        """
        horizon = ENDLESS if self.horizon is None else self.horizon
        zone = self.time_zone
        timestamps = Timestamps(self.time, self.time_format, zone)
        start = None if self.start is None else parse_moment("start", self.start, zone)
        through = None if self.end is None else last_step(self.end, zone)
        kind = TimeTally if self.discovery is None else EventTally
        return kind(
            self.measure,
            None,
            horizon,
            timestamps,
            self.every,
            start=calendar or start,
            until=None if self.until is None else parse_moment("until", self.until, zone, end_of_day=True),
            # A step that is open until it is closed takes rows until then.
            through=None if in_ledger else through,
            any_order=self.any_order,
            seen=seen,
            row_filter=self.row_filter(),
            late=(self.late or "next") if in_ledger else "drop",
            series_start=series_start if in_ledger else None,
            past_the_end="dpstream store extend starts a stream that carries the total over"
            if seen
            else "a later `until`, or a larger `horizon`, makes room for it",
        )

    def kept(self) -> dict[str, Any]:
        """The settings that a stream remembers, by name, as JSON; those that have no value are left out."""
        measure, found = self.measure, self.discovery
        settings = {
            "time": self.time,
            "every": self.every,
            "time_zone": self.time_zone,
            "start": self.start,
            "value": measure.value,
            "unit": _plain(measure.reader.unit) if measure.value else None,
            "per_person": _plain(measure.most * measure.reader.unit) if measure.value else None,
            "clip": measure.clip or None,
            "by": measure.by,
            "categories": list(measure.categories) or None if measure.by else None,
            "undeclared": measure.undeclared if measure.by and found is None else None,
            "user": self.user,
            "max_contributions": self.max_contributions if self.user and found is None else None,
            "discover": True if found is not None else None,
            "names_per_person": None if found is None else found.names_per_person,
            "per_name": None if found is None else found.per_name,
            "fold_case": self.fold_case or None,
            "where": sorted(self.rules.where) or None,
            "missing": None if self.rules.missing == "refuse" else self.rules.missing,
            **asdict(self.files),
            "decimal": measure.decimal if measure.value else None,
            "time_format": self.time_format,
            "whole_log": self.whole_log or None,
            "late": self.late,
            "confidence": self.confidence,
            "windows": [window.text for window in self.windows] or None,
            "non_negative": self.non_negative or None,
            "monotone": self.monotone or None,
            "total": self.total or None,
        }
        return {name: value for name, value in settings.items() if value is not None}


def _measure(given: Mapping[str, Any]) -> Measure:
    value = given.get("value")
    if value is not None and "per_person" not in given:
        raise InvalidArgument("per_person", None, "given with `value`: the largest size of a value")
    measure = Measure(
        value=value,
        per_person=given.get("per_person", 1),
        unit=given.get("unit", 1),
        decimal=given.get("decimal", "."),
        clip=bool(given.get("clip")),
        by=given.get("by"),
        categories=tuple(given.get("categories", ())),
        undeclared=_one_of("undeclared", given.get("undeclared", "refuse"), ("refuse", "other")),
        discover=bool(given.get("discover")),
    )
    if measure.most > MOST_PER_ROW:
        largest = measure.reader.shown(MOST_PER_ROW)
        raise InvalidArgument("per_person", given.get("per_person"), f"at most {largest}")
    return measure


def _one_of(argument: str, given: Any, allowed: tuple[str, ...]) -> Any:
    if given is not None and given not in allowed:
        *most, last = allowed
        raise InvalidArgument(argument, given, f"{', '.join(most)} or {last}")
    return given


def _plain(amount: Decimal) -> str:
    """An amount in one way of writing, however it was given: 200, 0.01."""
    return f"{amount.normalize():f}"


def budget_of(settings: Mapping[str, Any]) -> Budget:
    """Return the budget that `rho`, or `epsilon`, or `epsilon` and `delta` state.

    Raises
    ------
    BudgetError
        If they state none, or two.
    """
    rho, epsilon, delta = (settings.get(part) for part in BUDGET)
    if rho is not None and epsilon is None and delta is None:
        return zcdp(rho)
    if epsilon is not None and rho is None:
        return pure_dp(epsilon) if delta is None else approx_dp(epsilon, delta)
    parts = [f"{name}={value:g}" for name, value in zip(BUDGET, (rho, epsilon, delta), strict=True) if value]
    raise BudgetError(
        "the budget",
        " ".join(parts) or "none",
        "given as `rho`, or as `epsilon`, or as `epsilon` with `delta` (epsilon=1 and delta=1e-6 is a usual choice)",
    )
