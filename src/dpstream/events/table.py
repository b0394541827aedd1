"""Table: some rows of a source of events, which know where they stand in it."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import polars as pl

from dpstream.errors import ColumnMissing

__all__ = ["Table", "check_columns"]


@dataclass(frozen=True)
class Table:
    """Some rows, and where they stand in their source.

    Examples
    --------
    >>> table = Table(pl.DataFrame({"n": [5, 6, 7]}), lambda row: f"line {row + 2}")
    >>> some = table.filter(table.frame["n"] > 5)
    >>> some.frame["n"].to_list(), some.where(0)
    ([6, 7], 'line 3')
    """

    frame: pl.DataFrame
    where: Callable[[int], str]

    def filter(self, kept: pl.Series) -> Table:
        """Return the rows for which `kept` is true."""
        rows = kept.arg_true()
        where = self.where
        return Table(self.frame.filter(kept), lambda row: where(int(rows[row])))


def check_columns(source: str, columns: Sequence[str], present: list[str], remedy: str = "") -> None:
    """Refuse a source that lacks one of these columns."""
    for column in columns:
        if column not in present:
            raise ColumnMissing(source=source, column=column, columns=present, remedy=remedy)
