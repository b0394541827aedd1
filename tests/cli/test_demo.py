"""`dpstream demo`: what it tells people to type next can be pasted, and does what it says."""

import os
import shlex
import shutil
import subprocess
import sys
from pathlib import Path

import polars as pl

from dpstream.cli.demo import MOST_VISITS, _program, _to_look, _try_next, make_visits
from dpstream.store import PublishedStore


def test_the_next_commands_can_be_pasted(tmp_path, monkeypatch):
    """From a folder that holds the environment, as after `make demo`, with nothing of it on the path."""
    monkeypatch.chdir(tmp_path)
    script = Path(sys.executable).with_name("dpstream")
    (tmp_path / ".venv" / "bin").mkdir(parents=True)
    for name in ("python", "dpstream"):
        os.symlink(script.with_name(name), tmp_path / ".venv" / "bin" / name)
    monkeypatch.setattr(sys, "executable", str(tmp_path / ".venv" / "bin" / "python"))
    monkeypatch.setenv("PATH", "/usr/bin:/bin")
    assert _program() == ".venv/bin/dpstream"
    folder = Path("output") / "a demo"
    folder.mkdir(parents=True)
    visits = make_visits()
    visits.write_csv(folder / "visits.csv", datetime_format="%Y-%m-%dT%H:%M:%S")
    *commands, remark = _try_next(folder, visits)
    for command in commands:
        assert command.split()[0] == ".venv/bin/dpstream"
        found = subprocess.run(["/bin/sh", "-c", command], capture_output=True, text=True, check=False)  # noqa: S603
        assert found.returncode == 0, found.stderr
        if "count" in command:
            assert found.stdout.startswith("step,start,")
            # A year that is over has no step left, which is said.
            assert found.stderr.count("warning") == found.stderr.count("warning: the step of 2025-12-31 is the last")
    *program, file = shlex.split(_to_look(folder))
    assert program == [".venv/bin/dpstream", "serve"]
    assert {info.name for info in PublishedStore(file).streams()} == {"count", "patients"}
    left_out = visits.height - visits.group_by("patient").len()["len"].clip(upper_bound=MOST_VISITS).sum()
    assert f"{100 * left_out / visits.height:.0f} % of the visits" in remark
    assert left_out / visits.height < 0.1


def test_on_the_path_the_name_is_enough(tmp_path, monkeypatch):
    monkeypatch.setenv("PATH", f"{Path(sys.executable).parent}:{os.environ['PATH']}")
    assert shutil.which("dpstream")
    assert _program() == "dpstream"
    monkeypatch.setattr(sys, "executable", str(tmp_path / "python"))
    assert _program() == f"{shlex.quote(str(tmp_path / 'python'))} -m dpstream"


def test_visits_are_made_up_in_order():
    visits = make_visits()
    assert visits["when"].is_sorted()
    assert visits.select(pl.col("when").dt.date().n_unique()).item() == 365
