"""What `dpstream` prints for the files of `real_files`, as pages of docs/transcripts: python -m tests.transcripts.

Keys and the tags of streams are fixed, so that the same commands always print the same; nothing else differs from what
a shell would show.
"""

import hashlib
import os
import shlex
import sys
import tempfile
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from unittest import mock

from typer.testing import CliRunner

from dpstream.cli.app import app
from tests import real_files
from tests.real_files import Event

FOLDER = Path(__file__).parents[1] / "docs" / "transcripts"
THROUGH = "--from 2025-03-25 --through 2025-03-31"
BUDGET = "--epsilon 1 --delta 1e-6 --horizon 365"


@dataclass(frozen=True)
class Transcript:
    """A file, and how it is published.

    Attributes
    ----------
    name, title
        Of the page.
    story
        What the file is like.
    make
        Writes the files and returns what is in them.
    adds
        What an event should add to its day, in units: by category, or as one number.
    commands
        What is typed. A line that begins with a # is said instead.
    """

    name: str
    title: str
    story: str
    make: Callable[[Path], list[Event]]
    adds: Callable[[Event], dict[str, int]]
    commands: tuple[str, ...]

    @property
    def store(self) -> str:
        """The file that keeps the stream."""
        return f"{self.name}.db"


def once(_: Event) -> dict[str, int]:
    """Every row counts 1."""
    return {"": 1}


TRANSCRIPTS = (
    Transcript(
        "admissions",
        "Admissions by ward: times with offsets, a ward with a comma",
        "A hospital's export. Times carry the offset of Vienna; one of the wards is called `Surgery, general`.",
        real_files.admissions,
        lambda event: {event.kind: 1},
        (
            "head -n 3 admissions.csv",
            "dpstream count admissions.csv",
            f"dpstream count admissions.csv --time admitted_at {THROUGH} {BUDGET} --time-zone Europe/Vienna --by ward"
            " --values 'A&E,Surgery, general,Cardiology' --store admissions.db",
            "# The comma is part of the name, so the name stands in quotes.",
            f"dpstream count admissions.csv --time admitted_at {THROUGH} {BUDGET} --time-zone Europe/Vienna --by ward"
            " --values 'A&E,\"Surgery, general\",Cardiology' --store admissions.db --as table",
            "# The day after, the stream knows everything else.",
            "dpstream count admissions-2025-04-01.csv --store admissions.db --through 2025-04-01 --as table",
        ),
    ),
    Transcript(
        "sales",
        "Takings of a shop: amounts, refunds, one very large order",
        "Amounts have two decimals; one order is far above the rest.",
        real_files.sales,
        lambda event: {"": max(min(event.worth, 20_000), -20_000)},
        (
            "head -n 3 sales.csv",
            f"dpstream count sales.csv --time date {THROUGH} {BUDGET} --value amount --per-person 200 --store sales.db",
            f"dpstream count sales.csv --time date {THROUGH} {BUDGET} --value amount --per-person 200 --unit 0.01"
            " --store sales.db",
            f"dpstream count sales.csv --time date {THROUGH} {BUDGET} --value amount --per-person 200 --unit 0.01"
            " --clip --store sales.db --as table",
            "dpstream count sales-2025-04-01.csv --store sales.db --through 2025-04-01 --as table",
        ),
    ),
    Transcript(
        "web",
        "Requests of a web server: milliseconds since 1970, only those that were answered",
        "JSON lines with a number for the time. Only requests with status 200 are counted: a rule that anybody may"
        " know.",
        real_files.web,
        lambda event: {"": int(event.kind == "200")},
        (
            "head -n 3 web.jsonl",
            f"dpstream count web.jsonl --time ts {THROUGH} {BUDGET} --where status=200 --time-zone UTC --store web.db"
            " --as table",
            "dpstream count web-2025-04-01.jsonl --store web.db --through 2025-04-01 --as table",
        ),
    ),
    Transcript(
        "telemetry",
        "Devices so far: Parquet, users protected instead of rows",
        "A Parquet file with typed columns. One report of every device counts, so that the total is how many devices"
        " have reported so far, and a device is protected as a whole.",
        real_files.telemetry,
        once,
        (
            f"dpstream count telemetry.parquet --time at {THROUGH} {BUDGET} --user device --max-contributions 1"
            " --max-users 1000 --time-zone UTC --store telemetry.db --as table",
            "dpstream count telemetry-2025-04-01.parquet --store telemetry.db --through 2025-04-01 --as table",
        ),
    ),
    Transcript(
        "offices",
        "An export for a spreadsheet: semicolons, decimal commas, dd/mm/yyyy, empty cells",
        "A byte order mark, semicolons, amounts such as 12,50, days before months, and cells that are empty, NA or -.",
        real_files.offices,
        lambda event: {event.kind: max(min(event.worth, 20_000), -20_000)},
        (
            "head -n 3 offices.csv",
            f"dpstream count offices.csv --time Datum {THROUGH} {BUDGET} --by Bezirk --values Mitte,Nord,Süd"
            " --value Betrag --unit 0.01 --per-person 200 --clip --store offices.db",
            f"dpstream count offices.csv --time Datum {THROUGH} {BUDGET} --by Bezirk --values Mitte,Nord,Süd"
            " --value Betrag --unit 0.01 --per-person 200 --clip --missing skip --store offices.db",
            f"dpstream count offices.csv --time Datum {THROUGH} {BUDGET} --by Bezirk --values Mitte,Nord,Süd"
            " --value Betrag --unit 0.01 --per-person 200 --clip --decimal , --missing skip --store offices.db"
            " --as table",
            "# 01/04/2025 might be 4 January, but the stream knows the form.",
            "dpstream count offices-2025-04-01.csv --store offices.db --through 2025-04-01 --as table",
        ),
    ),
    Transcript(
        "kassa",
        "A messy one: a till's file from Windows",
        "Windows text, quotes around some fields, a shop whose name holds a semicolon, and rows of tests without an"
        " amount.",
        real_files.till,
        lambda event: {event.kind: max(min(event.worth, 10_000), -10_000)},
        (
            f"dpstream count kassa.csv --time Zeit {THROUGH} {BUDGET} --store kassa.db",
            f"dpstream count kassa.csv --encoding cp1252 --time Zeit {THROUGH} {BUDGET} --by Filiale --values"
            " 'Währing,Döbling,Favoriten; Süd' --value 'Betrag €' --unit 0.01 --decimal , --per-person 100 --clip"
            " --store kassa.db",
            "# Tests of the till are not sales.",
            f"dpstream count kassa.csv --encoding cp1252 --time Zeit {THROUGH} {BUDGET} --by Filiale --values"
            " 'Währing,Döbling,Favoriten; Süd' --value 'Betrag €' --unit 0.01 --decimal , --per-person 100 --clip"
            " --where Art=Verkauf --store kassa.db --as table",
            "dpstream count kassa-2025-04-01.csv --store kassa.db --through 2025-04-01 --as table",
        ),
    ),
    Transcript(
        "bookings",
        "A workbook: sheets, cells that are dates, computed amounts",
        "An Excel file whose first sheet holds remarks. Amounts are results of formulas, and so 37.80 is stored as"
        " 37.800000000000004.",
        real_files.bookings,
        lambda event: {event.kind: max(min(event.worth, 20_000), -20_000)},
        (
            f"dpstream count bookings.xlsx --time Day {THROUGH} {BUDGET} --store bookings.db",
            f"dpstream count bookings.xlsx --sheet Bookings --time Day {THROUGH} {BUDGET} --by House"
            " --values north,south --value Paid --unit 0.01 --per-person 200 --clip --store bookings.db --as table",
            "dpstream count bookings-2025-04-01.xlsx --store bookings.db --through 2025-04-01 --as table",
        ),
    ),
)


