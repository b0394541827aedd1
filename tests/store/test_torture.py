"""The torture driver finds nothing in the store, and plenty in a broken one."""

import pytest

from .torture import torture

pytestmark = pytest.mark.filterwarnings("ignore:.*use of fork:DeprecationWarning")


def test_thirty_kills(path):
    report = torture(path.parent, kills=30, seed=11)
    assert report.clean, report
    assert report.kills == 30
    assert report.releases > 300


@pytest.mark.parametrize("sabotage", ["durability", "noise"])
def test_the_driver_can_fail(path, sabotage):
    report = torture(path.parent, kills=12, seed=12, sabotage=sabotage)
    # Sabotaged lives end after a number of statements that the seed decides, not after a time.
    assert report.kills == 12
    assert report.conflicts > 1000, report
