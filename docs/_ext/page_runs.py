"""Runs the code blocks of a page from top to bottom in a folder of its own, and keeps what they printed.

Three kinds of blocks run (docs/writing.md explains them to writers):

* `{shell}`: commands for bash, one after the other;
* `{python}`: Python, in one process for the whole page;
* `{file} NAME`: a file, written into the page's folder.

A page whose head says `environment: integrations` needs PyTorch, JAX or Spark. It is run by `make test-integrations`;
the site shows the record of a run, which is stored in docs/recorded with a fingerprint of the blocks:

    python docs/_ext/page_runs.py --record docs/tutorials/training-pytorch.md
"""

from __future__ import annotations

import base64
import hashlib
import json
import os
import pty
import re
import select
import shutil
import signal
import subprocess
import sys
import tempfile
import termios
import time
import urllib.request
from collections.abc import Iterator
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path

HERE = Path(__file__).resolve().parent
DOCS = HERE.parent
ROOT = DOCS.parent
RECORDED = DOCS / "recorded"
#: How long one block may take, and how long a server may take to answer.
BLOCK_SECONDS = 240.0
SERVER_SECONDS = 60.0
#: How wide a terminal the commands see.
COLUMNS = 84

_FENCE = re.compile(
    r"^(?P<fence>`{3,})\{(?P<kind>shell|python|file)\}[ \t]*(?P<argument>[^\n]*)\n"
    r"(?P<options>(?::[\w-]+:[^\n]*\n)*)\n*(?P<body>.*?)^(?P=fence)[ \t]*$",
    re.MULTILINE | re.DOTALL,
)
_OPTIONS = frozenset(
    {"fails", "hide", "hide-code", "hide-output", "lines", "image", "alt", "background", "not-run", "answers"}
)


class PageError(Exception):
    """A block of a page is written wrongly, or did not do what the page says."""


@dataclass(frozen=True)
class Block:
    """One code block of a page: its kind, the words after the kind, its options, its text and where it begins."""

    kind: str
    argument: str
    options: dict[str, str]
    body: str
    line: int

    @property
    def runs(self) -> bool:
        """Whether the block is run at all."""
        return "not-run" not in self.options


@dataclass(frozen=True)
class Result:
    """What a block printed: for a shell block one text for each command, and the picture that the block made."""

    commands: list[str]
    outputs: list[str]
    image: str | None = None  # base64

    @property
    def picture(self) -> bytes | None:
        """The picture's bytes."""
        return None if self.image is None else base64.b64decode(self.image)


@dataclass(frozen=True)
class Page:
    """A page, its blocks and what its head says."""

    path: Path
    blocks: list[Block]
    head: dict[str, str]

    @property
    def name(self) -> str:
        """The page's name for Sphinx, such as tutorials/clinic."""
        return self.path.relative_to(DOCS).with_suffix("").as_posix() if self.path.is_relative_to(DOCS) else "page"

    @property
    def recorded(self) -> bool:
        """Whether the page is run elsewhere, and shown from a record."""
        return self.head.get("environment") == "integrations"

    @property
    def fingerprint(self) -> str:
        """Changes with every change of a block."""
        return hashlib.sha256(json.dumps([asdict(block) | {"line": 0} for block in self.blocks]).encode()).hexdigest()


def read_page(path: Path) -> Page:
    """Read a page; refuse blocks with unknown options or pictures without a description."""
    text = path.read_text()
    head = re.match(r"---\n(.*?)^---\n", text, re.MULTILINE | re.DOTALL)
    told = dict(re.findall(r"^([\w-]+):[ \t]*(.*)$", head[1], re.MULTILINE)) if head else {}
    return Page(path, list(_blocks(path, text)), told)


