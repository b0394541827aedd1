"""Full disks, failing disks, torn files, flipped bits, clocks, forks and races: the right state, or a named error."""

import os
import resource
import shutil
import signal
import subprocess
import sys
import tempfile
import textwrap
import time
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import dpstream as dp
from dpstream.errors import (
    ForkedStore,
    ForkedStream,
    KeyLengthError,
    LeaseLost,
    StoreBusy,
    StoreDamaged,
    StoreError,
    StoreFull,
    StoreNotWritten,
    StoreOutdated,
    StoreReadOnly,
)

from .conftest import BUDGET, RAM, TREE, copy_of, visits

# Later Pythons warn of forks in a process with threads, which pytest-xdist makes.
pytestmark = pytest.mark.filterwarnings("ignore:.*use of fork:DeprecationWarning")


def expected(counter, inputs):
    """What a plain counter with the same key releases."""
    return dp.Counter(1000, BUDGET, mechanism=TREE, per_person=3, per_step=3, key=counter._key).extend(inputs).tolist()


def in_a_child(work):
    """Run `work` in a forked child; its result, 0 or 1, is the exit code."""
    child = os.fork()
    if child == 0:
        code = 99
        try:
            code = int(work())
        finally:
            os._exit(code)
    return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])


# -- disks ------------------------------------------------------------------------------------------------------------


def test_a_full_disk(path):
    with dp.Store(path) as store:
        counter = visits(store)
        released = [counter.add(1, position=0)]
        soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
        size = path.with_name("counts.db-wal").stat().st_size
        resource.setrlimit(resource.RLIMIT_FSIZE, (size + 2000, hard))
        try:
            for _ in range(3):
                with pytest.raises((StoreFull, StoreNotWritten)):
                    counter.add(2, position=1)
        finally:
            resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))
        assert counter.t == 1
        assert len(store.releases("visits")) == 1
        released += [counter.add(x, position=i) for i, x in ((1, 2), (2, -1))]
        assert released == expected(counter, [1, 2, -1])
        store.check_seals()


def test_a_full_disk_when_the_store_is_made(path):
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (2000, hard))
    try:
        with pytest.raises((StoreFull, StoreNotWritten)):
            dp.Store(path)
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))
    assert not path.exists()
    assert not any(file.name.startswith(".") for file in path.parent.iterdir())
    with dp.Store(path) as store:  # key and witness are taken up
        visits(store).add(1)


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can become somebody who may not write")
@pytest.mark.parametrize("directory", [0o755, 0o777])
def test_a_read_only_file(path, directory):
    key = os.urandom(32)
    with dp.Store(path, master_key=key) as store:
        visits(store).add(1)
    path.parent.chmod(directory)
    for file in path.parent.iterdir():
        file.chmod(0o444)
    before = path.read_bytes()

    def work():
        os.setuid(65534)
        try:
            with dp.Store(path, master_key=key) as store:
                visits(store).add(1)
        except StoreReadOnly:
            return 0
        return 1

    assert in_a_child(work) == 0
    assert path.read_bytes() == before


def test_failing_synchronisation_of_the_witness(path, monkeypatch):
    def fails(descriptor):
        raise OSError(5, "Input/output error")

    with dp.Store(path) as store:
        counter = visits(store)
        released = [counter.add(1)]
        counter.close()
        for _ in range(3):  # an open that fails half-way can be tried again
            with monkeypatch.context() as patched:
                patched.setattr(os, "fsync", fails)
                with pytest.raises(StoreNotWritten, match="Input/output error"):
                    visits(store)
        counter = visits(store)
        with monkeypatch.context() as patched:
            patched.setattr(os, "fsync", fails)
            patched.setattr("dpstream.store.witness.MARKS_A_SYNC", 1)
            with pytest.raises(StoreNotWritten):
                counter.add(2)
        # The commit had succeeded, only the note of it had not: the step is there, and counted once.
        assert counter._current().t == counter.t == 2
        released += [store.releases("visits")[1].value, counter.add(3)]
        assert released == expected(counter, [1, 2, 3])
    with dp.Store(path) as store:
        assert visits(store).t == 3


SHIM = r"""
#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <stdlib.h>
#include <unistd.h>
static int failing(void) { const char *flag = getenv("FAILING"); return flag && access(flag, F_OK) == 0; }
int fsync(int fd) { if (failing()) { errno = EIO; return -1; }
    return ((int (*)(int)) dlsym(RTLD_NEXT, "fsync"))(fd); }
int fdatasync(int fd) { if (failing()) { errno = EIO; return -1; }
    return ((int (*)(int)) dlsym(RTLD_NEXT, "fdatasync"))(fd); }
"""


