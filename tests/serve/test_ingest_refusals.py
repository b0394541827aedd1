"""Bad input over HTTP: a status, and words that say what to do."""

import datetime as dt

import pytest

import dpstream as dp
from dpstream.events import last_step
from dpstream.serve.intake import IntakeLimits

from .ingesting import Ingesting, begin

AT = dt.datetime(2026, 1, 1, 0, 30, tzinfo=dt.UTC)
EVENT = {"when": "2026-01-01T05:00Z", "who": "ann", "ward": "north"}


@pytest.fixture(scope="module")
def shared(tmp_path_factory):
    path = tmp_path_factory.mktemp("ingest") / "counts.db"
    token = begin(path)
    really, last_step.now = last_step.now, lambda: AT
    try:
        with Ingesting(path, token, IntakeLimits(body_bytes=2000, failures_a_second=1000)) as server:
            yield server
        with dp.Store(path) as store:
            assert not store.true_data.open_steps("visits").rows.any()
    finally:
        last_step.now = really


@pytest.mark.parametrize(
    ("events", "more", "status", "error", "words"),
    [
        ([EVENT], {"authorization": None}, 401, "TokenRefused", "Authorization: Bearer"),
        ([EVENT], {"token": "dpst_wrong"}, 401, "TokenRefused", "not one of this store"),
        ([EVENT], {"authorization": "Basic YTpi"}, 401, "TokenRefused", "not one of this store"),
        ([EVENT], {"stream": "nothing"}, 403, "TokenWithoutRight", "may not send"),
        ([EVENT], {"key": None}, 400, "IdempotencyKeyMissing", "such as a UUID"),
        ([EVENT], {"key": "x" * 201}, 400, "IdempotencyKeyMissing", "1 to 200"),
        (b"x", {"kind": "text/plain"}, 415, "MediaTypeUnknown", "application/json"),
        (b"x", {"kind": None}, 415, "MediaTypeUnknown", "application/json"),
        (b"[]", {"content-encoding": "gzip"}, 415, "MediaTypeUnknown", "without a Content-Encoding"),
        (b"x" * 3000, {}, 413, "BodyTooLarge", "at most 2,000 bytes"),
        (b"nonsense", {}, 422, "EventsUnreadable", "JSON cannot be read"),
        (b"\xff", {}, 422, "EventsUnreadable", "not UTF-8"),
        (b'{"a": 1}', {}, 422, "EventsUnreadable", "list of objects"),
        (b"[" * 1500, {}, 422, "EventsUnreadable", "JSON"),
        (b'[{"when": NaN}]', {}, 422, "EventsUnreadable", "NaN"),
        ([{"when": {"a": 1}}], {}, 422, "EventsUnreadable", "a text, a number or null"),
        (b"when,b\n1,2,3\n", {"kind": "text/csv"}, 422, "EventsUnreadable", "CSV"),
        (b"", {"kind": "text/csv"}, 422, "EventsUnreadable", "CSV"),
        ([{"who": "x"}], {}, 422, "ColumnMissing", "'when'"),
        ([EVENT, EVENT | {"when": "yesterday"}], {}, 422, "RowRefused", "row 2"),
        ([EVENT | {"when": None}], {}, 422, "RowRefused", "row 1"),
        ([EVENT | {"when": "2026-06-01"}], {}, 422, "RowsTooFarAhead", "2026-06-01"),
    ],
)
def test_refusals_say_what_to_do(shared, events, more, status, error, words):
    answer = shared.post(events, **{"key": "k"} | more)
    assert (answer.status_code, answer.json()["error"]) == (status, error), answer.text
    assert words in answer.json()["message"]
    assert answer.headers["x-content-type-options"] == "nosniff"
    assert "access-control-allow-origin" not in answer.headers
    if status == 401:
        assert answer.headers["www-authenticate"].startswith("Bearer")
