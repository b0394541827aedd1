"""Whose row it is: at most so many rows of one person are counted, over all runs together."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import polars as pl
from numpy.typing import NDArray

from dpstream.errors import RowRefused
from dpstream.events.tables import Table
from dpstream.release.contribution_limit import ContributionLimit

__all__ = ["Contribution", "People"]


@dataclass(frozen=True)
class Contribution:
    """So many rows of one user were counted in a step (the first is 0)."""

    user: str
    step: int
    rows: int


class People:
    """Limits the rows of each person; a person's first rows are kept, in the order of reading.

    Parameters
    ----------
    column
        The column of user ids.
    limit
        Counts the rows of each.
    remember
        Whether to say whose rows were kept: for a store, which must know the next time.
    """

    def __init__(self, column: str, limit: ContributionLimit, *, remember: bool = False) -> None:
        self.column = column
        self.limit = limit
        self._remember = remember

    def kept(
        self, table: Table, steps: NDArray[np.int64], rows: NDArray[np.intp]
    ) -> tuple[NDArray[np.bool_], list[Contribution]]:
        """Which of these rows of a table are kept, and who they are from; `steps` are theirs (the first is 0).

        Raises
        ------
        RowRefused
            If a row has no user.
        TooManyPeople
            If there are more than there is room for.
        """
        users = table.frame[self.column][rows].cast(pl.String)
        nobody = users.is_null() | (users == "").fill_null(False)
        if nobody.any():
            row = int(rows[int(nobody.arg_max() or 0)])
            raise RowRefused(
                where=table.where(row), column=self.column, given=table.frame[self.column][row], allowed="a user"
            )
        frame = pl.DataFrame({"user": users, "step": steps}).with_columns(
            nth=pl.int_range(pl.len()).over("user"), rows=pl.len().over("user")
        )
        asked = frame.select("user", "rows").unique(maintain_order=True)
        allowed = [self.limit.take(user, count) for user, count in asked.iter_rows()]
        frame = frame.join(
            asked.select("user", allowed=pl.Series(allowed, dtype=pl.Int64)),
            on="user",
            how="left",
            maintain_order="left",
        )
        kept = (frame["nth"] < frame["allowed"]).to_numpy()
        if not self._remember:
            return kept, []
        counted = frame.filter(pl.col("nth") < pl.col("allowed")).group_by("user", "step").len()
        found = [Contribution(user, step, count) for user, step, count in counted.iter_rows()]
        return kept, found
