"""Every way in, held against neighbouring data. `make heavy` draws far more histories."""

import os

import pytest

from dpstream.testing import check_distance
from tests.distance import ways
from tests.distance.served import Http

HEAVY = bool(os.environ.get("DPSTREAM_HEAVY"))
VARIANTS = list(ways.Counted.VARIANTS)
#: How many histories are drawn: for `make test`, and for `make heavy`. A run takes 10 ms, 100 ms, or seconds.
EXAMPLES = {
    ways.Frames: (20, 20_000),
    ways.PandasFrames: (4, 500),
    ways.StoredFrames: (6, 400),
    ways.Ingest: (12, 1_500),
    ways.CommandLine: (4, 200),
    ways.ParquetFiles: (2, 100),
    ways.Workbooks: (2, 60),
    ways.StandardInput: (2, 100),
    Http: (2, 60),
}
#: Names are not taken over HTTP: the server answers 409.
NOT_OVER_HTTP = ("names",)


def cases():
    for kind in EXAMPLES:
        for variant in VARIANTS:
            if variant not in NOT_OVER_HTTP or kind not in (ways.Ingest, Http):
                yield pytest.param(kind, variant, id=f"{kind.__name__}-{variant}")


@pytest.mark.parametrize(("kind", "variant"), list(cases()))
def test_a_way_in(kind, variant):
    check_distance(kind(variant), examples=EXAMPLES[kind][HEAVY])