@pytest.mark.skipif(shutil.which("gcc") is None or sys.platform != "linux", reason="needs gcc and LD_PRELOAD")
def test_failing_synchronisation_of_the_database(path):
    """The real fsync of the real SQLite fails: the step is refused, and a retry counts it once."""
    (path.parent / "shim.c").write_text(SHIM)
    shim, flag = path.parent / "shim.so", path.parent / "failing"
    subprocess.run(["gcc", "-shared", "-fPIC", "-o", shim, path.parent / "shim.c", "-ldl"], check=True)  # noqa: S603, S607
    script = textwrap.dedent(f"""
        from pathlib import Path
        import dpstream as dp
        from dpstream.errors import StoreNotWritten
        from dpstream.mechanisms import SmoothBinary
        def visits(store):
            return store.counter("visits", 1000, dp.zcdp(0.5), mechanism=SmoothBinary(1000), per_person=3, per_step=3)
        flag = Path({str(flag)!r})
        with dp.Store({str(path)!r}) as store:
            counter = visits(store)
            released = [counter.add(1, position=0)]
            flag.touch()
            for _ in range(3):
                try:
                    counter.add(2, position=1)
                except StoreNotWritten:
                    pass
                else:
                    raise SystemExit("not refused")
            flag.unlink()
            released += [counter.add(2, position=1), counter.add(3, position=2)]
            plain = dp.Counter(
                1000, dp.zcdp(0.5), mechanism=SmoothBinary(1000), per_person=3, per_step=3, key=counter._key
            )
            assert released == plain.extend([1, 2, 3]).tolist() == [r.value for r in store.releases("visits")]
            flag.touch()
            try:
                counter.add(1, position=3)
            except StoreNotWritten:
                pass
            flag.unlink()
        with dp.Store({str(path)!r}) as store:
            counter = visits(store)
            counter.add(1, position=3)
            assert counter.t == 4
            store.check_seals()
    """)
    environment = os.environ | {"LD_PRELOAD": str(shim), "FAILING": str(flag)}
    done = subprocess.run([sys.executable, "-c", script], env=environment, capture_output=True, text=True)  # noqa: S603
    assert done.returncode == 0, done.stderr


def abandoned(path, inputs):
    """A store whose writer was killed, with all its releases still in the WAL."""

    def work():
        with dp.Store(path) as store:
            counter = visits(store)
            for i, x in enumerate(inputs):
                counter.add(x, position=i)
            os.kill(os.getpid(), signal.SIGKILL)

    assert in_a_child(work) == -signal.SIGKILL


