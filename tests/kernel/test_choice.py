"""Which kernel runs, how one is told, and that a machine without a compiler still gets a working library."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import sysconfig
import zipfile
from pathlib import Path

import pytest

from dpstream import kernel

ROOT = Path(__file__).parents[2]

USE_TWICE = """
import sys, warnings
import numpy as np
with warnings.catch_warnings(record=True) as seen:
    warnings.simplefilter("always")
    from dpstream import kernel
    at_import = len(seen)
    out = np.empty(64, np.float32)
    kernel.normal_f32(bytes(256), out)
    kernel.round_guarded(np.zeros(3), 0.1, np.empty(3, np.int64))
here = [w.filename for w in seen] == ["<string>"]
print(kernel.name, at_import, [w.category.__name__ for w in seen], here, out[0])
"""


def run(code: str, wish: str | None) -> subprocess.CompletedProcess[str]:
    environment = {k: v for k, v in os.environ.items() if k != "DPSTREAM_KERNEL"}
    if wish is not None:
        environment["DPSTREAM_KERNEL"] = wish
    return subprocess.run(  # noqa: S603
        [sys.executable, "-c", code], env=environment, capture_output=True, text=True, check=False
    )


def test_the_twin_can_be_asked_for_and_warns_once_at_first_use() -> None:
    done = run(USE_TWICE, "twin")
    assert done.stdout.split()[:2] == ["twin", "0"], done.stderr
    assert "['SlowKernelWarning'] True 6.76" in done.stdout


def test_the_compiled_kernel_says_nothing(compiled: object) -> None:
    for wish in (None, "", "compiled"):
        assert run(USE_TWICE, wish).stdout.startswith("compiled 0 [] False 6.76")


def test_without_the_compiled_module_the_twin_steps_in() -> None:
    hide = "import sys; sys.modules['dpstream.kernel._compiled'] = None\n"
    assert run(hide + USE_TWICE, None).stdout.startswith("twin 0 ['SlowKernelWarning']")
    done = run(hide + USE_TWICE, "compiled")
    assert done.returncode != 0
    assert "ImportError" in done.stderr or "ModuleNotFoundError" in done.stderr


def test_another_wish_is_refused() -> None:
    done = run("import dpstream.kernel", "fast")
    assert "DPSTREAM_KERNEL must be 'compiled' or 'twin', got 'fast'" in done.stderr


def test_everything_promised_is_there() -> None:
    assert kernel.name in ("compiled", "twin")
    assert all(hasattr(kernel, name) for name in kernel.__all__)


@pytest.fixture
def source(tmp_path: Path) -> Path:
    """A clean copy of what a build needs."""
    copy = tmp_path / "source"
    copy.mkdir()
    for name in ("pyproject.toml", "setup.py", "README.md", "LICENSE"):
        if (ROOT / name).exists():
            shutil.copy(ROOT / name, copy)
        else:
            (copy / name).write_text("")
    ignored = shutil.ignore_patterns("*.so", "*.egg-info", "__pycache__")
    shutil.copytree(ROOT / "src", copy / "src", ignore=ignored)
    return copy


def build(source: Path, **environment: str) -> set[str]:
    command = [
        sys.executable,
        "-m",
        "pip",
        "wheel",
        "-q",
        "--no-build-isolation",
        "--no-deps",
        "-w",
        "dist",
        ".",
    ]
    done = subprocess.run(  # noqa: S603
        command, cwd=source, env=os.environ | environment, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stdout + done.stderr
    (wheel,) = (source / "dist").glob("*.whl")
    with zipfile.ZipFile(wheel) as archive:
        return set(archive.namelist())


def test_a_build_without_a_compiler_leaves_only_the_kernel_out(source: Path) -> None:
    files = build(source, CC="/bin/false")
    assert not any(name.endswith(".so") for name in files)
    assert {
        "dpstream/kernel/__init__.py",
        "dpstream/kernel/twin.py",
        "dpstream/kernel/_compiled.pyi",
    } <= files


@pytest.mark.skipif(shutil.which("gcc") is None, reason="no gcc")
def test_the_c_code_compiles_without_warnings(tmp_path: Path) -> None:
    flags = [
        "-std=c11",
        "-Wall",
        "-Wextra",
        "-Wpedantic",
        "-Wvla",
        "-Wshadow",
        "-Werror",
        "-DPy_LIMITED_API=0x030B0000",
    ]
    module = ROOT / "src" / "dpstream" / "kernel" / "module.c"
    include = f"-I{sysconfig.get_paths()['include']}"
    # -O1 instead of -O3: the warnings are the same and it takes a fraction of the time.
    command = ["gcc", "-c", "-O1", "-fPIC", *flags, include, str(module), "-o", str(tmp_path / "module.o")]
    done = subprocess.run(command, capture_output=True, text=True, check=False)  # noqa: S603
    assert done.returncode == 0, done.stderr
