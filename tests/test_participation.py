import math

import pytest

from dpstream import Participation
from dpstream.errors import ParticipationError


@pytest.mark.parametrize("value", [0, -1, 2.5, math.nan, "3", True, None])
@pytest.mark.parametrize("name", ["times", "separation"])
def test_patterns_that_cannot_happen(name, value):
    with pytest.raises(ParticipationError, match=f"{name} must be a whole number of at least 1, got"):
        Participation(**{name: value})


def test_reach_counts_what_fits():
    assert Participation(times=5, separation=10).reach(30) == 3
    assert Participation(times=5, separation=10).reach(31) == 4
    assert Participation(times=5, separation=10).reach(1) == 1
    assert Participation(times=5, separation=10).reach(None) == 5
