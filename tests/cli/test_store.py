"""`dpstream store`: what it shows, what it leaves alone, and what it finds."""

import json
import re
import shlex
import subprocess
import sys

import numpy as np
import polars
import pytest
import typer
from typer.testing import CliRunner

import dpstream as dp
from dpstream.cli.app import CommandGroup
from dpstream.cli.app import app as main_app
from dpstream.cli.store import store_app
from dpstream.mechanisms import SmoothBinary
from tests.cli.test_count import count
from tests.store.conftest import copy_of, everything, path  # noqa: F401
from tests.store.test_verification import add_one, change_releases

app = typer.Typer(cls=CommandGroup, pretty_exceptions_enable=False)
app.add_typer(store_app, name="store")


@pytest.fixture(autouse=True)
def narrow_terminal(monkeypatch):
    monkeypatch.setenv("COLUMNS", "80")
    monkeypatch.setenv("NO_COLOR", "1")


@pytest.fixture
def counts(path):  # noqa: F811
    """A store with a counter, a histogram and a running sum."""
    with dp.Store(path) as store:
        visits = store.counter("visits", 365, dp.approx_dp(1, 1e-6), mechanism=SmoothBinary(365))
        visits.extend([1, 0, 1, 1], first_position=100)
        rooms = store.counter("rooms [a/b]", None, dp.zcdp(0.1), shape=(3,))
        rooms.extend([[1, 0, 0], [0, 1, 1]])
        store.running_sum("sum", 100, dp.zcdp(0.2), shape=(2,), mechanism=SmoothBinary(100)).add([0.6, 0.8])
    return path


def invoke(*arguments, **more):
    return CliRunner().invoke(app, ["store", *map(str, arguments)], **more)


def test_list(counts):
    before = everything(counts)
    result = invoke("list", counts)
    assert result.exit_code == 0
    assert max(map(len, result.output.splitlines()[:-1])) <= 80
    rows = {line.split("  ")[0].strip(): line.split() for line in result.output.splitlines()}
    assert rows["visits"][1:] == ["counter", "4", "365", "ε", "=", "1,", "δ", "=", "1e-06", "103"]
    assert rows["rooms [a/b]"][2:] == ["counter", "2", "no", "end", "ρ", "=", "0.1", "–"]
    with dp.Store(counts) as store:
        total = store.spent()
    assert f"All 3 streams together have promised ρ = {total.rho:.6g}" in result.output
    assert everything(counts) == before


def test_list_as_json(counts):
    found = json.loads(invoke("list", counts, "--json").output)
    assert [stream["name"] for stream in found["streams"]] == ["visits", "rooms [a/b]", "sum"]
    assert found["streams"][0]["budget"] == {"kind": "approx_dp", "epsilon": 1.0, "delta": 1e-06}
    assert found["spent"]["streams"] == 3


def test_an_empty_store(path):  # noqa: F811
    dp.Store(path).close()
    assert "There are no streams" in invoke("list", path).output
    result = invoke("verify", path)
    assert (result.exit_code, result.output) == (0, "There are no streams.\n")


def test_a_pure_store(path):  # noqa: F811
    with dp.Store(path) as store:
        store.counter("a", 10, dp.pure_dp(0.5)).add(1)
    assert "The stream has promised ε = 0.5." in invoke("list", path).output


@pytest.mark.parametrize("command", ["list", "show", "releases", "verify", "retire", "limit", "adopt", "extend"])
def test_what_is_not_there_is_not_made(tmp_path, command):
    file = tmp_path / "counts.db"
    arguments = {"list": [], "limit": [], "adopt": [], "extend": ["visits", "--horizon", "5"]}.get(command, ["visits"])
    result = invoke(command, file, *arguments)
    assert result.exit_code == 2
    assert "is not a dpstream store: there is no such file" in result.output
    assert list(tmp_path.iterdir()) == []
    file.write_text("hello")
    result = invoke(command, file, *arguments)
    assert result.exit_code == 2
    assert "is not an SQLite database" in result.output
    assert file.read_text() == "hello"


