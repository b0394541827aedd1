"""Which import paths are promises, and what importing them may load."""

import importlib
import re
import subprocess
import sys
from pathlib import Path

import pytest

PAGE = Path(__file__).parent.parent / "docs" / "public-names.md"
ROWS = dict(re.findall(r"^\| `(dpstream[\w.]*)` \| (.*) \|$", PAGE.read_text(), re.MULTILINE))
HEAVY = ("scipy.optimize", "scipy.special", "polars", "matplotlib")


@pytest.mark.parametrize("module", ROWS)
def test_every_promised_name_is_there(module):
    found = importlib.import_module(module)
    for name in re.findall(r"`(\w+)`", ROWS[module]):
        assert getattr(found, name) is not None, name


@pytest.mark.parametrize("module", ["dpstream", "dpstream.release", "dpstream.audit"])
def test_no_name_is_exported_without_a_promise(module):
    assert set(importlib.import_module(module).__all__) == set(re.findall(r"`(\w+)`", ROWS[module]))


def test_looking_at_the_package_shows_its_names():
    import dpstream

    assert {*dpstream.__all__, "__version__"} == set(dir(dpstream))
    with pytest.raises(AttributeError, match="has no attribute 'Countre'"):
        _ = dpstream.Countre


@pytest.mark.parametrize("use", ["", "dpstream.Counter", "dpstream.Store", "dpstream.zcdp(0.5)"])
def test_heavy_libraries_are_loaded_when_they_are_used(use):
    """Importing them takes most of a second, which `dpstream --help` and a first look should not."""
    code = f"import sys, dpstream\n{use}\nprint([name for name in {HEAVY!r} if name in sys.modules])"
    found = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)  # noqa: S603
    assert found.stdout.strip() == "[]"
