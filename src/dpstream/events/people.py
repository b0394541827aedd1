"""Limits how many rows of one person are counted, over all runs together."""

from __future__ import annotations

from typing import Any

import numpy as np
import polars as pl
from numpy.typing import NDArray

from dpstream.errors import InvalidArgument, RowRefused
from dpstream.events.cells import EMPTY_REMEDY
from dpstream.events.tables import Table
from dpstream.release.contribution_limit import ContributionLimit
from dpstream.release.person_id import WHITE_SPACE, person_id

__all__ = ["CONTRIBUTIONS", "People", "person_ids"]


#: Whose rows were counted: how many of a user in a step (the first is 0).
CONTRIBUTIONS = pl.Schema({"user": pl.String, "step": pl.Int64, "rows": pl.UInt32})


class People:
    """Limits the rows of each person; a person's first rows are kept, in the order of reading.

    Parameters
    ----------
    column
        The column of user ids; `person_id` says which spellings are one person.
    limit
        Counts the rows of each.
    remember
        Whether to report whose rows were kept: for a store, which must know the next time.
    fold_case
        Whether ids that differ in letter case only are one person.
    """

    def __init__(
        self, column: str, limit: ContributionLimit, *, remember: bool = False, fold_case: bool = False
    ) -> None:
        self.column = column
        self.limit = limit
        self._remember = remember
        self._fold_case = fold_case

    def kept(
        self, table: Table, steps: NDArray[np.int64], rows: NDArray[np.intp]
    ) -> tuple[NDArray[np.bool_], pl.DataFrame]:
        """Say which of these rows of a table are kept, and whose they are (`CONTRIBUTIONS`); `steps` are theirs.

        Raises
        ------
        RowRefused
            If a row has no user.
        TooManyPeople
            If there are more than there is room for.
        """
        users = self.users(table, rows)
        frame = pl.DataFrame({"user": users, "step": steps})
        if users.n_unique() == users.len():  # the same answers, in half the time
            rows_each = np.ones(users.len(), dtype=np.int64)
            frame = frame.with_columns(nth=pl.lit(0), allowed=pl.Series(self._allowed(users, rows_each)))
        else:
            frame = frame.with_columns(nth=pl.int_range(pl.len()).over("user"), rows=pl.len().over("user"))
            asked = frame.select("user", "rows").unique(maintain_order=True)
            allowed = self._allowed(asked["user"], asked["rows"].cast(pl.Int64).to_numpy())
            frame = frame.join(
                asked.select("user", allowed=pl.Series(allowed, dtype=pl.Int64)),
                on="user",
                how="left",
                maintain_order="left",
            )
        kept = (frame["nth"] < frame["allowed"]).to_numpy()
        if not self._remember:
            return kept, CONTRIBUTIONS.to_frame()
        counted = frame.filter(pl.col("nth") < pl.col("allowed"))
        return kept, counted.group_by("user", "step").len("rows").cast(CONTRIBUTIONS)

    def users(self, table: Table, rows: NDArray[np.intp]) -> pl.Series:
        """Return whom these rows of a table are about.

        Raises
        ------
        RowRefused
            If a row has no user.
        """
        users = person_ids(table.frame[self.column][rows], fold_case=self._fold_case)
        if users.null_count():
            row = int(rows[int(users.is_null().arg_max() or 0)])
            given = table.frame[self.column][row]
            raise RowRefused(
                where=table.where(row), column=self.column, given=given, allowed="a user", remedy=EMPTY_REMEDY
            )
        return users

    def _allowed(self, users: pl.Series, rows: NDArray[np.int64]) -> NDArray[np.int64]:
        """How many rows of each of these users may be counted; each user is here once."""
        fingerprints = self.limit.fingerprints(users.to_list())
        if pl.Series(fingerprints).n_unique() == fingerprints.size:
            return self.limit.take_all(fingerprints, rows)
        # Two people in 2^64 share a fingerprint: then one after the other.
        return np.array([self.limit.take(user, int(n)) for user, n in zip(users, rows, strict=True)], dtype=np.int64)


def person_ids(column: pl.Series, *, fold_case: bool = False) -> pl.Series:
    """Return `person_id` of each value of a column, null where there is none.

    Examples
    --------
    >>> person_ids(pl.Series([7.0, None, 8.5])).to_list()
    ['7', None, '8.5']
    """
    if column.dtype.is_integer():
        return column.cast(pl.String)
    if column.dtype.is_nested() or column.dtype in (pl.Null, pl.Object):
        return pl.Series([None] * column.len(), dtype=pl.String)
    if column.dtype in (pl.Categorical, pl.Enum) or column.dtype.is_temporal() or column.dtype.is_decimal():
        column = column.cast(pl.String)
    elif column.dtype.is_float():
        column = column.fill_nan(None)
    if column.dtype != pl.String or fold_case:
        each = {one: _person_id(one, fold_case) for one in column.unique().to_list() if one is not None}
        return pl.Series([None if one is None else each[one] for one in column.to_list()], dtype=pl.String)
    ids = column.str.normalize("NFC").str.strip_chars(WHITE_SPACE)
    with_fraction = ids.str.contains(r"^-?[0-9]+\.0+$").fill_null(False)
    if with_fraction.any():
        numbers = [_person_id(one, False) for one in ids.filter(with_fraction)]
        ids = ids.scatter(with_fraction.arg_true(), numbers)
    return pl.select(pl.when(ids != "").then(ids)).to_series()


def _person_id(person: Any, fold_case: bool) -> str | None:
    try:
        return person_id(person, fold_case=fold_case)
    except InvalidArgument:
        return None
