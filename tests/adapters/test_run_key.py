"""A key file counts the steps released under it, and serves one run at a time."""

import copy
import pickle
import stat
import subprocess
import sys

import pytest

from dpstream.adapters.run_key import RESERVED, RunKey, steps_path
from dpstream.errors import (
    InvalidArgument,
    KeyFileExposed,
    KeyInUse,
    KeyLengthError,
    KeyOfAnotherRun,
    StepsMissing,
    StepsNotWritten,
    StepsReleased,
    TrainingKeyMissing,
)
from dpstream.testing import fixed_key


def test_a_new_key_file_is_private_and_comes_back(tmp_path):
    path = tmp_path / "run.key"
    with RunKey(path, "settings") as made:
        key = made.key
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    with RunKey(path, "settings") as again:
        assert (again.key, again.released) == (key, 0)
    assert key.hex() not in repr(made)


def test_a_crash_leaves_a_count_that_is_no_less_than_what_was_released(tmp_path):
    """A process that dies in the middle leaves at least its own steps, and at most `RESERVED` - 1 more."""
    path = tmp_path / "run.key"
    script = "from dpstream.adapters.run_key import RunKey; import os, sys\n"
    script += "run = RunKey(sys.argv[1], 'settings')\nfor t in range(1, 41): run.reserve(t, 1000)\nos._exit(9)"
    assert subprocess.run([sys.executable, "-c", script, path], check=False).returncode == 9  # noqa: S603
    with RunKey(path, "settings") as after:
        assert 40 <= after.released < 40 + RESERVED
        with pytest.raises(StepsReleased) as caught:
            after.reserve(31, 1000)
        assert (caught.value.step, caught.value.released) == (30, after.released)


def test_closing_makes_the_count_exact(tmp_path):
    path = tmp_path / "run.key"
    with RunKey(path, "settings") as run:
        for t in (1, 2, 3):
            run.reserve(t, 100)
    with RunKey(path, "settings") as run:
        assert run.released == 3
        run.reserve(4, 100)
        with pytest.raises(StepsReleased):
            run.reserve(4, 100)


def test_the_count_never_runs_past_the_horizon(tmp_path):
    with RunKey(tmp_path / "run.key", "settings") as run:
        run.reserve(1, 5)
        assert steps_path(tmp_path / "run.key").read_text().split()[-1] == f"{5:020d}"


def test_one_run_at_a_time(tmp_path):
    path = tmp_path / "run.key"
    with RunKey(path, "settings"), pytest.raises(KeyInUse, match="in use by another optimizer"):
        RunKey(path, "settings")
    RunKey(path, "settings").close()
    with RunKey(fixed_key("run"), "settings"), pytest.raises(KeyInUse):
        RunKey(fixed_key("run"), "settings")
    with RunKey(fixed_key("run"), "settings"), RunKey(fixed_key("run"), "other settings"):
        pass  # other settings have other keys


def test_an_abandoned_run_lets_go_of_its_key(tmp_path):
    RunKey(tmp_path / "run.key", "settings")
    RunKey(tmp_path / "run.key", "settings").close()


def test_a_key_file_serves_one_run(tmp_path):
    path = tmp_path / "run.key"
    with RunKey(path, "settings"):
        pass
    with RunKey(path, "other settings") as run:  # nothing was released yet
        run.reserve(1, 10)
    with pytest.raises(KeyOfAnotherRun, match="with other settings"):
        RunKey(path, "settings")


def test_a_lost_or_damaged_count_is_refused(tmp_path):
    path = tmp_path / "run.key"
    with RunKey(path, "settings") as run:
        run.reserve(1, 10)
    kept = steps_path(path).read_bytes()
    for damage in (kept[:-1], b"dpstream-steps-2" + kept[16:], b"x" * len(kept), kept.replace(b"1\n", b"-\n")):
        steps_path(path).write_bytes(damage)
        with pytest.raises(StepsMissing, match="is damaged"):
            RunKey(path, "settings")
    steps_path(path).unlink()
    with pytest.raises(StepsMissing, match="is missing"):
        RunKey(path, "settings")
    assert not steps_path(path).exists()
    steps_path(path).write_bytes(kept)
    path.unlink()
    with pytest.raises(TrainingKeyMissing, match=r"Put it back to go on, or take another key file"):
        RunKey(path, "settings")


def test_a_key_that_others_can_read_is_refused(tmp_path):
    path = tmp_path / "run.key"
    RunKey(path, "settings").close()
    path.chmod(0o640)
    with pytest.raises(KeyFileExposed):
        RunKey(path, "settings")


def test_other_workers_are_told_the_key_and_do_not_count(tmp_path):
    path = tmp_path / "run.key"
    with RunKey(path, "settings") as first:
        first.reserve(1, 10)
        told = first.for_worker()
        with RunKey.of_worker(told, "settings") as other:
            assert (other.key, other.released, other.resumable) == (first.key, 1, True)
            with pytest.raises(StepsReleased):  # a worker that begins again, while the first goes on
                other.reserve(1, 10)
            other.reserve(2, 10)
    with RunKey(path, "settings") as first:
        assert first.released == 1
        with pytest.raises(InvalidArgument, match="must be the same on every worker"):
            RunKey.of_worker(told, "other settings")


def test_a_key_is_neither_copied_nor_pickled(tmp_path):
    """With the key, a copy could release steps that nobody counts."""
    for source in (fixed_key("run"), None, tmp_path / "run.key"):
        with RunKey(source, "settings") as run:
            for act in (copy.copy, copy.deepcopy, pickle.dumps):
                with pytest.raises(TypeError, match="cannot be copied or pickled"):
                    act(run)


def test_a_folder_that_is_not_there(tmp_path):
    with pytest.raises(StepsNotWritten, match=r"\(No such file or directory\); nothing was stepped"):
        RunKey(tmp_path / "missing" / "run.key", "settings")


def test_keys_of_the_wrong_length():
    with pytest.raises(KeyLengthError):
        RunKey(b"short", "settings")
