"""Paths, pipes, devices and leftovers: one named error each, nothing left behind, and nothing waited for."""

import errno
import os
import signal
import socket
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor

import pytest

import dpstream as dp
from dpstream.errors import DpstreamError, InvalidArgument, KeyFileDamaged, NotAStore, StoreFull, StoreReadOnly
from dpstream.store import files
from dpstream.store.files import Draft, sweep

from .conftest import everything, visits


def names(path):
    return sorted(file.name for file in path.parent.iterdir())


@pytest.fixture(autouse=True)
def in_time():
    """What waits for a pipe would wait for ever."""
    signal.signal(signal.SIGALRM, signal.default_int_handler)
    signal.alarm(60)
    yield
    signal.alarm(0)
    signal.signal(signal.SIGALRM, signal.SIG_DFL)


def bound_socket(path):
    with socket.socket(socket.AF_UNIX) as made:
        made.bind(str(path))


SPECIAL = {
    "pipe": os.mkfifo,
    "directory": os.mkdir,
    "device": lambda path: os.symlink("/dev/zero", path),
    "socket": bound_socket,
    "loop": lambda path: os.symlink(path, path),
}


@pytest.mark.parametrize("kind", SPECIAL)
@pytest.mark.parametrize("suffix", ["", ".witness", ".key", "-wal", "-shm", "-journal"])
@pytest.mark.parametrize("made", [False, True], ids=["new", "old"])
def test_what_is_not_a_plain_file_is_refused(path, kind, suffix, made):
    if made:
        with dp.Store(path) as store:
            visits(store).add(1)
    special = path.with_name(path.name + suffix)
    special.unlink(missing_ok=True)
    SPECIAL[kind](special)
    before = names(path)
    with pytest.raises(KeyFileDamaged if suffix == ".key" else NotAStore):
        dp.Store(path)
    assert names(path) == before


def test_a_store_behind_a_good_link(path):
    link = path.with_name("link.db")
    path.parent.joinpath("real").mkdir()
    real = path.parent / "real" / "counts.db"
    dp.Store(real).close()
    link.symlink_to(real)
    with pytest.raises(DpstreamError):
        dp.Store(link)  # its key and witness are beside the other name
    assert names(path) == ["link.db", "real"]


@pytest.mark.parametrize("length", [216, 230, 245, 251, 255, 256, 300, 5000])
def test_a_name_that_is_too_long_leaves_nothing(path, length):
    before = names(path)
    with pytest.raises(InvalidArgument, match="path must be"):
        dp.Store(path.with_name("n" * (length + 15)))
    with pytest.raises(InvalidArgument, match="path must be"):
        dp.Store(path.with_name("é" * length))
    assert names(path) == before


def test_the_longest_name_and_path_work(path):
    name = "n" * (255 - len(".witness") - files.DRAFT_BYTES)
    with dp.Store(path.with_name(name)) as store:
        visits(store).add(1)
    folder = path.parent
    while len(str(folder)) + 101 < files.LONGEST_PATH - files.DRAFT_BYTES - 10:
        folder = folder / ("d" * 100)
        folder.mkdir()
    room = files.LONGEST_PATH - files.DRAFT_BYTES - len(str(folder)) - 1
    with dp.Store(folder / ("n" * room)) as store:
        visits(store).add(1)
    before = sorted(os.listdir(folder))
    with pytest.raises(InvalidArgument, match="path must be"):
        dp.Store(folder / ("n" * (room + 1)))
    assert sorted(os.listdir(folder)) == before


def test_names_that_are_not_utf_8(path):
    with pytest.raises(InvalidArgument, match=r"UTF-8 text, got .*\\xff\.db"):
        dp.Store(os.fsdecode(os.fsencode(path.parent) + b"/\xff.db"))
    assert names(path) == []
    with dp.Store(path.with_name("naïve ☂.db")) as store:
        visits(store).add(1)


@pytest.mark.parametrize("given", ["/", "..", ".", "/dev/null", "/proc/self/mem", "/etc/"])
def test_things_that_are_there_already(given):
    with pytest.raises(DpstreamError):
        dp.Store(given)


