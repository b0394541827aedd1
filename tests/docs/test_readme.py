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
(COMMANDS,) = re.findall(r"^```sh\n(.*?)^```", README, re.MULTILINE | re.DOTALL)


@pytest.mark.heavy
def test_the_commands_work_as_pasted(tmp_path):
    (tmp_path / ".venv").mkdir()
    (tmp_path / ".venv" / "bin").symlink_to(Path(sys.executable).parent)
    (tmp_path / "output" / "demo").mkdir(parents=True)
    make_visits().write_csv(tmp_path / "output/demo/visits.csv", datetime_format="%Y-%m-%dT%H:%M:%S")
    home = os.environ | {"HOME": str(tmp_path)}
    subprocess.run(["bash", "-e", "-c", COMMANDS], cwd=tmp_path, env=home, check=True, capture_output=True)  # noqa: S603, S607
    made = tmp_path / "output" / "demo"
    assert len((made / "days.csv").read_text().splitlines()) == 366
    assert (made / "weeks.csv").read_text().splitlines()[2].startswith("2025-01-06,2025-01-12,7,true,")
    assert (made / "site" / "index.html").exists()


def test_steps_come_from_a_clock():
    """No example counts one row a step, and every `count` names its first day."""
    assert COMMANDS.count("dpstream count") == COMMANDS.count("--from ") == 1
    assert "--every row" not in README
