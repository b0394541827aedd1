"""Installs what `make package` built where a user would, and tries it: the second half of `make package`.

usage: python -m tests.package.try_package [--only TEXT] [--write PAGE]

* on every Python from 3.11 on that is at hand, from the wheel, in an empty environment without a compiler: known
  answers of noise, the sentence of a command without its extra, and then `dpstream demo`;
* with the lowest allowed versions of all dependencies, with tests of counters, stores and commands as well;
* from the sdist without a compiler: the same numbers, and one sentence of warning;
* in an empty root of Debian's next release (debootstrap), which has the next Python;
* what each installation weighs. --write puts the table into docs/portability.md.
"""

from __future__ import annotations

import argparse
import json
import os
import shutil
import subprocess
import sys
import tarfile
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path

from tests.package.make_package import DIST, PROJECT
from tests.portability.builds import ROOT, SCRATCH, NotRun, installed
from tests.portability.environments import pythons

TRIALS = SCRATCH / "trials"
LOWEST_TESTS = (
    "tests/release/test_counter.py",
    "tests/store/test_store.py",
    "tests/cli/test_count.py",
    "tests/events/test_tally.py",
)
DEBIAN = "forky"
MIRROR = "http://deb.debian.org/debian"
TABLE = ("<!-- made by make package: do not edit from here -->", "<!-- end of what make package makes -->")
SENTENCE = "dpstream: the command needs polars, rich and typer; to install: pip install 'dpstream[cli]'\n"
ONE_WARNING = """
import warnings
with warnings.catch_warnings(record=True) as seen:
    warnings.simplefilter("always")
    import dpstream as dp
    counter = dp.Counter(horizon=99, budget=dp.zcdp(0.5))
    counter.extend([1] * 50); counter.add(1)
assert [str(w.message) for w in seen] == ["dpstream runs on its slow NumPy kernel: the compiled one is missing"], seen
"""


def wheel() -> Path:
    """Return the wheel for this system."""
    (found,) = DIST.glob("*manylinux*.whl")
    return found


def sources() -> Path:
    """Unpack the sdist without its src: the tests in it try what is installed."""
    folder = TRIALS / "sdist"
    shutil.rmtree(folder, ignore_errors=True)
    (packed,) = DIST.glob("*.tar.gz")
    with tarfile.open(packed) as archive:
        archive.extractall(folder, filter="data")
    (unpacked,) = folder.iterdir()
    shutil.rmtree(unpacked / "src")
    return unpacked


def call(*command: str, folder: Path, path: Path | None = None, status: int = 0) -> subprocess.CompletedProcess[str]:
    """Run a command with nothing on PATH but `path` and, for pip, nothing that compiles."""
    settings = {"PATH": str(path) if path else "/nonexistent", "HOME": str(TRIALS), "CC": "/nonexistent/cc"}
    kept = {name: value for name, value in os.environ.items() if name.startswith(("PIP_", "SSL_", "LANG", "LC_"))}
    done = subprocess.run(  # noqa: S603
        command, cwd=folder, env=settings | kept, capture_output=True, text=True, check=False
    )
    if done.returncode != status:
        raise RuntimeError(f"{' '.join(command)}: {done.returncode}\n{(done.stdout + done.stderr)[-2000:]}")
    return done


def fresh(python: str, name: str) -> Path:
    """Return the folder of programs of a new, empty environment."""
    folder = TRIALS / name
    shutil.rmtree(folder, ignore_errors=True)
    call(python, "-m", "venv", str(folder), folder=ROOT)
    return folder / "bin"


def install(programs: Path, *what: str) -> None:
    """Install with pip, from wheels only unless it is told otherwise."""
    call(
        str(programs / "python"), "-m", "pip", "install", "--quiet", "--no-compile", *what, folder=TRIALS, path=programs
    )


def weight(programs: Path) -> str:
    """Return what the environment weighs without pip, in MB of 10^6 bytes."""
    (site,) = programs.parent.glob("lib/python*/site-packages")
    size = 0
    for file in site.rglob("*"):
        top = file.relative_to(site).parts[0]
        if file.is_file() and not file.is_symlink() and not top.startswith(("pip", "setuptools", "_distutils")):
            size += file.stat().st_size
    return f"{size / 1e6:.0f} MB"


def answers(programs: Path, folder: Path) -> str:
    """Compare the known answers, and that it is the compiled kernel that gave them."""
    found = json.loads(call(str(programs / "python"), "-m", "tests.portability.check", folder=folder).stdout)
    return f"{found['kernel']} kernel, {found['answers']} answers the same; numpy {found['libraries']['numpy']}"


def demo(programs: Path) -> None:
    """Run the demonstration, from the wheel."""
    target = TRIALS / "demo"
    shutil.rmtree(target, ignore_errors=True)
    call(str(programs / "dpstream"), "demo", "--folder", str(target), folder=TRIALS, path=programs)
    if not (target / "totals.csv").exists():
        raise RuntimeError(f"dpstream demo left {[file.name for file in target.iterdir()]}")


# -- trials -----------------------------------------------------------------------------------------------------------


def on_python(python: str) -> str:
    """Try the wheel: the library alone, then with the command."""
    programs = fresh(python, Path(python).parents[1].name)
    install(programs, "--only-binary=:all:", str(wheel()))
    said = answers(programs, sources())
    alone = weight(programs)
    refused = call(str(programs / "dpstream"), "demo", folder=TRIALS, path=programs, status=2)
    if refused.stderr != SENTENCE:
        raise RuntimeError(f"without its extra the command said: {refused.stderr}")
    install(programs, "--only-binary=:all:", f"{wheel()}[cli]")
    demo(programs)
    return f"{said}; `dpstream demo` ran; {alone}, with [cli] {weight(programs)}"


