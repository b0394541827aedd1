"""Bad files are named with the line and the reason; good ones are read whatever their form."""

import io

import polars as pl
import pytest

from dpstream.errors import ColumnMissing, DpstreamError, InvalidArgument, SourceDamaged, SourceMissing
from dpstream.events import tables as module
from dpstream.events import text_chunks
from dpstream.events.file_options import FileOptions
from dpstream.events.tables import tables


def read(path, columns, note=lambda _: None, **more):
    return pl.concat([table.frame for table in tables([str(path)], columns, files=FileOptions(**more), note=note)])


def file(folder, content, name="log.csv"):
    path = folder / name
    path.write_bytes(content.encode() if isinstance(content, str) else content)
    return path


@pytest.mark.parametrize(
    ("name", "content", "message"),
    [
        ("log.csv", "", "is empty"),
        ("log.csv", "\n\n", "is empty"),
        ("log.csv", "x,b\n1,2\n", "has no column 'a'; its columns are 'x', 'b'"),
        ("log.csv", "x,b", "has no column 'a'; its columns are 'x', 'b'"),
        ("log.csv", "a,b\n1,2\n1,2,3\n", "line 3: 3 fields, but the header names 2"),
        ("log.csv", "a,b\n1,2\n1\n3,4\n", "line 3: 1 fields, but the header names 2"),
        ("log.csv", 'a,b\n1,"x\ny"\n1\n', "line 4: 1 fields, but the header names 2"),
        ("log.csv", 'a,b\n1,"x\ny"\n1,2,3\n', "line 4: 3 fields, but the header names 2"),
        ("log.csv", "a,b\n1,2\n\n3\n", "line 4: 1 fields, but the header names 2"),
        ("log.csv", 'a,b\n1,5" pipe\n2,y\n', "line 2: a quote that is opened here never ends"),
        (
            "log.csv",
            "a,b\n1,2\né,3\n".encode("latin-1"),
            "line 3: not UTF-8: byte 0xe9 ('é' in a file from Windows); encoding='cp1252'",
        ),
        (
            "log.csv",
            "é,a\n1,2\n".encode("latin-1"),
            "line 1: not UTF-8: byte 0xe9 ('é' in a file from Windows); encoding='cp1252'",
        ),
        (
            "log.csv",
            "a,b\n1,2\n".encode("utf-16-le"),
            "line 1: a NUL byte: this is not text, or it is UTF-16, which enc",
        ),
        ("log.csv", "a,b\n1,2\n".encode("utf-16")[:-1], "line 2: not utf-16: byte 0x0a"),
        ("log.xlsx", "", "not an Excel file"),
        ("log.xlsx", "a,b\n", "not an Excel file"),
        ("log.csv", "a,b\r1,2\r3,4\r", "line 1: lines end in a carriage return alone"),
        ("log.tsv", "a\tb\n1,2\t3\n1\t2\t3\n", "line 3: 3 fields, but the header names 2"),
        ("log.jsonl", '{"a": 1}\n\n{"a": \n', "line 3: not a line of JSON"),
        ("log.jsonl", '{"a": 1}\n[1]\n', "line 2: not a line of JSON (not a JSON object)"),
        ("log.jsonl", '{"a": 1}{"a": 2}\n', "line 1: not a line of JSON"),
        ("log.jsonl", '{"b": 1}\n', "has no column 'a'; its columns are 'b'"),
        ("log.jsonl", '{"a": "é"}\n'.encode("latin-1"), "line 1: not UTF-8"),
        ("log.parquet", "", "is empty"),
        ("log.parquet", "a,b\n", "not a Parquet file"),
    ],
)
def test_bad_files(tmp_path, name, content, message):
    with pytest.raises(DpstreamError) as caught:
        read(file(tmp_path, content, name), ["a"])
    assert message in str(caught.value)
    assert str(tmp_path / name) in str(caught.value)
    assert isinstance(caught.value, (SourceMissing, SourceDamaged, ColumnMissing))


