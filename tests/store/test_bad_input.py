"""Refused by name, and every file is as it was."""

import os
import sqlite3

import pytest

import dpstream as dp
from dpstream.errors import (
    DpstreamError,
    InvalidArgument,
    KeyFileDamaged,
    KeyFileExposed,
    KeyLengthError,
    NotAStore,
    StoreTooNew,
    StreamUnknown,
    WrongMasterKey,
)
from dpstream.release.settings import StreamSettings
from dpstream.store import database
from dpstream.store.master_key import ENVIRONMENT

from .conftest import BUDGET, everything, visits


@pytest.mark.parametrize("name", ["", "a\0b", "a\nb", "\x7f", "x" * 10_000, "x" * 201, "\ud800", None, 7, b"visits"])
def test_names_that_are_refused(path, name):
    with dp.Store(path) as store:
        before = everything(path)
        for use in (lambda: visits(store, name), lambda: store.releases(name), lambda: store.retire(name)):
            with pytest.raises(InvalidArgument, match="name must be") as caught:
                use()
            assert len(str(caught.value)) < 500
        assert everything(path) == before


@pytest.mark.parametrize("name", ["a/b", "../../etc/passwd", "x" * 200, "naïve ☂", "'; DROP TABLE streams; --", " "])
def test_names_that_are_fine(path, name):
    with dp.Store(path) as store:
        value = visits(store, name).add(1)
        assert store.releases(name) == [(1, None, value)]
    assert {f.name for f in path.parent.iterdir()} == {"counts.db", "counts.db.key", "counts.db.witness"}


def test_unknown_names(path):
    with dp.Store(path) as store, pytest.raises(StreamUnknown, match="nobody"):
        store.releases("nobody")


def other_database(file):
    connection = sqlite3.connect(file)
    connection.execute("CREATE TABLE precious (x)")
    connection.commit()
    connection.close()


@pytest.mark.parametrize(
    ("make", "found"),
    [
        (lambda p: p.mkdir(), "directory"),
        (other_database, "of something else"),
        (lambda p: p.write_bytes(b"not a database at all" * 20), "not an SQLite"),
        (lambda p: p.write_bytes(b"SQLite format 3\0"), "not an SQLite"),
        (lambda p: p.write_bytes(b""), "empty"),
    ],
)
def test_paths_that_are_something_else(path, make, found):
    make(path)
    before = everything(path)
    with pytest.raises(NotAStore, match=found):
        dp.Store(path)
    assert everything(path) == before


@pytest.mark.parametrize("bad", [None, 7, "", "a\0b", b"counts.db"])
def test_things_that_are_no_path(bad):
    with pytest.raises(InvalidArgument, match="path must be"):
        dp.Store(bad)


def test_a_directory_that_is_not_there(path):
    with pytest.raises(NotAStore, match="directory does not exist"):
        dp.Store(path.parent / "nowhere" / "counts.db")
    path.write_text("x")
    with pytest.raises(NotAStore, match="not a directory"):
        dp.Store(path / "counts.db")


# -- keys -------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("mode", [0o640, 0o604, 0o644, 0o660])
def test_an_exposed_key_file(path, mode):
    with dp.Store(path) as store:
        visits(store).add(1)
    key = path.with_name("counts.db.key")
    key.chmod(mode)
    before = everything(path)
    with pytest.raises(KeyFileExposed, match=f"chmod 600 {key}"):
        dp.Store(path)
    assert everything(path) == before
    key.chmod(0o600)
    with dp.Store(path) as store:
        assert visits(store).t == 1


@pytest.mark.parametrize(
    "content", ["", "dpstream-key-1 abcd\n", "dpstream-key-1 " + "g" * 64, "x" * 79, "dpstream-key-2 "]
)
def test_a_damaged_key_file(path, content):
    dp.Store(path).close()
    path.with_name("counts.db.key").write_text(content)
    before = everything(path)
    with pytest.raises(KeyFileDamaged) as caught:
        dp.Store(path)
    assert "abcd" not in str(caught.value)
    assert everything(path) == before