@pytest.mark.parametrize("command", ["show", "releases", "verify", "retire"])
def test_an_unknown_stream(counts, command):
    result = invoke(command, counts, "nobody")
    assert result.exit_code == 2
    assert "there is no stream 'nobody'" in result.output


def test_show(counts):
    before = everything(counts)
    text = " ".join(invoke("show", counts, "visits").output.split())
    with (
        dp.Store(counts) as store,
        store.counter("visits", 365, dp.approx_dp(1, 1e-6), mechanism=SmoothBinary(365)) as counter,
    ):
        promise, stddev = counter.describe(), counter.stddev()
    for fact in ("steps 4", "remaining 361", f"{stddev:.4g}", "position of the last step 103", "retired no", promise):
        assert fact in text
    assert "budget ε = 1, δ = 1e-06" in text
    found = json.loads(invoke("show", counts, "rooms [a/b]", "--json").output)
    assert (found["steps"], found["remaining"], found["settings"]["shape"]) == (2, None, [3])
    assert set(everything(counts)) == set(before)


def test_show_never_shows_sums(path):  # noqa: F811
    """The noise has a standard deviation of 10^7: a release or a bar equals a sum with a chance below 1e-6."""
    with dp.Store(path) as store:
        store.counter("a", 10, dp.zcdp(1e-14), per_step=10**9).extend([123454321, 123454321])
    for command in ("show", "list", "releases", "verify"):
        for option in ([], ["--json"]):
            output = invoke(command, path, *([] if command == "list" else ["a"]), *option).output
            assert "123454321" not in output
            assert "246908642" not in output


def test_releases(counts):
    with dp.Store(counts) as store:
        values = [release.value for release in store.releases("visits")]
        histograms = [release.value.tolist() for release in store.releases("rooms [a/b]")]
        errors = [store.estimate("visits", through=t) for t in range(1, 5)]
    lines = invoke("releases", counts, "visits", "--since", "1").output.replace("│", " ").splitlines()
    numbers = [line.split()[:3] for line in lines if line.split() and line.split()[0].isdigit()]
    assert numbers == [[str(i + 1), str(100 + i), str(values[i])] for i in (1, 2, 3)]
    rows = [json.loads(line) for line in invoke("releases", counts, "visits", "--json").output.splitlines()]
    assert [(row["step"], row["position"], row["value"], row["low"], row["high"]) for row in rows] == [
        (t, 99 + t, error.value, error.low, error.high) for t, error in enumerate(errors, start=1)
    ]
    assert [row["stddev"] for row in rows] == pytest.approx([error.stddev for error in errors], rel=1e-4)
    rows = [json.loads(line) for line in invoke("releases", counts, "rooms [a/b]", "--json").output.splitlines()]
    assert [(row["step"], row["category"], row["value"]) for row in rows] == [
        (t, str(i), value) for t, histogram in enumerate(histograms, start=1) for i, value in enumerate(histogram)
    ]


def test_releases_tell_windows(counts):
    with dp.Store(counts) as store:
        last = store.window("visits", 2)
    row = json.loads(invoke("releases", counts, "visits", "--windows", "2", "--json").output.splitlines()[-1])
    assert (row["last_2"], row["last_2_low"], row["last_2_high"]) == (last.value, last.low, last.high)
    row = json.loads(
        invoke("releases", counts, "visits", "--windows", "2", "--confidence", "0.5", "--json").output.splitlines()[-1]
    )
    assert row["last_2_high"] < last.high
    for options in (["--windows", "2x"], ["--confidence", "2"], ["--since", "-1"]):
        result = invoke("releases", counts, "visits", *options)
        assert result.exit_code == 2
        assert len(result.output.splitlines()) == 1
        assert options[0].strip("-") in result.output
    assert "--windows must be left out" in invoke("releases", counts, "sum", "--windows", "2").output


