"""Every command on a store that holds a stream of discovered names: late rows, windows, pictures, texts, and refusals.

Names below are brought by 100 people or more where the threshold is 22 and noise has a standard deviation below 4: that
one of them is missing, or off by 40, has a chance below 1e-20.
"""

import csv
import io
import json
import shutil
import sqlite3

import polars as pl
import pytest
from typer.testing import CliRunner

import dpstream as dp
from dpstream.cli.app import app
from dpstream.events.stored_names import StoredNames, stored_stream
from dpstream.events.stored_stream import StoredStream
from dpstream.store import PublishedStore
from tests.cli.test_count import narrow_terminal  # noqa: F401

FLAGS = (
    *("--time", "when", "--from", "2026-03-01", "--until", "2026-03-31", "--by", "term", "--discover", "--user", "who"),
    *("--names-per-person", "3", "--epsilon", "6", "--delta", "1e-6", "--max-pairs", "9000", "--windows", "1d"),
)


def run(*arguments, stdin=None):
    return CliRunner().invoke(app, [str(one) for one in arguments], input=stdin)


def ran(*arguments):
    result = run(*arguments)
    assert result.exit_code == 0, result.output
    return result


def told(result):
    return " ".join(result.stderr.split())


def rows_of(output):
    return list(csv.DictReader(io.StringIO(output)))


def log(path, *parts):
    """Write rows: of each part a day, a name, and the people who brought it."""
    lines = [f"2026-03-{day:02d},{who},{name}" for day, name, people in parts for who in people]
    path.write_text("\n".join(["when,who,term", *lines]) + "\n")
    return path


@pytest.fixture(scope="module")
def made(tmp_path_factory):
    """A store with three days released: rose from the first on, tulip from the second, and a late lily in the third."""
    folder = tmp_path_factory.mktemp("names")
    store = folder / "terms.db"
    one = log(folder / "1.csv", (1, "rose", range(300)), (1, "mine alone", [7]))
    two = log(folder / "2.csv", (2, "rose", range(300, 400)), (2, "tulip", range(200)))
    late = log(folder / "late.csv", (1, "lily", range(100)), (3, "rose", range(400, 500)), (5, "iris", range(600, 750)))
    outputs = [
        ran("count", one, *FLAGS, "--store", store, "--through", "2026-03-01"),
        ran("count", two, "--store", store, "--through", "2026-03-02", "--as", "table"),
        ran("count", late, "--store", store, "--through", "2026-03-03"),
    ]
    return store, outputs


@pytest.fixture
def names(made, tmp_path):
    """A copy of that store, to go on with."""
    for file in made[0].parent.glob("terms.db*"):
        shutil.copy(file, tmp_path / file.name)
    path = tmp_path / "terms.db"
    dp.Store(path, adopt=True).close()
    return path


def test_late_rows_count_in_the_next_step(made, names, tmp_path):
    """As those of declared categories do; rows of later steps wait, and a file that is given again adds nothing."""
    _, (first, second, third) = made
    assert [row["category"] for row in rows_of(first.stdout)] == ["rose"]
    assert "tulip" in second.stdout  # whose windows are empty, having been published after they began
    assert "100 rows came late, for steps that were released before, and are counted in the step of 2026-03-03" in told(
        third
    )
    assert "150 rows wait in the store until their steps are released" in told(third)
    last = {row["category"]: row for row in rows_of(third.stdout)}
    assert {row["step"] for row in last.values()} == {"3"}
    assert abs(int(last["lily"]["value"]) - 100) < 40
    assert last["lily"]["last_1d"] == ""
    assert abs(int(last["rose"]["last_1d"]) - 100) < 40
    late = made[0].parent / "late.csv"
    again = ran("count", late, "--store", names, "--through", "2026-03-03")
    assert "late.csv was counted before" in told(again)
    more = log(tmp_path / "more.csv", (2, "aster", range(800, 900)), (4, "daisy", range(800, 900)))
    refused = run("count", more, "--store", names, "--through", "2026-03-04", "--late", "refuse")
    assert refused.exit_code == 2
    assert "--late next counts late rows in the next step" in told(refused)
    dropped = ran("count", more, "--store", names, "--through", "2026-03-04", "--late", "drop")
    assert "100 rows came late, for steps that were released before, and were left out" in told(dropped)
    assert {row["category"] for row in rows_of(dropped.stdout)} == {"rose", "tulip", "lily", "daisy"}
    ended = ran("count", log(tmp_path / "none.csv"), "--store", names, "--through", "2026-03-05")
    assert "iris" in {row["category"] for row in rows_of(ended.stdout)}
    assert ran("store", "verify", names).stdout.count("as it should be") == 1


def test_a_file_without_rows_is_a_commit_like_others(made, names, tmp_path):
    """Else the file of the store would show that there were none."""
    before = ingests(names)
    for day in (4, 5):
        empty = log(tmp_path / f"empty{day}.csv")
        ran("count", empty, "--store", names, "--through", f"2026-03-{day:02d}")
    assert ingests(names) == before + 2


def ingests(path):
    with sqlite3.connect(path) as connection:
        return connection.execute("SELECT ingests FROM streams").fetchone()[0]


