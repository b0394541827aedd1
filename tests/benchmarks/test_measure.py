"""What the benchmarks measure is the program's own."""

from __future__ import annotations

import importlib.util
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

FOLDER = Path(__file__).parents[2] / "benchmarks"


@pytest.fixture(scope="module")
def measure():
    spec = importlib.util.spec_from_file_location("measure", FOLDER / "measure.py")
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module  # dataclasses look their module up
    spec.loader.exec_module(module)
    yield module
    del sys.modules[spec.name]


def test_the_memory_of_a_program_does_not_begin_at_that_of_its_parent(measure):
    held = np.ones(25 * 10**6)  # 200 MB
    seconds, megabytes = measure.program([sys.executable, "-c", "x = bytearray(40 * 10**6)"])
    assert held.nbytes == 200 * 10**6
    assert 40 < megabytes < 120
    assert seconds > 0


def test_a_program_that_fails_is_reported(measure):
    with pytest.raises(RuntimeError, match="it went wrong"):
        measure.program([sys.executable, "-c", "import sys; sys.exit('it went wrong')"])


def test_an_unknown_benchmark_is_refused_before_anything_is_measured(tmp_path):
    for name in ("count", "discovery", "noise", "release", "serve", "store", "training"):
        (tmp_path / f"{name}.py").write_text(f"def {name}_one(): ...\nALL = ({name}_one,)\n")
    for name in ("run.py", "measure.py"):
        (tmp_path / name).write_text((FOLDER / name).read_text())
    done = subprocess.run(  # noqa: S603
        [sys.executable, str(tmp_path / "run.py"), "nonsense"], capture_output=True, text=True, check=False
    )
    assert done.returncode == 1
    assert (
        "no benchmark is called 'nonsense'; there are noise, release, store, count, training, discovery," in done.stderr
    )
