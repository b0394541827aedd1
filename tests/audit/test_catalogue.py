"""The table of `dpstream audit --all`, smaller: every mechanism in every lane under every kind of budget.

False alarms: each audit calls a sound mechanism violated with a chance of at most 3e-8 over the choice of its fixed
keys; with all other audits of tests/audit (at 1e-7 each) the total stays below 1e-5. The budgets are those at which a
given number of trials certifies most, μ near 3.
"""

import pytest

from dpstream import approx_dp, pure_dp, zcdp
from dpstream.audit.audit import WASTEFUL
from dpstream.audit.catalogue import SUBJECTS, rows

from .subjects import keys

BUDGETS = {"zcdp": zcdp(4.5), "approx_dp": approx_dp(15.0, 1e-5), "pure_dp": pure_dp(1.0)}
RISK = 3e-8


def smaller():
    """Every mechanism once in each lane; the two Gaussian budgets take turns."""
    for i, row in enumerate(rows(BUDGETS)):
        if row.kind == "pure_dp" or (i // 2 + i) % 2 == 0:
            yield row


@pytest.mark.parametrize("row", list(smaller()), ids=str)
def test_the_promise_is_kept_and_little_is_wasted(row):
    trials = 300_000 if row.kind == "pure_dp" else 60_000 if row.possible > 0.95 else 120_000
    found = row.audit(trials, 1 - RISK, keys=keys(str(row)))
    assert found.verdict == "kept", str(found)
    assert found.ratio >= WASTEFUL
    if row.kind != "pure_dp":  # a pure promise is spent in the tail only, which no single threshold shows to the full
        assert found.at_most >= 0.99 * row.possible * found.promised


def test_everything_is_in_the_table():
    import dpstream.mechanisms as m

    named = {subject.title.split(",")[0] for subject in SUBJECTS}
    assert named == set(m.__all__) - {"Certificate"}
    table = {(row.subject.title.split(",")[0], row.lane, row.kind) for row in rows()}
    assert all((name, "exact", "zcdp") in table for name in named)
