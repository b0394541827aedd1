"""The run on real data prints what its page says."""

import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]


@pytest.mark.heavy
def test_the_page_tells_what_the_example_prints():
    done = subprocess.run(  # noqa: S603
        [sys.executable, str(ROOT / "examples" / "discover_destinations.py")],
        capture_output=True,
        text=True,
        check=True,
        cwd=ROOT,
    )
    assert f"```text\n{done.stdout}```" in (ROOT / "docs" / "discovery.md").read_text()
    assert "0 of 4,043 aircraft are published" in done.stdout
