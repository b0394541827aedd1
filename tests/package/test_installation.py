"""What works where only the library is installed, and what is said where more is needed."""

import os
import subprocess
import sys

import pytest

BARE = """
import sys
for name in ("polars", "rich", "typer"):
    sys.modules[name] = None  # as if it were not installed
"""


def in_a_bare_installation(program, *arguments):
    return subprocess.run(  # noqa: S603
        [sys.executable, "-c", BARE + program, *arguments],
        capture_output=True,
        text=True,
        check=False,
        env=os.environ | {"PYTHONWARNINGS": "error"},
    )


@pytest.mark.heavy
def test_the_library_works():
    found = in_a_bare_installation("""
from dpstream import *
import dpstream as dp, tempfile
visits = dp.Counter(horizon=9, budget=dp.zcdp(0.5), windows=(1, 7))
visits.add(3), visits.window(1), visits.describe(), dp.plan(horizon=9, budget=dp.zcdp(0.5))
dp.RunningSum(horizon=9, budget=dp.zcdp(0.5), shape=(3,)).add([0.1, 0.2, 0.3])
with tempfile.TemporaryDirectory() as folder, dp.Store(folder + "/counts.db") as store:
    store.counter("visits", horizon=9, budget=dp.zcdp(0.5)).add(1)
    assert store.releases("visits")[0].step == 1
import dpstream.testing, dpstream.audit.audit
""")
    assert (found.returncode, found.stderr) == (0, "")


def test_counting_frames_says_what_to_install():
    found = in_a_bare_installation("""
import dpstream as dp
try:
    dp.count({"when": []}, time="when", every="1d")
except dp.errors.MissingExtra as error:
    print(error)
""")
    assert found.stdout == "this needs Polars, which is not installed: pip install 'dpstream[cli]'\n", found.stderr


def test_frames_of_a_store_say_what_to_install():
    found = in_a_bare_installation("""
from dpstream.errors import MissingExtra
from dpstream.store.tables import as_frame
try:
    as_frame([], single_counts=True)
except MissingExtra as error:
    print(error)
""")
    assert found.stdout == "this needs Polars, which is not installed: pip install 'dpstream[cli]'\n", found.stderr


@pytest.mark.parametrize("arguments", [(), ("--version",), ("count", "visits.csv")])
def test_the_command_says_what_to_install(arguments):
    """`find_spec` of a module that stands as None in sys.modules raises, so that the specs are hidden instead."""
    found = in_a_bare_installation(
        "import importlib.util; importlib.util.find_spec = lambda name: None\n"
        "from dpstream.__main__ import main; main()",
        *arguments,
    )
    assert (found.returncode, found.stdout) == (2, "")
    assert found.stderr == (
        "dpstream: the command needs polars, rich and typer; to install: pip install 'dpstream[cli]'\n"
    )
