"""The commands of the README work when they are pasted after `make demo`."""

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from dpstream.cli.demo import make_visits

ROOT = Path(__file__).parents[2]
README = (ROOT / "README.md").read_text()
#: One block after the other: the year, and the day after it.
COMMANDS = "".join(re.findall(r"^```sh\n(.*?)^```", README, re.MULTILINE | re.DOTALL))


@pytest.mark.heavy
def test_the_commands_work_as_pasted(tmp_path):
    (tmp_path / ".venv").mkdir()
    (tmp_path / ".venv" / "bin").symlink_to(Path(sys.executable).parent)
    (tmp_path / "output" / "demo").mkdir(parents=True)
    make_visits().write_csv(tmp_path / "output/demo/visits.csv", datetime_format="%Y-%m-%dT%H:%M:%S")
    home = os.environ | {"HOME": str(tmp_path)}
    run = subprocess.run(["bash", "-e", "-c", COMMANDS], cwd=tmp_path, env=home, check=True, capture_output=True)  # noqa: S603, S607
    made = tmp_path / "output" / "demo"
    assert len((made / "days.csv").read_text().splitlines()) == 366
    assert (made / "weeks.csv").read_text().splitlines()[2].startswith("2025-01-06,2025-01-12,7,true,")
    assert (made / "site" / "index.html").exists()
    assert re.findall(r"^(\d+,[\d-]+),", run.stdout.decode(), re.MULTILINE) == ["366,2026-01-01"]


def test_steps_come_from_a_clock():
    """A stream names its first day, and every `count` the last one to publish."""
    assert COMMANDS.count("dpstream count") == COMMANDS.count("--through ") == 2
    assert COMMANDS.count("--from ") == 1
