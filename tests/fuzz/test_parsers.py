"""The fuzz targets under Hypothesis: a few hundred inputs each; .ci/run gives them to atheris for longer."""

import pytest
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st

from dpstream.events.row_rules import RowFilter
from dpstream.noise import saved_state

from . import targets
from .file_target import any_file
from .store_target import DamagedStore

#: Two bytes that say where, and one that says what; most of a store is empty, so more of them hit its beginning.
edits = st.builds(
    lambda place, what: place.to_bytes(2, "little") + bytes([what]),
    st.integers(0, 200) | st.integers(0, 30_000),
    st.integers(1, 255),
)


@pytest.mark.parametrize("target", targets.TARGETS, ids=lambda target: target.__name__)
@given(data=st.binary(max_size=400))
@example(data=b"")
@example(data=b"[" * 100_000)
@example(data=b'{"configuration": {}}')
@example(data=b"9" * 5000)
@example(data=b"\xff\xfe[")
@example(data=targets.SEALED)
@settings(max_examples=200, deadline=None, suppress_health_check=list(HealthCheck))
def test_parsers_refuse_what_they_did_not_write(target, data):
    target(data)


@pytest.fixture(scope="module")
def store():
    damaged = DamagedStore()
    yield damaged
    damaged.close()


@given(data=st.binary(max_size=1) | st.lists(edits, max_size=20).map(lambda parts: b"".join([bytes(1), *parts])))
@settings(max_examples=200, deadline=None, suppress_health_check=list(HealthCheck))
def test_a_damaged_store_is_refused_or_as_good_as_new(store, data):
    store(data)
    store(b"\1" + data[1:])


@given(data=st.lists(edits, max_size=5).flatmap(lambda parts: st.binary(min_size=1, max_size=1).map(
    lambda choice: b"".join([choice, *parts]))))  # fmt: skip
@settings(max_examples=60, deadline=None, suppress_health_check=list(HealthCheck))
def test_any_file_is_counted_or_refused(data):
    any_file(data)


def test_a_lost_row_is_noticed(monkeypatch):
    monkeypatch.setattr(RowFilter, "apply", lambda self, table: table.filter(table.frame["n"] == "1"))
    with pytest.raises(AssertionError, match="a row was neither counted nor said to be left out"):
        any_file(b"\0")


def test_a_parser_without_a_seal_is_noticed(monkeypatch):
    class NoSeal:
        def __init__(self, key):
            pass

        def decrypt(self, nonce, data, front):
            return bytes(100)

    monkeypatch.setattr(saved_state, "AESGCM", NoSeal)
    with pytest.raises(AssertionError, match="never sealed"):
        targets.damaged_state(bytes([len(targets.SEALED) - 1, 0, 1]))
