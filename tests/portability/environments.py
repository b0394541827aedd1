"""Pythons and libraries of other versions and architectures: environments in .portability, which this makes."""

from __future__ import annotations

import os
import shutil
import sys
import tomllib
import zipfile
from pathlib import Path

from tests.portability.builds import ROOT, SCRATCH, NotRun, installed, run

__all__ = ["aarch64_python", "dependencies", "environment", "pythons"]


def dependencies(*, oldest: bool) -> list[str]:
    """Return what dpstream needs, as pip takes it: the lowest allowed versions, or any."""
    declared = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["dependencies"]
    return [text.replace(">=", "==") if oldest else text for text in declared]


def pythons() -> list[str]:
    """Return a Python of every version from 3.11 on that is at hand, oldest first: of PATH, and of pyenv."""
    found: dict[tuple[int, ...], str] = {}
    pyenv = Path(os.environ.get("PYENV_ROOT", Path.home() / ".pyenv")) / "versions"
    for candidate in (*pyenv.glob("3.*/bin/python"), *map(shutil.which, (f"python3.{n}" for n in range(11, 20)))):
        if candidate is None:
            continue
        try:
            said = run(str(candidate), "-c", "import sys; print(*sys.version_info[:2])")
        except (RuntimeError, OSError):
            continue
        found.setdefault(tuple(map(int, said.split())), str(candidate))
    return [path for version, path in sorted(found.items()) if version >= (3, 11)]


def environment(name: str, *requirements: str, python: str = sys.executable) -> Path:
    """Return the Python of a virtual environment with these distributions; made once.

    A requirement "sha256 …" installs nothing: it tells apart files of one name, such as two builds of a wheel.
    """
    folder = SCRATCH / name
    made = folder / "requirements"
    if not made.exists() or made.read_text() != "\n".join(requirements):
        run(python, "-m", "venv", "--clear", str(folder))
        try:
            wanted = [text for text in requirements if not text.startswith("sha256 ")]
            run(str(folder / "bin" / "python"), "-m", "pip", "install", "--quiet", *wanted)
        except RuntimeError as error:
            raise NotRun(f"pip could not install {' '.join(requirements)}: {str(error)[-200:]}") from None
        made.write_text("\n".join(requirements))
    return folder / "bin" / "python"


APT = """
APT::Architecture "arm64";
APT::Architectures {{ "arm64"; }};
APT::Install-Recommends "false";
APT::Sandbox::User "root";
Dir::State "{folder}/state";
Dir::State::status "{folder}/state/status";
Dir::Cache "{folder}/cache";
"""
TAGS = ("manylinux2014", "manylinux_2_17", "manylinux_2_27", "manylinux_2_28")


def aarch64_python() -> tuple[tuple[str, ...], dict[str, str], Path]:
    """Return the command that runs a Python for aarch64 with all dependencies, its environment and its headers.

    Debian's packages are unpacked into a folder of their own (nothing of the system is changed) and its wheels beside
    them; qemu-aarch64 runs it.
    """
    emulator = installed("qemu-aarch64")
    folder = SCRATCH / "aarch64"
    root, site, made = folder / "root", folder / "site", folder / "made"
    if not made.exists():
        _unpack_debian(folder, root)
        wheels = folder / "wheels"
        platforms = [word for tag in TAGS for word in ("--platform", f"{tag}_aarch64")]
        wanted = [*dependencies(oldest=False), "cffi"]
        try:
            run(
                sys.executable, "-m", "pip", "download", "--quiet", "--no-deps", *platforms, "--python-version", "3.11",
                "--only-binary=:all:", "--dest", str(wheels), *wanted,
            )  # fmt: skip
        except RuntimeError as error:
            raise NotRun(f"no wheels for aarch64: {str(error)[-200:]}") from None
        for wheel in wheels.glob("*.whl"):
            with zipfile.ZipFile(wheel) as archive:
                archive.extractall(site)
        made.touch()
    command = (emulator, "-L", str(root), str(root / "usr" / "bin" / "python3.11"))
    return command, {"PYTHONPATH": str(site), "PYTHONDONTWRITEBYTECODE": "1"}, root / "usr" / "include" / "python3.11"


def _unpack_debian(folder: Path, root: Path) -> None:
    for part in ("state/lists/partial", "cache/archives/partial"):
        (folder / part).mkdir(parents=True, exist_ok=True)
    (folder / "state" / "status").touch()
    (folder / "apt.conf").write_text(APT.format(folder=folder))
    root.mkdir(exist_ok=True)
    settings = {"APT_CONFIG": str(folder / "apt.conf")}
    try:
        run("apt-get", "--quiet", "update", **settings)
        wanted = ("python3.11", "libpython3.11-dev", "libstdc++6")
        run("apt-get", "--quiet", "--yes", "--download-only", "install", *wanted, **settings)
        for package in sorted((folder / "cache" / "archives").glob("*.deb")):
            run("dpkg-deb", "--extract", str(package), str(root))
    except (RuntimeError, FileNotFoundError) as error:
        raise NotRun(f"no Python for aarch64: {str(error)[-200:]}") from None
    # The loader's path in wheels and programs is absolute; qemu looks below `root` first.
    if not os.access(root / "usr" / "bin" / "python3.11", os.X_OK):
        raise NotRun("no Python for aarch64: python3.11 is not among what was unpacked")
