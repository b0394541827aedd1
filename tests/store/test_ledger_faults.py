"""Open steps under full disks, flipped bits, interrupts, forks and threads: each row once, or a named error."""

import os
import resource
import shutil
import tempfile
from pathlib import Path

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import dpstream as dp
from dpstream.errors import ForkedStore, KeyLengthError, StoreError, StoreFull, StoreNotWritten

from .conftest import RAM, copy_of, visits
from .test_faults import EXAMPLES, in_a_child
from .test_threads import at_once, eager_threads  # noqa: F401

pytestmark = pytest.mark.filterwarnings("ignore:.*use of fork:DeprecationWarning")


def wide(store, **more):
    return visits(store, per_person=50, per_step=None, rows_per_person=50, people=100, open_steps=20, **more)


def test_a_full_disk(path):
    with dp.Store(path) as store:
        counter = wide(store)
        counter.ingest(1, [1, 1], through=1, contributions={1: 2}, batch=b"a")
        soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
        size = path.with_name("counts.db-wal").stat().st_size
        resource.setrlimit(resource.RLIMIT_FSIZE, (size + 2000, hard))
        try:
            for _ in range(3):
                with pytest.raises((StoreFull, StoreNotWritten)):
                    counter.ingest(1, [5, 5], through=1, contributions={1: 10}, batch=b"b")
                with pytest.raises((StoreFull, StoreNotWritten)):
                    counter.release_through(2)
        finally:
            resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))
        assert counter.t == 0
        assert not counter.knows_batch(b"b")
        assert counter.contribution_limit().take("x", 1) == 1
        counter.ingest(1, [5, 5], through=1, contributions={1: 10}, batch=b"b")
        counter.release_through(2)
        assert store.true_data.inputs("visits", 1, 2).tolist() == [6, 6]
        store.check_seals()


@pytest.mark.parametrize("where", ["before", "between", "after"])
def test_an_interrupt_around_a_commit(path, monkeypatch, where):
    """Ctrl-C anywhere: the batch was taken or it was not, and giving it again counts it once."""
    target = {
        "before": "dpstream.store.lease.Lease.move",
        "between": "dpstream.store.durable_streams.write_people",
        "after": "dpstream.store.witness.Witness.mark",
    }[where]

    def interrupted(*_):
        raise KeyboardInterrupt

    with dp.Store(path) as store:
        counter = wide(store)
        with monkeypatch.context() as patched:
            patched.setattr(target, interrupted)
            with pytest.raises(KeyboardInterrupt):
                counter.ingest(1, [3], through=1, contributions={7: 3}, batch=b"a")
        again = counter.ingest(1, [3], through=1, contributions={7: 3}, batch=b"a")
        assert again.new == (where != "after")
        counter.release_through(1)
        assert store.true_data.inputs("visits", 1, 1).tolist() == [3]
        assert store.verify("visits").ok


@pytest.fixture(scope="module")
def template():
    """A small store with open steps, closed, and what it must release next."""
    folder = Path(tempfile.mkdtemp(dir=RAM if os.access(RAM, os.W_OK) else None))
    with dp.Store(folder / "counts.db") as store:
        counter = wide(store)
        counter.ingest(1, [1, 2, 3], through=3, contributions={5: 6}, batch=b"a")
        counter.release_through(1)
    copy = copy_of(folder / "counts.db", folder / "whole")
    with dp.Store(copy, adopt=True) as store:
        following = wide(store).release_through(5).tolist()
    yield folder, following
    shutil.rmtree(folder)


@settings(
    max_examples=EXAMPLES // 4, deadline=None, suppress_health_check=list(HealthCheck), database=None, derandomize=True
)
@given(data=st.data())
def test_flipped_bits(template, data):
    """Whatever bit is wrong: the true values, or a named error."""
    folder, following = template
    name = data.draw(st.sampled_from(["counts.db", "counts.db", "counts.db", "counts.db.witness"]))
    content = bytearray((folder / name).read_bytes())
    places = [i for i, byte in enumerate(content) if byte]
    for _ in range(data.draw(st.integers(1, 3))):
        content[data.draw(st.sampled_from(places))] ^= 1 << data.draw(st.integers(0, 7))
    with tempfile.TemporaryDirectory(dir=folder.parent) as copied:
        copy = copy_of(folder / "counts.db", Path(copied) / "copy")
        copy.with_name(name).write_bytes(content)
        try:
            with dp.Store(copy, adopt=True) as store:
                counter = wide(store)
                assert not counter.ingest(2, [9], through=3, contributions={5: 6}, batch=b"a").new
                assert counter.release_through(5).tolist() == following
        except (StoreError, KeyLengthError):
            pass  # named; anything else fails


def test_a_forked_child_is_refused(path):
    with dp.Store(path) as store:
        counter = wide(store)
        counter.ingest(1, [1], through=1, contributions={1: 1})

        def refused(call):
            try:
                call()
            except ForkedStore:
                return True
            return False

        for call in (
            lambda: counter.ingest(1, [1], through=1, contributions={1: 1}),
            lambda: counter.release_through(1),
            lambda: counter.knows_batch(b"a"),
            lambda: store.true_data.open_steps("visits", 1, 1),
        ):
            assert in_a_child(lambda call=call: not refused(call)) == 0
        counter.release_through(1)
        assert store.true_data.inputs("visits", 1, 1).tolist() == [1]


def test_threads_take_turns(path):
    """Some ingest, some of them the same batches, and one releases: each batch is counted once."""
    with dp.Store(path) as store:
        counter = visits(store, per_step=None, open_steps=200)
        added = []

        def ingest(first):
            for i in range(first, first + 20):
                found = counter.ingest(150, [1], through=100, batch=b"%d" % i)
                added.append(found.new)

        def release():
            for step in range(1, 30):
                counter.release_through(step)

        at_once(lambda: ingest(0), lambda: ingest(10), lambda: ingest(0), release)
        assert sum(added) == 30
        assert len(added) == 60
        assert store.true_data.open_steps("visits", 150, 150).tallies.tolist() == [30]
        assert counter.t == 29
        assert np.all(store.true_data.inputs("visits", 1, 29) == 0)
        assert store.verify("visits").ok
