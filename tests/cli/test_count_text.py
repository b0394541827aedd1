"""What `dpstream count` prints for people: the table and the notes, word for word."""

import os
import pty
import subprocess
import sys

import pytest

from tests.cli.test_count import count, narrow_terminal, same_noise  # noqa: F401

#: Fifteen days of twenty visits each.
VISITS = "when,ward,patient\n" + "".join(
    f"2026-01-{day:02},{'north' if i < day else 'south'},p{i}\n" for day in range(1, 16) for i in range(20)
)
TREE = "--mechanism SmoothBinary --rho 0.5 --horizon 100"


@pytest.fixture
def visits(same_noise, tmp_path, monkeypatch):  # noqa: F811
    monkeypatch.chdir(tmp_path)
    (tmp_path / "visits.csv").write_text(VISITS)

    def run(options):
        result = count("visits.csv", "--time", "when", *options.split())
        assert result.exit_code == 0, result.output
        text = ["\n".join(line.rstrip() for line in part.splitlines()) for part in (result.stdout, result.stderr)]
        assert max(map(len, "\n".join(text).splitlines())) <= 80
        return text

    return run


def test_the_table_and_the_notes(visits):
    table, said = visits(f"{TREE} --as table")
    assert (
        table
        == """\
The last 12 of 15 releases
┏━━━━━━┳━━━━━━━━━━━━┳━━━━━━━┳━━━━━━━━┳━━━━━┳━━━━━━┓
┃ step ┃ start      ┃ value ┃ stddev ┃ low ┃ high ┃
┡━━━━━━╇━━━━━━━━━━━━╇━━━━━━━╇━━━━━━━━╇━━━━━╇━━━━━━┩
│    4 │ 2026-01-04 │    86 │    3.5 │  79 │   93 │
│    5 │ 2026-01-05 │   106 │    3.5 │  99 │  113 │
│    6 │ 2026-01-06 │   122 │    3.5 │ 115 │  129 │
│    7 │ 2026-01-07 │   143 │    3.5 │ 136 │  150 │
│    8 │ 2026-01-08 │   160 │    3.5 │ 153 │  167 │
│    9 │ 2026-01-09 │   178 │    3.5 │ 171 │  185 │
│   10 │ 2026-01-10 │   199 │    3.5 │ 192 │  206 │
│   11 │ 2026-01-11 │   222 │    3.5 │ 215 │  229 │
│   12 │ 2026-01-12 │   244 │    3.5 │ 237 │  251 │
│   13 │ 2026-01-13 │   268 │    3.5 │ 261 │  275 │
│   14 │ 2026-01-14 │   288 │    3.5 │ 281 │  295 │
│   15 │ 2026-01-15 │   299 │    3.5 │ 292 │  306 │
└──────┴────────────┴───────┴────────┴─────┴──────┘"""
    )
    assert (
        said
        == """\
Mechanism: SmoothBinary, as asked.
Budget ρ = 0.5 for all releases together protects every single row (for people
with several rows: --user and --max-contributions). Release 15 is within ±7 of
the true total with 95 % confidence.
The first step was taken from the data; --from makes it your choice and keeps it
out of the data.
300 rows read; 15 steps released.
The noise of this run is not kept (--store keeps it): publish the result of one
run only."""
    )


