"""What a command loads before it does anything: commands, SciPy and Polars are loaded when they are used."""

import json
import os
import signal
import subprocess
import sys

import pytest

from dpstream.cli.app import COMMANDS, load

#: None of these is needed to print a version, a help text or a usage error.
HEAVY = {
    "numpy",
    "scipy",
    "polars",
    "matplotlib",
    "cryptography",
    "flint",
    "sqlite3",
    "dpstream.paper",
    "dpstream.store",
}
PROGRAM = """
import json, sys
sys.argv = ["dpstream", *json.loads(sys.argv[1])]
from dpstream.cli.app import main
try:
    main()
except SystemExit as end:
    print(json.dumps({"status": end.code, "modules": sorted(sys.modules)}))
"""


def loaded(*arguments):
    found = subprocess.run(  # noqa: S603
        [sys.executable, "-c", PROGRAM, json.dumps(arguments)], capture_output=True, text=True, check=True
    )
    return json.loads(found.stdout.splitlines()[-1])


@pytest.mark.parametrize(
    ("arguments", "status"),
    [
        (("--version",), 0),
        (("--help",), 0),
        (("-h",), 0),
        (("cuont",), 2),
        (("--nonsense",), 2),
        (("count", "visits.csv"), 2),
        (("plan", "--horizon", "9"), 2),
        (("plan", "--rho", "1"), 2),
        (("plan", "--horizon", "9", "--target-error", "5", "--rho", "1"), 2),
        (("audit", "--rho", "1", "--epsilon", "1"), 2),
        (("compare", "--rho", "1", "--epsilon", "1"), 2),
        (("store", "show"), 2),
        (("store", "releases", "--help"), 0),
        *(pytest.param((name, "--help"), 0, marks=pytest.mark.heavy) for name in COMMANDS),
        *(pytest.param((name, "--nonsense"), 2, marks=pytest.mark.heavy) for name in COMMANDS),
    ],
)
def test_nothing_heavy_is_loaded(arguments, status):
    found = loaded(*arguments)
    assert found["status"] == status
    assert HEAVY.isdisjoint(found["modules"])
    assert len(found["modules"]) < 500


def test_a_command_that_works_loads_what_it_needs():
    assert {"scipy", "numpy"} <= set(loaded("plan", "--rho", "1", "--horizon", "9")["modules"])


@pytest.mark.heavy
def test_tomorrows_count_does_not_load_what_only_a_fit_needs(tmp_path):
    """scipy.signal, scipy.optimize and scipy.stats take two seconds: the first run may, those of every morning not."""
    log, store = tmp_path / "log.csv", str(tmp_path / "s.db")
    log.write_text("when\n2026-01-01\n")
    budget = ("--epsilon", "1", "--delta", "1e-6", "--horizon", "365", "--windows", "1d,7d")
    first = ("--time", "when", "--from", "2026-01-01", *budget, "--through", "2026-01-01")
    assert loaded("count", str(log), *first, "--store", store)["status"] == 0
    log.write_text("when\n2026-01-02\n")
    found = loaded("count", str(log), "--store", store, "--through", "2026-01-02")
    assert found["status"] == 0
    assert {"scipy.signal", "scipy.optimize", "scipy.stats", "matplotlib"}.isdisjoint(found["modules"])


@pytest.mark.parametrize("name", COMMANDS)
def test_the_list_of_commands_says_what_each_says_itself(name):
    assert (load(name).help or "").split("\n\n")[0] == COMMANDS[name]


def test_interrupted_while_it_starts():
    program = (
        "import sys; import dpstream.cli.app as app; sys.argv = ['dpstream', 'plan']\n"
        "def load(name): raise KeyboardInterrupt\n"
        "app.load = load\napp.main()"
    )
    found = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=False)  # noqa: S603
    assert found.returncode == 130
    assert found.stderr.count("\n") == 1
    assert found.stderr.startswith("dpstream: interrupted.")


def in_shell(redirection, *arguments):
    command = f'exec "$0" -m dpstream "$@" {redirection}'
    return subprocess.run(  # noqa: S603
        ["/bin/sh", "-c", command, sys.executable, *arguments],
        capture_output=True,
        text=True,
        check=False,
        env=os.environ | {"COLUMNS": "200", "NO_COLOR": "1"},
        preexec_fn=lambda: signal.signal(signal.SIGPIPE, signal.SIG_DFL),
    )


@pytest.mark.heavy
def test_closed_standard_streams(tmp_path):
    (tmp_path / "log.csv").write_text("when\n2026-01-01\n")
    usual = ("--time", "when", "--rho", "1", "--horizon", "9", "--from", "2026-01-01", "--through", "2026-01-02")
    log, out, store = (str(tmp_path / name) for name in ("log.csv", "out.csv", "s.db"))
    found = in_shell("<&-", "count", *usual)
    assert (found.returncode, found.stdout) == (2, "")
    assert found.stderr == "dpstream count: standard input: is closed\n"
    found = in_shell(">&-", "count", log, *usual, "--store", store)
    assert found.returncode == 2
    assert found.stderr == "dpstream count: standard output must be open, or --output given\n"
    found = in_shell(">&-", "plan", "--rho", "1", "--horizon", "9")
    assert (found.returncode, found.stderr) == (2, "dpstream: standard output is closed\n")
    # No file of ours may take the number of a standard stream.
    found = in_shell("<&- >&- 2>&-", "count", log, *usual, "--store", store, "--output", out)
    assert found.returncode == 0
    assert (tmp_path / "out.csv").read_text().count("\n") == 3
    found = in_shell("", "store", "verify", store)
    assert found.returncode == 0, found.stderr


@pytest.mark.heavy
def test_without_rows_what_has_ended_is_released(tmp_path):
    """As a job of every night may: no file, and nothing on standard input. Without a store it is a mistake."""
    log, store = str(tmp_path / "log.csv"), str(tmp_path / "s.db")
    (tmp_path / "log.csv").write_text("when\n2026-01-01\n2026-01-02\n")
    usual = ("--time", "when", "--rho", "1e6", "--horizon", "9", "--from", "2026-01-01", "--through", "2026-01-01")
    assert in_shell("</dev/null", "count", *usual, "--store", store).returncode == 2
    assert in_shell("", "count", log, *usual, "--store", store).returncode == 0
    found = in_shell("</dev/null", "count", "--store", store, "--through", "2026-01-03")
    assert (found.returncode, found.stdout.splitlines()[1:]) == (
        0,
        ["2,2026-01-02,2,0.0,2,2", "3,2026-01-03,2,0.0,2,2"],
    )
    assert "0 rows read (not for publication); 2 steps released." in found.stderr


@pytest.mark.heavy
def test_warnings_of_the_library_are_printed_like_others(monkeypatch):
    monkeypatch.setenv("DPSTREAM_KERNEL", "twin")
    found = in_shell("", "audit", "--mechanism", "Binary", "--rho", "0.5", "--trials", "2000")
    assert "\nwarning: dpstream runs on its slow NumPy kernel" in "\n" + found.stderr
    assert ".py:" not in found.stderr