def test_a_key_file_that_is_a_directory(path):
    path.with_name("counts.db.key").mkdir()
    with pytest.raises(KeyFileDamaged):
        dp.Store(path)
    assert not path.exists()


def test_a_key_from_the_caller(path, monkeypatch):
    key = os.urandom(32)
    with dp.Store(path, master_key=key) as store:
        first = visits(store).add(1)
    assert not path.with_name("counts.db.key").exists()
    with dp.Store(path, master_key=lambda: key) as store:
        assert store.releases("visits")[0].value == first
    monkeypatch.setenv(ENVIRONMENT, key.hex())
    with dp.Store(path) as store:
        assert visits(store).t == 1
    before = everything(path)
    for wrong in (os.urandom(32), lambda: bytes(32)):
        with pytest.raises(WrongMasterKey) as caught:
            dp.Store(path, master_key=wrong)
        assert key.hex()[:8] not in str(caught.value)
    for short in (b"short", "text", lambda: None):
        with pytest.raises(KeyLengthError):
            dp.Store(path, master_key=short)
    monkeypatch.setenv(ENVIRONMENT, "00" * 31)
    with pytest.raises(KeyLengthError, match=ENVIRONMENT):
        dp.Store(path)
    monkeypatch.setenv(ENVIRONMENT, "00" * 32)
    with pytest.raises(WrongMasterKey):
        dp.Store(path)
    assert everything(path) == before


# -- formats ----------------------------------------------------------------------------------------------------------


def test_old_formats_are_brought_up_to_date_and_newer_ones_refused(path, monkeypatch):
    with dp.Store(path) as store:
        value = visits(store).add(1)
    later = (*database.MIGRATIONS, "ALTER TABLE streams ADD COLUMN note TEXT; -- later\nCREATE TABLE more (x);")
    with monkeypatch.context() as patched:
        patched.setattr(database, "MIGRATIONS", later)
        with dp.Store(path) as store:
            assert store.releases("visits") == [(1, None, value)]
            assert store._files.database.rows("SELECT note FROM streams") == [(None,)]
            visits(store).add(1)
    before = everything(path)
    with pytest.raises(StoreTooNew, match="format 2, but this dpstream knows formats up to 1"):
        dp.Store(path)
    assert everything(path) == before


def test_settings_of_a_later_version_are_refused(path):
    with dp.Store(path) as store:
        visits(store).close()
        home = store._files
        row = store._row("visits")
        more = row.configuration.replace("{", '{"also": 1, ', 1)
        with home.database.atomic() as connection:
            seal = home.seals.stream_seal("visits", row.tag, more)
            connection.execute("UPDATE streams SET configuration = ?, seal = ?", (more, seal))
        with pytest.raises(DpstreamError, match="settings that this dpstream does not know"):
            visits(store)


def test_refused_settings_touch_nothing(path):
    with dp.Store(path) as store:
        before = everything(path)
        for bad in (
            lambda: visits(store, horizon=0),
            lambda: visits(store, budget=3),
            lambda: visits(store, per_person=0.5),
            lambda: visits(store, mechanism="best"),
            lambda: store.running_sum("s", 10, BUDGET, shape=(0,)),
            lambda: store.releases("visits", since=-1),
        ):
            with pytest.raises(DpstreamError):
                bad()
        assert everything(path) == before
    with pytest.raises(InvalidArgument, match="budget must be"):
        dp.Store(path, limit=1.0)


def test_the_sums_of_a_store_cannot_be_pickled(path):
    import pickle

    with dp.Store(path) as store:
        for thing in (store, visits(store)):
            with pytest.raises(TypeError, match="cannot be pickled"):
                pickle.dumps(thing)


def test_settings_of_a_sum_make_no_counter(path):
    with dp.Store(path) as store:
        before = everything(path)
        for wrong in (StreamSettings.for_sum(9, BUDGET), {"horizon": 9}, None):
            with pytest.raises(InvalidArgument, match=r"settings must be what StreamSettings\.for_counter returned"):
                store.open_counter("visits", wrong)
        assert everything(path) == before