def test_a_table_of_categories(visits):
    table, said = visits(
        "--mechanism SmoothBinary --epsilon 1 --horizon 50 --from 2026-01-01 --by ward --values north,south --every 1w"
        " --as table"
    )
    assert (
        table
        == """\
3 releases
┏━━━━━━┳━━━━━━━━━━━━┳━━━━━━━━━━┳━━━━━━━┳━━━━━━━━┳━━━━━┳━━━━━━┓
┃ step ┃ start      ┃ category ┃ value ┃ stddev ┃ low ┃ high ┃
┡━━━━━━╇━━━━━━━━━━━━╇━━━━━━━━━━╇━━━━━━━╇━━━━━━━━╇━━━━━╇━━━━━━┩
│    1 │ 2025-12-29 │ north    │     8 │    2.8 │   2 │   14 │
│    1 │ 2025-12-29 │ south    │    67 │    2.8 │  61 │   73 │
│    2 │ 2026-01-05 │ north    │    62 │    4.0 │  54 │   70 │
│    2 │ 2026-01-05 │ south    │   153 │    4.0 │ 145 │  161 │
│    3 │ 2026-01-12 │ north    │   113 │    4.9 │ 103 │  123 │
│    3 │ 2026-01-12 │ south    │   188 │    4.9 │ 178 │  198 │
└──────┴────────────┴──────────┴───────┴────────┴─────┴──────┘"""
    )
    assert (
        said
        == """\
Mechanism: SmoothBinary, as asked.
Budget ε = 1 for all releases together protects every single row (for people
with several rows: --user and --max-contributions). Release 3 is within ±10 of
the true total with 95 % confidence.
300 rows read; 3 steps released.
The noise of this run is not kept (--store keeps it): publish the result of one
run only."""
    )


def test_what_is_said_of_people(visits):
    _, said = visits(
        "--epsilon 1 --delta 1e-6 --until 2026-12-31 --user patient --max-contributions 3 --from 2026-01-01"
    )
    assert (
        said
        == """\
Mechanism: BalancedToeplitz is first because its largest variance is least among
those that fit the memory: BufferedToeplitz has 9.83 % more.
Budget ε = 1, δ = 1e-06 for all releases together protects every user, of whom
at most 3 rows are counted. Release 15 is within ±66 of the true total of the
rows counted with 95 % confidence.
300 rows read; 15 steps released.
Rows beyond 3 a user were dropped. How many is withheld: it would be a figure
about people (--report-dropped spends budget on it).
The noise of this run is not kept (--store keeps it): publish the result of one
run only."""
    )


def test_what_is_said_without_an_end(visits):
    _, said = visits("--epsilon 1 --unbounded --from 2026-01-01 --output out.csv")
    assert (
        said
        == """\
Mechanism: GrowingSmooth, the best known without a last step.
Budget ε = 1 for all releases together protects every single row (for people
with several rows: --user and --max-contributions). Release 15 is within ±45 of
the true total with 95 % confidence.
300 rows read; 15 steps released.
Written: out.csv
The noise of this run is not kept (--store keeps it): publish the result of one
run only."""
    )


def test_the_second_run(visits):
    _, said = visits(f"{TREE} --from 2026-01-01 --store visits.db")
    assert said.splitlines()[-1] == "300 rows read; 15 steps released."
    _, said = visits(f"{TREE} --from 2026-01-01 --store visits.db")
    assert said.splitlines()[-2:] == [
        "300 rows read; 0 steps released.",
        "15 steps had been released before; their rows were not counted again.",
    ]


def test_a_terminal_gets_a_table(tmp_path):
    """On a real terminal, the last releases and nothing that was asked for elsewhere."""
    (tmp_path / "visits.csv").write_text(VISITS)
    ours, theirs = pty.openpty()
    command = [sys.executable, "-m", "dpstream", "count", "visits.csv", "--time", "when", *TREE.split()]
    environment = os.environ | {"COLUMNS": "80", "NO_COLOR": "1", "TERM": "dumb"}
    with subprocess.Popen(command, cwd=tmp_path, stdout=theirs, stderr=subprocess.PIPE, env=environment) as process:  # noqa: S603
        os.close(theirs)
        said = process.stderr.read().decode()
    assert process.returncode == 0, said
    shown = b""
    try:
        while piece := os.read(ours, 10_000):
            shown += piece
    except OSError:  # the other side is closed: that is how a terminal ends
        pass
    os.close(ours)
    lines = shown.decode().splitlines()
    assert lines[0].rstrip() == "The last 12 of 15 releases"
    assert [line.split("│")[2].strip() for line in lines[4:16]] == [f"2026-01-{day:02}" for day in range(4, 16)]
