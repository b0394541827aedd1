"""`dpstream init` writes settings that `dpstream count --settings` uses; and what a settings file may hold."""

import datetime as dt
import tomllib

import pytest
import typer
from typer.testing import CliRunner

import dpstream as dp
from dpstream.cli.app import CommandGroup
from dpstream.cli.init import init as init_command
from dpstream.errors import SourceMissing
from dpstream.events.guess import guess
from tests.cli.test_count import count, counted, narrow_terminal  # noqa: F401
from tests.cli.test_count_refusals import here, refused  # noqa: F401

only_init = typer.Typer(cls=CommandGroup, pretty_exceptions_enable=False, callback=lambda: None)
only_init.command()(init_command)


def init(*arguments, **more):
    return CliRunner().invoke(only_init, ["init", *map(str, arguments)], **more)


@pytest.fixture
def visits(here):  # noqa: F811
    """Visits of two months, with offsets, two wards and patients who come again."""
    first = dt.datetime(2026, 1, 1, 9)
    rows = [
        f"{i},{first + dt.timedelta(hours=3 * i)}+01:00,{'north' if i % 3 else 'Surgery, general'!r},p{i % 40}\n"
        for i in range(200)
    ]
    (here / "visits.csv").write_text("id,seen_at,ward,patient\n" + "".join(rows).replace("'", '"'))
    return here


def test_what_is_guessed(visits):
    found = guess("visits.csv")
    assert found.columns == ["id", "seen_at", "ward", "patient"]
    assert (found.times, found.offsets, found.time_format) == (["seen_at"], True, None)
    assert (found.first, found.last) == (dt.date(2026, 1, 1), dt.date(2026, 1, 26))
    assert found.categories == {"ward": ["Surgery, general", "north"]}
    assert found.users == ["patient"]


def test_guesses_of_other_files(here):  # noqa: F811
    (here / "messy.csv").write_text("Nr;Datum;Betrag\n" + "".join(f"{i};{i + 1:02}/02/2025;2,50\n" for i in range(28)))
    found = guess("messy.csv")
    assert (found.times, found.time_format, found.first) == (["Datum"], "dd/mm/yyyy", dt.date(2025, 2, 1))
    assert "semicolon" in found.recognised[0]
    (here / "web.jsonl").write_text('{"n": 5, "ts": 1735689722195, "page": "a"}\n' * 9)
    assert guess("web.jsonl").times == []  # named by nothing that means a time, in numbers
    (here / "web.jsonl").write_text('{"n": 5, "timestamp": 1735689722195, "page": "a"}\n' * 9)
    assert (guess("web.jsonl").times, guess("web.jsonl").first) == (["timestamp"], dt.date(2025, 1, 1))
    (here / "empty.csv").write_text("a,b\n")
    with pytest.raises(SourceMissing, match="holds no rows to look at"):
        guess("empty.csv")


def test_yes_takes_the_guesses_but_no_categories(visits):
    result = init("visits.csv", "--yes")
    assert result.exit_code == 0, result.output
    told = " ".join(result.stdout.split())
    assert "No categories are taken: ward could be one." in told
    assert "Each row is protected by itself. A person with several rows is protected less." in told
    assert "figures then fall behind as people use up that limit (--user patient --max-contributions K)." in told
    assert "A step of 1d has about so many rows in this file (not for publication): 7.69." in told
    assert "warning: The figure of a step is smaller than the error bar, ±" in told
    assert "publish: dpstream count visits.csv --settings visits.toml --through DATE DATE is the last day" in told
    assert tomllib.loads((visits / "visits.toml").read_text()) == {
        "name": "visits", "time": "seen_at", "every": "1d", "time_zone": "UTC", "from": "2026-01-01",
        "until": "2026-12-31", "windows": ["1d", "7d"], "epsilon": 1, "delta": 1e-6, "store": "visits.db",
    }  # fmt: skip
    assert len(counted("visits.csv", "--settings", "visits.toml", "--through", "2026-01-26")) == 26
    with dp.Store(visits / "visits.db") as store:
        assert [info.name for info in store.streams()] == ["visits"]
    # The command line wins.
    refused(count("visits.csv", "--settings", "visits.toml", "--epsilon", 2), "--epsilon 1.0 --delta 1e-06, but")


