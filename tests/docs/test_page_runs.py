"""Blocks of pages run, show what they printed, and fail when they do something else than the page says."""

import sys
from pathlib import Path

import pytest

DOCS = Path(__file__).parents[2] / "docs"
sys.path.insert(0, str(DOCS / "_ext"))

import kept_pages  # noqa: E402
import page_runs  # noqa: E402
from page_runs import PageError, commands, read_page, recorded, run_page  # noqa: E402


def page(folder, text):
    path = folder / "page.md"
    path.write_text(text)
    return read_page(path)


def test_files_commands_and_python_share_a_folder(tmp_path):
    told = page(
        tmp_path,
        "# Page\n\n```{file} a.csv\nwhen\n2025-01-01\n```\n\n```{shell}\n:lines: 3\n\nwc -l a.csv\n"
        "# a remark\nfor i in 1 2; do\n  echo $i\ndone > b.txt\ncat \\\n  b.txt\n```\n\n"
        "```{python}\nx = open('b.txt').read()\nprint(len(x))\nx\n```\n\n```{shell}\n:fails: 3\n\nexit 3\n```\n"
        "\n```{python}\n:fails:\n\n1 / 0\n```\n\n```{shell}\n:not-run: it would end the world\n\nrm -rf /\n```\n",
    )
    file, shell, python, failing, raising, left_out = run_page(told)
    assert (file.commands, file.outputs) == ([], [])
    assert shell.commands == [
        "wc -l a.csv",
        "# a remark",
        "for i in 1 2; do\n  echo $i\ndone > b.txt",
        "cat \\\n  b.txt",
    ]
    assert shell.outputs == ["2 a.csv\n", "", "", "1\n2\n"]
    assert python.outputs == ["4\n'1\\n2\\n'\n"]
    assert failing.outputs == ["[exit status 3]\n"]
    assert raising.outputs == ["ZeroDivisionError: division by zero\n"]
    assert left_out.outputs == []


@pytest.mark.parametrize(
    ("block", "said"),
    [
        ("```{shell}\nexit 2\n```", "exit status 2, expected 0"),
        ("```{shell}\n:fails: 2\n\ntrue\n```", "exit status 0, expected 2"),
        ("```{python}\n1 / 0\n```", "ZeroDivisionError"),
        ("```{python}\n:fails:\n\n1\n```", "did not fail"),
        ("```{shell}\n:image: a.svg\n:alt: a picture\n\ntrue\n```", "a.svg"),
        ("```{shell}\n:background: http://127.0.0.1:9/\n\ntrue\n```", "nothing answered"),
    ],
)
def test_what_goes_wrong_is_told_with_its_line(tmp_path, block, said):
    with pytest.raises(PageError, match=r"(?s)page\.md:3: .*" + said):
        run_page(page(tmp_path, f"# Page\n\n{block}\n"))


@pytest.mark.parametrize(
    ("options", "said"),
    [(":colour: red", "no such option: colour"), (":image: a.svg", "needs :alt:"), (":not-run:", "needs a reason")],
)
def test_options_are_checked(tmp_path, options, said):
    with pytest.raises(PageError, match=said):
        page(tmp_path, f"```{{shell}}\n{options}\n\ntrue\n```\n")


def test_commands_that_never_end_are_refused():
    with pytest.raises(PageError, match="bash cannot read this"):
        commands("for i in 1 2; do\n")


def test_the_same_page_prints_the_same_and_its_processes_differ(tmp_path):
    told = page(
        tmp_path,
        "```{shell}\npython -c 'import os; print(os.urandom(4).hex())'\n"
        "python -c 'import os; print(os.urandom(4).hex())'\n```\n",
    )
    first, second = run_page(told), run_page(told)
    assert first == second
    assert first[0].outputs[0] != first[0].outputs[1]


