"""What one row adds (1, or the value of a column) and to which category, checked against what was declared."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from decimal import Decimal
from functools import cached_property
from typing import Literal, NamedTuple

import numpy as np
import polars as pl
from numpy.typing import NDArray

from dpstream.errors import InvalidArgument, RowRefused
from dpstream.events.amounts import AmountReader, DecimalMark, positive_decimal
from dpstream.events.cells import EMPTY_REMEDY, are_empty, as_text, is_empty
from dpstream.events.tables import Table

__all__ = ["OTHER", "Amounts", "Measure"]

OTHER = "other"


class Amounts(NamedTuple):
    """What each row adds, in whole units, and how many rows were cut to the limit."""

    units: NDArray[np.int64]
    clipped: int


@dataclass(frozen=True)
class Measure:
    """How a row is counted.

    Attributes
    ----------
    value
        A column of amounts, which may be negative; without one every row counts 1.
    per_person
        The largest size of an amount, in the same words as the column: 200 for amounts up to 200.00.
    unit
        The smallest difference between two amounts: "0.01" for cents. Amounts are added up as whole units.
    decimal
        What stands before the fraction of an amount in text: "." or ",".
    clip
        Whether an amount beyond the limit counts as the limit; otherwise it is refused.
    by, categories
        A column that says which category a row belongs to, and the categories there are: they must be declared, since
        which categories turn up is something about the people in the data.
    undeclared
        "refuse" rows of other categories, or count them together as "other", the last category. Empty cells are refused
        in both cases.
    discover
        Whether `by` is a column of names that nobody listed beforehand; `categories` are then those that are public.
    """

    value: str | None = None
    per_person: int | float | str | Decimal = 1
    unit: int | float | str | Decimal = 1
    decimal: DecimalMark = "."
    clip: bool = False
    by: str | None = None
    categories: tuple[str, ...] = ()
    undeclared: Literal["refuse", "other"] = "refuse"
    discover: bool = False

    def __post_init__(self) -> None:
        if self.decimal not in (".", ","):
            raise InvalidArgument("decimal", self.decimal, "'.' or ','")
        if self.value is None and (self.clip or self.reader.unit != 1):
            argument = "clip" if self.clip else "unit"
            raise InvalidArgument(argument, getattr(self, argument), "used with `value`: rows have no amounts")
        if self.most < 1:
            raise InvalidArgument("per_person", str(self.per_person), f"a multiple of {self.unit} (unit={self.unit})")
        if not self.discover and (self.by is None) != (not self.categories):
            missing = "by" if self.by is None else "categories"
            raise InvalidArgument(missing, None, "given: a column and its categories go together")
        repeated = sorted(name for name, times in Counter(self.categories).items() if times > 1)
        if repeated:
            shown = ", ".join(repeated[:5]) + (", ..." if len(repeated) > 5 else "")
            raise InvalidArgument("categories", shown, "each category once")
        if self.undeclared == "other" and OTHER in self.categories:
            raise InvalidArgument("categories", OTHER, "without the name that undeclared categories are counted under")

    @cached_property
    def reader(self) -> AmountReader:
        """What reads amounts and shows them."""
        return AmountReader(positive_decimal("unit", self.unit), self.decimal)

    @cached_property
    def most(self) -> int:
        """The largest number of units that a row may add; 0 if `per_person` is no multiple of the unit."""
        units = positive_decimal("per_person", self.per_person) / self.reader.unit
        return int(units) if units == int(units) else 0

    @property
    def least(self) -> int:
        """The smallest number of units that a row may add."""
        return -self.most

    @property
    def columns(self) -> list[str]:
        """The columns that are read."""
        return [column for column in (self.value, self.by) if column is not None]

    @property
    def names(self) -> tuple[str, ...]:
        """The categories that are released, in order."""
        if self.discover:
            return ()
        return (*self.categories, OTHER) if self.by and self.undeclared == "other" else self.categories

    def amounts(self, table: Table) -> Amounts | None:
        """What each row adds; None if each adds 1.

        Raises
        ------
        RowRefused
            If one is no multiple of the unit or, unless amounts are clipped, out of bounds.
        """
        if self.value is None:
            return None
        column = table.frame[self.value]
        units = self.reader.read(column)
        unread, beyond = units.is_null(), (units < self.least) | (units > self.most)
        if unread.any():
            raise self._refused(table, column, int(unread.arg_max() or 0), None)
        if not beyond.any():
            return Amounts(units.to_numpy(), 0)
        if not self.clip:
            row = int(beyond.arg_max() or 0)
            raise self._refused(table, column, row, int(units[row]))
        return Amounts(units.clip(self.least, self.most).to_numpy(), int(beyond.sum()))

    def in_unit(self, frame: pl.DataFrame) -> pl.DataFrame:
        """Return a table of releases with amounts in place of numbers of units: all columns of numbers but `step`."""
        reader = self.reader
        if reader.unit == 1:
            return frame
        exact = [name for name, dtype in frame.schema.items() if dtype.is_integer() and name != "step"]
        real = [name for name, dtype in frame.schema.items() if dtype.is_float()]
        # By way of text: 0.07 times 3 would be 0.21000000000000002.
        rounded = {
            name: pl.Series(
                [float(f"{one:.5g}") for one in (frame[name] * float(reader.unit)).to_list()], dtype=pl.Float64
            )
            for name in real
        }
        return frame.with_columns(reader.in_unit(pl.col(*exact)), **rounded) if exact else frame.with_columns(**rounded)

    def _refused(self, table: Table, column: pl.Series, row: int, units: int | None) -> RowRefused:
        """Say what an amount must be, and what to type if this one is meant."""
        assert self.value is not None  # noqa: S101
        reader, given = self.reader, column[row]
        kind = "a whole number" if reader.unit == 1 else f"a multiple of {reader.unit:f}"
        if units is None:
            remedy = f"{EMPTY_REMEDY}, missing='0' counts them as 0" if is_empty(given) else reader.remedy(given)
        else:
            remedy = f"clip=True counts it as {reader.shown(max(self.least, min(self.most, units)))}"
        allowed = f"{kind} from {reader.shown(self.least)} to {reader.shown(self.most)} (per_person={self.per_person})"
        return RowRefused(where=table.where(row), column=self.value, given=given, allowed=allowed, remedy=remedy)

    def places(self, table: Table) -> NDArray[np.int64] | None:
        """The number of each row's category; None if there are none.

        Raises
        ------
        RowRefused
            If a cell is empty, or its category is not declared; undeclared ones may be counted as "other".
        """
        if self.by is None or self.discover:
            return None
        column = table.frame[self.by]
        known = as_text(column).cast(pl.Enum(list(self.categories)), strict=False).to_physical().cast(pl.Int64)
        if not known.null_count():
            return known.to_numpy()
        unknown = known.is_null()
        # An empty cell is no category: it is refused as in other columns, unless `missing` says otherwise.
        empty = unknown & are_empty(column)
        if self.undeclared == "other":
            unknown = empty
            if not empty.any():
                return known.fill_null(len(self.categories)).to_numpy()
        row = int(unknown.arg_max() or 0)
        shown = ", ".join(self.categories[:20]) + (", ..." if len(self.categories) > 20 else "")
        if empty[row]:
            remedy = EMPTY_REMEDY
            if self.undeclared == "other":
                remedy += f", missing={OTHER!r} counts them as {OTHER}"
        else:
            remedy = "undeclared='other' counts the rest together"
            if any("," in name for name in self.categories) or "," in str(column[row]):
                remedy += "; a category with a comma is given in quotes"
        raise RowRefused(
            where=table.where(row),
            column=self.by,
            given=column[row],
            allowed=f"one of the categories ({shown})",
            remedy=remedy,
        )