def test_a_torn_wal(path):
    """The end of the WAL is gone, and with it steps that were released: refused, or nothing was lost."""
    abandoned(path, [1, 2, 3])
    wal = path.with_name("counts.db-wal").read_bytes()
    outcomes = set()
    for keep in (len(wal), len(wal) - 1, len(wal) - 4096, len(wal) // 2, 32, 1, 0):
        copy = copy_of(path, path.parent / f"torn-{keep}")
        copy.with_name("counts.db-wal").write_bytes(wal[:keep])
        with dp.Store(copy, adopt=True) as store:
            try:
                counter = visits(store)
                assert (counter.t, counter.add(3, position=2)) == (3, store.releases("visits")[2].value)
                outcomes.add("whole")
            except StoreOutdated:
                outcomes.add("refused")
    assert outcomes == {"whole", "refused"}


EXAMPLES = 2000 if os.environ.get("DPSTREAM_HEAVY") else 120


@pytest.fixture(scope="module")
def template():
    """A small store, closed, and what it released."""
    folder = Path(tempfile.mkdtemp(dir=RAM if os.access(RAM, os.W_OK) else None))
    with dp.Store(folder / "counts.db") as store:
        counter = visits(store)
        counter.add(1, position=0)
        counter.extend([2, 3, 1], first_position=1)
        counter.add(-1, position=4)
        following = expected(counter, [1, 2, 3, 1, -1, 2])
    yield folder, following
    shutil.rmtree(folder)


@settings(
    max_examples=EXAMPLES, deadline=None, suppress_health_check=list(HealthCheck), database=None, derandomize=True
)
@given(data=st.data())
def test_flipped_bits(template, data):
    """Whatever bit is wrong: the true values, or a named error."""
    folder, following = template
    name = data.draw(st.sampled_from(["counts.db", "counts.db", "counts.db", "counts.db.witness", "counts.db.key"]))
    content = bytearray((folder / name).read_bytes())
    # Most bytes of a database are empty space; flip where something is written.
    places = [i for i, byte in enumerate(content) if byte]
    for _ in range(data.draw(st.integers(1, 3))):
        content[data.draw(st.sampled_from(places))] ^= 1 << data.draw(st.integers(0, 7))
    with tempfile.TemporaryDirectory(dir=folder.parent) as copied:
        copy = copy_of(folder / "counts.db", Path(copied) / "copy")
        copy.with_name(name).write_bytes(content)
        try:
            with dp.Store(copy, adopt=True) as store:
                assert [r.value for r in store.releases("visits")] == following[:5]
                counter = visits(store)
                assert counter.add(3, position=2) == following[2]
                assert counter.add(2, position=5) == following[5]
        except (StoreError, KeyLengthError):
            pass  # named; anything else fails


def test_swapped_and_edited_rows(path):
    with dp.Store(path) as store:
        for name in ("a", "b"):
            with visits(store, name) as counter:
                counter.extend([1, 1], first_position=0)
                counter.extend([2, 2], first_position=2)
        database = store._files.database
        for edit in (
            "UPDATE streams SET sealed = (SELECT sealed FROM streams WHERE name = 'b') WHERE name = 'a'",
            "UPDATE streams SET t = 3 WHERE name = 'a'",
            "UPDATE streams SET t = 2 WHERE name = 'a'",
            "UPDATE streams SET first_position = 1 WHERE name = 'a'",
            "UPDATE streams SET retired = 1 WHERE name = 'a'",
            "UPDATE streams SET configuration = replace(configuration, '0.5', '5.0') WHERE name = 'a'",
            "UPDATE streams SET name = 'c' WHERE name = 'a'",
            "UPDATE streams SET generation = 'x' WHERE name = 'a'",
            "UPDATE streams SET people = 7 WHERE name = 'a'",
            "UPDATE batches SET sealed = zeroblob(60) WHERE stream = 1 AND first = 1",
            "UPDATE batches SET sealed = (SELECT sealed FROM batches WHERE stream = 2 AND first = 1)"
            " WHERE stream = 1 AND first = 1",
            "UPDATE batches SET sealed = (SELECT sealed FROM batches WHERE stream = 1 AND first = 3)"
            " WHERE stream = 1 AND first = 1",
            "UPDATE batches SET count = 1 WHERE stream = 1 AND first = 3",
            "DELETE FROM batches WHERE stream = 1 AND first = 1",
            "DELETE FROM batches WHERE stream = 1 AND first = 3",
        ):
            with pytest.raises(_Undone), database.atomic() as connection:
                connection.execute(edit)
                with pytest.raises(StoreDamaged):
                    store.check_seals()
                with pytest.raises(StoreError):
                    store.releases("a")
                raise _Undone
        store.check_seals()


class _Undone(Exception):
    """Rolls an edit back."""


# -- clocks, processes, forks -----------------------------------------------------------------------------------------


def test_a_clock_that_jumps_backwards(path, monkeypatch):
    with dp.Store(path) as store:
        counter = visits(store)
        released = [counter.add(1, position=0)]
        monkeypatch.setattr(time, "time", lambda: -1e9)
        released.append(counter.add(1, position=1))
        counter.close()
        counter = visits(store)
        released.append(counter.add(1, position=2))
        assert released == expected(counter, [1, 1, 1])


def test_a_lease_left_by_a_dead_process(path):
    abandoned(path, [1, 2])
    with dp.Store(path) as store:
        holder = store._row("visits").holder_pid
        assert holder not in (None, os.getpid())
        # Even if another process has its number now.
        with store._files.database.atomic() as connection:
            connection.execute("UPDATE streams SET holder_pid = ?", (os.getppid(),))
        counter = visits(store)
        assert counter.t == 2
        assert store._row("visits").holder_pid == os.getpid()


def test_a_forked_child_is_refused_and_the_parent_goes_on(path):
    with dp.Store(path) as store:
        counter = visits(store)
        released = [counter.add(1)]

        def work():
            for use in (lambda: counter.add(1), lambda: visits(store), lambda: store.releases("visits")):
                try:
                    use()
                    return 1
                except ForkedStream:
                    pass
            try:
                dp.Store(path)
                return 2
            except ForkedStore:
                pass
            with dp.Store(path.with_name("own.db")) as own:
                visits(own).add(1)
            counter.close()
            store.close()
            return 0

        assert in_a_child(work) == 0
        released.append(counter.add(1))
        assert released == expected(counter, [1, 1])
        store.check_seals()


def test_a_childs_copy_of_a_lock_dies_with_the_fork(path):
    """A child that outlives the writer does not keep the stream."""
    read, write = os.pipe()

    def work():
        store = dp.Store(path)
        counter = visits(store)
        counter.add(1)
        if os.fork() == 0:
            os.close(write)
            os.read(read, 1)  # until the test is over
            os._exit(0)
        os.kill(os.getpid(), signal.SIGKILL)

    assert in_a_child(work) == -signal.SIGKILL
    with dp.Store(path) as store:
        assert visits(store).t == 1
    os.close(write)
    os.close(read)


def test_two_writers_race(path):
    """Eight processes make the same store and want the same stream: one at a time gets it, and all steps are there."""
    go = path.parent / "go"

    def work():
        while not go.exists():
            time.sleep(0.001)
        done = 0
        while done < 3:
            try:
                with dp.Store(path) as store, visits(store) as counter:
                    counter.add(1)
                    done += 1
            except StoreBusy:
                time.sleep(0.002)
        return 0

    visits_terms = dp.Counter(1000, BUDGET, mechanism=TREE, per_person=3, per_step=3)  # worked out once
    assert visits_terms.t == 0
    children = []
    for _ in range(8):
        child = os.fork()
        if child == 0:
            code = 99
            try:
                code = work()
            finally:
                os._exit(code)
        children.append(child)
    go.touch()
    assert [os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) for child in children] == [0] * 8
    with dp.Store(path) as store:
        counter = visits(store)
        assert counter.t == 24
        assert [r.value for r in store.releases("visits")] == expected(counter, [1] * 24)


