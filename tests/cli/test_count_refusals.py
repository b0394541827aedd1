"""What cannot be counted is refused: one line, exit status 2, nothing written, nothing spent."""

import datetime as dt
import gzip
import shutil

import pytest

import dpstream as dp
from tests.cli.test_count import count, narrow_terminal  # noqa: F401

#: Proposed dates are of this year.
YEAR = dt.date.today().year
GOOD = "when,ward,who,n\n2026-01-01,north,ann,1\n2026-01-02,south,bob,2\n2026-01-03,north,ann,3\n"
DAILY = ("--time", "when")
HORIZON = ("--horizon", "10")
RHO = ("--rho", "0.5")
USUAL = (*DAILY, *HORIZON, *RHO)
BY = ("--by", "ward", "--values", "north,south")
SUM = ("--value", "n", "--per-person", "3")
WHO = ("--user", "who", "--max-contributions", "2")


def changed(old, new):
    return GOOD.replace(old, new)


#: The file (its text, bytes, or None for no file), the options, and what the message says.
REFUSED = {
    "no file": (None, USUAL, "log.csv: no such file or directory"),
    "empty": ("", USUAL, "log.csv: is empty"),
    "only a header": ("when,ward,who,n\n", USUAL, "--from must be given where there are no rows"),
    "only a header, no line end": ("when,ward,who,n", USUAL, "--from must be given where there are no rows"),
    "column": (
        GOOD,
        ("--time", "date", *HORIZON, *RHO),
        "no column 'date'; its columns are 'when', 'ward', 'who', 'n'",
    ),
    "value column": (GOOD, (*USUAL, "--value", "x", "--per-person", "3"), "has no column 'x'"),
    "user column": (GOOD, (*USUAL, "--user", "x", "--max-contributions", "3"), "has no column 'x'"),
    "by column": (GOOD, (*USUAL, "--by", "x", "--values", "a"), "has no column 'x'"),
    "timestamp": (
        changed("2026-01-02", "2.1.2026"),
        USUAL,
        "line 3, column 'when': expected a timestamp of the form yyyy-mm-dd, got '2.1.2026'",
    ),
    "day or month": (
        "when\n03/04/2026\n",
        USUAL,
        "line 2, column 'when': expected a day above 12 in some row, which tells the day from the month, got"
        " '03/04/2026'; --time-format dd/mm/yyyy reads it as 3 April 2026, --time-format mm/dd/yyyy reads it as 4",
    ),
    "day or month, with hours": (
        "when\n03/04/2026 10:30\n",
        USUAL,
        "--time-format 'dd/mm/yyyy hh:mm' reads it as 3 April 2026",
    ),
    "days and months": (
        "when\n13/04/2026\n04/14/2026\n",
        USUAL,
        "line 3, column 'when': expected a timestamp of the form dd/mm/yyyy, got '04/14/2026'; it can be read as mm/dd",
    ),
    "all timestamps": ("when\nlast Monday\n", USUAL, "line 2, column 'when': expected a timestamp such as 2026-01-31"),
    "no time format": (GOOD, (*USUAL, "--time-format", "European"), "--time-format must be a form with day, month and"),
    "time format": (
        GOOD,
        (*USUAL, "--time-format", "%d.%m.%Y"),
        "line 2, column 'when': expected a timestamp of the form",
    ),
    "numbers for times": (GOOD, ("--time", "n", *HORIZON, *RHO), "column 'n': expected a timestamp"),
    "milliseconds as seconds": (
        "when\n1767225600000\n",
        (*USUAL, "--time-format", "s"),
        "expected a number of s since 1970, got '1767225600000'",
    ),
    "order": (
        changed("2026-01-02", "2026-01-05"),
        USUAL,
        "line 4, column 'when': expected rows in order, none of an earlier step than the row before it (--any-order",
    ),
    "NaN": (changed("bob,2", "bob,NaN"), (*USUAL, *SUM), "line 3, column 'n': expected a whole number from -3 to 3"),
    "huge": (changed("bob,2", "bob,1" + "0" * 30), (*USUAL, *SUM), "line 3, column 'n': expected a whole number"),
    "over the bound": (
        changed("bob,2", "bob,4"),
        (*USUAL, *SUM),
        "line 3, column 'n': expected a whole number from -3",
    ),
    "fraction": (
        changed("bob,2", "bob,2.5"),
        (*USUAL, *SUM),
        "expected a whole number from -3 to 3 (--per-person 3), got '2.5'",
    ),
    "a step too large": (
        "when,n\n" + 3 * "2026-01-01,2147483648\n",
        (*DAILY, *RHO, "--unbounded", "--value", "n", "--per-person", "2147483648"),
        "what a step adds up to must be from",
    ),
    "horizon": (
        GOOD,
        (*DAILY, *RHO, "--horizon", "2"),
        "line 4, column 'when': expected one of the 2 steps from 2026-01-01",
    ),
    "horizon, any order": (
        "when\n2026-01-03\n2026-01-01\n",
        (*DAILY, *RHO, "--horizon", "2", "--any-order"),
        "expected one of the 2 steps from 2026-01-01",
    ),
    "until": (GOOD, (*DAILY, *RHO, "--until", "2026-01-02"), "expected one of the 2 steps from 2026-01-01"),
    "until before the data": (GOOD, (*DAILY, *RHO, "--until", "2025-01-02"), "one of the 0 steps"),
    "until what": (GOOD, (*DAILY, *RHO, "--until", "soon"), "--until must be a date such as 2026-01-31"),
    "horizon 0": (GOOD, (*DAILY, *RHO, "--horizon", "0"), "--horizon must be"),
    "no end": (
        GOOD,
        (*DAILY, *RHO),
        "one thing is missing: how long you will publish (--until DATE, --horizon 365 for",
    ),
    "nothing said": (
        GOOD,
        (),
        "three things are missing: which column says when a row happened (--time COLUMN), how"
        " long you will publish (--until DATE, --horizon 365 for a year of days, or --unbounded for no end)"
        f" and the budget (--epsilon 1 --delta 1e-6 is a usual choice). Try: dpstream count log.csv --time when --from"
        f" {YEAR}-01-01 --until {YEAR}-12-31 --epsilon 1 --delta 1e-6 --store",
    ),
    "no time": (GOOD, (*HORIZON, *RHO), "one thing is missing: which column says when a row happened (--time COLUMN"),
    "rows as steps": (
        GOOD,
        ("--every", "row", *SUM, *RHO, "--horizon", "9"),
        "one thing is missing: which column says",
    ),
    "every row": (GOOD, (*USUAL, "--every", "row"), "--every must be a length of time like 1d"),
    "through what": (GOOD, (*USUAL, "--through", "soon"), "--through must be a date such as 2026-01-31"),
    "two ends": (GOOD, (*USUAL, "--unbounded"), "give one of --horizon, --until and --unbounded, not --horizon and"),
    "from": (GOOD, (*USUAL, "--from", "yesterday"), "--from must be a date such as 2026-01-31"),
    "every": (GOOD, (*USUAL, "--every", "fortnight"), "--every must be a length of time like 1d"),
    "every 0": (GOOD, (*USUAL, "--every", "0d"), "--every must be a length of time like 1d"),
    "zone": (GOOD, (*USUAL, "--time-zone", "Vienna"), "--time-zone must be a name such as Europe/Vienna"),
    "zone and from": (GOOD, (*USUAL, "--time-zone", "Vienna", "--from", "2026-01-01"), "--time-zone must be a name"),
    "an hour that does not exist": (
        "when\n2026-03-29 02:30:00\n",
        (*USUAL, "--time-zone", "Europe/Vienna"),
        "that exists in Europe/Vienna",
    ),
    "no budget": (GOOD, (*DAILY, *HORIZON), "one thing is missing: the budget (--epsilon 1 --delta 1e-6 is a usual"),
    "budget 0": (GOOD, (*DAILY, *HORIZON, "--rho", "0"), "rho must be"),
    "budget NaN": (GOOD, (*DAILY, *HORIZON, "--rho", "nan"), "rho must be"),
    "epsilon below 0": (GOOD, (*DAILY, *HORIZON, "--epsilon", "-1"), "epsilon must be"),
    "delta 1": (GOOD, (*DAILY, *HORIZON, "--epsilon", "1", "--delta", "1"), "delta must be"),
    "two budgets": (GOOD, (*USUAL, "--epsilon", "1"), "the budget must be given as --rho, or as --epsilon"),
    "mechanism": (GOOD, (*USUAL, "--mechanism", "SmothBinary"), "(did you mean SmoothBinary?), got 'SmothBinary'"),
    "mechanism of the other noise": (
        GOOD,
        (*DAILY, *HORIZON, "--epsilon", "1", "--mechanism", "Honaker"),
        "(Honaker cannot serve that)",
    ),
    "mechanism with an end": (
        GOOD,
        (*DAILY, *RHO, "--unbounded", "--mechanism", "Binary"),
        "(Binary cannot serve that)",
    ),
    "confidence": (GOOD, (*USUAL, "--confidence", "95"), "confidence must be a number strictly between 0 and 1"),
    "cut gzip": (gzip.compress(GOOD.encode())[:-20], USUAL, "gzip ends early or is damaged"),
    "encodings": (changed("south", "sǘd").encode("utf-8")[:-1] + b"\xe9\n", USUAL, "line 4: not UTF-8: byte 0xe9"),
    "utf-16 without a mark": (GOOD.encode("utf-16-le"), USUAL, "line 1: a NUL byte: this is not text, or it is UTF-16"),
    "encoding": (GOOD, (*USUAL, "--encoding", "utf-7-bit"), "--encoding must be an encoding such as utf-8, cp1252"),
    "encoding of bytes": (GOOD, (*USUAL, "--encoding", "base64"), "--encoding must be an encoding such as utf-8"),
    "wrong encoding": (GOOD.replace("south", "süd"), (*USUAL, "--encoding", "ascii"), "line 3: not ascii: byte 0xc3"),
    "Windows": (
        changed("south", "Währing").encode("cp1252"),
        USUAL,
        "line 3: not UTF-8: byte 0xe4 ('Währing' in a file from Windows); --encoding cp1252 reads files of Windows",
    ),
    "delimiter": (GOOD, (*USUAL, "--delimiter", "ab"), "--delimiter must be one character such as ; or |"),
    "delimiter of another file": (
        GOOD,
        (*USUAL, "--delimiter", "semicolon"),
        "no column 'when'; its columns are 'when,",
    ),
    "sheet of a CSV file": (GOOD, (*USUAL, "--format", "xlsx"), "not an Excel file"),
    "too many fields": (changed("bob,2", "bob,2,x"), USUAL, "line 3: 5 fields, but the header names 4"),
    "too few fields": (changed("bob,2", "bob"), USUAL, "line 3: 3 fields, but the header names 4"),
    "open quote": (changed("south", '"south'), USUAL, "line 3: a quote that is opened here never ends"),
    "empty line": (
        changed("2026-01-03", "\n2026-01-03"),
        USUAL,
        "line 4, column 'when': expected a timestamp of the form yyyy-mm-dd, got an empty cell; --missing skip leaves",
    ),
    "not a log": (b"\x89PNG\r\n\x1a\n" + bytes(50), USUAL, "line 1: not UTF-8"),
    "no user": (changed("bob", ""), (*USUAL, *WHO), "line 3, column 'who': expected a user, got an empty cell"),
    "quoted no user": (changed("bob", '""'), (*USUAL, *WHO), "line 3, column 'who': expected a user, got ''"),
    "user without limit": (GOOD, (*USUAL, "--user", "who"), "--max-contributions must be given"),
    "limit without user": (GOOD, (*USUAL, "--max-contributions", "3"), "--user must be given"),
    "limit 0": (GOOD, (*USUAL, "--user", "who", "--max-contributions", "0"), "--max-contributions must be"),
    "limit beyond": (GOOD, (*USUAL, "--user", "who", "--max-contributions", "99999999"), "times must be at most"),
    "repeated categories": (
        GOOD,
        (*USUAL, "--by", "ward", "--values", "north,south,north"),
        "each category once, got 'north'",
    ),
    "categories without a column": (GOOD, (*USUAL, "--values", "north,south"), "--by must be given"),
    "a column without categories": (GOOD, (*USUAL, "--by", "ward"), "--values must be given"),
    "categories twice": (GOOD, (*USUAL, *BY, "--values-file", "log.csv"), "given once"),
    "no file of categories": (
        GOOD,
        (*USUAL, "--by", "ward", "--values-file", "nowhere"),
        "--values-file must be a file of",
    ),
    "undeclared category": (
        changed("south", "east"),
        (*USUAL, *BY),
        "line 3, column 'ward': expected one of the categories (north, south), got 'east'; --undeclared other counts",
    ),
    "undeclared what": (GOOD, (*USUAL, *BY, "--undeclared", "drop"), "--undeclared must be refuse or other"),
    "other twice": (GOOD, (*USUAL, "--by", "ward", "--values", "a,other", "--undeclared", "other"), "without the name"),
    "value without a bound": (GOOD, (*USUAL, "--value", "n"), "--per-person must be given with --value"),
    "bound 0": (GOOD, (*USUAL, "--value", "n", "--per-person", "0"), "--per-person must be"),
    "bound beyond": (
        GOOD,
        (*USUAL, "--value", "n", "--per-person", str(2**70)),
        "--per-person must be at most 1,099,511,627,776",
    ),
    "sums beyond": (
        GOOD,
        (*DAILY, *RHO, "--horizon", "99999999", "--value", "n", "--per-person", str(2**40)),
        "may pass",
    ),
    "format": (GOOD, (*USUAL, "--format", "xml"), "--format must be one of csv, tsv, jsonl, parquet, xlsx"),
    "wrong format": (GOOD, (*USUAL, "--format", "jsonl"), "line 1: not a line of JSON"),
    "wrong format, parquet": (GOOD, (*USUAL, "--format", "parquet"), "not a Parquet file"),
    "form": (GOOD, (*USUAL, "--as", "xml"), "--as must be one of csv, json, jsonl, parquet, table"),
    "far away": (
        "when\n2026-01-01\n9990-01-01\n",
        (*DAILY, *RHO, "--unbounded", "--every", "1s"),
        "at most 16,777,216 steps",
    ),
}


