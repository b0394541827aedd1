"""The table of `dpstream audit --all`, smaller: every mechanism in every lane under every kind of budget; every door.

False alarms: each audit calls a sound mechanism violated with a chance of at most 3e-8 over the choice of its fixed
keys; with all other audits of tests/audit (at 1e-7 each) the total stays below 1e-5. The budgets are those at which a
given number of trials certifies most, μ near 3.
"""

import math

import pytest

from dpstream import approx_dp, pure_dp, zcdp
from dpstream.audit.audit import KEPT, WASTEFUL
from dpstream.audit.doors import SMALL
from dpstream.audit.table import LANES, SUBJECTS, all_doors, audit_row, mechanism_row, rows
from dpstream.mechanisms.catalogue import ENTRIES

from .subjects import keys

BUDGETS = {"zcdp": zcdp(4.5), "approx_dp": approx_dp(15.0, 1e-5), "pure_dp": pure_dp(1.0)}
RISK = 3e-8


def smaller():
    """Every mechanism once in each lane (but for one of them with `make heavy`); the Gaussian budgets take turns."""
    turn = 0
    for number, subject in enumerate(SUBJECTS):
        noise = subject.mechanism.noise
        for place, lane in enumerate(LANES if noise == "gaussian" else LANES[:1]):
            turn += 1
            marks = () if noise == "laplace" or place == number % len(LANES) else pytest.mark.heavy
            kind = "pure_dp" if noise == "laplace" else ("zcdp", "approx_dp")[turn % 2]
            yield pytest.param(number, lane, kind, id=f"{subject.title}-{lane}-{kind}", marks=marks)


@pytest.mark.parametrize(("number", "lane", "kind"), list(smaller()))
def test_the_promise_is_kept_and_little_is_wasted(number, lane, kind):
    row = mechanism_row(SUBJECTS[number], lane, kind, BUDGETS[kind])
    trials = 300_000 if kind == "pure_dp" else 60_000 if row.steps < 100 else 120_000
    found = row.audit(trials, 1 - RISK, keys=keys(str(row)))
    assert found.verdict == "kept", str(found)
    if kind != "pure_dp":  # a pure promise is spent in the tail only, which no single threshold shows to the full
        assert found.at_most >= 0.98 * found.possible * found.promised


@pytest.mark.parametrize("row", all_doors(), ids=str)
def test_every_door_keeps_its_promise(row):
    """With a quarter of the trials of `dpstream audit --all`, and of small objects an eighth."""
    found = row.audit(25_000 if row.part == SMALL else 50_000, 1 - RISK, keys=keys(str(row)))
    assert found.measured <= found.promised, str(found)
    assert found.verdict in ("kept", "unclear"), str(found)
    assert found.measured > 0.5 * found.possible * found.promised, str(found)
    too_small, too_large = found.notices
    # Where only a part of μ can be shown, the noise must be smaller by that part before anything is violated.
    assert 1 - (1 - too_small) / math.sqrt(found.possible) < 0.3
    assert too_large < 0.6


def test_everything_is_in_the_table():
    named = {subject.title.split(",")[0] for subject in SUBJECTS}
    assert named >= {entry.name for entry in ENTRIES}
    table = {(row.title.split(",")[0], row.lane, row.kind) for row in rows()}
    assert all((name, "exact", "zcdp") in table for name in named)


def test_rows_are_audited_by_number():
    """For a pool of processes; 2,000 trials at the risk of all audits here."""
    found = audit_row(0, 2_000, 1 - RISK)
    assert found.budget == rows()[0].budget
    assert found.certificate.first_trials == 2_000
    assert 0 < KEPT < WASTEFUL < 1
