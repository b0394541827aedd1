"""Which rows are counted: those that a public rule selects, and what becomes of empty cells."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, replace

import polars as pl

from dpstream.errors import InvalidArgument
from dpstream.events.cells import are_empty, as_text
from dpstream.events.measure import Measure
from dpstream.events.table import Table

__all__ = ["RowFilter", "RowRules"]


@dataclass(frozen=True)
class RowRules:
    """Which rows are counted.

    Attributes
    ----------
    where
        "COLUMN=VALUE" each: rows are counted if every column named has its value, or one of its values if it is named
        several times. The rule is public: it must not be chosen by looking at the data.
    missing
        What becomes of a row with an empty cell in a column that is needed. "refuse": the whole input is refused.
        "skip": the row is not counted. Anything else is put into the cell, if it is a category or an amount.

    Guarantee
    ---------
    Whether a row is counted depends on this row alone, so rows that are left out cost no privacy.
    """

    where: tuple[str, ...] = ()
    missing: str = "refuse"

    def __post_init__(self) -> None:
        for rule in self.where:
            if not rule.partition("=")[0].strip() or "=" not in rule:
                raise InvalidArgument("where", rule, "of the form COLUMN=VALUE, such as ward=north")

    @property
    def selected(self) -> dict[str, list[str]]:
        """The values that rows must have, by column."""
        found: dict[str, list[str]] = {}
        for rule in self.where:
            column, _, value = rule.partition("=")
            found.setdefault(column.strip(), []).append(value.strip())
        return found


class RowFilter:
    """Applies rules to tables, and counts the rows that they leave out.

    Parameters
    ----------
    rules
        The rules.
    measure, time, user
        The columns in which no cell may be empty: those of the measure, of timestamps and of user ids.

    Attributes
    ----------
    outside
        How many rows were not selected.
    skipped
        How many rows were left out for an empty cell, by the first column that had one.
    """

    def __init__(self, rules: RowRules, measure: Measure, time: str | None = None, user: str | None = None) -> None:
        self._selected = rules.selected
        self._missing = rules.missing
        self._measure = measure
        self._needed = [column for column in (time, measure.value, measure.by, user) if column is not None]
        self._user = user
        self.outside = 0
        self.skipped: Counter[str] = Counter()
        self._replaced = {} if rules.missing in ("refuse", "skip") else self._replacements()

    @property
    def columns(self) -> list[str]:
        """The columns that rules look at."""
        return list(self._selected)

    def apply(self, table: Table) -> Table:
        """Return the rows that are to be counted, with empty cells filled if that was asked for."""
        if self._selected:
            table = self._select(table)
        if self._missing == "skip":
            return self._skip(table)
        if self._replaced:
            return replace(table, frame=table.frame.with_columns(map(self._filled, table.frame[list(self._replaced)])))
        return table

    def _select(self, table: Table) -> Table:
        kept = pl.Series([True]).new_from_index(0, table.frame.height)
        for column, values in self._selected.items():
            kept &= as_text(table.frame[column]).str.strip_chars().fill_null("").is_in(values)
        if kept.all():
            return table
        self.outside += table.frame.height - int(kept.sum())
        return table.filter(kept)

    def _skip(self, table: Table) -> Table:
        for column in self._needed:
            empty = self._empty(table.frame[column])
            if empty.any():
                self.skipped[column] += int(empty.sum())
                table = table.filter(~empty)
        return table

    def _empty(self, column: pl.Series) -> pl.Series:
        if column.name == self._user:
            # Somebody may be called NA: nothing else is empty.
            return column.is_null() if column.dtype != pl.String else column.str.strip_chars().fill_null("") == ""
        empty = are_empty(column)
        if column.name == self._measure.by and empty.any():
            # A category that was declared is what it says: NA may be Namibia.
            empty &= ~as_text(column).is_in(self._measure.categories).fill_null(False)
        return empty

    def _replacements(self) -> dict[str, str]:
        """The columns whose empty cells the value of `missing` fits into, with the value."""
        measure, value = self._measure, self._missing
        fits = {}
        if measure.by is not None and (measure.discover or value in measure.names):
            fits[measure.by] = value
        if measure.value is not None:
            units = measure.reader.read(pl.Series([value]))[0]
            if units is not None and measure.least <= units <= measure.most:
                fits[measure.value] = value
        if not fits:
            raise InvalidArgument(
                "missing",
                value,
                "refuse, skip, or what empty cells count as: a category, or an amount within the limit",
            )
        return fits

    def _filled(self, column: pl.Series) -> pl.Series:
        empty = self._empty(column)
        if not empty.any():
            return column
        texts = as_text(column)
        if column.dtype.is_float() and self._measure.decimal != ".":
            texts = texts.str.replace(".", self._measure.decimal, literal=True)
        value = pl.lit(self._replaced[column.name])
        return pl.select(pl.when(empty).then(value).otherwise(texts).alias(column.name)).to_series()