def test_releases_have_the_dates_and_categories_that_were_counted(path):  # noqa: F811
    log = path.parent / "log.csv"
    log.write_text("when,ward\n2026-01-01,A\n2026-01-02,B\n2026-01-02,A\n")
    counted = count(
        log, "--time", "when", "--from", "2026-01-01", "--through", "2026-01-03", "--horizon", 31, "--rho", 1, "--by",
        "ward", "--values", "A,B", "--store", path,
    )  # fmt: skip
    assert counted.exit_code == 0
    rows = [
        json.loads(line) for line in invoke("releases", path, "count", "--windows", "2d", "--json").output.splitlines()
    ]
    assert [(row["start"], row["category"]) for row in rows] == [
        (f"2026-01-0{day}", ward) for day in (1, 2, 3) for ward in "AB"
    ]
    assert {"value", "stddev", "low", "high", "last_2d", "last_2d_low"} <= set(rows[0])
    assert "position" not in rows[0]
    shown = invoke("releases", path, "count").output
    assert "2026-01-03" in shown
    assert " A " in shown


def test_large_counts_are_shown_whole(path):  # noqa: F811
    with dp.Store(path) as store:
        rooms = store.counter("rooms", 10, dp.zcdp(0.5), shape=(2,), per_step=10**9)
        first, second = rooms.add([123456789, 0]).tolist()
        one = store.counter("one", 10, dp.zcdp(0.5), per_step=10**9).add(123456789)
    shown = invoke("releases", path, "rooms").output
    assert f" {first:,} " in shown
    assert f" {second:,} " in shown
    assert f" {one:,} " in invoke("releases", path, "one").output


def test_only_the_last_releases_are_printed(path):  # noqa: F811
    with dp.Store(path) as store:
        store.counter("a", 1000, dp.zcdp(0.5)).extend(np.ones(100, dtype=int))
    output = invoke("releases", path, "a").output
    assert "The last 40 of 100; --json or --output gives all of them." in output
    assert len(invoke("releases", path, "a", "--json").output.splitlines()) == 100


@pytest.mark.parametrize(
    ("suffix", "read"),
    [("csv", polars.read_csv), ("jsonl", polars.read_ndjson), ("parquet", polars.read_parquet)],
)
def test_releases_as_files(counts, tmp_path, suffix, read):
    file = tmp_path / f"releases.{suffix}"
    with dp.Store(counts) as store:
        values = [release.value for release in store.releases("visits")]
        histograms = np.array([release.value for release in store.releases("rooms [a/b]")])
        sums = store.releases("sum")[0].value
    result = invoke("releases", counts, "visits", "--output", file)
    assert result.exit_code == 0
    assert "4 releases of visits written to" in result.output
    frame = read(file)
    assert frame.columns == ["step", "position", "value", "stddev", "low", "high"]
    assert frame.rows() == [(i + 1, 100 + i, value, *frame.row(i)[3:]) for i, value in enumerate(values)]
    invoke("releases", counts, "rooms [a/b]", "--output", file)
    assert read(file)["value"].to_list() == histograms.ravel().tolist()
    columns = [f"value_{i}" for i in range(3)]
    invoke("releases", counts, "sum", "--output", file)
    frame = read(file)
    got = frame.select(columns[:2]).row(0) if suffix == "csv" else frame["value"][0].to_list()
    assert np.float32(got).tolist() == sums.tolist()
    assert invoke("releases", counts, "visits", "--since", "4", "--output", file).exit_code == 0


@pytest.mark.parametrize("name", ["releases.xls", "nowhere/releases.csv"])
def test_a_bad_output_is_refused(counts, name):
    result = invoke("releases", counts, "visits", "--output", name)
    assert result.exit_code == 2
    assert "--output must be" in result.output


# -- verify -----------------------------------------------------------------------------------------------------------


