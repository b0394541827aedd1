"""Table: some rows of a source of events, which know where they stand in it."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
import polars as pl
from numpy.typing import NDArray

from dpstream.errors import ColumnMissing

__all__ = ["Table", "check_columns"]


@dataclass(frozen=True)
class Table:
    """Some rows, and where they stand in their source.

    Attributes
    ----------
    frame
        The rows.
    where
        Says where a row stands in its source, for a message.
    places
        The number of each row in the table that was read; None: all of its rows are here.

    Examples
    --------
    >>> table = Table(pl.DataFrame({"n": [5, 6, 7]}), lambda row: f"line {row + 2}")
    >>> some = table.filter(table.frame["n"] > 5)
    >>> some.frame["n"].to_list(), some.where(0), some.places
    ([6, 7], 'line 3', array([1, 2]))
    """

    frame: pl.DataFrame
    where: Callable[[int], str]
    places: NDArray[np.intp] | None = None

    def filter(self, kept: pl.Series) -> Table:
        """Return the rows for which `kept` is true."""
        rows = np.flatnonzero(kept.to_numpy())
        where = self.where
        places = rows if self.places is None else self.places[rows]
        return Table(self.frame.filter(kept), lambda row: where(int(rows[row])), places)


def check_columns(source: str, columns: Sequence[str], present: list[str], remedy: str = "") -> None:
    """Refuse a source that lacks one of these columns."""
    for column in columns:
        if column not in present:
            raise ColumnMissing(source=source, column=column, columns=present, remedy=remedy)
