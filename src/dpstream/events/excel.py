"""Sheets of Excel files, through Polars and fastexcel."""

from __future__ import annotations

import io
from collections import Counter
from collections.abc import Callable, Sequence

import polars as pl

from dpstream.errors import InvalidArgument, MissingExtra, SourceDamaged, SourceMissing
from dpstream.events.table import Table, check_columns

__all__ = ["sheet_of"]


def sheet_of(
    content: str | io.BytesIO, name: str, columns: Sequence[str], sheet: str | None, note: Callable[[str], object]
) -> Table:
    """Return these columns of a sheet as one table; rows are numbered from the header on.

    Parameters
    ----------
    content, name
        The file or its bytes, and how it is called in messages.
    sheet
        The sheet's name, or its number from 1 on; None: the first.
    note
        Called with a sentence if there are other sheets and none was asked for.

    Raises
    ------
    MissingExtra
        If fastexcel is not installed.
    InvalidArgument
        If there is no such sheet.
    SourceMissing, SourceDamaged, ColumnMissing
        If the sheet is empty, cannot be read, or lacks a column.
    """
    try:
        import fastexcel
    except ImportError:
        raise MissingExtra(extra="excel", needs="fastexcel") from None
    try:
        sheets = fastexcel.read_excel(content if isinstance(content, str) else content.getvalue()).sheet_names
        chosen = _chosen(sheets, sheet)
        if sheet is None and len(sheets) > 1:
            others = ", ".join(sheets[1:6]) + (", ..." if len(sheets) > 6 else "")
            note(f"{name}: the sheet {chosen!r} is read (others: {others}; `sheet` names one).")
        names = _header(content, chosen)
        if not names:
            raise SourceMissing(source=f"{name}, sheet {chosen!r}", reason="is empty, without even a header")
        elsewhere = [f"sheet={other!r}" for other in sheets if other != chosen][:5]
        remedy = f"other sheets: {', '.join(elsewhere)}" if elsewhere else ""
        check_columns(f"{name}, sheet {chosen!r}", columns, names, remedy)
        for column in columns:
            if Counter(names)[column] > 1:
                raise SourceDamaged(
                    where=f"{name}, sheet {chosen!r}", what=f"the header names the column {column!r} more than once"
                )
        # The whole column decides on its type: otherwise text further down would silently become an empty cell.
        frame = pl.read_excel(
            content, sheet_name=chosen, infer_schema_length=None, drop_empty_rows=False, raise_if_empty=False
        )
    except fastexcel.FastExcelError as error:
        raise SourceDamaged(where=name, what=f"not an Excel file ({str(error).splitlines()[0]})") from None
    filled = frame.select(pl.any_horizontal(pl.all().is_not_null())).to_series().arg_true()
    frame = frame.head(int(filled[-1]) + 1 if filled.len() else 0)
    where = f"{name}, sheet {chosen!r}, row"
    return Table(frame.select(list(columns) or frame.columns[:1]), lambda row: f"{where} {row + 1} below the header")


def _chosen(sheets: Sequence[str], sheet: str | None) -> str:
    if sheet is None and sheets:
        return sheets[0]
    if sheet in sheets:
        return str(sheet)
    if sheet is not None and sheet.isdecimal() and 1 <= int(sheet) <= len(sheets):
        return sheets[int(sheet) - 1]
    listed = ", ".join(sheets[:20]) + (", ..." if len(sheets) > 20 else "")
    raise InvalidArgument("sheet", sheet, f"one of the file's sheets ({listed}) or its number")


def _header(content: str | io.BytesIO, sheet: str) -> list[str]:
    """The names in the first row, as they stand there: read as a header, repeated ones would get other names."""
    first = pl.read_excel(
        content,
        sheet_name=sheet,
        has_header=False,
        raise_if_empty=False,
        infer_schema_length=1,
        read_options={"n_rows": 1},
    )
    return [str(cell) for cell in first.row(0)] if first.height else []
