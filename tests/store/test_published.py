"""Releases in clear: what the key-less reader sees is what was released, and nothing before it is committed."""

import os
import shutil
import signal
import sqlite3
import threading

import numpy as np
import pytest

import dpstream as dp
from dpstream.errors import InvalidArgument, NotAStore, StoreDamaged, StoreFull, StoreTooNew, StreamUnknown
from dpstream.mechanisms import SmoothBinary
from dpstream.store import PublishedStore, published

from .conftest import BUDGET, everything, visits


@pytest.mark.parametrize("values", [1, 5, 512])
def test_it_shows_what_was_released(path, monkeypatch, values):
    monkeypatch.setattr(published, "PART_VALUES", values)
    chance = np.random.default_rng(3)
    for _ in range(4):
        with dp.Store(path) as store:
            one, many = visits(store), visits(store, "many", shape=(2, 2), per_step=None)
            for count in chance.integers(0, 12, 5):
                one.extend(chance.integers(-1, 2, count))
                many.extend(chance.integers(-1, 2, (count, 2, 2)))
            page = PublishedStore(path)  # while it is being written
            for name in ("visits", "many"):
                np.testing.assert_array_equal(page.releases(name), [r.value for r in store.releases(name)])
            store.check_seals()
    page = PublishedStore(path)
    with dp.Store(path) as store:
        np.testing.assert_array_equal(page.releases("many"), store.release_values("many"))
        t = visits(store).t
        assert [(info.name, info.t, info.horizon) for info in page.streams()] == [
            ("visits", t, 1000),
            ("many", t, 1000),
        ]
        assert page.streams() == store.streams()
        assert page.settings("many") == store.settings("many")
        for first, last in ((1, 1), (7, 7), (3, 9), (5, 4), (t, t), (t + 1, t)):
            expected = [r.value for r in store.releases("many")][first - 1 : last]
            np.testing.assert_array_equal(page.releases("many", first, last), np.reshape(expected, (-1, 2, 2)))
            np.testing.assert_array_equal(store.release_values("many", first, last), np.reshape(expected, (-1, 2, 2)))
        np.testing.assert_array_equal(page.releases("many", 7), store.release_values("many", 7))
        assert page.releases("many", t + 5).shape == store.release_values("many", t + 5).shape == (0, 2, 2)
        for reader in (page.releases, store.release_values):
            for wrong in ((1, t + 1), (0, 5), (5, 3)):
                with pytest.raises(InvalidArgument):
                    reader("many", *wrong)


def test_only_counters_are_published(path):
    with dp.Store(path) as store:
        total = store.running_sum("energy", 1000, BUDGET, shape=3, mechanism=SmoothBinary(1000))
        total.add(np.zeros(3, dtype=np.float32))
        assert store._files.database.rows("SELECT * FROM published") == []
        assert PublishedStore(path).streams() == []
        with pytest.raises(StreamUnknown):
            PublishedStore(path).releases("energy")


# -- without a key, a witness, or the right to write ------------------------------------------------------------------


def test_the_database_alone_is_enough(path, tmp_path):
    with dp.Store(path) as store:
        released = visits(store).extend([1, 2, 3])
    alone = tmp_path / "alone"
    alone.mkdir()
    shutil.copy(path, alone / "page.db")
    before = everything(alone / "page.db")
    np.testing.assert_array_equal(PublishedStore(alone / "page.db").releases("visits"), released)
    assert everything(alone / "page.db") == before


class Stranger:
    """A process of somebody who may read the files and write nothing: it answers what the published releases are."""

    def __init__(self, path):
        asked, self._ask = os.pipe()
        self._answers, answer = os.pipe()
        self._pid = os.fork()  # before the store is opened here
        if self._pid == 0:
            try:
                if os.geteuid() == 0:
                    os.setgroups([])
                    os.setgid(65534)
                    os.setuid(65534)
                while os.read(asked, 1):
                    try:
                        page = PublishedStore(path)
                        found = repr((page.releases("visits").tolist(), page.streams()[0].t))
                    except Exception as error:
                        found = repr(error)
                    os.write(answer, found.encode())
            finally:
                os._exit(0)

    def look(self):
        os.write(self._ask, b"?")
        return os.read(self._answers, 1000).decode()

    def leave(self):
        os.close(self._ask)
        os.kill(self._pid, signal.SIGKILL)
        os.waitpid(self._pid, 0)


@pytest.mark.filterwarnings("ignore:.*use of fork:DeprecationWarning")
@pytest.mark.parametrize("writer", ["at work", "gone", "killed"])
def test_a_reader_who_may_not_write(path, writer):
    """He sees everything and leaves nothing behind that would keep the writer from writing."""
    stranger = Stranger(path)
    store = dp.Store(path)
    stream = visits(store)
    released = stream.extend([1, 2, 3]).tolist()
    if writer == "killed":  # its log and its shared memory stay
        left = {file: file.read_bytes() for file in path.parent.iterdir() if "witness" not in file.name}
    if writer != "at work":
        store.close()
    if writer == "killed":
        for file, content in left.items():
            file.write_bytes(content)
    for file in path.parent.iterdir():
        file.chmod(0o400 if file.name.endswith(".key") else 0o444)
    before = everything(path)
    for mode in (0o555, 0o777):
        path.parent.chmod(mode)
        assert stranger.look() == repr((released, 3))
        assert everything(path) == before
    stranger.leave()
    for file in path.parent.iterdir():
        file.chmod(0o600)
    if writer == "at work":
        stream.add(1)
        store.close()
    with dp.Store(path) as store:
        visits(store).add(1)


