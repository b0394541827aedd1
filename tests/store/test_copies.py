"""Old backups and copies: refused where it can be known, with the ways out."""

import shutil

import pytest

import dpstream as dp
from dpstream.errors import KeyFileMissing, StoreCopied, StoreError, StoreLost, StoreOutdated, StreamRetired

from .conftest import copy_of, everything, visits


def feed(path, inputs, name="visits", **settings):
    with dp.Store(path, **settings) as store:
        counter = visits(store, name)
        return [counter.add(x) for x in inputs]


def put_back(backup, path):
    """Replace the database, and only that, by its backup."""
    for file in path.parent.glob("counts.db*"):
        if file.name in ("counts.db", "counts.db-wal", "counts.db-shm"):
            file.unlink()
    shutil.copy(backup, path)
    if backup.with_name("counts.db-wal").exists():
        shutil.copy(backup.with_name("counts.db-wal"), path.with_name("counts.db-wal"))


def test_a_backup_from_before_the_last_open_is_refused(path):
    old = feed(path, [1, 1])
    backup = copy_of(path, path.parent / "backup")
    feed(path, [1])
    put_back(backup, path)
    before = everything(path)
    with dp.Store(path) as store:
        with pytest.raises(StoreOutdated, match=r"is at opening 1, but its witness counted 2.*retire"):
            visits(store)
        assert [r.value for r in store.releases("visits")] == old
    assert everything(path) == before


def test_a_backup_from_within_the_last_open_is_refused(path):
    """The generation is the same: only the steps tell."""
    with dp.Store(path) as store:
        counter = visits(store)
        counter.add(1)
        backup = copy_of(path, path.parent / "backup")
        counter.add(1)
    put_back(backup, path)
    with dp.Store(path) as store, pytest.raises(StoreOutdated, match="stands at step 1, but step 2 was released"):
        visits(store)


def test_a_current_backup_goes_on(path):
    feed(path, [1, 1])
    backup = copy_of(path, path.parent / "backup")
    put_back(backup, path)
    assert len(feed(path, [1])) == 1


def test_the_ways_out(path):
    old = feed(path, [1, 1])
    backup = copy_of(path, path.parent / "backup")
    lost = feed(path, [1, 1, 1])
    put_back(backup, path)
    with dp.Store(path) as store:
        store.retire("visits")
        assert [r.value for r in store.releases("visits")] == old
        with pytest.raises(StreamRetired):
            visits(store)
        fresh = visits(store, "visits, second try")
        assert fresh.t == 0
        assert [fresh.add(1) for _ in range(5)] != old + lost
        assert store.spent().rho == 1.0
    put_back(backup, path)  # and again: it stays retired
    with dp.Store(path) as store, pytest.raises(StreamRetired):
        visits(store)


def test_a_backup_from_before_the_stream_was_made_is_refused(path):
    feed(path, [1], "first")
    backup = copy_of(path, path.parent / "backup")
    feed(path, [1], "second")
    put_back(backup, path)
    with dp.Store(path) as store:
        with pytest.raises(StoreOutdated, match="another one of this name"):
            visits(store, "second")
        assert [info.name for info in store.streams()] == ["first"]
        assert visits(store, "first").t == 1


def test_a_copy_of_everything_is_refused_until_it_is_adopted(path):
    feed(path, [1, 1])
    copy = copy_of(path, path.parent / "copy")
    before = everything(copy)
    with pytest.raises(StoreCopied, match="adopt=True"):
        dp.Store(copy)
    assert everything(copy) == before
    feed(copy, [1], adopt=True)
    feed(copy, [1])
    feed(path, [1])  # the original knows nothing of it: docs/store.md says so


def test_a_renamed_store_is_still_itself(path):
    feed(path, [1])
    moved = path.parent / "moved"
    moved.mkdir()
    for file in path.parent.glob("counts.db*"):
        file.rename(moved / file.name)
    assert len(feed(moved / "counts.db", [1])) == 1


@pytest.mark.parametrize(
    ("missing", "error"),
    [("counts.db", StoreLost), ("counts.db.witness", StoreLost), ("counts.db.key", KeyFileMissing)],
)
def test_a_part_of_a_store_is_refused(path, missing, error):
    feed(path, [1])
    path.with_name(missing).unlink()
    before = everything(path)
    with pytest.raises(error, match="missing"):
        dp.Store(path)
    assert everything(path) == before


def test_a_witness_of_another_store_is_refused(path):
    feed(path, [1])
    other = path.parent / "other"
    other.mkdir()
    feed(other / "counts.db", [1])
    shutil.copy(other / "counts.db.witness", path.with_name("counts.db.witness"))
    with pytest.raises(StoreError):
        dp.Store(path)


def test_an_old_witness_is_refused(path):
    feed(path, [1])
    old = path.with_name("counts.db.witness").read_bytes()
    for _ in range(3):
        feed(path, [1])
    with path.with_name("counts.db.witness").open("r+b") as file:  # in place, so that it is not a copy
        file.write(old)
    with dp.Store(path) as store, pytest.raises(StoreOutdated):
        visits(store)
