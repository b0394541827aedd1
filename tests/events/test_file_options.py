"""Files as they are: separators and encodings are recognised or told, and Excel sheets are read like any other file."""

import datetime as dt
import gzip
import sys

import polars as pl
import pytest
import xlsxwriter

from dpstream.errors import ColumnMissing, InvalidArgument, MissingExtra, SourceDamaged, SourceMissing
from dpstream.events import text_chunks
from dpstream.events.file_options import FileOptions, separator_in
from dpstream.events.tables import tables

ROWS = [("1", "Währing", "12,50"), ("2", "Smith, J; or |", "-3"), ("3", "€\n2", "0,05")]


def read(path, columns, **more):
    notes = []
    found = [table.frame for table in tables([str(path)], columns, files=FileOptions(**more), note=notes.append)]
    # That a cell of ROWS has two lines is told every time: tests/events/test_text_chunks.py looks at it.
    return pl.concat(found).rows(), [note for note in notes if "a quoted cell has 2 lines" not in note]


def written(mark, header=("no", "name", "amount")):
    lines = [mark.join(f'"{cell}"' for cell in row) for row in (header, *ROWS)]
    return "\n".join(lines) + "\n"


@pytest.mark.parametrize(
    ("mark", "word"), [(",", "comma"), (";", "semicolon"), ("\t", "tab"), ("|", "pipe"), ("^", "^"), (" ", "space")]
)
def test_separators_are_recognised_or_told(tmp_path, mark, word):
    path = tmp_path / "log.csv"
    path.write_text(written(mark))
    for told in (mark, word, word.upper()):
        assert read(path, ["amount", "name"], delimiter=told) == ([(row[2], row[1]) for row in ROWS], [])
    if mark not in ("^", " "):
        said = [] if mark == "," else [f"{path}: fields are separated by {word}s (delimiter={word!r})."]
        assert read(path, ["amount", "name"]) == ([(row[2], row[1]) for row in ROWS], said)
        assert read(path, []) == ([(row[0],) for row in ROWS], said)


@pytest.mark.parametrize(
    ("beginning", "columns", "mark"),
    [
        ("a;b\n1,5;2\n", ["b"], ";"),
        ("a;b\n1,5;2,5\n", [], ";"),
        ("a;b,c\n1;2,3\n", ["b,c"], ";"),
        ("a;b,c\n1;2,3\n", ["a;b"], ","),
        ("when\n2026-01-01\n", ["when"], ","),
        ("when\n2026-01-01\n", [], ","),
        ("a|b\n", ["b"], "|"),
        ("a,b;c\n1,2;3\n", ["x"], ","),
        ('"a;b"\tc\n', ["c"], "\t"),
        ("a b\n1 2\n", ["x"], ","),
        ("", ["a"], ","),
    ],
)
def test_what_a_header_says(beginning, columns, mark):
    assert separator_in(beginning, columns) == mark


def test_a_missing_column_is_named_by_the_right_separator(tmp_path):
    (tmp_path / "log.csv").write_text("Nr;Datum;Bezirk\n1;01.02.2026;9\n")
    with pytest.raises(ColumnMissing, match="no column 'Date'; its columns are 'Nr', 'Datum', 'Bezirk'"):
        read(tmp_path / "log.csv", ["Date"])


def test_a_header_alone(tmp_path):
    (tmp_path / "log.csv").write_text("Nr;Datum")
    with pytest.raises(ColumnMissing, match="its columns are 'Nr', 'Datum'"):
        read(tmp_path / "log.csv", ["Date"])


@pytest.mark.parametrize("packed", [False, True])
@pytest.mark.parametrize("encoding", ["utf-8", "utf-8-sig", "utf-16", "utf-16-le", "utf-32", "cp1252", "cp850"])
def test_encodings(tmp_path, monkeypatch, encoding, packed):
    monkeypatch.setattr(text_chunks, "CHUNK_BYTES", 7)  # characters and records are cut in the middle
    text = written(";") if encoding != "cp850" else written(";").replace("€", "e")
    data = text.encode(encoding)
    path = tmp_path / "log.csv"
    path.write_bytes(gzip.compress(data) if packed else data)
    rows = [(row[1].replace("€", "e") if encoding == "cp850" else row[1],) for row in ROWS]
    separated = f"{path}: fields are separated by semicolons (delimiter='semicolon')."
    assert read(path, ["name"], encoding=encoding) == (rows, [separated])
    if encoding in ("utf-8", "utf-8-sig", "utf-16", "utf-32"):
        said = [] if "8" in encoding else [
            f"{path} is read as {encoding.upper()}, as its first bytes say (encoding={encoding!r})."
        ]  # fmt: skip
        assert read(path, ["name"]) == (rows, [*said, separated])