def test_windows(made):
    store, _ = made
    shown = ran("windows", store, "--over", "1d", "--as", "csv")
    found = {(row["through"][-2:], row["category"]): int(row["value"]) for row in rows_of(shown.stdout)}
    assert set(found) == {("01", "rose"), ("02", "rose"), ("03", "rose"), ("03", "tulip")}
    assert abs(found["02", "rose"] - 100) < 40
    assert "3 names published, 3 windows; 5 figures are missing: of windows that began before a name" in told(shown)
    weekly = ran("windows", store, "--over", "1w", "--as", "table")
    assert "4 figures are missing" in told(weekly)  # of weeks that end on the first day and begin on the second
    assert "No name is published yet" in told(ran("windows", nobody(store), "--over", "1d"))
    with dp.Store(store) as opened:
        whole = stored_stream(opened, "count")
        assert isinstance(whole, StoredNames)
        assert whole.released().table().rows() == whole.table().rows()
    assert isinstance(stored_stream(PublishedStore(store), "count"), StoredNames)


def nobody(beside):
    """A store in which no name is published."""
    store = beside.parent / "nobody.db"
    if not store.exists():
        file = log(beside.parent / "nobody.csv", (1, "mine alone", [7]))
        ran("count", file, *FLAGS, "--store", store, "--through", "2026-03-02")
    return store


@pytest.mark.heavy
def test_pictures(made, names, tmp_path):
    ran("windows", made[0], "--over", "1d", "--plot", tmp_path / "w.html")
    page = (tmp_path / "w.html").read_text()
    assert "lily" in page
    assert "mine alone" not in page
    assert "At most 3 names of each person are counted" in page
    none, plot = log(tmp_path / "none.csv"), tmp_path / "p.svg"
    ran("count", none, "--store", names, "--through", "2026-03-05", "--plot", plot)
    assert plot.stat().st_size > 1000
    ran("count", none, "--store", nobody(made[0]), "--through", "2026-03-02", "--plot", tmp_path / "n.png")
    file = log(tmp_path / "now.csv", *((1, f"term {i}", range(40 * i, 40 * i + 40)) for i in range(12)))
    flags = [one for one in FLAGS if one not in ("--max-pairs", "9000")]
    ran("count", file, *flags, "--through", "2026-03-02", "--plot", tmp_path / "many.html")
    assert "the 10 largest of 12 published names" in (tmp_path / "many.html").read_text()


def test_a_text_on_protection(names, tmp_path):
    text = tmp_path / "protection.txt"
    none = log(tmp_path / "none.csv")
    said = ran("count", none, "--store", names, "--through", "2026-03-05", "--protect-text", text)
    assert "Written:" in told(said)
    assert "A name is published once the number of people who brought it reaches 22" in text.read_text()
    entry = json.loads(text.with_suffix(".json").read_text())
    assert "the names are not known beforehand" in entry["deployment"]["dp_variant"]["data_domain"]


def test_the_largest_names_are_drawn(made):
    with dp.Store(made[0]) as store:
        released = stored_stream(store, "count").released()
    drawn = released.largest(2)
    assert drawn.names == ("rose", "tulip")
    assert drawn.left_out == "the 2 largest of 3 published names"
    assert drawn.table().equals(released.table().filter(pl.col("category") != "lily"))
    assert released.known([1, 2, 3, 3, 3], [0, 0, 0, 2, 1]).tolist() == [
        [True, False, False],
        [True, True, False],
        [True, True, True],
        [True, True, False],
        [True, False, False],
    ]


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["count", "--store", "STORE", "--compare-with-truth", "--plot", "x.png"], "most names are never published"),
        (["store", "extend", "STORE", "--until", "2026-12-31"], "dpstream count FILE --time when --every 1d --from"),
        (["store", "extend", "STORE", "--until", "2026-12-31"], "2026-04-01 --until 2026-12-31 --epsilon 6"),
    ],
)
def test_what_names_do_not_have_is_refused_with_what_to_type(made, arguments, message):
    store = str(made[0])
    refused = run(*(store if one == "STORE" else one for one in arguments))
    assert refused.exit_code == 2
    assert message in told(refused)
    assert "python" not in told(refused).lower()
    with dp.Store(store) as opened, pytest.raises(dp.errors.InvalidArgument, match="`categories` are the names"):
        from dpstream.events.successor import extend_stream

        extend_stream(opened, "count", horizon=3)


def test_looking_and_ending(made, names):
    assert "its seals, and the last sums of all names" in " ".join(ran("store", "verify", names).stdout.split())
    shown = ran("store", "releases", names, "--windows", "1d,7d")
    assert "lily" in shown.stdout
    assert "None" not in shown.stdout
    assert "22" in ran("store", "show", names).stdout
    assert "reaches 22" in " ".join(ran("store", "protect-text", names, "count").stdout.split())
    retired = ran("store", "retire", names, "count", "--yes")
    assert "Rows that wait in its open steps are never released" in " ".join(retired.stdout.split())
    with dp.Store(names) as store:
        assert not isinstance(stored_stream(store, "count"), StoredStream)
        assert store.true_data.rows_wait("count")
