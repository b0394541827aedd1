import os

import pytest

from dpstream.testing import check_distance
from tests.distance.objects import ClippedSum, LimitedAtOnce, LimitedCounter, Names

#: A run takes milliseconds, so the long version (make heavy) looks at twenty thousand histories of each.
EXAMPLES = 20_000 if os.environ.get("DPSTREAM_HEAVY") else 60


@pytest.mark.parametrize(
    "way", [LimitedCounter(), LimitedAtOnce(), ClippedSum(), Names()], ids=lambda way: type(way).__name__
)
def test_objects(way):
    check_distance(way, examples=EXAMPLES)