def lowest() -> str:
    """Try the lowest allowed versions of all dependencies on the lowest Python."""
    programs = fresh(pythons()[0], "lowest")
    extras = PROJECT["optional-dependencies"]
    wanted = [*PROJECT["dependencies"], *extras["cli"], *extras["plot"]]
    install(programs, *(text.replace(">=", "==") for text in wanted), str(wheel()), "pytest>=8.3", "hypothesis>=6.100")
    folder = sources()
    said = answers(programs, folder)
    demo(programs)
    # Old versions may use what newer ones of others call deprecated: that is for their authors.
    options = ("-q", "-p", "no:cacheprovider", "-W", "ignore::DeprecationWarning")
    run = call(str(programs / "python"), "-m", "pytest", *options, *LOWEST_TESTS, folder=folder)
    return f"{said}; `dpstream demo` ran; {run.stdout.strip().splitlines()[-1]}"


def without_compiler() -> str:
    """Build from the sdist where nothing compiles."""
    programs = fresh(pythons()[0], "without-compiler")
    (packed,) = DIST.glob("*.tar.gz")
    install(programs, str(packed))
    said = answers(programs, sources())
    call(str(programs / "python"), "-c", ONE_WARNING, folder=TRIALS)
    return f"{said}; one warning, one sentence"


def in_empty_root() -> str:
    """Install in a root that holds Debian's smallest system and its Python, and run the demonstration there."""
    if os.geteuid() != 0:
        raise NotRun("making a root needs the rights of root")
    tool = installed("debootstrap")
    root = SCRATCH / "roots" / DEBIAN
    if not (root / "usr" / "bin" / "python3").exists():
        command = ("--variant=minbase", "--include=python3,python3-venv", DEBIAN, str(root), MIRROR)
        made = subprocess.run(  # noqa: S603
            [tool, *command, "/usr/share/debootstrap/scripts/sid"], capture_output=True, text=True, check=False
        )
        if made.returncode != 0:
            raise NotRun(f"debootstrap could not make a root: {made.stderr[-200:]}")
    asked = subprocess.run(  # noqa: S603
        ["chroot", str(root), "python3", "-c", "import platform; print(platform.python_version())"],  # noqa: S607
        capture_output=True, text=True, check=True,
    )  # fmt: skip
    number = asked.stdout.strip()
    wheels = root / "wheels"
    shutil.rmtree(wheels, ignore_errors=True)
    tags = [
        word
        for tag in ("manylinux2014", "manylinux_2_27", "manylinux_2_28")
        for word in ("--platform", f"{tag}_x86_64")
    ]
    version = number.rpartition(".")[0]
    load = ("-m", "pip", "download", "--quiet", *tags, "--python-version", version, "--only-binary=:all:", "--dest")
    done = subprocess.run(  # noqa: S603
        [sys.executable, *load, str(wheels), f"{wheel()}[cli]"], capture_output=True, text=True, check=False
    )
    if done.returncode != 0:
        raise NotRun(f"no wheels for Python {version}: {done.stderr[-200:]}")
    shutil.copy(wheel(), wheels)
    script = (
        "rm -rf /try /demo && python3 -m venv /try"
        " && /try/bin/pip install --quiet --no-index --find-links /wheels 'dpstream[cli]'"
        " && /try/bin/dpstream demo --folder /demo && test -s /demo/totals.csv && ! command -v gcc"
    )
    done = subprocess.run(  # noqa: S603
        ["chroot", str(root), "/bin/sh", "-c", script],  # noqa: S607
        env={"PATH": "/usr/bin:/bin:/usr/sbin:/sbin", "HOME": "/root"}, capture_output=True, text=True, check=False,
    )  # fmt: skip
    if done.returncode != 0:
        raise RuntimeError((done.stdout + done.stderr)[-2000:])
    return f"Python {number}, no compiler, no network: `dpstream demo` ran"


def musl() -> str:
    """Say what is known of the wheel for musllinux."""
    if not list(DIST.glob("*musllinux*.whl")):
        raise NotRun("it could not be built")
    raise NotRun(
        "it was built with musl-gcc, and the kernel's calls run with musl; no Python for musl was at hand to load it"
    )


def trials() -> Iterator[tuple[str, Callable[[], str]]]:
    """Yield what is tried, with its name."""
    for python in pythons():
        yield f"wheel, Python {Path(python).parents[1].name}, no compiler", partial(on_python, python)
    yield "wheel, lowest allowed versions of all dependencies", lowest
    yield "sdist, no compiler (NumPy twin)", without_compiler
    yield "wheel, empty root (debootstrap)", in_empty_root
    yield "wheel for musllinux", musl


def main() -> int:
    """Run the trials; see the module."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--only", default="")
    parser.add_argument("--write", type=Path)
    options = parser.parse_args()
    TRIALS.mkdir(parents=True, exist_ok=True)
    rows, failed = [], 0
    for name, do in trials():
        if options.only not in name:
            continue
        try:
            result = do()
        except NotRun as reason:
            result = f"not run: {reason}"
        except RuntimeError as error:
            print(error, file=sys.stderr)
            result, failed = "**FAILED**", failed + 1
        print(f"{name}: {result}", flush=True)
        rows.append(f"| {name} | {result} |")
    if options.write:
        before, _, rest = options.write.read_text().partition(TABLE[0])
        made = "\n".join((TABLE[0], "| installed | result |", "|---|---|", *rows, TABLE[1]))
        options.write.write_text(before + made + rest.partition(TABLE[1])[2])
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