def test_verify(counts):
    before = everything(counts)
    result = invoke("verify", counts)
    assert result.exit_code == 0
    assert result.output.count("as it should be") == 3
    assert "every input" in result.output
    assert max(map(len, result.output.splitlines())) <= 80
    assert everything(counts) == before
    found = json.loads(invoke("verify", counts, "visits", "--json").output)
    assert [(one["name"], one["ok"], one["steps"]) for one in found["streams"]] == [("visits", True, 4)]


def test_verify_finds_a_changed_release(path):  # noqa: F811
    with dp.Store(path) as store:
        store.counter("visits", 10, dp.zcdp(0.5)).extend([1, 0, 1], first_position=0)
        change_releases(store, add_one(2))
    result = invoke("verify", path)
    assert result.exit_code == 1
    assert "WRONG" in result.output
    assert "visits: a release implies another input than the one recorded under its position: steps 2, 3." in (
        result.output
    )
    assert not json.loads(invoke("verify", path, "--json").output)["streams"][0]["ok"]


def test_verify_finds_damage(path):  # noqa: F811
    with dp.Store(path) as store:
        store.counter("visits", 10, dp.zcdp(0.5)).extend([1, 0, 1])
        with store._files.database.atomic() as connection:
            connection.execute("UPDATE batches SET sealed = ?", (b"\x55" * 52,))
    result = invoke("verify", path)
    assert result.exit_code == 1
    assert result.output.count("not as sealed") == 1
    with dp.Store(path) as store, store._files.database.atomic() as connection:
        connection.execute("UPDATE streams SET t = 2")
    result = invoke("verify", path)
    assert result.exit_code == 1
    assert "The file is damaged: the sums of stream 'visits' at step 2" in result.output
    witness = path.with_name(path.name + ".witness")
    last = witness.read_bytes()[-1]
    witness.write_bytes(witness.read_bytes()[:-1] + bytes([last ^ 1]))
    assert invoke("verify", path).exit_code == 1


def test_verify_says_that_a_file_is_old(path):  # noqa: F811
    def one_more():
        with dp.Store(path) as store:
            store.counter("visits", 10, dp.zcdp(0.5)).add(1)

    one_more()
    old = path.read_bytes()
    one_more()
    path.write_bytes(old)
    result = invoke("verify", path)
    assert result.exit_code == 0
    assert "visits: the file stands at step 1, but step 2 was released before." in result.output


class OwnTree(SmoothBinary):
    """A mechanism that dpstream knows nothing of."""


def test_a_mechanism_of_ones_own_cannot_be_verified(path):  # noqa: F811
    with dp.Store(path) as store:
        store.counter("own", 10, dp.zcdp(0.5), mechanism=OwnTree(10)).add(1)
        store.counter("good", 10, dp.zcdp(0.5)).add(1)
    result = invoke("verify", path)
    assert result.exit_code == 2
    assert "own: not verified; mechanism must be" in result.output
    assert "as it should be" in result.output


# -- limit, adopt -----------------------------------------------------------------------------------------------------


def test_the_limit(counts):
    before = everything(counts)
    assert invoke("limit", counts).output.startswith("The limit is none. All 3 streams together have promised ρ = ")
    for options, words in (
        (["--rho", "0.1"], "limit must be at least what is promised already: rho = 0.3"),
        (["--epsilon", "1", "--delta", "1e-6"], "at least what is promised already: epsilon = 3."),
        (["--delta", "1e-6"], "the budget must be given as --rho"),
        (["--rho", "-1"], "rho must be"),
        (["--rho", "1", "--none"], "--none must be given alone"),
    ):
        result = invoke("limit", counts, *options)
        assert result.exit_code == 2
        assert words in result.output
        assert len(result.output.splitlines()) == 1
        assert everything(counts) == before
    assert "The limit is now ε = 4, δ = 1e-06." in invoke("limit", counts, "--epsilon", "4", "--delta", "1e-6").output
    assert invoke("limit", counts).output.startswith("The limit is ε = 4, δ = 1e-06.")
    with dp.Store(counts) as store:
        assert store.limit == dp.approx_dp(4, 1e-6)
    assert "The limit is now none." in invoke("limit", counts, "--none").output


