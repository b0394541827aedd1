"""Events as they are sent: JSON, JSON lines or CSV, turned into a frame of text columns, as files are read."""

from __future__ import annotations

import csv
import io
import json
from collections import deque
from collections.abc import Sequence
from typing import Any

import polars as pl

from dpstream.errors import EventsUnreadable, SourceDamaged, SourceMissing
from dpstream.events.tables import records
from dpstream.events.text_chunks import chunks

__all__ = ["MOST_ROWS", "TYPES", "read_events"]

#: The media types that are taken, and what each is called here.
TYPES = {
    "application/json": "json",
    "application/x-ndjson": "jsonl",
    "application/jsonl": "jsonl",
    "application/x-jsonlines": "jsonl",
    "text/csv": "csv",
}
#: So many events in one batch.
MOST_ROWS = 10_000


def read_events(body: bytes, form: str, columns: Sequence[str]) -> pl.DataFrame:
    """Return the events of a body as a frame, with those of `columns` that are there, all of them text.

    Parameters
    ----------
    body, form
        What was sent, and how it is written: a value of `TYPES`. JSON is a list of objects, or an object whose
        `events` is one; JSON lines are an object a line; CSV has a header and commas.
    columns
        What to read; other fields are left out. An object without one of them has an empty cell there.

    Raises
    ------
    EventsUnreadable
        If the body is not of this form, or has more than 10,000 events.

    Examples
    --------
    >>> read_events(b'[{"when": "2026-01-02", "ward": 7}, {"when": null, "more": 1}]', "json", ["when", "ward"]).rows()
    [('2026-01-02', '7'), (None, None)]
    """
    if form == "csv":
        return _from_csv(body, columns)
    try:
        text = body.decode("utf-8")
        if form == "json":
            found = _parsed(text, columns)
            events = found.get("events") if isinstance(found, dict) else found
        else:
            # At line feeds only: texts may hold other characters that Python would take for the end of a line.
            events = [_parsed(line, columns) for line in text.split("\n") if line.strip()]
    except (ValueError, RecursionError) as error:
        raise EventsUnreadable(form=_said(form), reason=_reason(error)) from None
    if not isinstance(events, list) or not all(isinstance(event, dict) for event in events):
        raise EventsUnreadable(form=_said(form), reason="it must be a list of objects, one for each event")
    _check_number(len(events))
    present = [name for name in columns if any(name in event for event in events)] if events else list(columns)
    return pl.DataFrame([_column(name, events, form) for name in present])


def _parsed(text: str, columns: Sequence[str]) -> Any:
    """Return what JSON says; refuse an object that gives a column twice: which of the two is meant cannot be known."""

    def once(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
        made = dict(pairs)
        if len(made) < len(pairs):
            keys = [key for key, _ in pairs]
            twice = next((name for name in (*columns, "events") if keys.count(name) > 1), None)
            if twice is not None:
                raise ValueError(f"an object gives {twice!r} more than once")
        return made

    return json.loads(text, parse_constant=_no_number, object_pairs_hook=once)


def _column(name: str, events: list[dict[str, Any]], form: str) -> pl.Series:
    try:
        return pl.Series(name, [_text(event.get(name), name) for event in events], dtype=pl.String)
    except UnicodeEncodeError:  # what JavaScript sends of a text that was cut inside an emoji
        reason = f"the field {name!r} has half of a character (a lone surrogate); cut texts between characters"
        raise EventsUnreadable(form=_said(form), reason=reason) from None


def _from_csv(body: bytes, columns: Sequence[str]) -> pl.DataFrame:
    """Read CSV as files are read, with the same refusals (columns twice, too many fields), and sound quotes only."""
    try:
        text = body.decode("utf-8")
        if '"' in text:  # Polars takes what stands after a stray quote, lines included, for a part of the cell
            deque(csv.reader(io.StringIO(text, newline=""), strict=True), maxlen=0)
        found = [table.frame for table in records(chunks(io.BytesIO(body), "it", header=True), "the batch", columns)]
    except UnicodeDecodeError as error:
        raise EventsUnreadable(form="CSV", reason=_reason(error)) from None
    except csv.Error as error:
        raise EventsUnreadable(form="CSV", reason=f"a quote is opened and not closed, or stray ({error})") from None
    except (SourceDamaged, SourceMissing) as error:
        raise EventsUnreadable(form="CSV", reason=str(error)) from None
    frame = pl.concat(found) if found else pl.DataFrame(schema=dict.fromkeys(columns, pl.String))
    _check_number(frame.height)
    return frame


def _check_number(rows: int) -> None:
    if rows > MOST_ROWS:
        raise EventsUnreadable(form="a batch", reason=f"it has more than {MOST_ROWS:,} events; send several batches")


def _text(value: Any, column: str) -> str | None:
    """A value of JSON as a cell of a file has it."""
    if value is None or isinstance(value, str):
        return value
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, (int, float)):
        return repr(value)
    raise EventsUnreadable(form="JSON", reason=f"the field {column!r} must be a text, a number or null")


def _no_number(word: str) -> Any:
    raise ValueError(f"{word} is no number of JSON")


def _reason(error: Exception) -> str:
    if isinstance(error, UnicodeDecodeError):
        return "it is not UTF-8"
    return "it is nested too deeply" if isinstance(error, RecursionError) else str(error)[:200]


def _said(form: str) -> str:
    return {"json": "JSON", "jsonl": "JSON lines", "csv": "CSV"}[form]