def test_looking_at_a_store_drops_no_lock(path):
    """POSIX locks end when any descriptor of the file is closed. A writer's must not, when its process looks again."""
    with dp.Store(path) as store:
        counter = visits(store)
        counter.add(1)
        dp.Store(path).close()

        script = f"import dpstream as dp; dp.Store({str(path)!r}).close()"
        subprocess.run([sys.executable, "-c", script], check=True)  # noqa: S603
        assert path.with_name("counts.db-wal").exists()
        counter.add(1)
    with dp.Store(path) as store:
        assert visits(store).t == 2


def test_a_file_replaced_under_an_open_writer(path):
    with dp.Store(path) as store, dp.Store(path) as other:
        counter = visits(store)
        counter.add(1)
        with other._files.database.atomic() as connection:
            connection.execute("UPDATE streams SET generation = generation + 1")
        for _ in range(2):
            with pytest.raises(LeaseLost):
                counter.add(1)
        assert len(other.releases("visits")) == 1


def test_an_interrupt_between_memory_and_file(path):
    with dp.Store(path) as store:
        counter = visits(store)
        released = [counter.add(1)]
        counter._live.add(3)  # as if interrupted right after it
        released.append(counter.add(2))
        assert released == expected(counter, [1, 2])


def test_steps_that_vanish_under_an_open_writer(path):
    with dp.Store(path) as store:
        counter = visits(store)
        counter.add(1)
        old = store._row("visits")
        counter.add(1)
        with store._files.database.atomic() as connection:
            connection.execute("UPDATE streams SET t = 1, sealed = ?", (old.sealed,))
            connection.execute("DELETE FROM batches WHERE first = 2")
        for _ in range(2):
            with pytest.raises(LeaseLost):
                counter.add(1)
        counter.close()
        with pytest.raises(StoreOutdated):
            visits(store)


@pytest.mark.parametrize("step", range(1, 13))
def test_killed_while_the_store_is_made(path, step):
    """At each call that makes a file: the next one finishes what was begun, and no copy of the key is left."""

    def work():
        count = 0

        def counted(function):
            def slow(*arguments, **more):
                nonlocal count
                count += 1
                if count == step:
                    os.kill(os.getpid(), signal.SIGKILL)
                return function(*arguments, **more)

            return slow

        for name in ("link", "unlink", "fsync"):
            setattr(os, name, counted(getattr(os, name)))
        dp.Store(path).close()
        return 0

    in_a_child(work)
    with dp.Store(path) as store:
        visits(store).add(1)
    key = path.with_name("counts.db.key").read_bytes()
    assert [file.name for file in path.parent.iterdir() if file.read_bytes() == key] == ["counts.db.key"]
    assert path.stat().st_nlink == 1


@pytest.mark.parametrize("where", ["before", "after"])
def test_an_interrupt_around_a_commit(path, monkeypatch, where):
    """Ctrl-C anywhere: the step was made or it was not, and memory agrees with the file."""
    with dp.Store(path) as store:
        counter = visits(store)
        released = [counter.add(1, position=0)]
        target, name = (
            ("dpstream.store.lease.Lease", "move") if where == "before" else ("dpstream.store.witness.Witness", "mark")
        )

        def interrupted(*arguments):
            raise KeyboardInterrupt

        with monkeypatch.context() as patched:
            patched.setattr(f"{target}.{name}", interrupted)
            with pytest.raises(KeyboardInterrupt):
                counter.add(2, position=1)
        released += [counter.add(2, position=1), counter.add(3, position=2)]
        assert released == expected(counter, [1, 2, 3])
        assert counter.t == 3