def test_count_keeps_the_limit(counts, tmp_path):
    invoke("limit", counts, "--rho", "0.5")
    log = tmp_path / "log.csv"
    log.write_text("when\n2026-01-01\n")
    before = everything(counts)
    refused = count(
        log, "--time", "when", "--from", "2026-01-01", "--through", "2026-01-01", "--horizon", 31, "--rho", 1,
        "--store", counts, "--name", "new",
    )  # fmt: skip
    assert refused.exit_code == 2
    assert "would promise rho = 1.3" in refused.stderr
    assert "limit is rho = 0.5" in refused.stderr
    assert everything(counts) == before


def test_adopting_a_copy(counts, tmp_path):
    copy = copy_of(counts, tmp_path / "copy")
    refused = invoke("list", copy)
    assert refused.exit_code == 2
    assert f"dpstream store adopt {copy}" in refused.output
    before = everything(copy)
    result = invoke("adopt", copy, input="n\n")
    assert result.exit_code == 1
    assert "Will the original" in result.output
    assert everything(copy) == before
    assert "goes on from here, with 3 streams. Delete the original." in invoke("adopt", copy, "--yes").output
    assert invoke("list", copy).exit_code == 0
    with dp.Store(copy) as store:
        store.counter("visits", 365, dp.approx_dp(1, 1e-6), mechanism=SmoothBinary(365)).add(1, position=104)
    assert "there is nothing to adopt" in invoke("adopt", copy).output


def test_extending_a_stream(path):  # noqa: F811
    log = path.parent / "log.csv"
    log.write_text("when\n2026-01-30\n2026-01-31\n")
    options = ["--time", "when", "--time-zone", "Europe/Vienna", "--from", "2026-01-30", "--horizon", 3, "--rho", 1]
    counted = count(log, *options, "--through", "2026-01-31", "--store", path, "--name", "visits")
    assert counted.exit_code == 0
    before = everything(path)
    for given, words in (
        ([], "the end must be given by one of --horizon, --until and --unbounded"),
        (["--horizon", "3", "--until", "2026-03-01"], "the end must be given by one of"),
        (["--until", "2026-01-31"], "--until must be 2026-02-01 or later"),
        (["--horizon", "0"], "--horizon must be"),
        (["--horizon", "5", "--name", "visits"], "a name that no stream of this store has"),
        (["--horizon", "5", "--delta", "1e-6"], "the budget must be given as --rho"),
    ):
        result = invoke("extend", path, "visits", *given)
        assert result.exit_code == 2
        assert words in result.output
        assert len(result.output.splitlines()) == 1
        assert everything(path) == before
    said = " ".join(invoke("extend", path, "visits", "--until", "2026-03-31", "--rho", "0.5").output.split())
    assert said == (
        "visits-2 goes on with visits after 2 steps, for 59 steps, from the total that was released last. visits is"
        " ended. visits-2 has a budget of its own: ρ = 0.5. Both together have promised ρ = 1.5, which is ε = 9.254 at"
        " δ = 1e-06."
    )
    shown = " ".join(invoke("show", path, "visits-2").output.split())
    assert "goes on with visits, after 2 steps" in shown
    assert "continued by visits-2" in " ".join(invoke("show", path, "visits").output.split())
    refused = invoke("extend", path, "visits", "--horizon", "5")
    assert "the stream 'visits' is continued by 'visits-2'" in refused.output
    log.write_text("when\n2026-02-01\n2026-02-02\n")
    gone_on = count(log, "--store", path, "--name", "visits-2", "--through", "2026-02-02")
    assert gone_on.exit_code == 0, gone_on.stderr
    assert "2026-02-02" in gone_on.stdout
    # One series to whoever reads it, by whichever name, with the error of both.
    for name in ("visits", "visits-2"):
        lines = invoke("releases", path, name, "--windows", "3d", "--json").output.splitlines()
        rows = [json.loads(line) for line in lines]
        assert [row["start"] for row in rows] == ["2026-01-30", "2026-01-31", "2026-02-01", "2026-02-02"]
        with dp.Store(path) as store:
            values = store.series_values("visits").tolist()
            alone = [store.estimate(part, through=2) for part in ("visits", "visits-2")]
        assert [row["value"] for row in rows] == values
        assert rows[3]["last_3d"] == values[3] - values[0]
        assert rows[3]["stddev"] == pytest.approx(np.hypot(alone[0].stddev, alone[1].stddev), rel=1e-4)
        half = rows[3]["high"] - rows[3]["value"]
        assert max(one.high - one.value for one in alone) < half < sum(one.high - one.value for one in alone) + 2
    # The same budget again, and streams that have nothing to do with it.
    with dp.Store(path) as store:
        store.counter("other", 10, dp.zcdp(0.5)).add(1)
        assert len(store.series_values("visits")) == 4
    said = " ".join(invoke("extend", path, "visits-2", "--unbounded", "--name", "for ever").output.split())
    assert "for ever goes on with visits-2 after 4 steps, without a last step" in said
    assert "All 3 together have promised ρ = 2, " in said
    assert "All 4 streams together have promised ρ = 2.5, " in said
    assert "--until must be used where steps have dates" in invoke("extend", path, "other", "--until", "2027").output