@pytest.mark.parametrize("number", [errno.EROFS, errno.EACCES])
def test_a_new_store_on_a_read_only_file_system(path, monkeypatch, number):
    really = os.open

    def refusing(file, flags, *more, **also):
        if flags & os.O_CREAT:
            raise OSError(number, os.strerror(number))
        return really(file, flags, *more, **also)

    def unlink(*_, **__):
        raise OSError(number, os.strerror(number))  # as Linux does, also for what is not there

    monkeypatch.setattr(os, "open", refusing)
    monkeypatch.setattr(os, "unlink", unlink)
    with pytest.raises(StoreReadOnly):
        dp.Store(path)
    assert names(path) == []


def test_a_file_system_that_is_full_when_a_store_is_made(path, monkeypatch):
    def full(*_, **__):
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    with monkeypatch.context() as patched:
        patched.setattr(os, "link", full)
        with pytest.raises(StoreFull):
            dp.Store(path)
    assert names(path) == []
    dp.Store(path).close()


# -- drafts -----------------------------------------------------------------------------------------------------------

KILLED = """
import os, sys
from pathlib import Path
import dpstream as dp
from dpstream.store import files
at = int(sys.argv[2])
really, calls = getattr(os, sys.argv[3]), [0]
def dies(*given, **more):
    calls[0] += 1
    if calls[0] == at:
        os.kill(os.getpid(), 9)
    return really(*given, **more)
setattr(os, sys.argv[3], dies)
dp.Store(Path(sys.argv[1]))
print("made")
"""


@pytest.mark.parametrize("call", ["link", "fsync"])
@pytest.mark.parametrize("at", [1, 2, 3, 4])
def test_drafts_of_a_killed_maker_are_swept(path, call, at):
    killed = subprocess.run(  # noqa: S603
        [sys.executable, "-c", KILLED, str(path), str(at), call], capture_output=True, text=True, check=False
    )
    if call == "link" and at == 4:
        assert killed.stdout == "made\n"  # a store takes three
    else:
        assert killed.returncode == -signal.SIGKILL
        assert any(name.startswith(".") for name in names(path))
    with dp.Store(path) as store:
        visits(store).add(1)
    assert names(path) == ["counts.db", "counts.db.key", "counts.db.witness"]


def test_drafts_at_work_and_files_of_others_stay(path):
    others = [".counts.db.1-abc", ".counts.db.old.1-01234567", ".counts.dbx.1-01234567", "counts.db.1-01234567"]
    for name in others:
        path.with_name(name).write_text("mine")
    abandoned = [".counts.db.1-01234567", ".counts.db.1-01234567-wal", ".counts.db.key.77-abcdef01"]
    for name in abandoned:
        path.with_name(name).write_text("left behind")
    os.mkfifo(path.with_name(".counts.db.2-01234567"))
    with Draft(path) as made:
        sweep(path)
        assert names(path) == sorted([*others, ".counts.db.2-01234567", made.path.name])
    assert names(path) == sorted([*others, ".counts.db.2-01234567"])


def test_makers_and_sweepers_at_once(path):
    """Eight threads make one store, thirty times, while another process sweeps: nobody is disturbed."""
    script = """if True:
        import sys
        from pathlib import Path
        from dpstream.store.files import sweep
        print("ready", flush=True)
        while Path(sys.argv[1]).exists():
            for i in range(30):
                sweep(Path(sys.argv[1]) / str(i) / "counts.db")
    """
    sweeper = subprocess.Popen(  # noqa: S603
        [sys.executable, "-c", script, str(path.parent)], stdout=subprocess.PIPE, text=True
    )
    try:
        assert sweeper.stdout.readline() == "ready\n"
        with ThreadPoolExecutor(8) as pool:
            for i in range(30):
                new = path.parent / str(i) / path.name
                new.parent.mkdir()
                for store in list(pool.map(dp.Store, [new] * 8)):
                    store.close()
                assert set(everything(new)) == {"counts.db", "counts.db.key", "counts.db.witness"}
    finally:
        sweeper.kill()
        sweeper.communicate()