def _blocks(path: Path, text: str) -> Iterator[Block]:
    for found in _FENCE.finditer(text):
        line = text.count("\n", 0, found.start()) + 1
        options = {name: value.strip() for name, value in re.findall(r":([\w-]+):([^\n]*)\n", found["options"])}
        if unknown := options.keys() - _OPTIONS:
            raise PageError(
                f"{path}:{line}: no such option: {', '.join(sorted(unknown))}; there are {sorted(_OPTIONS)}"
            )
        if ("image" in options) != ("alt" in options):
            raise PageError(f"{path}:{line}: a block with :image: needs :alt:, the picture in words, and the reverse")
        if options.get("not-run") == "":
            raise PageError(f"{path}:{line}: :not-run: needs a reason")
        yield Block(found["kind"], found["argument"].strip(), options, found["body"].rstrip() + "\n", line)


def commands(body: str) -> list[str]:
    """The commands of a shell block: lines are joined until bash finds nothing missing."""
    found: list[str] = []
    waiting = ""
    for line in body.splitlines():
        waiting += line + "\n"
        if line.endswith("\\") or not waiting.strip():
            continue
        checked = subprocess.run(["bash", "-n"], input=waiting, text=True, capture_output=True, check=False)  # noqa: S607
        if checked.returncode == 0 and not checked.stderr:
            found.append(waiting.strip("\n"))
            waiting = ""
    if waiting.strip():
        raise PageError(f"bash cannot read this: {waiting}")
    return found