def test_the_only_stream_needs_no_name(counts, tmp_path):
    alone = tmp_path / "alone.db"
    with dp.Store(alone) as store:
        store.counter("visits", 10, dp.zcdp(0.5)).extend([1, 2])
    assert "steps 2" in " ".join(invoke("show", alone).output.split())
    assert len(invoke("releases", alone, "--json").output.splitlines()) == 2
    assert invoke("extend", alone, "--horizon", 5).output.startswith("visits-2 goes on with visits after 2 steps")
    assert invoke("show", alone).output.startswith("visits-2 ")  # the last of the only series
    assert invoke("extend", alone, "--horizon", 5).output.startswith("visits-3 goes on with visits-2")
    for command in (["show"], ["releases"], ["extend", "--horizon", "5"]):
        result = invoke(command[0], counts, *command[1:])
        assert result.exit_code == 2
        assert "NAME must be given: one of visits, rooms [a/b], sum" in result.output
    dp.Store(tmp_path / "empty.db").close()
    assert "the store has none" in invoke("show", tmp_path / "empty.db").output


def test_show_speaks_of_amounts(path):  # noqa: F811
    with dp.Store(path) as store:
        store.counter("sales", 10, dp.zcdp(0.5), per_person=20000, source='{"unit": "0.01"}').close()
    shown = " ".join(invoke("show", path).output.split())
    assert "per_person 200.00 (20,000 units of 0.01)" in shown
    assert re.search(r"stddev of the last release [0-9.]+ \([0-9,]+ units of 0.01\)", shown)
    assert shown.endswith("Numbers of this paragraph are in units of 0.01.")


def test_steps_left(path):  # noqa: F811
    with dp.Store(path) as store:
        for name, steps in (("many", 89), ("few", 90), ("one", 99), ("none", 100)):
            store.counter(name, 100, dp.zcdp(0.1)).extend([0] * steps)
        store.counter("endless", None, dp.zcdp(0.1)).extend([0] * 100)
        store.counter("over", 100, dp.zcdp(0.1)).extend([0] * 95)
        store.retire("over")
        assert {info.name: info.remaining for info in store.streams()}["few"] == 10
    said = invoke("list", path).output.splitlines()
    assert [line for line in said if "left" in line] == [
        "few: 10 steps left.",
        "one: 1 step left.",
        "none: 0 steps left.",
    ]


# -- retire -----------------------------------------------------------------------------------------------------------


