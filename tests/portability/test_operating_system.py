"""What is asked of the operating system stands in one place, and where it cannot be had that is said."""

import ast
from pathlib import Path
from types import SimpleNamespace

import pytest

import dpstream as dp
from dpstream.adapters.run_key import RunKey
from dpstream.errors import UnsupportedSystem
from dpstream.operating_system import durability, locks, processes

SOURCE = Path(dp.__file__).parent
MODULES = {"fcntl", "select", "msvcrt", "termios", "pwd", "grp", "resource", "winreg"}
CALLS = {"fsync", "fdatasync", "register_at_fork", "fork", "getrandom", "kill", "mkfifo", "sched_getaffinity"}


def test_only_one_folder_asks_the_operating_system():
    found = set()
    for path in SOURCE.rglob("*.py"):
        if path.is_relative_to(SOURCE / "operating_system"):
            continue
        for node in ast.walk(ast.parse(path.read_text())):
            names = set()
            if isinstance(node, ast.Import):
                names = {alias.name for alias in node.names} & MODULES
            elif isinstance(node, ast.ImportFrom):
                names = {node.module} & MODULES
            elif isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name) and node.value.id == "os":
                names = {node.attr} & CALLS
            found |= {f"{path.relative_to(SOURCE)}: {name}" for name in names}
    assert found == set()


@pytest.fixture
def windows(monkeypatch):
    monkeypatch.setattr(locks, "fcntl", None)
    monkeypatch.setattr("platform.system", lambda: "Windows")


def test_a_store_is_refused_where_nothing_can_lock_it(windows, tmp_path):
    for opened in (dp.Store, dp.store.PublishedStore):
        with pytest.raises(UnsupportedSystem, match=r"a store needs locks on files .* which Windows has not"):
            opened(tmp_path / "counts.db")
    assert list(tmp_path.iterdir()) == []


def test_a_key_file_that_counts_is_refused_where_nothing_can_lock_it(windows, tmp_path):
    with pytest.raises(UnsupportedSystem, match="a key file that counts its steps"):
        RunKey(tmp_path / "run.key", "settings")
    assert list(tmp_path.iterdir()) == []


def test_what_needs_no_store_works_there(windows):
    assert isinstance(dp.Counter(horizon=9, budget=dp.zcdp(0.5)).add(1), int)


def test_macos_is_asked_to_empty_the_disks_cache(monkeypatch, tmp_path):
    asked = []
    macos = SimpleNamespace(F_FULLFSYNC=51, fcntl=lambda *given: asked.append(given))
    monkeypatch.setattr(durability, "fcntl", macos)
    with (tmp_path / "file").open("wb") as file:
        durability.synchronise_file(file.fileno())
        assert asked == [(file.fileno(), 51)]
    durability.synchronise_folder(tmp_path)
    assert len(asked) == 2


def test_locks_of_macos_keep_other_processes_out(monkeypatch, tmp_path):
    """lockf in place of Linux' locks of open files: asked for and given back in the same bytes."""
    asked = []
    macos = SimpleNamespace(
        F_WRLCK=3, F_UNLCK=2, LOCK_EX=2, LOCK_NB=4, LOCK_UN=8, lockf=lambda *given: asked.append(given)
    )
    monkeypatch.setattr(locks, "fcntl", macos)
    assert locks.lock_range(7, 128, 64)
    locks.unlock_range(7, 128, 64)
    assert asked == [(7, 6, 64, 128), (7, 8, 64, 128)]


def test_no_process_is_asked_where_asking_would_interrupt_it(monkeypatch):
    monkeypatch.setattr(processes.os, "name", "nt")
    monkeypatch.setattr(processes.os, "kill", lambda *_: pytest.fail("a Ctrl-C was sent"))
    assert processes.has_ended(1) is False
