"""Checks that the same key gives the same noise: compilers, processors, libraries. `make portability` runs it.

usage: python -m tests.portability.run [--quick] [--only TEXT] [--write PAGE]

--quick takes what needs about a minute (for every change); --only takes the runs whose description contains a text;
--write makes the table of docs/portability.md. Exit status 1 if anything differs, or a sanitizer finds something.
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import re
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial
from pathlib import Path

from tests.portability import vectors
from tests.portability.builds import BUILDS, EMULATED, ROOT, SCRATCH, Build, NotRun, installed, run
from tests.portability.environments import aarch64_python, dependencies, environment, pythons

#: Findings end the program: a sanitizer that only prints would go unread.
SANITIZERS = ("-fsanitize=address,undefined", "-fno-sanitize-recover=all", "-fno-omit-frame-pointer", "-g")
TABLE = ("<!-- made by make portability: do not edit from here -->", "<!-- to here -->")


@dataclass(frozen=True)
class Check:
    """One row of the table: what is compared, on what, and how."""

    machine: str
    compiler: str
    path: str
    what: str
    do: Callable[[], str]
    quick: bool = False

    def __str__(self) -> str:
        return f"{self.machine} | {self.compiler} | {self.path} | {self.what}"


def checks() -> Iterator[Check]:
    """Yield every run."""
    this = f"Linux {platform.machine().replace('_', '-')}"
    twin = f"NumPy twin, Python {platform.python_version()}"
    yield Check(this, "–", twin, "answers and calls", partial(_python, None), quick=True)
    for build in BUILDS:
        yield Check(_machine(build), _compiler(build), build.path, "calls", partial(_driver, build), build.quick)
    for build in EMULATED:
        yield Check(f"Linux x86-64 ({build.runner[0]})", _compiler(build), build.path, "calls", partial(_driver, build))
    for build in BUILDS:
        if build.machine == "x86-64" and "musl" not in build.path:
            name = _compiler(build)
            yield Check(_machine(build), name, build.path, "answers and calls", partial(_python, build))
    (arm,) = (b for b in BUILDS if b.compiler.startswith("aarch64") and b.optimisation == "-O3")
    yield Check(_machine(arm), _compiler(arm), arm.path, "answers and calls", partial(_on_aarch64, arm))
    yield Check(_machine(arm), "–", "NumPy twin", "answers and calls", partial(_on_aarch64, None))
    for oldest, words in ((True, "lowest versions allowed"), (False, "newest versions")):
        yield Check(this, "gcc -O3", words, "answers and calls", partial(_with_versions, oldest))
    for compiler in ("gcc", "clang"):
        build = Build(compiler, "-O1", "x86-64", ("-DDPSTREAM_ONE_PATH",))
        what = "calls under AddressSanitizer and UndefinedBehaviorSanitizer"
        yield Check(this, f"{compiler} -O1", "x86-64", what, partial(_driver, build, *SANITIZERS), compiler == "gcc")
    build = Build("gcc", "-O1", "sanitized", ("-DDPSTREAM_ONE_PATH",))
    what = "tests/kernel under AddressSanitizer and UndefinedBehaviorSanitizer"
    yield Check(this, "gcc -O1", "x86-64", what, partial(_tests_sanitized, build))
    for system in ("macOS, any processor", "Windows, any processor"):
        yield Check(system, "clang, MSVC", "–", "–", partial(_not_here, system.partition(",")[0]))


def _machine(build: Build) -> str:
    return f"Linux {build.machine}" + (" (qemu-aarch64)" if build.machine == "aarch64" else "")


def _compiler(build: Build) -> str:
    return f"{build.compiler.rpartition('-')[2] if build.machine == 'aarch64' else build.compiler} {build.optimisation}"


# -- what a check does ------------------------------------------------------------------------------------------------


def _driver(build: Build, *extra: str) -> str:
    if platform.libc_ver()[0] != "glibc":
        raise NotRun("the runs are written for a glibc")
    said = run(*build.driver(*extra), str(_vectors()))
    return f"same bits: {said.strip().partition(',')[0]}"


def _vectors() -> Path:
    path = SCRATCH / "vectors.bin"
    path.parent.mkdir(exist_ok=True)
    vectors.write(path)
    return path


def _python(build: Build | None) -> str:
    if build is None:
        return _compared(sys.executable, DPSTREAM_KERNEL="twin")
    folder = build.package()
    return _compared(sys.executable, inside=folder, PYTHONPATH=str(folder), DPSTREAM_KERNEL="compiled")


def _compared(*python: str, inside: Path | None = None, **settings: str) -> str:
    """Run check.py; return what it compared."""
    found = json.loads(run(*python, "-m", "tests.portability.check", **settings).splitlines()[-1])
    if inside is not None and not Path(found["module"]).is_relative_to(inside):
        raise RuntimeError(f"the kernel at work was {found['module']}, not one below {inside}")
    return f"same bits: {found['answers']} answers, {found['calls']} calls ({_libraries(found['libraries'])})"


def _libraries(versions: dict[str, str]) -> str:
    return ", ".join(f"{name} {number}" for name, number in versions.items() if name in ("numpy", "scipy"))


def _on_aarch64(build: Build | None) -> str:
    command, settings, headers = aarch64_python()
    if build is None:
        source = ROOT / "src"
        path = f"{source}{os.pathsep}{settings['PYTHONPATH']}"
        return _compared(*command, **{**settings, "PYTHONPATH": path, "DPSTREAM_KERNEL": "twin"})
    folder = build.package(include=headers)
    path = f"{folder}{os.pathsep}{settings['PYTHONPATH']}"
    return _compared(*command, inside=folder, **{**settings, "PYTHONPATH": path, "DPSTREAM_KERNEL": "compiled"})


def _with_versions(oldest: bool) -> str:
    chosen = pythons()[0 if oldest else -1]  # the newest libraries are made for the newest Pythons
    python = environment("oldest" if oldest else "newest", *dependencies(oldest=oldest), python=chosen)
    folder = BUILDS[0].package()
    return _compared(str(python), PYTHONPATH=str(folder), DPSTREAM_KERNEL="compiled")


def _tests_sanitized(build: Build) -> str:
    """The kernel's own tests, refusals included, with a module that the sanitizers watch."""
    folder = build.package(*SANITIZERS)
    libraries = [run("gcc", f"-print-file-name={name}").strip() for name in ("libasan.so", "libubsan.so")]
    settings = {
        "PYTHONPATH": str(folder),
        "LD_PRELOAD": " ".join(libraries),
        "ASAN_OPTIONS": "detect_leaks=0",  # CPython and NumPy keep memory until the end
        "DPSTREAM_KERNEL": "compiled",
    }
    tests = ["tests/kernel", "--deselect", "tests/kernel/test_choice.py", "tests/portability/test_vectors.py"]
    said = run(sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", *tests, **settings)
    passed = re.search(r"(\d+) passed", said)
    if passed is None:
        raise RuntimeError(said[-500:])
    return f"no finding: {passed[1]} tests"


def _not_here(system: str) -> str:
    raise NotRun(f"no {system} at hand")


# -- the whole run ----------------------------------------------------------------------------------------------------


def main() -> int:
    """Run the checks; see the module."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--quick", action="store_true")
    parser.add_argument("--only", default="")
    parser.add_argument("--write", type=Path)
    options = parser.parse_args()
    rows, failed = [], 0
    for check in checks():
        if (options.quick and not check.quick) or options.only not in str(check):
            continue
        start = time.monotonic()
        try:
            result = check.do()
        except NotRun as reason:
            result = f"not run: {reason}"
        except RuntimeError as error:
            print(error, file=sys.stderr)
            result = "**DIFFERS**" if "differs" in str(error) else "**FAILED**"
            failed += 1
        print(f"{check}: {result} [{time.monotonic() - start:.0f} s]", flush=True)
        rows.append((check.machine, check.compiler, check.path, check.what, result))
    if options.write:
        _write(options.write, rows)
    return 1 if failed else 0


def _write(page: Path, rows: list[tuple[str, ...]]) -> None:
    """Put the table in its place on the page."""
    before, _, rest = page.read_text().partition(TABLE[0])
    after = rest.partition(TABLE[1])[2]
    lines = ["| platform | compiler | path | compared | result |", "|---|---|---|---|---|"]
    lines += [f"| {' | '.join(row)} |" for row in rows]
    page.write_text(f"{before}{TABLE[0]}\n{_tools()}\n\n" + "\n".join(lines) + f"\n{TABLE[1]}{after}")


def _tools() -> str:
    """Which compilers and emulators were at work."""
    found = []
    for tool in ("gcc", "clang", "aarch64-linux-gnu-gcc", "qemu-aarch64"):
        try:
            said = subprocess.run([installed(tool), "--version"], capture_output=True, text=True, check=False)  # noqa: S603
            found.append(f"{tool} {re.findall(r'[0-9]+[.][0-9.]+[0-9]', said.stdout)[0]}")
        except NotRun:
            continue
    return f"Run with {', '.join(found)}, Python {platform.python_version()}."


if __name__ == "__main__":
    sys.exit(main())