@pytest.mark.parametrize(
    ("content", "rows"),
    [
        ("a,b\n1,2\n\n3,4\n", ["1", None, "3"]),
        ("a,b\n\n1,2\r\n\r\n\r\n3,4\n\n\n", [None, "1", None, None, "3"]),
        ("a\n1\n\n3\n", ["1", None, "3"]),
        ('a,b\n1,"x\n\ny"\n\n3,4\n', ["1", None, "3"]),
    ],
)
def test_an_empty_line_is_a_row_of_empty_cells(tmp_path, content, rows):
    """Whoever needs a cell refuses or skips it; where no cell is looked at, it cannot be told from a row."""
    path = file(tmp_path, content)
    (table,) = tables([str(path)], ["a"])
    assert table.frame["a"].to_list() == rows
    empty, line = rows.index(None), content.split("\n").index("", 1) + 1
    assert table.where(empty) == f"{path}, line {line if 'x' not in content else 5}"
    with pytest.raises(SourceDamaged, match="an empty line"):
        read(path, [])


def test_what_is_not_a_file(tmp_path):
    with pytest.raises(SourceMissing, match="no such file"):
        read(tmp_path / "log.csv", ["a"])
    folder = tmp_path / "folder.csv"
    folder.mkdir()
    with pytest.raises(SourceMissing, match="is a folder"):
        read(folder, ["a"])
    with pytest.raises(InvalidArgument, match=r"ending in .csv, "):
        read(file(tmp_path, "a\n1\n", "log.txt"), ["a"])
    with pytest.raises(InvalidArgument, match="file_format must be one of csv"):
        FileOptions("xml")
    assert read(file(tmp_path, "a\n1\n", "log.txt"), ["a"], file_format="csv")["a"].to_list() == ["1"]


def test_files_cut_short_or_without_rows(tmp_path):
    path = tmp_path / "log.parquet"
    pl.DataFrame({"a": [1, 2, 3]}).write_parquet(path)
    content = path.read_bytes()
    assert read(path, ["a"])["a"].to_list() == [1, 2, 3]
    path.write_bytes(content[:-10])
    with pytest.raises(SourceDamaged, match="not a Parquet file"):
        read(path, ["a"])
    pl.DataFrame({"a": []}).write_parquet(path)
    assert sum(table.frame.height for table in tables([str(path)], ["a"])) == 0
    (tmp_path / "log.jsonl").write_text("")
    assert list(tables([str(tmp_path / "log.jsonl")], ["a"])) == []


def test_parquet_rows_keep_their_places(tmp_path, monkeypatch):
    monkeypatch.setattr(module, "PARQUET_ROWS", 10)
    path = tmp_path / "log.parquet"
    pl.DataFrame({"a": list(range(35))}).write_parquet(path, row_group_size=16)
    found = [table.where(row) for table in tables([str(path)], ["a"]) for row in range(table.frame.height)]
    assert found == [f"{path}, row {i}" for i in range(1, 36)]


def test_one_column_for_two_purposes_and_none_at_all(tmp_path):
    path = file(tmp_path, "a,b\n1,2\n3,4\n")
    assert read(path, ["b", "b", "a"]).rows() == [("2", "1"), ("4", "3")]
    assert read(path, []).height == 2
    path = file(tmp_path, '{"a": 1}\n{"b": "x"}\n', "log.jsonl")
    assert read(path, []).height == 2


def test_json_values_arrive_as_text(tmp_path):
    path = file(tmp_path, '{"a": 1, "b": null}\n{"a": 2.5}\n{"a": "x"}\n{"b": 1}\n', "log.jsonl")
    assert read(path, ["a"])["a"].to_list() == ["1", "2.5", "x", None]


def test_several_sources_one_after_the_other(tmp_path):
    first, second = file(tmp_path, "a,b\n1,2\n", "1.csv"), file(tmp_path, "b,a\n3,4\n", "2.csv")
    done = []
    found = [t.frame["a"].to_list() for t in tables([str(first), str(second)], ["a"], report=done.append)]
    assert found == [["1"], ["4"]]
    assert done[-1] == first.stat().st_size + second.stat().st_size
    with pytest.raises(InvalidArgument):  # before the first is opened
        next(tables([str(tmp_path / "missing.csv"), "log.txt"], ["a"]))


def test_memory_does_not_grow_with_the_file(tmp_path, monkeypatch):
    monkeypatch.setattr(text_chunks, "CHUNK_BYTES", 1 << 12)
    path = file(tmp_path, "a,b\n" + "12345,67890\n" * 5000)
    heights = [table.frame.height for table in tables([str(path)], ["a"])]
    assert sum(heights) == 5000
    assert max(heights) <= (1 << 12) // len("12345,67890\n") + 1


def test_standard_input_that_is_not_a_file(monkeypatch):
    import gzip
    import sys

    data = gzip.compress(b"a\n1\n")
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(data)))
    assert read("-", ["a"])["a"].to_list() == ["1"]