def test_retire_asks(counts):
    before = everything(counts)
    result = invoke("retire", counts, "visits", input="n\n")
    assert result.exit_code == 1
    assert "visits has 4 releases. End it for good?" in result.output
    assert everything(counts) == before
    assert invoke("retire", counts, "visits", input="y\n").exit_code == 0
    assert "visits is retired after 4 releases." in invoke("retire", counts, "visits", "--yes").output
    assert "retired" in invoke("list", counts).output
    assert invoke("verify", counts).exit_code == 0


def test_retiring_says_what_is_lost(path):  # noqa: F811
    with dp.Store(path) as store:
        store.counter("visits", 10, dp.zcdp(0.5)).ingest(1, [1, 2], through=2)
        assert store.true_data.open_steps("visits").tallies[:3].tolist() == [1, 2, 0]
    result = invoke("retire", path, "visits", input="n\n")
    assert (
        "visits has 0 releases. Rows that wait in its open steps are never released. End it for good?" in result.output
    )
    said = invoke("retire", path, "visits", "--yes").output
    assert said == "visits is retired after 0 releases. Rows that wait in its open steps are never released.\n"


def test_while_another_process_writes(path):  # noqa: F811
    script = f"""
import sys, dpstream as dp
with dp.Store({str(path)!r}) as store:
    counter = store.counter("visits", 10, dp.zcdp(0.5))
    counter.add(1)
    print("ready", flush=True)
    sys.stdin.readline()
    counter.add(1)
"""
    with subprocess.Popen(  # noqa: S603
        [sys.executable, "-c", script], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as writer:
        assert writer.stdout.readline() == "ready\n"
        for command in ("list", "show", "releases", "verify"):
            assert invoke(command, path, *([] if command == "list" else ["visits"])).exit_code == 0
        result = invoke("retire", path, "visits", "--yes")
        assert result.exit_code == 2
        assert f"is being written by process {writer.pid}" in result.output
        writer.communicate("go\n")
    assert writer.returncode == 0
    assert "  2" in invoke("list", path).output


def test_show_promises_what_count_promised(path):  # noqa: F811
    """People who come on several days are protected by `count --user`, and `show` must not say that they are not."""
    log = path.parent / "log.csv"
    log.write_text("when,who\n2026-01-01,ann\n2026-01-02,ann\n")
    counted = count(
        log, "--time", "when", "--from", "2026-01-01", "--through", "2026-01-02", "--unbounded", "--rho", 1, "--user",
        "who", "--max-contributions", 3, "--store", path,
    )  # fmt: skip
    assert "protects every user. At most 3 rows of each person in the whole stream are counted" in " ".join(
        counted.stderr.split()
    )
    said = " ".join(invoke("show", path, "count").output.split())
    assert "To whom: everyone, because the counted rows of one person add at most 3, in whatever steps" in said
    assert "rows of one person at most 3, in whatever steps" in said
    assert "more steps" not in said
    assert "one step" not in said
    # Without a last step there is no number that looks like one.
    assert "remaining without end" in said
    assert "no end" in invoke("list", path).output
    assert "1,073,741" not in said


def test_extending_a_stream_in_which_rows_wait_says_what_to_type(path, tmp_path):  # noqa: F811
    log = tmp_path / "log.csv"
    log.write_text("when\n2026-01-01\n2026-01-04\n")
    count = ["count", str(log), "--time", "when", "--from", "2026-01-01", "--horizon", "9", "--rho", "1"]
    begun = CliRunner().invoke(
        main_app, [*count, "--store", str(path), "--name", "my visits", "--through", "2026-01-01"]
    )
    assert begun.exit_code == 0, begun.output
    refused = invoke("extend", path, "my visits", "--horizon", "9")
    assert refused.exit_code == 2
    said = " ".join(refused.stderr.split())
    assert "rows wait in 'my visits' for steps that are not released yet, up to that of 2026-01-04" in said
    _, _, command = said.partition("Release them first: dpstream ")
    assert CliRunner().invoke(main_app, shlex.split(command), input="when\n").exit_code == 0
    assert invoke("extend", path, "my visits", "--horizon", "9").exit_code == 0