def test_readers_and_a_writer(path):
    """Whenever one looks, what is there is a beginning of what is released, and never less than a moment before."""
    store = dp.Store(path)
    stream = visits(store)
    failures, seen, stop = [], [], threading.Event()

    def look():
        try:
            last = 0
            while not stop.is_set():
                found = PublishedStore(path).releases("visits")
                assert len(found) >= last
                last = len(found)
                seen.append(found)
        except BaseException as error:
            failures.append(error)

    reader = threading.Thread(target=look)
    reader.start()
    for _ in range(6):
        for _ in range(20):
            stream.add(1)
        store.close()
        store = dp.Store(path)
        stream = visits(store)
    stop.set()
    reader.join()
    released = store.release_values("visits")
    store.close()
    assert not failures
    assert len(seen) > 10
    assert all((found == released[: len(found)]).all() for found in seen)


# -- damage and failures ----------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("statement", "finding"),
    [
        ("UPDATE published SET released = zeroblob(length(released)) WHERE part = 1", "is not the sealed one: steps 6"),
        ("DELETE FROM published WHERE part = 1", "missing"),
        ("UPDATE published SET part = 9 WHERE part = 2", "past its last step 14"),
        ("UPDATE published SET released = released || zeroblob(8) WHERE part = 2", "not as they were written"),
        ("UPDATE published SET released = zeroblob(40) WHERE part = 2", "past its last step 14"),
        ("UPDATE published SET released = zeroblob(8) WHERE part = 1", "missing"),
    ],
)
def test_edited_releases_are_found(path, monkeypatch, statement, finding):
    monkeypatch.setattr(published, "PART_VALUES", 5)
    with dp.Store(path) as store:
        visits(store).extend([1] * 14)
        store.check_seals()
    connection = sqlite3.connect(path)
    connection.execute(statement)
    connection.commit()
    connection.close()
    with dp.Store(path) as store:
        with pytest.raises(StoreDamaged, match="published"):
            store.check_seals()
        assert any(finding in found for found in store.verify("visits").findings)


def test_what_is_missing_is_published_when_the_stream_is_opened(path, monkeypatch):
    """A kill between the two commits, and a disk that is full for the second one: no step is lost on the caller."""
    monkeypatch.setattr(published, "PART_VALUES", 4)

    def fails(*_):
        raise StoreFull(path="x")

    with dp.Store(path) as store:
        stream = visits(store)
        stream.extend([1, 2, 3, 1, 2])
        with monkeypatch.context() as patched:
            patched.setattr(published.Publisher, "publish", fails)
            assert len(stream.extend([1, 1])) == 2
        assert PublishedStore(path).streams()[0].t == 5
        assert store.verify("visits").ok  # late, but not wrong
        stream.add(1)
        np.testing.assert_array_equal(PublishedStore(path).releases("visits"), store.release_values("visits"))
        with monkeypatch.context() as patched:
            patched.setattr(published.Publisher, "publish", fails)
            stream.extend([1] * 7)
    assert PublishedStore(path).streams()[0].t == 8
    with dp.Store(path) as store:
        visits(store)
        np.testing.assert_array_equal(PublishedStore(path).releases("visits"), store.release_values("visits"))
        assert store.verify("visits").ok


def test_nothing_is_published_that_is_not_committed(path, monkeypatch):
    def fails(*_):
        raise StoreFull(path="x")

    with dp.Store(path) as store:
        stream = visits(store)
        with monkeypatch.context() as patched:
            patched.setattr("dpstream.store.durable_stream.Lease.move", fails)
            with pytest.raises(StoreFull):
                stream.extend([1, 2])
        assert PublishedStore(path).releases("visits").tolist() == []
        stream.extend([3, 3])
        assert len(PublishedStore(path).releases("visits")) == 2


def test_what_is_no_store(path, tmp_path):
    with pytest.raises(NotAStore, match="there is no such file"):
        PublishedStore(path)
    assert not path.exists()
    (tmp_path / "text").write_text("hello")
    with pytest.raises(NotAStore):
        PublishedStore(tmp_path / "text")
    with dp.Store(path) as store:
        visits(store)
    page = PublishedStore(path)
    with pytest.raises(StreamUnknown):
        page.releases("other")
    with pytest.raises(StreamUnknown):
        page.settings("other")
    connection = sqlite3.connect(path)
    connection.execute("UPDATE streams SET configuration = '{'")
    connection.commit()
    with pytest.raises(StoreDamaged, match="cannot be read"):
        page.streams()
    connection.execute("PRAGMA user_version = 9")
    connection.close()
    with pytest.raises(StoreTooNew):
        page.streams()
    path.unlink()
    with pytest.raises(NotAStore):
        page.streams()
