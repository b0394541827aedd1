"""The torture drivers find nothing in the store, and plenty in a broken one. DPSTREAM_HEAVY=1 kills 300 times."""

import os

import pytest

from . import torture_ledger, torture_names
from .torture import torture

pytestmark = pytest.mark.filterwarnings("ignore:.*use of fork:DeprecationWarning")


@pytest.mark.heavy
def test_thirty_kills(path):
    report = torture(path.parent, kills=30, seed=11)
    assert report.clean, report
    assert report.kills == 30
    assert report.releases > 300


@pytest.mark.heavy
@pytest.mark.parametrize("sabotage", ["durability", "noise"])
def test_the_driver_can_fail(path, sabotage):
    report = torture(path.parent, kills=12, seed=12, sabotage=sabotage)
    # Sabotaged lives end after a number of statements that the seed decides, not after a time.
    assert report.kills == 12
    assert report.conflicts > 1000, report


def test_kills_between_ingesting_and_releasing(path):
    kills = 300 if os.environ.get("DPSTREAM_HEAVY") == "1" else 20
    report = torture_ledger.torture(path.parent, kills=kills, seed=11)
    assert report.clean, report
    assert report.kills == kills
    assert report.steps["files"] > 2 * kills
    assert report.retries > kills / 2


@pytest.mark.parametrize(("sabotage", "kills"), [("batch", 6), ("again", 3), ("people", 4)])
def test_the_driver_of_open_steps_can_fail(path, sabotage, kills):
    report = torture_ledger.torture(path.parent, kills=kills, seed=3, sabotage=sabotage)
    assert report.kills == kills
    assert report.doubled > 0, report
    assert report.conflicts > 0 or sabotage == "people", report


@pytest.mark.heavy
def test_kills_of_names(path):
    report = torture_names.torture(path.parent, kills=40, seed=11)
    assert report.clean, report
    assert report.kills == 40
    assert report.steps["files"] > 80
    assert report.steps["names"] > 3


@pytest.mark.heavy
@pytest.mark.parametrize("sabotage", ["again", "pairs", "noise"])
def test_the_driver_of_names_can_fail(path, sabotage):
    report = torture_names.torture(path.parent, kills=6, seed=1, sabotage=sabotage)
    # People without rows make a life refuse its own sums, sometimes before the last kill.
    assert report.kills == 6 or (sabotage == "pairs" and report.failed)
    assert report.conflicts or report.failed, report
    assert report.doubled or report.failed, report
