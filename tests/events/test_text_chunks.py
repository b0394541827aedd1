"""Records stay whole wherever the blocks of a file end, and lines keep their numbers."""

import csv
import gzip
import io

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dpstream.errors import SourceDamaged
from dpstream.events import text_chunks
from dpstream.events.tables import tables
from dpstream.events.text_chunks import chunks

CELL = st.text(alphabet='ab,"\n\r é', max_size=6)


class _Trickle(io.RawIOBase):
    """Bytes that arrive a few at a time, as on a pipe."""

    def __init__(self, data, size):
        self._data, self._size = io.BytesIO(data), size

    def readable(self):
        return True

    def readinto(self, buffer):
        piece = self._data.read(min(self._size, len(buffer)))
        buffer[: len(piece)] = piece
        return len(piece)


def cut(data, size, **more):
    """The chunks of these bytes, read in blocks of this size."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(text_chunks, "CHUNK_BYTES", size)
        return list(chunks(io.BufferedReader(_Trickle(data, size)), "log", **({"header": True} | more)))


def written(rows, end="\n"):
    held = io.StringIO()
    csv.writer(held, lineterminator=end, quoting=csv.QUOTE_ALL).writerows(rows)
    return held.getvalue()


def records(text):
    return list(csv.reader(io.StringIO(text, newline="")))


@settings(max_examples=150, deadline=None)
@given(
    rows=st.lists(st.tuples(CELL, CELL), min_size=1, max_size=12),
    size=st.integers(1, 60),
    end=st.sampled_from(["\n", "\r\n"]),
    packed=st.booleans(),
)
def test_records_are_whole_and_complete(rows, size, end, packed):
    text = written([("first", "second"), *rows], end)
    data = gzip.compress(text.encode()) if packed else text.encode()
    found = cut(data, max(size, 2))
    assert b"".join([found[0].header, *(chunk.data for chunk in found)]).decode() == text
    assert [row for chunk in found for row in records(chunk.data.decode())] == [list(row) for row in rows]
    places = [chunk.line(row) for chunk in found for row in range(len(records(chunk.data.decode())))]
    reader = csv.reader(io.StringIO(text, newline=""))
    # Python counts a lone carriage return as the end of a line, editors and this library do not.
    if "\r" not in text.replace("\r\n", ""):
        assert places == [reader.line_num for _ in reader][1:]


@pytest.mark.parametrize("size", [1, 2, 5, 100])
def test_byte_order_mark_empty_lines_and_a_missing_end(size):
    for header in (b"a,b\n", b"\xef\xbb\xbfa,b\n", b"\n\r\na,b\n"):
        found = cut(header + b"1,2\n3,4", size)
        assert {chunk.header for chunk in found} == {b"a,b\n"}
        assert b"".join(chunk.data for chunk in found) == b"1,2\n3,4\n"
        assert found[-1].line(found[-1].data.count(b"\n") - 1) == 3 + 2 * header.startswith(b"\n")
        assert b"".join(chunk.data for chunk in cut(header + b"1,2\n\n\r\n\n", size)) == b"1,2\n"


@pytest.mark.parametrize("size", [1, 3, 100])
def test_a_header_alone_is_a_chunk_and_nothing_is_none(size):
    for text in (b"a,b", b"a,b\n", b"a,b\r\n\r\n"):
        (found,) = cut(text, size)
        assert (found.header.strip(), found.data) == (b"a,b", b"")
    assert cut(b"", size) == cut(b"\n\n", size) == []


@pytest.mark.parametrize("size", [1, 8, 1000])
def test_a_quote_that_never_ends(size):
    with pytest.raises(SourceDamaged, match="log, line 3: a quote that is opened here never ends"):
        cut(b'a,b\n1,2\n3,"4\n' + b"5,6\n" * 10, size)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(text_chunks, "LONGEST_RECORD", 20)
        with pytest.raises(SourceDamaged, match="line 3: a quote"):
            cut(b'a,b\n1,2\n3,"4\n' + b"5,6\n" * 1000, 8)
        patch.setattr(text_chunks, "LONGEST_RECORD", 1 << 20)
        with pytest.raises(SourceDamaged, match="line 3: a line of more than 1 MiB"):
            cut(b"a,b\n1,2\n3," + b"4" * (2 << 20), 1 << 19)


@pytest.mark.parametrize("kept", [3, 20, -5])
def test_gzip_that_ends_early(kept):
    packed = gzip.compress(b"a,b\n" + b"1,2\n" * 50)
    with pytest.raises(SourceDamaged, match="gzip ends early or is damaged"):
        cut(packed[:kept], 100)


def test_gzip_that_was_changed():
    packed = bytearray(gzip.compress(bytes(range(256)) * 50, mtime=0))
    packed[40] ^= 255
    with pytest.raises(SourceDamaged, match="gzip ends early or is damaged"):
        cut(bytes(packed), 100)


def test_lines_of_json_are_not_records():
    data = b'{"a": "one quote \\" only"}\n\n{"a": 2}\n'
    found = cut(data, 5, header=False)
    assert b"".join(chunk.data for chunk in found) == data
    (whole,) = cut(data, 1000, header=False)
    assert (whole.line(0), whole.line(1)) == (1, 3)


def test_a_field_longer_than_pythons_reader_takes_still_has_a_place():
    (found,) = cut(b'a,b\n1,"' + b"x" * 200_000 + b'"\n', 1 << 20)
    limit = csv.field_size_limit()
    assert found.line(0) == 2
    assert found.damage() is None
    assert csv.field_size_limit() == limit


def rows_with_quotes(opened, closed, *, rows=1000):
    """Return a log whose free text has one stray quote at the beginning of a cell and another at the end of a later."""
    texts = {opened: '"5 inches', closed: '5"'}
    lines = [f"2026-01-{1 + i % 28:02},p{i},{texts.get(i, 'a note')}\n" for i in range(rows)]
    return ("when,who,note\n" + "".join(lines)).encode()


def read(tmp_path, content, columns=("when",)):
    path, notes = tmp_path / "log.csv", []
    path.write_bytes(content)
    frames = [table.frame for table in tables([str(path)], columns, note=notes.append)]
    return sum(frame.height for frame in frames), notes


def test_a_pair_of_stray_quotes_swallows_no_rows_without_a_word(tmp_path):
    """The column of free text is not read; before, 600 of 1,000 rows were counted and nothing was said."""
    with pytest.raises(SourceDamaged, match=r"log.csv, line 202: a quoted cell begins here and has 401 lines"):
        read(tmp_path, rows_with_quotes(200, 600))
    rows, notes = read(tmp_path, rows_with_quotes(200, 204))
    assert rows == 996
    assert len(notes) == 1
    assert "line 202: a quoted cell has 5 lines, which count as one row" in notes[0]


def test_cells_of_several_lines(tmp_path, monkeypatch):
    """Line breaks, commas and doubled quotes in a cell are text; the longest cell is found wherever pieces end."""
    long = "\n".join(["x, y", 'a ""quote""', "", *["z"] * 17])
    content = f'when,note\n2026-01-01,"{long}"\n2026-01-02,"b\nc"\n2026-01-03,d\n'.encode()
    rows, notes = read(tmp_path, content)
    assert rows == 3
    assert [note.split(": ", 1)[1].split(",")[0] for note in notes] == ["a quoted cell has 20 lines"]
    with pytest.raises(SourceDamaged, match="line 2: a quoted cell begins here and has 21 lines"):
        read(tmp_path, content.replace(b"z\n", b"z\nz\n", 1))
    monkeypatch.setattr(text_chunks, "CHUNK_BYTES", 16)
    assert read(tmp_path, content)[0] == 3
    assert read(tmp_path, b'"when",note\n2026-01-01,"plain"\n') == (1, [])