@pytest.mark.parametrize("block", [5, 1 << 20])
def test_bytes_of_another_encoding_are_named_by_their_line(tmp_path, monkeypatch, block):
    monkeypatch.setattr(text_chunks, "CHUNK_BYTES", block)
    path = tmp_path / "log.csv"
    path.write_bytes(b"a\n1\n2\n\x81x\n")
    with pytest.raises(SourceDamaged, match=r"line 4: not cp1252: byte 0x81; encoding='latin-1' may be right"):
        read(path, ["a"], encoding="windows-1252")
    with pytest.raises(SourceDamaged, match=r"line 4: not UTF-8: byte 0x81; encoding='cp1252'"):
        read(path, ["a"])
    path.write_bytes("a\n1\n2, Köln\n".encode("latin-1"))
    with pytest.raises(SourceDamaged, match=r"line 3: not UTF-8: byte 0xf6 \('Köln' in a file from Windows\); enc"):
        read(path, ["a"])


@pytest.mark.parametrize("bad", ["", "ab", '"', "\n", "x", "7", "§", "\0"])
def test_what_is_no_separator(bad):
    with pytest.raises(InvalidArgument, match="delimiter must be one character such as ;"):
        FileOptions(delimiter=bad)


@pytest.mark.parametrize("bad", ["", "utf-9", "base64", "rot13", "a b", "\0", "undefined"])
def test_what_is_no_encoding(bad):
    with pytest.raises(InvalidArgument, match="encoding must be an encoding such as utf-8, cp1252"):
        FileOptions(encoding=bad)


# -- Excel ------------------------------------------------------------------------------------------------------------


@pytest.fixture
def workbook(tmp_path):
    """A workbook of two sheets; the second has dates, blank cells, a computed amount and text after 2,000 numbers."""
    path = tmp_path / "log.xlsx"
    with xlsxwriter.Workbook(path) as book:
        book.add_worksheet("Read me").write_row(0, 0, ["hello"])
        sheet = book.add_worksheet("Visits")
        day = book.add_format({"num_format": "dd/mm/yyyy"})
        sheet.write_row(0, 0, ["when", "amount", "code", "code", "late"])
        for row in range(3):
            sheet.write_datetime(row + 1, 0, dt.datetime(2026, 1, row + 1), day)
            sheet.write_row(row + 1, 1, [12.5 * row, row, "x"])
        sheet.write_formula(5, 1, "=SUM(1,2)", None, 37.8)
        for row in range(2000):
            sheet.write(row + 1, 4, row)
        sheet.write(2001, 4, "end")
        sheet.write_blank(2005, 0, None, day)
        book.add_worksheet("Empty")
    return path


def test_a_sheet_is_a_table(workbook):
    rows, notes = read(workbook, ["amount", "when"], sheet="Visits")
    assert (len(rows), notes) == (2001, [])
    assert rows[:3] == [(0.0, dt.date(2026, 1, 1)), (12.5, dt.date(2026, 1, 2)), (25.0, dt.date(2026, 1, 3))]
    assert rows[3:5] == [(None, None), (37.8, None)]
    assert read(workbook, ["amount"], sheet="2")[0] == [row[:1] for row in rows]
    assert read(workbook, ["hello"]) == (
        [],
        [f"{workbook}: the sheet 'Read me' is read (others: Visits, Empty; `sheet` names one)."],
    )


def test_text_far_down_in_a_column_of_numbers_is_not_lost(workbook):
    """Read by its first rows, the column would be one of numbers, and the text an empty cell."""
    rows, _ = read(workbook, ["late"], sheet="Visits")
    assert rows[0] == ("0",)
    assert rows[-1] == ("end",)


def test_cells_know_where_they_are(workbook):
    (table,) = tables([str(workbook)], ["when"], files=FileOptions(sheet="Visits"))
    assert table.where(3) == f"{workbook}, sheet 'Visits', row 4 below the header"


def test_bad_sheets(workbook):
    with pytest.raises(InvalidArgument, match=r"sheet must be one of the file's sheets \(Read me, Visits, Empty\)"):
        read(workbook, ["when"], sheet="4")
    with pytest.raises(
        ColumnMissing, match=r"sheet 'Visits' has no column 'x'; its columns are 'when', 'amount', 'code'"
    ):
        read(workbook, ["x"], sheet="Visits")
    with pytest.raises(SourceDamaged, match="the header names the column 'code' more than once"):
        read(workbook, ["code"], sheet="Visits")
    with pytest.raises(SourceMissing, match="sheet 'Empty': is empty"):
        read(workbook, ["x"], sheet="Empty")
    workbook.write_bytes(workbook.read_bytes()[:-200])
    with pytest.raises(SourceDamaged, match="not an Excel file"):
        read(workbook, ["when"], sheet="Visits")


def test_without_fastexcel_the_command_to_type_is_said(workbook, monkeypatch):
    monkeypatch.setitem(sys.modules, "fastexcel", None)
    with pytest.raises(MissingExtra, match=r"pip install 'dpstream\[excel\]'"):
        read(workbook, ["when"], sheet="Visits")