def before_and_after(folder):
    return {path.name: path.read_bytes() for path in folder.iterdir() if not path.name.endswith("-shm")}


def refused(result, message):
    assert result.exit_code == 2, result.output
    assert result.stdout == ""
    assert result.stderr.count("\n") == 1, result.stderr
    assert result.stderr.startswith("dpstream count: ")
    assert message in result.stderr
    assert "Traceback" not in result.stderr


@pytest.fixture
def here(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    return tmp_path


@pytest.fixture(scope="module")
def some_store(tmp_path_factory):
    """A store that has released the first two days of the good log."""
    folder = tmp_path_factory.mktemp("store")
    (folder / "good.csv").write_text(GOOD)
    result = count(
        folder / "good.csv", *USUAL, "--through", "2026-01-02", "--store", folder / "s.db", "--output", folder / "o.csv"
    )
    assert result.exit_code == 0, result.output
    return folder


@pytest.mark.parametrize("case", REFUSED)
def test_refused(here, case):
    content, options, message = REFUSED[case]
    if content is not None:
        (here / "log.csv").write_bytes(content.encode() if isinstance(content, str) else content)
    before = before_and_after(here)
    where = ("--output", "out.csv", "--plot", "out.png")
    if case != "order":  # which a store does not ask for
        refused(count("log.csv", *options, "--store", "s.db", *where), message)
    refused(count("log.csv", *options), message)
    assert before_and_after(here) == before


@pytest.mark.parametrize("case", ["timestamp", "too few fields", "cut gzip", "empty", "horizon", "until", "NaN"])
def test_a_store_stays_where_it_was(here, some_store, case):
    for file in some_store.iterdir():
        shutil.copy2(file, here / file.name)
    content, options, message = REFUSED[case]
    (here / "log.csv").write_bytes(content.encode() if isinstance(content, str) else content)
    with dp.Store("s.db", adopt=True) as store:
        before = (store.releases("count"), store.spent())
    output = (here / "o.csv").read_bytes()
    result = count("log.csv", *options, "--store", "s.db", "--output", "o.csv", "--plot", "out.png")
    refused(result, message if case not in ("horizon", "until", "NaN") else "the stream 'count' was created with ")
    with dp.Store("s.db") as store:
        assert (store.releases("count"), store.spent()) == before
    assert (here / "o.csv").read_bytes() == output
    assert not (here / "out.png").exists()


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (
            (*DAILY, *HORIZON, "--rho", "0.6"),
            "created with --rho 0.5, but --rho 0.6 was given. Give --rho 0.5 to go on",
        ),
        ((*DAILY, *RHO, "--horizon", "11"), "created with --horizon 10, but --horizon 11 was given"),
        ((*DAILY, *RHO, "--unbounded"), "created with --horizon 10"),
        ((*USUAL, "--every", "1h"), "created with --every 1d, but --every 1h was given"),
        ((*USUAL, "--from", "2025-12-01"), "created with --from 2026-01-01, but --from 2025-12-01 was given"),
        ((*USUAL, "--time-zone", "Asia/Tokyo"), "created with no --time-zone"),
        ((*USUAL, *BY), "created with no --by, but --by ward was given. Leave out --by to go on"),
        ((*USUAL, *SUM), "created with no --value"),
        ((*USUAL, *WHO), "created with no --user"),
        (
            (*USUAL, "--mechanism", "Binary"),
            "created with --mechanism BalancedToeplitz, but --mechanism Binary was given",
        ),
    ],
)
def test_a_store_of_other_settings(here, some_store, options, message):
    for file in some_store.iterdir():
        shutil.copy2(file, here / file.name)
    with dp.Store("s.db", adopt=True) as store:
        before = store.releases("count")
    refused(count("good.csv", *options, "--store", "s.db", "--output", "out.csv"), message)
    with dp.Store("s.db") as store:
        assert store.releases("count") == before
    assert not (here / "out.csv").exists()