@contextmanager
def nothing_random(seed: str) -> Iterator[None]:
    """Let the operating system's randomness be a fixed sequence for each function that asks: never outside of tests."""
    asked: Counter[str] = Counter()

    def fixed(size: int) -> bytes:
        code = sys._getframe(1).f_code
        asked[code.co_qualname] += 1
        text = f"{seed} {Path(code.co_filename).name} {code.co_qualname} {asked[code.co_qualname]}"
        return hashlib.shake_256(text.encode()).digest(size)

    with mock.patch("os.urandom", fixed), mock.patch("secrets.token_bytes", fixed):
        yield


def typed(command: str) -> str:
    """Run a command in this folder and return what a terminal of 100 columns would show."""
    words = shlex.split(command)
    if words[0] == "head":
        lines = Path(words[3]).read_bytes().decode("utf-8-sig").splitlines()[: int(words[2])]
        return "\n".join(lines) + "\n"
    result = CliRunner().invoke(app, words[1:], env={"COLUMNS": "100", "NO_COLOR": "1"})
    if result.exception is not None and not isinstance(result.exception, SystemExit):
        raise result.exception
    status = f"[exit status {result.exit_code}]\n" if result.exit_code else ""
    return "".join(f"{line.rstrip()}\n" for line in result.output.splitlines()) + status


def shown(command: str) -> str:
    """A command in lines that fit a page, and that can be pasted."""
    lines = ["$"]
    for word in command.split(" "):
        if len(lines[-1]) + 1 + len(word) > 100 and word.startswith("--"):
            lines.append("   ")
        lines[-1] += f" {word}"
    return " \\\n".join(lines)


def page(transcript: Transcript) -> str:
    """Make the files in this folder, publish them, and return the page."""
    transcript.make(Path())
    parts = [f"# {transcript.title}\n\n{transcript.story}\n"]
    with nothing_random(transcript.name):
        for command in transcript.commands:
            if command.startswith("#"):
                parts.append(command.removeprefix("# ") + "\n")
            else:
                parts.append(f"```console\n{shown(command)}\n{typed(command)}```\n")
    return "\n".join(parts)


def index() -> str:
    """The list of pages."""
    listed = "".join(f"* [{one.title}]({one.name}.md)\n" for one in TRANSCRIPTS)
    return (
        "# Files as they are, published\n\nMade-up files of the kinds that publishers have, and all that was typed to"
        " publish them, first for a week and then for the day after. `python -m tests.transcripts` writes these"
        " pages, and a test keeps them as they are printed. The keys are fixed here, so that every run prints the same;"
        f" yours are not.\n\n{listed}"
    )


def main() -> None:
    """Write all pages."""
    FOLDER.mkdir(exist_ok=True)
    (FOLDER / "README.md").write_text(index())
    home = os.getcwd()
    for transcript in TRANSCRIPTS:
        with tempfile.TemporaryDirectory() as folder:
            os.chdir(folder)
            try:
                (FOLDER / f"{transcript.name}.md").write_text(page(transcript))
            finally:
                os.chdir(home)
        print(f"docs/transcripts/{transcript.name}.md", file=sys.stderr)


if __name__ == "__main__":
    main()