def test_a_page_begins_with_the_files_beside_it(tmp_path):
    for name, text in {"files/all.txt": "of the section", "page/own.txt": "of the page"}.items():
        (tmp_path / name).parent.mkdir()
        (tmp_path / name).write_text(text)
    (shown,) = run_page(page(tmp_path, "```{shell}\ncat all.txt own.txt\n```\n"))
    assert shown.outputs == ["of the sectionof the page\n"]


def test_shell_blocks_run_on_a_terminal_where_questions_are_answered(tmp_path):
    asked = "read -p 'Who? : ' who\nread -p 'When? : ' when\necho \"$who|$when\"\n"
    text = f"```{{shell}}\n:answers: Ada | Enter\n\n{asked}```\n\n```{{shell}}\ntest -t 1\n```\n"
    answered, terminal = run_page(page(tmp_path, text))
    assert answered.outputs == ["Who? : Ada\n", "When? :\n", "Ada|\n"]
    assert terminal.outputs == [""]
    with pytest.raises(PageError, match="1 answers were not asked for"):
        run_page(page(tmp_path, "```{shell}\n:answers: Ada\n\ntrue\n```\n"))


def test_a_record_of_other_blocks_is_refused(tmp_path, monkeypatch):
    monkeypatch.setattr(page_runs, "RECORDED", tmp_path / "recorded")
    monkeypatch.setattr(page_runs, "ROOT", tmp_path)
    hidden = "\n```{shell}\n:hide-output:\n\nhostname\n```\n"
    told = page(tmp_path, f"---\nenvironment: integrations\n---\n```{{shell}}\necho 1\n```\n{hidden}")
    assert told.recorded
    with pytest.raises(PageError, match="no record of this page"):
        recorded(told)
    page_runs.record(told)
    assert [result.outputs for result in recorded(told)] == [["1\n"], [""]]  # what is not shown is not kept
    with pytest.raises(PageError, match="has changed since"):
        recorded(page(tmp_path, "---\nenvironment: integrations\n---\n```{shell}\necho 2\n```\n"))


def test_a_page_runs_once_for_its_blocks_and_the_package_and_its_time_is_listed(tmp_path, monkeypatch):
    monkeypatch.setattr(kept_pages, "KEPT", tmp_path / "pages")
    monkeypatch.setattr(kept_pages, "TIMES", tmp_path / "times.txt")
    told = page(tmp_path, f"```{{shell}}\necho run >> {tmp_path}/runs; for i in {{1..30000}}; do :; done\n```\n")
    shown = [kept_pages.results_of(told, package) for package in ("one", "one", "two", "")]
    assert (tmp_path / "runs").read_text() == "run\n" * 2  # not again for the same package, nor for writers
    assert shown[1] == shown[0]
    assert [one.results for one in shown] == [shown[0].results] * 4
    assert shown[0].processor > 0
    kept_pages.write_times({"quick": kept_pages.Shown([], 0.1, 0.1), "slow": kept_pages.Shown([], 2, 3)})
    listed = [line.split() for line in (tmp_path / "times.txt").read_text().splitlines()[1:]]
    assert listed == [["3.0", "2.0", "slow"], ["0.1", "0.1", "quick"], ["3.1", "2.1", "all", "pages"]]


def test_pages_run_the_package_beside_them(tmp_path):
    asked = "import importlib.util as i; print(i.find_spec('dpstream').origin)"
    (shown,) = run_page(page(tmp_path, f'```{{shell}}\npython -c "{asked}"\n```\n'))
    assert shown.outputs == [f"{DOCS.parent}/src/dpstream/__init__.py\n"]


@pytest.mark.heavy
def test_quick_pages_run():
    """A few pages run in every test; `make docs` runs them all."""
    quick = [told for told in page_runs.pages() if told.head.get("quick") == "true"]
    assert len(quick) <= 3
    for told in quick:
        assert not told.recorded
        assert len(run_page(told)) == len(told.blocks)


def test_records_are_of_the_pages_as_they_are():
    for told in page_runs.pages():
        if told.recorded:
            assert len(recorded(told)) == len(told.blocks)