def test_questions_and_what_the_answers_mean(visits, monkeypatch):
    monkeypatch.setattr("dpstream.cli.init_run.somebody_to_ask", lambda: True)
    answers = ["", "1w", "Europe/Vienna", "2025-12-29", "2027-01-03", "ward", "y", "row", "0.5", "w.db"]
    result = init("visits.csv", "--output", "w.toml", input="\n".join(answers) + "\n")
    assert result.exit_code == 0, result.output
    told = " ".join(result.stdout.split())
    assert "This list comes from the data. Is it public, and complete, whoever is in the data?" in told
    assert "Over 53 steps. A smaller ε protects better" in told
    assert "In the first rows it holds Surgery, general, north." in told
    assert tomllib.loads((visits / "w.toml").read_text()) == {
        "name": "w", "time": "seen_at", "every": "1w", "time_zone": "Europe/Vienna", "from": "2025-12-29",
        "until": "2027-01-03", "by": "ward", "values": ["Surgery, general", "north"], "undeclared": "other",
        "windows": ["1w"], "epsilon": 0.5, "delta": 1e-6, "store": "w.db",
    }  # fmt: skip
    rows = counted("visits.csv", "--settings", "w.toml", "--through", "2026-01-18")
    assert [row["category"] for row in rows] == ["Surgery, general", "north", "other"] * 3
    # Who does not confirm that the list is public gets no categories.
    result = init(
        "visits.csv", "--force", "--output", "w.toml", input="\n".join([*answers[:6], "n", "", "", "", "", ""])
    )
    assert result.exit_code == 0, result.output
    assert "by" not in tomllib.loads((visits / "w.toml").read_text())
    assert "Then ward is not used, and one total is published." in " ".join(result.stdout.split())


def test_a_limit_says_what_it_leaves_out_and_a_wrong_answer_is_asked_for_again(visits, monkeypatch):
    """Of 40 patients who come five times each, a limit of 1 leaves out all but their first rows."""
    monkeypatch.setattr("dpstream.cli.init_run.somebody_to_ask", lambda: True)
    answers = ["when", "seen_at", "1 day", "", "Vienna", "Europe/Vienna", "soon", "2026-01-01", "2025-12-31", ""]
    answers += ["wards", "none", "doctor", "patient", "0", "1", "n", "4", "y", "-1", "1", ""]
    result = init("visits.csv", input="\n".join(answers) + "\n")
    assert result.exit_code == 0, result.output
    told = " ".join(result.stdout.split())
    for refused_answer in ("when", "1 day", "Vienna", "soon", "wards", "doctor", "0", "-1"):
        assert f"got '{refused_answer}'" in told
    assert "the last step must be not before the first, 2026-01-01, got '2025-12-31'" in told
    assert "At most 1 row of each person in the whole stream is counted, so figures fall behind" in told
    assert "Rows that a limit of 1 leaves out of this file (not for publication)" in told
    assert "2026-01 200 160 (80%)" in told
    assert "2026-01 200 40 (20%)" in told
    settings = tomllib.loads((visits / "visits.toml").read_text())
    assert (settings["user"], settings["max_contributions"]) == ("patient", 4)


def test_dates_that_can_be_read_in_two_ways(here, monkeypatch):  # noqa: F811
    """A file of the first twelve days of a month: which number is the day is asked, also after an empty answer."""
    (here / "visits.csv").write_text("day\n" + "".join(f"{day:02}/03/2026\n" for day in range(1, 13)) * 3)
    result = init("visits.csv", "--yes")
    assert result.exit_code == 2
    assert "No row tells the day from the month, such as 01/03/2026: --time-format" in result.stderr
    monkeypatch.setattr("dpstream.cli.init_run.somebody_to_ask", lambda: True)
    result = init("visits.csv", input="\n".join(["", "", "mm.dd", "dd/mm/yyyy", *[""] * 6]) + "\n")
    assert result.exit_code == 0, result.output
    assert tomllib.loads((here / "visits.toml").read_text())["time_format"] == "dd/mm/yyyy"


