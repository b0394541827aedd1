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
    # So large a budget that there is no noise: what is shown does not depend on how keys are derived.
    table, said = visits("--mechanism SmoothBinary --rho 50000 --horizon 100 --as table --verbose")
    assert (
        table
        == """\
The last 12 of 15 releases
┏━━━━━━┳━━━━━━━━━━━━┳━━━━━━━┳━━━━━━━━┳━━━━━┳━━━━━━┓
┃ step ┃ start      ┃ value ┃ stddev ┃ low ┃ high ┃
┡━━━━━━╇━━━━━━━━━━━━╇━━━━━━━╇━━━━━━━━╇━━━━━╇━━━━━━┩
│    4 │ 2026-01-04 │    80 │    0.0 │  80 │   80 │
│    5 │ 2026-01-05 │   100 │    0.0 │ 100 │  100 │
│    6 │ 2026-01-06 │   120 │    0.0 │ 120 │  120 │
│    7 │ 2026-01-07 │   140 │    0.0 │ 140 │  140 │
│    8 │ 2026-01-08 │   160 │    0.0 │ 160 │  160 │
│    9 │ 2026-01-09 │   180 │    0.0 │ 180 │  180 │
│   10 │ 2026-01-10 │   200 │    0.0 │ 200 │  200 │
│   11 │ 2026-01-11 │   220 │    0.0 │ 220 │  220 │
│   12 │ 2026-01-12 │   240 │    0.0 │ 240 │  240 │
│   13 │ 2026-01-13 │   260 │    0.0 │ 260 │  260 │
│   14 │ 2026-01-14 │   280 │    0.0 │ 280 │  280 │
│   15 │ 2026-01-15 │   300 │    0.0 │ 300 │  300 │
└──────┴────────────┴───────┴────────┴─────┴──────┘"""
    )
    assert (
        said
        == """\
Mechanism: SmoothBinary, as asked.
Budget ρ = 50000 for all releases together protects every single row (for people
with several rows: --user and --max-contributions).
Noise: at most ±0 (95 %).
warning: ρ = 50000 protects hardly anybody: ρ = 0.1 is a usual choice, and 1 is
much.
warning: the first step (2026-01-01) was taken from the data: it shows when the
first person came, which is not private. --from avoids that.
warning: the last step (2026-01-15) was taken from the data: it shows when the
last person came, which is not private. --through avoids that.
300 rows read (not for publication); 15 steps released.
The noise of this run is not kept (--store keeps it): publish the result of one
run only."""
    )


def test_a_table_of_categories(visits):
    table, said = visits(
        "--mechanism SmoothBinary --epsilon 5000 --horizon 50 --from 2026-01-01 --by ward --values north,south"
        " --every 1w --through 2026-01-15 --as table"
    )
    assert (
        table
        == """\
3 releases
┏━━━━━━┳━━━━━━━━━━━━┳━━━━━━━━━━┳━━━━━━━┳━━━━━━━━┳━━━━━┳━━━━━━┓
┃ step ┃ start      ┃ category ┃ value ┃ stddev ┃ low ┃ high ┃
┡━━━━━━╇━━━━━━━━━━━━╇━━━━━━━━━━╇━━━━━━━╇━━━━━━━━╇━━━━━╇━━━━━━┩
│    1 │ 2025-12-29 │ north    │    10 │    0.0 │  10 │   10 │
│    1 │ 2025-12-29 │ south    │    70 │    0.0 │  70 │   70 │
│    2 │ 2026-01-05 │ north    │    66 │    0.0 │  66 │   66 │
│    2 │ 2026-01-05 │ south    │   154 │    0.0 │ 154 │  154 │
│    3 │ 2026-01-12 │ north    │   120 │    0.0 │ 120 │  120 │
│    3 │ 2026-01-12 │ south    │   180 │    0.0 │ 180 │  180 │
└──────┴────────────┴──────────┴───────┴────────┴─────┴──────┘"""
    )
    assert (
        said
        == """\
Budget ε = 5000 for all releases together protects every single row (for people
with several rows: --user and --max-contributions).
Noise: at most ±0 (95 %).
warning: ε = 5000 protects hardly anybody: ε = 1 is a usual choice, and 10 is
much.
300 rows read (not for publication); 3 steps released.
The noise of this run is not kept (--store keeps it): publish the result of one
run only."""
    )


def test_what_is_said_of_people(visits):
    _, said = visits(
        "--epsilon 1 --delta 1e-6 --until 2026-12-31 --user patient --max-contributions 3 --from 2026-01-01"
        " --through 2026-01-15"
    )
    assert (
        said
        == """\
Budget ε = 1, δ = 1e-06 for all releases together protects every user. At most 3
rows of each person in the whole stream are counted, so figures fall behind as
people use up their limit.
Noise: at most ±66 (95 %).
300 rows read (not for publication); 15 steps released.
Rows beyond 3 of each user are not counted. Their number is not shown, because
it is a figure about people (--report-dropped spends budget on it).
The noise of this run is not kept (--store keeps it): publish the result of one
run only."""
    )


def test_what_is_said_without_an_end(visits):
    _, said = visits("--epsilon 1 --unbounded --from 2026-01-01 --through 2026-01-15 --output out.csv -v")
    assert (
        said
        == """\
Mechanism: GrowingSmooth, the best known without a last step.
Budget ε = 1 for all releases together protects every single row (for people
with several rows: --user and --max-contributions).
Noise: at most ±48 (95 %).
300 rows read (not for publication); 15 steps released.
Written: out.csv
The noise of this run is not kept (--store keeps it): publish the result of one
run only."""
    )


def test_the_second_run(visits):
    _, said = visits(f"{TREE} --from 2026-01-01 --through 2026-01-15 --store visits.db")
    assert said.splitlines()[-1] == "300 rows read (not for publication); 15 steps released."
    _, said = visits(f"{TREE} --from 2026-01-01 --through 2026-01-15 --store visits.db")
    assert said.splitlines()[-4:] == [
        "0 rows read (not for publication); 0 steps released.",
        "15 steps were released in earlier runs.",
        "warning: visits.csv was counted before: nothing of it was counted again. Not for",
        "publication.",
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
