"""Counting by names that nobody listed beforehand: which settings go with it, and the events of a run."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import polars as pl
from numpy.typing import NDArray

from dpstream.arguments import check_whole
from dpstream.errors import BudgetError, InputTypeError, InvalidArgument, RowRefused
from dpstream.events.cells import EMPTY_REMEDY, are_empty, as_text
from dpstream.events.tables import Table
from dpstream.events.tally import TimeTally
from dpstream.release.name_spelling import check_name

__all__ = ["EVENTS", "Discovery", "EventTally"]

#: Who brought what in which step (the first is 0), in the order of reading.
EVENTS = pl.Schema({"user": pl.String, "step": pl.Int64, "name": pl.String})
#: Settings that make no sense for names, and why.
_NOT_WITH_NAMES = {
    "value": "of each name people are counted, or their rows",
    "max_contributions": "`names_per_person` limits a person",
    "max_users": "`max_pairs` says how many pairs of a user and a name there is room for",
    "undeclared": "names that are not among `categories` are found",
    "whole_log": "give each row once",
    "total": "names that are not published have no release to add up",
    "monotone": "a name has no release before it is published",
    "unbounded": "the threshold looks at every step; `until` or `horizon` says which is the last",
}


_WHY_DELTA = "the small chance that a name is published which only one person has brought"


@dataclass(frozen=True)
class Discovery:
    """How names are found.

    Attributes
    ----------
    names_per_person, per_name
        How many names of one person count, over all steps, and how many rows of each.
    pairs
        How many pairs of a person and a name a store has room for.
    """

    names_per_person: int
    per_name: int = 1
    pairs: int = 1_000_000

    @classmethod
    def of(cls, given: Mapping[str, Any]) -> Discovery | None:
        """Return what these settings say about names; None if they do not discover any.

        Raises
        ------
        InvalidArgument
            If a setting is missing, or does not go with the others.
        """
        own = ("names_per_person", "per_name", "max_pairs")
        if not given.get("discover"):
            for name in own:
                if given.get(name) is not None:
                    raise InvalidArgument(name, given[name], "used with `discover`")
            return None
        for name, reason in _NOT_WITH_NAMES.items():
            if given.get(name) not in (None, False):
                raise InvalidArgument(name, given[name], f"left out with `discover`: {reason}")
        if given.get("rho") is not None:
            raise BudgetError(
                "rho", given["rho"], f"left out with `discover`: give `epsilon` and `delta`, {_WHY_DELTA}"
            )
        for name, what in (
            ("by", "the column of names"),
            ("user", "the column of user ids: a name is published once enough people have brought it"),
            ("names_per_person", "how many names of one person count, over all steps"),
            *([("delta", f"{_WHY_DELTA}, such as 1e-6")] if given.get("epsilon") is not None else []),
        ):
            if given.get(name) is None:
                raise InvalidArgument(name, None, f"given with `discover`: {what}")
        return cls(
            check_whole("names_per_person", given["names_per_person"]),
            check_whole("per_name", given.get("per_name", 1)),
            check_whole("max_pairs", given.get("max_pairs", 1_000_000)),
        )


class EventTally(TimeTally):
    """Puts rows into steps as a `TimeTally` does, and keeps who brought which name instead of adding them up.

    `contributions` are the events (`EVENTS`) since it was last emptied, and the sums are the numbers of rows.
    """

    def __init__(self, *given: Any, **more: Any) -> None:
        super().__init__(*given, **more)
        self.contributions = EVENTS.to_frame()

    def cut(self) -> None:
        super().cut()
        self.contributions = EVENTS.to_frame()

    def _kept(self, table: Table, steps: NDArray[np.int64], rows: NDArray[np.intp]) -> NDArray[np.bool_] | None:
        """Keep these events; whom they are about is limited when they are counted."""
        assert self.people is not None  # noqa: S101
        if rows.size:
            found = {"user": self.people.users(table, rows), "step": steps, "name": self._names(table, rows)}
            self.contributions = self.contributions.vstack(pl.DataFrame(found, schema=EVENTS))
        return None

    def _names(self, table: Table, rows: NDArray[np.intp]) -> pl.Series:
        """Return the names of these rows in their one spelling.

        Raises
        ------
        RowRefused
            If one is empty, or is none.
        """
        assert self.measure.by is not None  # noqa: S101
        given = table.frame[self.measure.by][rows]
        if given.dtype.is_nested() or given.dtype in (pl.Binary, pl.Object):
            raise self._refused(table, int(rows[0]), "a name that is text", "")
        names = as_text(given)
        empty = are_empty(given) & ~names.is_in(self.measure.categories).fill_null(False)
        if empty.any():
            raise self._refused(table, int(rows[int(empty.arg_max() or 0)]), "a name", EMPTY_REMEDY)
        spelled: dict[str, str] = {}
        for name in names.unique().to_list():
            try:
                spelled[name] = check_name(name)
            except InputTypeError as error:
                row = int(rows[int((names == name).arg_max() or 0)])
                raise self._refused(table, row, error.allowed, "") from None
        other = [name for name, one in spelled.items() if one != name]
        return names.replace(other, [spelled[name] for name in other]) if other else names

    def _refused(self, table: Table, row: int, allowed: str, remedy: str) -> RowRefused:
        column = self.measure.by or ""
        given = table.frame[column][row]
        shown = f"{given[:20]}… ({len(given):,} characters)" if isinstance(given, str) and len(given) > 60 else given
        return RowRefused(where=table.where(row), column=column, given=shown, allowed=allowed, remedy=remedy)