def test_the_bars_are_those_that_count_has(visits):
    """The windows that the table speaks of are in the settings, so the noise is fitted to them."""
    told = " ".join(init("visits.csv", "--yes").stdout.split())
    rows = counted("visits.csv", "--settings", "visits.toml", "--through", "2026-01-26")
    off = max(int(row["last_7d_high"]) - int(row["last_7d"]) for row in rows)
    largest = int(told.split(" 1 ±")[1].split(" ")[2].strip("±"))
    assert 0.8 * largest <= off <= largest


def test_refusals_of_init(visits):
    def refused_by_init(result, message):
        assert (result.exit_code, result.stderr.count("\n")) == (2, 1), result.output
        assert message in result.stderr

    refused_by_init(init("visits.csv"), "there is nobody to ask: --yes takes what is guessed")
    refused_by_init(init("nowhere.csv", "--yes"), "nowhere.csv: no such file")
    refused_by_init(init("visits.csv", "--yes", "--output", "s.json"), "--output must be a file ending in .toml")
    (visits / "visits.toml").write_text("")
    refused_by_init(init("visits.csv", "--yes"), "a file that is not there yet; or --force writes over it")
    (visits / "plain.csv").write_text("a,b\n" + "x,1\n" * 9)
    refused_by_init(init("plain.csv", "--yes"), "no column of timestamps was recognised among a, b")
    assert not (visits / "plain.toml").exists()


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("tiem = 'when'", "s.toml: there is no setting 'tiem'; did you mean time?"),
        ("zzzzz = 1", "s.toml: there is no setting 'zzzzz'; there are any_order, by, "),
        ("[count]\ntime = 'when'", "s.toml: there is no setting 'count'"),
        ("time = when", "s.toml: is not TOML ("),
        ("time = ['when']", "time in s.toml must be a text, in quotes, got ['when']"),
        ("horizon = 'long'", "horizon in s.toml must be a whole number, got 'long'"),
        ("horizon = true", "horizon in s.toml must be a whole number, got True"),
        ("whole-log = 1", "whole-log in s.toml must be true or false, got 1"),
        ("values = [1, 2]", "values in s.toml must be a list of texts"),
        (
            "horizon = 3\nuntil = 2026-01-05",
            "give one of --horizon, --until and --unbounded, not --horizon and --until",
        ),
    ],
)
def test_settings_files_that_are_refused(here, text, message):  # noqa: F811
    (here / "log.csv").write_text("when\n2026-01-01\n")
    (here / "s.toml").write_text(text)
    refused(count("log.csv", "--settings", "s.toml", "--store", "s.db"), message)
    refused(count("log.csv", "--settings", "nowhere.toml"), "nowhere.toml: no such file or directory")
    assert {path.name for path in here.iterdir()} == {"log.csv", "s.toml"}


def test_every_spelling_of_a_settings_file(here):  # noqa: F811
    (here / "log.csv").write_text("when,ward\n2026-01-01,a\n")
    (here / "s.toml").write_text(
        'time = "when"\nfrom = 2026-01-01\nuntil = 2026-01-09\nrho = 1000\nby = "ward"\nvalues = ["a", "b"]\n'
        'any-order = true\nuser_fold_case = false\nwindows = "1d,2d"\nthrough = "2026-01-02"\n'
    )
    rows = counted("log.csv", "--settings", "s.toml")
    assert [row["last_2d"] for row in rows] == ["1", "0", "1", "0"]
    # An end on the command line replaces another kind of end in the file.
    assert len(counted("log.csv", "--settings", "s.toml", "--horizon", 2)) == 4
