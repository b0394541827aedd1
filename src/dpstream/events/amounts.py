"""Amounts such as 12.50 as whole numbers of a unit, without any rounding."""

from __future__ import annotations

import re
from decimal import Decimal, InvalidOperation
from functools import cached_property
from typing import Literal

import polars as pl

from dpstream.errors import InvalidArgument

__all__ = ["AmountReader", "DecimalMark", "positive_decimal"]

DecimalMark = Literal[".", ","]
#: Amounts are cut to this many units before they become int64: far beyond any limit, far from overflow.
_FAR = 1 << 62
#: Digits of a binary floating-point number that are meant: as many as spreadsheets show. 0.1 + 0.2 is read as 0.3.
_FLOAT_DIGITS = 15
#: A fraction with more digits than this is a result of floating point, not an amount.
_MOST_DIGITS = 6


class AmountReader:
    """Reads a column of amounts as whole numbers of `unit`, exactly.

    Parameters
    ----------
    unit
        The smallest difference between two amounts: 0.01 for cents. Amounts are multiples of it.
    decimal
        What stands before the fraction in text: "." or ",".

    Examples
    --------
    >>> AmountReader(Decimal("0.01"), ",").read(pl.Series(["12,50", "-3", "12,505", "x"])).to_list()
    [1250, -300, None, None]
    """

    def __init__(self, unit: Decimal, decimal: DecimalMark) -> None:
        self.unit = unit
        self.decimal = decimal
        exponent = unit.normalize().as_tuple().exponent
        #: How many digits after the decimal mark amounts have.
        self.places = max(-int(exponent), 0)
        self._factor = int(unit.scaleb(self.places))

    def read(self, column: pl.Series) -> pl.Series:
        """Return the amounts in units as Int64; null for what is no multiple of the unit."""
        if self.unit == 1:
            whole = _whole(column)
            # Text may still hold 12.00, which is slower to read.
            if column.dtype != pl.String or whole.null_count() == column.null_count():
                return whole
        text = _as_text(column, self.decimal)
        if text is None:
            return pl.Series([None] * column.len(), dtype=pl.Int64)
        fits = text.str.contains(self._exact)
        if not fits.all():
            text = self._ungrouped(text)
            fits = text.str.contains(self._exact)
        if self.decimal != ".":
            text = text.str.replace(self.decimal, ".", literal=True)
        units = pl.lit(text.cast(pl.Decimal(38, self.places), strict=False).to_physical())
        if self._factor != 1:
            factor = pl.lit(self._factor, dtype=pl.Int128)
            fits &= pl.select((units % factor == 0).fill_null(False)).to_series()
            units = units // factor
        return pl.select(pl.when(pl.lit(fits)).then(units.clip(-_FAR, _FAR)).cast(pl.Int64)).to_series()

    @cached_property
    def _exact(self) -> str:
        """A pattern of amounts that have no digits below the unit's last one, other than zeros."""
        mark = re.escape(self.decimal)
        digits = self.places
        fraction_alone = rf"|{mark}\d{{1,{digits}}}0*" if digits else ""
        return rf"^[+-]?(?:\d+(?:{mark}\d{{0,{digits}}}0*)?{fraction_alone})$"

    def _ungrouped(self, text: pl.Series) -> pl.Series:
        """Amounts such as 1,234.50 without the mark between thousands.

        Only where there is a fraction as well: 1,234 alone may be a little more than one, with the decimal mark of
        another country.
        """
        mark, group = self.decimal, "," if self.decimal == "." else "."
        grouped = text.str.contains(rf"^[+-]?\d{{1,3}}(?:{re.escape(group)}\d{{3}})+{re.escape(mark)}\d+$")
        if not grouped.any():
            return text
        plain = text.str.replace_all(group, "", literal=True)
        return pl.select(pl.when(grouped).then(plain).otherwise(text)).to_series()

    def remedy(self, given: object) -> str:
        """Return what to type so that a value which is no multiple of the unit can be read; "" if nothing helps."""
        text = str(given).strip()
        for mark in (self.decimal, "," if self.decimal == "." else "."):
            found = re.fullmatch(rf"[+-]?\d*{re.escape(mark)}(\d+)", text)
            if found is None:
                continue
            digits = len(found[1].rstrip("0")) or 1
            parts = []
            if mark != self.decimal:
                parts.append(f"decimal={mark!r}")
            if self.places < digits <= _MOST_DIGITS:
                unit = Decimal(1).scaleb(-max(digits, 2))
                parts.append(f"unit={f'{unit:f}'!r}")
            if parts:
                return f"for amounts such as {text}, give {' and '.join(parts)}"
        return ""

    def shown(self, units: int) -> str:
        """Return a number of units as an amount, the way people write it.

        >>> AmountReader(Decimal("0.01"), ".").shown(-123456)
        '-1,234.56'
        """
        return f"{units * self.unit:,.{self.places}f}"

    def in_unit(self, units: pl.Expr) -> pl.Expr:
        """Turn whole numbers of units into amounts: decimal numbers with the unit's digits."""
        if self.places == 0:
            return units * self._factor
        return (units * pl.lit(self.unit)).cast(pl.Decimal(38, self.places))


def positive_decimal(argument: str, given: object) -> Decimal:
    """Return a number above 0 as the decimal number that is written; refuse anything else."""
    try:
        if isinstance(given, bool):
            raise InvalidOperation
        number = Decimal(str(given))
    except InvalidOperation:
        number = Decimal("NaN")
    if not (number.is_finite() and number > 0 and -30 < number.adjusted() < 30):
        raise InvalidArgument(argument, given, "a number above 0 such as 200 or 0.01")
    return number


def _whole(column: pl.Series) -> pl.Series:
    """Whole numbers as such, anything else as null."""
    if column.dtype.is_float():
        rounded = column.cast(pl.Int64, strict=False)
        return pl.select(pl.when(rounded.cast(pl.Float64) == column.cast(pl.Float64)).then(rounded)).to_series()
    if column.dtype == pl.String or column.dtype.is_integer() or column.dtype == pl.Boolean:
        return column.cast(pl.Int64, strict=False)
    return pl.Series(values=[None] * column.len(), dtype=pl.Int64)


def _as_text(column: pl.Series, decimal: DecimalMark) -> pl.Series | None:
    """A column of numbers as text with this decimal mark; None if it holds no numbers."""
    if column.dtype == pl.String:
        return column.str.strip_chars()
    if column.dtype.is_float():
        rounded = column.cast(pl.Float64).round_sig_figs(_FLOAT_DIGITS)
        whole = _whole(rounded).cast(pl.String)
        # Beyond int64 numbers are cut, so that they are too large instead of no number.
        cut = pl.select(pl.when(rounded.is_finite()).then(rounded.clip(-float(_FAR), float(_FAR)))).to_series()
        text = pl.select(pl.coalesce(pl.lit(whole), pl.lit(_whole(cut).cast(pl.String)), rounded.cast(pl.String)))
        column = text.to_series()
    elif column.dtype.is_decimal() or column.dtype.is_integer() or column.dtype == pl.Boolean:
        column = (column.cast(pl.Int64) if column.dtype == pl.Boolean else column).cast(pl.String)
    else:
        return None
    return column if decimal == "." else column.str.replace(".", decimal, literal=True)
