"""Which kernel runs, how one is told, and that a machine without a compiler still gets a working library."""

from __future__ import annotations

import importlib
import os
import shutil
import subprocess
import sys
import sysconfig
import warnings
import zipfile
from pathlib import Path
from types import ModuleType

import numpy as np
import pytest

import dpstream
from dpstream import kernel

ROOT = Path(__file__).parents[2]

IN_A_NEW_PROCESS = """
import numpy as np
from dpstream import kernel
kernel.round_guarded(np.zeros(3), 0.1, np.empty(3, np.int64))
kernel.round_guarded(np.zeros(3), 0.1, np.empty(3, np.int64))
print(kernel.name)
"""


def freshly_imported(monkeypatch: pytest.MonkeyPatch, wish: str | None, *, hidden: bool = False) -> ModuleType:
    """The kernel as a new process would import it, `hidden` if the compiled module was not built."""
    for name in [name for name in sys.modules if name.split(".")[:2] == ["dpstream", "kernel"]]:
        monkeypatch.delitem(sys.modules, name)
    monkeypatch.setattr(dpstream, "kernel", kernel)  # what the import below replaces, to be put back
    if hidden:
        monkeypatch.setitem(sys.modules, "dpstream.kernel._compiled", None)
    if wish is None:
        monkeypatch.delenv("DPSTREAM_KERNEL", raising=False)
    else:
        monkeypatch.setenv("DPSTREAM_KERNEL", wish)
    return importlib.import_module("dpstream.kernel")


def warnings_of_two_calls(module: ModuleType) -> list[warnings.WarningMessage]:
    with warnings.catch_warnings(record=True) as seen:
        warnings.simplefilter("always")
        out = np.empty(64, np.float32)
        module.normal_f32(bytes(256), out)
        flagged = module.round_guarded(np.array([0.0, 0.5]), 0.1, np.empty(2, np.int64))
    assert 6.76 < out[0] < 6.77
    assert flagged.tolist() == [1]
    return seen


def test_the_twin_can_be_asked_for_and_warns_once_at_first_use(monkeypatch: pytest.MonkeyPatch) -> None:
    module = freshly_imported(monkeypatch, "twin")  # any warning here would be an error
    assert module.name == "twin"
    (warning,) = warnings_of_two_calls(module)
    assert warning.category is module.SlowKernelWarning
    assert warning.filename == __file__  # it points to the caller
    assert "as DPSTREAM_KERNEL asks" in str(warning.message)


def test_a_new_process_sees_the_wish() -> None:
    done = subprocess.run(  # noqa: S603
        [sys.executable, "-c", IN_A_NEW_PROCESS],
        env=os.environ | {"DPSTREAM_KERNEL": "twin"},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.stdout.split() == ["twin"], done.stderr
    assert done.stderr.count("SlowKernelWarning") == 1


@pytest.mark.parametrize("wish", [None, "", "compiled"])
def test_the_compiled_kernel_says_nothing(
    compiled: ModuleType, monkeypatch: pytest.MonkeyPatch, wish: str | None
) -> None:
    module = freshly_imported(monkeypatch, wish)
    assert module.name == "compiled"
    assert warnings_of_two_calls(module) == []


def test_without_the_compiled_module_the_twin_steps_in(monkeypatch: pytest.MonkeyPatch) -> None:
    module = freshly_imported(monkeypatch, None, hidden=True)
    assert module.name == "twin"
    (warning,) = warnings_of_two_calls(module)
    assert "the compiled one is missing" in str(warning.message)


def test_without_the_compiled_module_it_cannot_be_asked_for(monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(ImportError):
        freshly_imported(monkeypatch, "compiled", hidden=True)


def test_another_wish_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(ValueError, match="DPSTREAM_KERNEL must be 'compiled' or 'twin', got 'fast'"):
        freshly_imported(monkeypatch, "fast")


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


@pytest.mark.heavy
def test_a_build_without_a_compiler_leaves_only_the_kernel_out(source: Path) -> None:
    files = build(source, CC="/bin/false")
    assert not any(name.endswith(".so") for name in files)
    twin = {f"dpstream/kernel/twin/{part.name}" for part in (source / "src/dpstream/kernel/twin").glob("*.py")}
    assert len(twin) > 1
    assert {"dpstream/kernel/__init__.py"} | twin <= files


@pytest.mark.skipif(shutil.which("gcc") is None, reason="no gcc")
@pytest.mark.heavy
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
