"""Where at most so many rows of a person count in the whole stream, no text claims the truth, and each says the limit.

People who come again use up their limit, so the counted rows fall behind all rows: intervals are about counted rows.
"""

import json
import re
from html import unescape

import pytest
from typer.testing import CliRunner

import dpstream as dp
from dpstream.cli.app import app

#: Words by which a reader would take a figure, or its bar, for one of all rows.
CLAIMS = re.compile(r"(?<!=)(?<!: )\b(true|truth|actual|really|real number)\b", re.IGNORECASE)
SAME = ("--time", "when", "--from", "2026-03-01", "--until", "2026-03-20", "--through", "2026-03-04")
STREAMS = {
    "rows": (
        ("--user", "who", "--max-contributions", "2", "--rho", "0.5"),
        "At most 2 rows of each person in the whole stream are counted, so figures fall behind as people use up"
        " their limit.",
    ),
    "names": (
        ("--by", "term", "--discover", "--user", "who", "--names-per-person", "3", "--epsilon", "9", "--delta", "1e-6"),
        "At most 3 names of each person in the whole stream are counted, and at most 1 row of each, so figures fall"
        " behind as people use up their limit.",
    ),
}


def run(*arguments):
    result = CliRunner().invoke(app, [str(one) for one in arguments])
    assert result.exit_code == 0, result.output
    return result


def texts_in(value):
    """Yield all texts of a JSON value."""
    if isinstance(value, str):
        yield value
    elif isinstance(value, dict | list):
        for one in value.values() if isinstance(value, dict) else value:
            yield from texts_in(one)


def words_of(text):
    """Return what a person reads: of a page without its programs and marks, of JSON its texts, each in one line."""
    if text.startswith(("{", "[")):
        return " ".join(" ".join(texts_in(json.loads(text))).split())
    shown = re.sub(r"<(script|style)\b.*?</\1>", " ", text, flags=re.DOTALL)
    shown = re.sub(r"<[^>]*>", " ", re.sub(r'(?:aria-label|alt)="([^"]*)"', r"> \1 <", shown))
    return " ".join(unescape(shown).split())


def every_text(folder, flags):
    """Return what all commands say of one stream, by where it is said."""
    store, log = folder / "visits.db", folder / "log.csv"
    rows = [f"2026-03-{day:02},{who},t{who % 2}\n" for day in range(1, 5) for who in range(90)]
    log.write_text("when,who,term\n" + "".join(rows))
    page, text = folder / "totals.html", folder / "protection.txt"
    made = run("count", log, *SAME, *flags, "--windows", "1d", "--store", store, "--plot", page, "--protect-text", text)
    windows = run("windows", store, "--over", "2d", "--plot", folder / "windows.html")
    run("export", store, folder / "site")
    with dp.Store(store) as opened:
        (info,) = opened.streams()
    texts = {
        "run": made.stderr,
        "chart": page.read_text(),
        "windows": windows.stderr,
        "chart of windows": (folder / "windows.html").read_text(),
        "protect-text": text.read_text(),
        "registry": text.with_suffix(".json").read_text(),
        "store protect-text": run("store", "protect-text", store).stdout,
        "store show": run("store", "show", store).stdout,
        "store show --json": run("store", "show", store, "--json").stdout,
        "overview": (folder / "site" / "index.html").read_text(),
        "stream's page": (folder / "site" / "streams" / f"{info.name}.html").read_text(),
        "exported registry": (folder / "site" / "streams" / f"{info.name}.registry.json").read_text(),
        "data package": (folder / "site" / "datapackage.json").read_text(),
    }
    return {where: words_of(text) for where, text in texts.items()}


def test_a_plan_says_the_limit(monkeypatch):
    monkeypatch.setenv("COLUMNS", "500")
    same = ("plan", "--epsilon", "9", "--delta", "1e-6", "--horizon", "20")
    for kind, flags in (("rows", ("--max-contributions", 2)), ("names", ("--discover", "--names-per-person", 3))):
        said = run(*same, *flags).stdout
        assert STREAMS[kind][1] in said
        assert not CLAIMS.search(said)


@pytest.mark.parametrize("kind", STREAMS)
def test_no_text_of_a_limited_stream_claims_the_truth(kind, tmp_path, monkeypatch):
    monkeypatch.setenv("COLUMNS", "500")
    flags, limit = STREAMS[kind]
    texts = every_text(tmp_path, flags)
    claims = {where: text[max(found.start() - 60, 0) : found.end() + 30]
              for where, text in texts.items() if (found := CLAIMS.search(text))}  # fmt: skip
    assert claims == {}
    assert [where for where, text in texts.items() if limit not in text] == []
    assert "of the total of the counted rows" in texts["protect-text"]
    assert "each figure of the counted rows is within its" in texts["chart"]


def test_where_each_row_is_protected_figures_are_about_the_true_numbers(tmp_path, monkeypatch):
    monkeypatch.setenv("COLUMNS", "500")
    texts = every_text(tmp_path, ("--rho", "0.5"))
    assert [where for where, text in texts.items() if "use up their limit" in text] == []
    assert "of the true one" in texts["protect-text"]
    assert "each true figure is within its" in texts["chart"]
