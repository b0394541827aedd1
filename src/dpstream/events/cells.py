"""Cells of a column: what they say as text, and which of them are empty."""

from __future__ import annotations

import math

import polars as pl

__all__ = ["EMPTY_REMEDY", "are_empty", "as_text", "is_empty"]

#: What people write into a cell that has no value, in lower case.
_EMPTY = ("", "na", "n/a", "#n/a", "nan", "null", "none", "-", ".")
#: What to type where an empty cell is refused.
EMPTY_REMEDY = "missing='skip' leaves such rows out"


def as_text(column: pl.Series) -> pl.Series:
    """Return cells as text; whole numbers without a fraction.

    >>> as_text(pl.Series([7.0, 8.5, None])).to_list()
    ['7', '8.5', None]
    """
    if column.dtype.is_float():
        whole = column.cast(pl.Int64, strict=False)
        same = whole.cast(pl.Float64) == column.cast(pl.Float64)
        texts = pl.when(pl.lit(same)).then(pl.lit(whole.cast(pl.String))).otherwise(pl.lit(column.cast(pl.String)))
        return pl.select(texts).to_series()
    return column.cast(pl.String)


def are_empty(column: pl.Series) -> pl.Series:
    """Return which cells hold nothing, or a word that stands for nothing such as NA.

    >>> are_empty(pl.Series(["x", " ", "N/A", None, "0"])).to_list()
    [False, True, True, True, False]
    """
    if column.dtype.is_float():
        return column.is_null() | column.is_nan().fill_null(True)
    if column.dtype != pl.String:
        return column.is_null()
    return column.str.strip_chars().str.to_lowercase().is_in(_EMPTY).fill_null(True)


def is_empty(cell: object) -> bool:
    """Return whether a cell holds nothing, or a word that stands for nothing."""
    if isinstance(cell, float):
        return math.isnan(cell)
    return cell is None or (isinstance(cell, str) and cell.strip().lower() in _EMPTY)
