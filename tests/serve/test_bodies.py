"""Bodies of events: read as they are meant, or refused; never something in between."""

import contextlib
import csv
import io
import json

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from dpstream.errors import ColumnMissing, EventsUnreadable
from dpstream.serve.bodies import read_events

COLUMNS = ["when", "ward"]


@pytest.mark.parametrize("header", ["when,ward\n", '"when",ward\n', "ward,when\r\n"])
@pytest.mark.parametrize(
    "rows",
    [
        '"2026-11-18T08:00:00Z,north\n2026-11-18T08:00:01Z,south\n2026-11-18T08:00:02Z,west\n',
        '2026-11-18,"north\n2026-11-19,south\n',
        '2026-11-18,north\n"2026-11-19,south\n2026-11-20,west',
        '2026-11-18,"north" and south\n',
        '2026-11-18,"north\n2026-11-19,"south\n',
        '"',
    ],
)
def test_stray_quotes_of_csv(header, rows):
    """The first of these was answered 200 with no rows: three events were gone."""
    with pytest.raises(EventsUnreadable, match="a quote is opened and not closed, or stray"):
        read_events((header + rows).encode(), "csv", COLUMNS)


@given(st.lists(st.sampled_from(['"', '"', ",", "\n", "\r\n", "a", " ", '""', "é"]), max_size=16))
@example(['"', "a", "\n", "a", ",", "a", "\n"])
def test_csv_means_what_the_standard_library_says(pieces):
    text = "when,ward\n" + "".join(pieces)
    try:
        found = read_events(text.encode(), "csv", COLUMNS).rows()
    except EventsUnreadable:
        return
    records = [record for record in csv.reader(io.StringIO(text, newline=""), strict=True) if any(record)][1:]
    assert [[cell or "" for cell in row] for row in found if any(row)] == [[*row, ""][:2] for row in records]


@pytest.mark.parametrize(
    ("body", "form", "words"),
    [
        ("when,ward,when\n2026-01-01,a,2026-01-02\n", "csv", "'when' more than once"),
        ('[{"when": "2026-01-01", "when": "2026-01-02"}]', "json", "'when' more than once"),
        ('[{"when": "2026-01-01", "wh\\u0065n": "2026-01-01"}]', "json", "'when' more than once"),
        ('{"events": [], "events": [{"when": "2026-01-01"}]}', "json", "'events' more than once"),
        ('{"when": "2026-01-01"}\n{"when": "2026-01-01", "ward": "a", "ward": null}', "jsonl", "'ward' more than once"),
    ],
)
def test_a_column_that_comes_twice(body, form, words):
    """Which of the two is meant cannot be known."""
    with pytest.raises(EventsUnreadable, match=words):
        read_events(body.encode(), form, COLUMNS)


def test_other_fields_may_come_twice():
    body = b'[{"when": "2026-01-01", "a": 1, "a": 2}]'
    assert read_events(body, "json", COLUMNS).rows() == [("2026-01-01",)]
    assert read_events(b"when,a,ward,a\n2026-01-01,1,x,2\n", "csv", COLUMNS).rows() == [("2026-01-01", "x")]


@pytest.mark.parametrize("inside", ["\u2028", "\u2029", "\x85", "\x1c", "\v", "\f"])
def test_lines_of_json_end_at_line_feeds_only(inside):
    """Python's splitlines knows ten other ends, which stand in texts of people."""
    lines = [json.dumps({"when": "2026-01-01", "ward": f"a{inside}b"}, ensure_ascii=False) for _ in range(2)]
    found = read_events("\r\n".join(lines).encode(), "jsonl", COLUMNS)
    assert found["ward"].to_list() == [f"a{inside}b"] * 2


@given(st.one_of(st.binary(max_size=60), st.text(max_size=60).map(lambda text: text.encode("utf-8", "surrogatepass"))))
@example(b"\x00")
@example(b"\xef\xbb\xbfwhen,ward\n2026-01-01,a\n")
@example(b"\xff\xfew\x00")
@example(b"when,ward\r2026-01-01,a\r")
def test_whatever_comes_is_read_or_refused(body):
    for form in ("json", "jsonl", "csv"):
        with contextlib.suppress(EventsUnreadable, ColumnMissing):
            read_events(body, form, COLUMNS)


json_values = st.recursive(
    st.one_of(st.none(), st.booleans(), st.integers(), st.floats(), st.text(st.characters())),
    lambda inner: st.one_of(st.lists(inner, max_size=3), st.dictionaries(st.sampled_from(COLUMNS), inner, max_size=2)),
    max_leaves=5,
)


@given(st.lists(st.dictionaries(st.sampled_from([*COLUMNS, "more"]), json_values), max_size=4))
@example([{"when": "\ud83d"}])
def test_whatever_objects_come_are_read_or_refused(events):
    for form, body in (("json", json.dumps(events)), ("jsonl", "\n".join(map(json.dumps, events)))):
        with contextlib.suppress(EventsUnreadable):
            assert read_events(body.encode(), form, COLUMNS).height in (len(events), 0)