def test_files_that_cannot_be_written(here):
    (here / "log.csv").write_text(GOOD)
    (here / "folder.csv").mkdir()
    before = set(here.iterdir())
    for option, path, message in (
        ("--output", "out.txt", "a file ending in .csv, .json, .jsonl, .ndjson, .parquet"),
        ("--output", "nowhere/out.csv", "a file in a folder that is there"),
        ("--output", "folder.csv", "a file in a folder that is there"),
        ("--output", "log.csv", "--output must be a file of its own, got 'log.csv'"),
        ("--plot", "out.gif", "--plot must be a file ending in .png"),
        ("--plot", "nowhere/out.png", "a file in a folder that is there"),
        ("--store", "log.csv", "--store must be a file of its own"),
        ("--store", "folder.csv", "folder.csv"),
        ("--store", "nowhere/s.db", "nowhere"),
    ):
        refused(count("log.csv", *USUAL, option, path), message)
    refused(count("log.csv", *USUAL, "--output", "o.csv", "--store", "o.csv"), "--store must be a file of its own")
    (here / "text.db").write_text("hello")
    refused(count("log.csv", *USUAL, "--store", "text.db"), "is not a dpstream store")
    (here / "text.db").unlink()
    assert set(here.iterdir()) == before
    assert (here / "log.csv").read_text() == GOOD


def test_standard_input_that_is_nothing():
    refused(count(*USUAL, input=""), "standard input: is empty")
    refused(count(*USUAL, "--report-dropped", "1", input=GOOD), "--report-dropped must be used with --user")


@pytest.mark.parametrize("option", [("--follow",), ("--gaps", "refuse"), ("--neighbours", "replace")])
def test_options_that_are_gone(here, option):
    """With them one row moved others, or steps, or a cell moved more than the noise was made for."""
    (here / "log.csv").write_text(GOOD)
    result = count("log.csv", *USUAL, *option)
    assert (result.exit_code, result.stdout) == (2, "")
    assert f"No such option: {option[0]}" in result.stderr