@dataclass
class _Workplace:
    """The folder in which a page runs, its Python process and its servers."""

    page: Page
    home: Path
    servers: list[subprocess.Popen[bytes]] = field(default_factory=list)
    python: subprocess.Popen[str] | None = None

    @property
    def folder(self) -> Path:
        return self.home / "work"

    @property
    def environment(self) -> dict[str, str]:
        kept = ("LANG", "JAVA_HOME", "TMPDIR", "LD_LIBRARY_PATH", "PYTHONDONTWRITEBYTECODE")
        fonts = ROOT / "build" / "matplotlib"  # the list of fonts takes seconds to make, and is the same for all pages
        fonts.mkdir(parents=True, exist_ok=True)
        return {name: os.environ[name] for name in kept if name in os.environ} | {
            "PATH": f"{Path(sys.executable).parent}:/usr/local/bin:/usr/bin:/bin",
            "HOME": str(self.home),
            "TZ": "UTC",
            "COLUMNS": str(COLUMNS),
            "LINES": "50",
            "TERM": "dumb",
            "NO_COLOR": "1",
            # The package beside the pages runs, also when another copy is installed.
            "PYTHONPATH": f"{HERE / 'fixed_randomness'}:{ROOT / 'src'}",
            "MPLBACKEND": "agg",
            "MPLCONFIGDIR": str(fonts),
            "DPSTREAM_PAGE": self.page.name,
            "DPSTREAM_PAGE_TURNS": str(self.home / ".turns"),
        }

    def cleaned(self, printed: str) -> str:
        """What was printed, without the name of this folder and without spaces at the ends of lines."""
        told = printed.replace(str(self.home), "~")
        return "".join(f"{line.rstrip()}\n" for line in told.splitlines())

    def run(self, block: Block) -> Result:
        if not block.runs:
            return Result(commands(block.body) if block.kind == "shell" else [], [])
        if block.kind == "file":
            target = self.folder / block.argument
            target.parent.mkdir(parents=True, exist_ok=True)
            target.write_text(block.body)
            return Result([], [])
        if block.kind == "python":
            result = Result([], [self.cleaned(self.run_python(block))])
        elif "background" in block.options:
            result = Result([block.body.strip()], [self.cleaned(self.serve(block))])
        else:
            typed = commands(block.body)
            result = Result(typed, [self.cleaned(one) for one in self.run_shell(block, typed)])
        if "image" in block.options:
            picture = (self.folder / block.options["image"]).read_bytes()
            return Result(result.commands, result.outputs, base64.b64encode(picture).decode())
        return result

    def run_shell(self, block: Block, typed: list[str]) -> list[str]:
        mark = "\x1e"
        script = "".join(f"printf '\\036'\n{command}\n" for command in typed)
        answers = block.options.get("answers")
        printed, status = self.on_a_terminal(script, None if answers is None else answers.split("|"))
        expected = int(block.options.get("fails", "0"))
        outputs = printed.split(mark)[1:]
        if status != expected or len(outputs) != len(typed):
            raise PageError(f"exit status {status}, expected {expected}:\n{printed.replace(mark, '')}")
        if expected:
            outputs[-1] += f"[exit status {expected}]\n"
        return outputs

    def on_a_terminal(self, script: str, answers: list[str] | None) -> tuple[str, int]:
        """Run a script as in a terminal, and type an answer at every question; return what is shown and the status."""
        ours, theirs = pty.openpty()
        settings = termios.tcgetattr(theirs)
        settings[1] &= ~termios.OPOST  # lines end as programs end them
        termios.tcsetattr(theirs, termios.TCSANOW, settings)
        process = subprocess.Popen(  # noqa: S603
            ["bash", "-e", "-o", "pipefail", "-c", script],  # noqa: S607
            cwd=self.folder, env=self.environment, stdin=subprocess.DEVNULL if answers is None else theirs,
            stdout=theirs, stderr=theirs, start_new_session=True,
        )  # fmt: skip
        os.close(theirs)
        shown, left = b"", list(answers or ())
        deadline = time.monotonic() + BLOCK_SECONDS
        try:
            while read := self._read(ours, deadline):
                shown += read
                if left and shown.endswith(b": "):
                    answer = left.pop(0).strip()
                    os.write(ours, b"\n" if answer == "Enter" else f"{answer}\n".encode())
            status = process.wait(10)
        finally:
            os.close(ours)
            if process.poll() is None:
                os.killpg(process.pid, signal.SIGKILL)
                process.wait()
        if left:
            raise PageError(f"{len(left)} answers were not asked for:\n{shown.decode()}")
        return shown.decode(), status

    @staticmethod
    def _read(terminal: int, deadline: float) -> bytes:
        """Read what comes next; nothing once every program that writes to the terminal has ended."""
        if not select.select([terminal], [], [], max(0.0, deadline - time.monotonic()))[0]:
            raise PageError(f"a block took longer than {BLOCK_SECONDS:g} s")
        try:
            return os.read(terminal, 65536)
        except OSError:  # Linux says so by an error
            return b""

    def run_python(self, block: Block) -> str:
        if self.python is None:
            self.python = subprocess.Popen(  # noqa: S603
                [sys.executable, "-u", str(HERE / "page_python.py")],
                cwd=self.folder, env=self.environment, text=True, stdin=subprocess.PIPE, stdout=subprocess.PIPE,
                start_new_session=True,
            )  # fmt: skip
        asked, answered = self.python.stdin, self.python.stdout
        if asked is None or answered is None:
            raise PageError("Python was started without pipes")
        asked.write(json.dumps({"code": block.body, "name": f"{self.page.path.name}:{block.line}"}) + "\n")
        asked.flush()
        told = json.loads(answered.readline() or '{"printed": "Python ended", "failed": true}')
        if told["failed"] != ("fails" in block.options):
            raise PageError(f"{'failed' if told['failed'] else 'did not fail'}:\n{told['printed']}")
        return str(told["printed"])

    def serve(self, block: Block) -> str:
        log = self.home / f".server-{len(self.servers)}"
        with log.open("wb") as file:
            self.servers.append(
                subprocess.Popen(  # noqa: S603
                    ["bash", "-c", "exec " + block.body],  # noqa: S607
                    cwd=self.folder,
                    env=self.environment,
                    stdin=subprocess.DEVNULL,
                    stdout=file,
                    stderr=subprocess.STDOUT,
                    start_new_session=True,
                )
            )
        deadline = time.monotonic() + SERVER_SECONDS
        while time.monotonic() < deadline and self.servers[-1].poll() is None:
            try:
                with urllib.request.urlopen(block.options["background"], timeout=5):  # noqa: S310
                    return log.read_text()
            except OSError:  # not there yet, or too busy to answer in time
                time.sleep(0.1)
        raise PageError(f"nothing answered at {block.options['background']}:\n{log.read_text()}")

    def end(self) -> None:
        for process in (*self.servers, *([self.python] if self.python else [])):
            if process.poll() is None:
                os.killpg(process.pid, signal.SIGTERM)
                try:
                    process.wait(10)
                except subprocess.TimeoutExpired:
                    os.killpg(process.pid, signal.SIGKILL)
                    process.wait()
            for pipe in (process.stdin, process.stdout):
                if pipe is not None:
                    pipe.close()


