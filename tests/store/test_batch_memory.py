"""Many batches in one commit, recognised when they come again, and nothing in the file of how many there were."""

import sqlite3

import numpy as np
import pytest

import dpstream as dp
from dpstream.errors import BatchConflict, InvalidArgument
from dpstream.store import batch_memory
from dpstream.store.batch_memory import BatchMemory


def visits(store):
    return store.counter("visits", 1000, dp.zcdp(0.5), open_steps=5)


def ingest(counter, names, *, places=4, kept=10, total=None):
    return counter.ingest_batches(
        counter.t + 1,
        [len(names) if total is None else total],
        through=1,
        batches=[(name, b"rows of " + name) for name in names],
        places=places,
        kept=kept,
    )


def test_batches_share_a_commit_and_are_recognised(tmp_path):
    with dp.Store(tmp_path / "counts.db") as store:
        counter = visits(store)
        assert ingest(counter, [b"a", b"b", b"c"]).new
        assert store._row("visits").ingests == 1
    with dp.Store(tmp_path / "counts.db") as store:
        counter = visits(store)
        assert [counter.knows_batch(name, b"rows of " + name) for name in (b"a", b"b", b"c", b"d")] == [True] * 3 + [
            False
        ]
        with pytest.raises(BatchConflict, match="with other rows"):
            counter.knows_batch(b"b", b"other rows")
        for names in ([b"d", b"a"], [b"d", b"d"]):
            with pytest.raises(InvalidArgument, match="new ones, each once"):
                ingest(counter, names)
        with pytest.raises(InvalidArgument, match="at most 4, as many as there are places"):
            ingest(counter, [b"1", b"2", b"3", b"4", b"5"])
        assert not counter.knows_batch(b"1", b"rows of 1")
        assert ingest(counter, [b"d"]).new
        assert store.true_data.open_steps("visits").tallies[0] == 4
        store.check_seals()


def test_as_many_commits_are_kept_as_were_asked_for(tmp_path, monkeypatch):
    monkeypatch.setattr(batch_memory, "INGESTS_KEPT", 2)
    with dp.Store(tmp_path / "counts.db") as store:
        counter = visits(store)
        for i in range(8):
            ingest(counter, [b"%d" % i], kept=5)
        assert [i for i in range(8) if counter.knows_batch(b"%d" % i, b"rows of %d" % i)] == [3, 4, 5, 6, 7]
        # Another way of ingesting keeps as many as there are; commits without batches count, too.
        counter.ingest(1, [1], through=1, batch=b"file")
        ingest(counter, [], kept=5)
    with dp.Store(tmp_path / "counts.db") as store:
        counter = visits(store)
        assert [i for i in range(8) if counter.knows_batch(b"%d" % i, b"rows of %d" % i)] == [5, 6, 7]
        assert counter.knows_batch(b"file")
        store.check_seals()


def test_the_file_does_not_show_how_many_batches_came(tmp_path):
    shapes = []
    for folder, sizes in (("one", [0, 0, 0]), ("other", [4, 1, 3])):
        (tmp_path / folder).mkdir()
        path = tmp_path / folder / "counts.db"
        with dp.Store(path) as store:
            counter = visits(store)
            for i, size in enumerate(sizes):
                ingest(counter, [b"%d %d" % (i, j) for j in range(size)])
        connection = sqlite3.connect(path)
        shapes.append(connection.execute("SELECT stream, ingest, length(sealed) FROM ingested_batches").fetchall())
        connection.close()
    assert shapes[0] == shapes[1]
    assert len(shapes[0]) == 3


def test_memory_takes_few_bytes_and_forgets(monkeypatch):
    monkeypatch.setattr(batch_memory, "UNSORTED", 64)
    memory, generator = BatchMemory(), np.random.default_rng(5)
    names = [generator.bytes(16) for _ in range(1000)]
    for i in range(100):
        memory.add(i + 1, names[10 * i : 10 * i + 10], max(1, i - 49))
    assert [memory.knows(name) for name in names] == [False] * 490 + [True] * 510
    assert len(memory._table) + len(memory._newest) < 650
    # A name that was forgotten may come again.
    memory.add(101, names[:1], 51)
    assert memory.knows(names[0])
    with pytest.raises(BatchConflict):
        memory.knows(names[600][:8] + bytes(8))
