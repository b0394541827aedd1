"""What one row adds (1, or the value of a column) and to which category, checked against what was declared."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from typing import Literal

import numpy as np
import polars as pl
from numpy.typing import NDArray

from dpstream.errors import InvalidArgument, RowRefused
from dpstream.events.tables import Table

__all__ = ["OTHER", "Measure"]

OTHER = "other"


@dataclass(frozen=True)
class Measure:
    """How a row is counted.

    Attributes
    ----------
    value, bound, least
        A column of whole numbers from `least` to `bound`; without a column every row counts 1.
    by, categories
        A column that says which category a row belongs to, and the categories there are: they must be declared, since
        which categories turn up is something about the people in the data.
    undeclared
        "refuse" rows of other categories, or count them together as "other", the last category.
    """

    value: str | None = None
    bound: int = 1
    least: int = 0
    by: str | None = None
    categories: tuple[str, ...] = ()
    undeclared: Literal["refuse", "other"] = "refuse"

    def __post_init__(self) -> None:
        if (self.by is None) != (not self.categories):
            missing = "by" if self.by is None else "categories"
            raise InvalidArgument(missing, None, "given: a column and its categories go together")
        repeated = sorted(name for name, times in Counter(self.categories).items() if times > 1)
        if repeated:
            shown = ", ".join(repeated[:5]) + (", ..." if len(repeated) > 5 else "")
            raise InvalidArgument("categories", shown, "each category once")
        if self.undeclared == "other" and OTHER in self.categories:
            raise InvalidArgument("categories", OTHER, "without the name that undeclared categories are counted under")

    @property
    def columns(self) -> list[str]:
        """The columns that are read."""
        return [column for column in (self.value, self.by) if column is not None]

    @property
    def names(self) -> tuple[str, ...]:
        """The categories that are released, in order."""
        return (*self.categories, OTHER) if self.by and self.undeclared == "other" else self.categories

    def amounts(self, table: Table) -> NDArray[np.int64] | None:
        """What each row adds; None if each adds 1.

        Raises
        ------
        RowRefused
            If one is no whole number, or out of bounds.
        """
        if self.value is None:
            return None
        column = table.frame[self.value]
        whole = _whole(column)
        bad = whole.is_null() | (whole < self.least) | (whole > self.bound)
        if bad.any():
            row = int(bad.arg_max() or 0)
            allowed = f"a whole number from {self.least} to {self.bound} (bound={self.bound})"
            raise RowRefused(where=table.where(row), column=self.value, given=column[row], allowed=allowed)
        return whole.to_numpy()

    def places(self, table: Table) -> NDArray[np.int64] | None:
        """The number of each row's category; None if there are none.

        Raises
        ------
        RowRefused
            If one is not declared, unless these are counted as "other".
        """
        if self.by is None:
            return None
        column = table.frame[self.by]
        known = column.cast(pl.String).cast(pl.Enum(list(self.categories)), strict=False).to_physical().cast(pl.Int64)
        if not known.null_count():
            return known.to_numpy()
        if self.undeclared == "other":
            return known.fill_null(len(self.categories)).to_numpy()
        row = int(known.is_null().arg_max() or 0)
        shown = ", ".join(self.categories[:20]) + (", ..." if len(self.categories) > 20 else "")
        allowed = f"one of the categories ({shown}); undeclared='other' counts the rest together"
        raise RowRefused(where=table.where(row), column=self.by, given=column[row], allowed=allowed)


def _whole(column: pl.Series) -> pl.Series:
    """Whole numbers as such, anything else as null."""
    if column.dtype.is_float():
        rounded = column.cast(pl.Int64, strict=False)
        return pl.select(pl.when(rounded.cast(pl.Float64) == column.cast(pl.Float64)).then(rounded)).to_series()
    if column.dtype == pl.String or column.dtype.is_integer() or column.dtype == pl.Boolean:
        return column.cast(pl.Int64, strict=False)
    return pl.Series(values=[None] * column.len(), dtype=pl.Int64)