def run_page(page: Page) -> list[Result]:
    """Run every block of a page, in a new folder, and return what they printed."""
    results = []
    with tempfile.TemporaryDirectory(prefix="page-") as home:
        place = _Workplace(page, Path(home).resolve())
        place.folder.mkdir()
        for given in (page.path.parent / "files", page.path.with_suffix("")):
            if given.is_dir():  # files of all pages of the section, and of this page
                shutil.copytree(given, place.folder, dirs_exist_ok=True)
        try:
            for block in page.blocks:
                try:
                    results.append(place.run(block))
                except (PageError, OSError, subprocess.SubprocessError, UnicodeDecodeError) as error:
                    raise PageError(f"{page.path}:{block.line}: {error}") from error
        finally:
            place.end()
    return results


def record_of(page: Page) -> Path:
    """Where the record of a page that is run elsewhere is kept."""
    return RECORDED / f"{page.name.replace('/', '.')}.json"


def shown_of(page: Page) -> list[Result]:
    """Run a page; return what it printed without what is not shown, which may speak of the machine."""
    return [
        replace(result, outputs=[""] * len(result.outputs))
        if {"hide", "hide-output"} & block.options.keys()
        else result
        for block, result in zip(page.blocks, run_page(page), strict=True)
    ]


def record(page: Page) -> None:
    """Run a page and store what it printed."""
    results = shown_of(page)
    target = record_of(page)
    target.parent.mkdir(exist_ok=True)
    told = {"blocks": page.fingerprint, "results": [asdict(result) for result in results]}
    target.write_text(json.dumps(told, indent=1, ensure_ascii=False) + "\n")


def recorded(page: Page) -> list[Result]:
    """What the record of a page says; refuse one of other blocks."""
    target = record_of(page)
    remedy = f"run `.venv-integrations/bin/python docs/_ext/page_runs.py --record {page.path.relative_to(ROOT)}`"
    if not target.exists():
        raise PageError(f"{page.path}: there is no record of this page; {remedy}")
    told = json.loads(target.read_text())
    if told["blocks"] != page.fingerprint:
        raise PageError(f"{page.path}: a block has changed since the page was recorded; {remedy}")
    return [Result(**result) for result in told["results"]]


def pages() -> list[Page]:
    """Every page of the documentation that has blocks to run."""
    found = [read_page(path) for path in sorted(DOCS.rglob("*.md")) if "{" in path.read_text()]
    return [page for page in found if page.blocks]


def main(arguments: list[str]) -> None:
    """Run the pages named, and print what they print; with --record, store it."""
    to_record = "--record" in arguments
    for name in arguments:
        if name == "--record":
            continue
        page = read_page(Path(name).resolve())
        if to_record:
            record(page)
            continue
        for block, result in zip(page.blocks, run_page(page), strict=True):
            print(f"--- {name}:{block.line} {block.kind} {block.argument}")
            typed = [f"$ {command}" for command in result.commands] or [block.body]
            for i, text in enumerate(typed):
                print(text, "".join(result.outputs[i : i + 1]), sep="\n")


if __name__ == "__main__":
    try:
        main(sys.argv[1:])
    except PageError as error:
        sys.exit(str(error))
