"""Compiles the kernel and its driver in all the ways that `make portability` goes through."""

from __future__ import annotations

import os
import platform
import shutil
import subprocess
import sys
import sysconfig
from dataclasses import dataclass, field
from pathlib import Path

__all__ = ["BUILDS", "FLAGS", "ROOT", "SCRATCH", "Build", "NotRun", "installed", "run"]

ROOT = Path(__file__).parents[2]
SCRATCH = ROOT / ".portability"
KERNEL = ROOT / "src" / "dpstream" / "kernel"
#: What setup.py compiles with, but for the optimisation.
FLAGS = ("-std=c11", "-ffp-contract=off", "-fno-math-errno")
ONE_PATH = "-DDPSTREAM_ONE_PATH"
#: What runs a program of the other architecture, and where its libraries are.
EMULATOR = ("qemu-aarch64", "-L", "/usr/aarch64-linux-gnu")
#: Where each tool comes from on Debian, if it is missing.
PACKAGES = {
    "gcc": "gcc",
    "clang": "clang",
    "aarch64-linux-gnu-gcc": "gcc-aarch64-linux-gnu",
    "qemu-aarch64": "qemu-user",
    "qemu-x86_64": "qemu-user",
    "musl-gcc": "musl-tools",
    "debootstrap": "debootstrap",
}


class NotRun(Exception):
    """Something cannot be run here; the text says why."""


@dataclass(frozen=True)
class Build:
    """One way to compile the kernel, and what it is run on."""

    compiler: str
    optimisation: str
    path: str
    flags: tuple[str, ...] = ()
    machine: str = "x86-64"
    runner: tuple[str, ...] = ()
    #: Features of the processor, as /proc/cpuinfo calls them, without which it cannot be run.
    features: frozenset[str] = field(default_factory=frozenset)
    quick: bool = False

    @property
    def name(self) -> str:
        words = (self.machine, self.compiler, self.optimisation, self.path)
        return "-".join("".join(c for c in word if c.isalnum()) for word in words)

    def check(self) -> None:
        """Refuse what this machine cannot run."""
        if platform.machine() != "x86_64":
            raise NotRun(f"this machine is {platform.machine()}; the runs are written for x86-64")
        for tool in (self.compiler, *self.runner[:1]):
            installed(tool)
        missing = self.features - _features()
        if missing:
            raise NotRun(f"this processor has no {', '.join(sorted(missing))}")

    def driver(self, *extra: str) -> tuple[str, ...]:
        """Compile driver.c and return the command that runs it."""
        self.check()
        made = SCRATCH / "drivers" / f"{self.name}{''.join(c for c in ''.join(extra) if c.isalnum())}"
        made.parent.mkdir(parents=True, exist_ok=True)
        source = Path(__file__).with_name("driver.c")
        flags = (*FLAGS, self.optimisation, *self.flags, *extra)
        run(self.compiler, *flags, f"-I{KERNEL}", str(source), "-o", str(made), "-lm")
        return (*self.runner, str(made))

    def package(self, *extra: str, include: Path | None = None) -> Path:
        """Copy dpstream with a kernel of this build in it; return the folder to put on PYTHONPATH."""
        self.check()
        folder = SCRATCH / "packages" / self.name
        if folder.exists():
            shutil.rmtree(folder)
        ignored = shutil.ignore_patterns("*.so", "__pycache__")
        shutil.copytree(ROOT / "src" / "dpstream", folder / "dpstream", ignore=ignored)
        headers = include or Path(sysconfig.get_paths()["include"])
        flags = (*FLAGS, self.optimisation, *self.flags, *extra, "-shared", "-fPIC", "-DPy_LIMITED_API=0x030B0000")
        target = folder / "dpstream" / "kernel" / "_compiled.abi3.so"
        # The headers of another architecture lie one folder up, too: python3.11/pyconfig.h only points there.
        run(self.compiler, *flags, f"-I{headers}", f"-I{headers.parent}", str(KERNEL / "module.c"), "-o", str(target))
        return folder


AVX2 = frozenset({"avx2", "fma", "bmi1", "bmi2"})
AVX512 = AVX2 | {"avx512f", "avx512bw", "avx512cd", "avx512dq", "avx512vl"}


def _builds() -> list[Build]:
    found = [Build("gcc", "-O3", "as shipped: the processor's choice", quick=True)]
    for compiler in ("gcc", "clang"):
        for optimisation in ("-O0", "-O3"):
            for level, features in (("x86-64", frozenset[str]()), ("x86-64-v3", AVX2), ("x86-64-v4", AVX512)):
                flags = (f"-march={level}", ONE_PATH)
                quick = (compiler, optimisation, level) in (("gcc", "-O0", "x86-64"), ("clang", "-O3", "x86-64-v3"))
                found.append(Build(compiler, optimisation, level, flags, features=features, quick=quick))
    for optimisation in ("-O0", "-O3"):
        found.append(
            Build(
                "aarch64-linux-gnu-gcc", optimisation, "armv8-a", (), "aarch64", EMULATOR, quick=optimisation == "-O3"
            )
        )
    found.append(Build("clang", "-O3", "armv8-a", ("--target=aarch64-linux-gnu",), "aarch64", EMULATOR))
    found.append(Build("musl-gcc", "-O3", "x86-64, musl", ("-static",)))
    return found


BUILDS = _builds()
#: The binary as it is shipped, on emulated processors: its own choice of path, which they make differently.
EMULATED = [
    Build("gcc", "-O3", f"as shipped, on {model}", (), "x86-64", ("qemu-x86_64", "-cpu", model))
    for model in ("Nehalem", "Haswell")
]


def run(*command: str, **environment: str) -> str:
    """Run a command; return what it printed, or raise with what it said."""
    done = subprocess.run(  # noqa: S603
        command, cwd=ROOT, env=os.environ | environment, capture_output=True, text=True, check=False
    )
    if done.returncode != 0:
        raise RuntimeError(f"{' '.join(command)}: {(done.stdout + done.stderr).strip()[-2000:]}")
    return done.stdout


def installed(tool: str) -> str:
    """Return where a tool is, after installing it if it is missing and that is possible."""
    found = shutil.which(tool)
    if found is None and tool in PACKAGES and shutil.which("apt-get") and os.geteuid() == 0:
        for step in ([], ["update"]):
            try:
                if step:
                    run("apt-get", "--quiet", *step)
                run("apt-get", "--quiet", "--yes", "--no-install-recommends", "install", PACKAGES[tool])
                break
            except RuntimeError as error:
                print(error, file=sys.stderr)
        found = shutil.which(tool)
    if found is None:
        raise NotRun(f"{tool} is not installed and could not be")
    return found


def _features() -> frozenset[str]:
    for line in Path("/proc/cpuinfo").read_text().splitlines():
        if line.startswith("flags"):
            return frozenset(line.partition(":")[2].split())
    return frozenset()
