"""Every way in, held against neighbouring data. `make heavy` draws far more histories."""

import os

import pytest

from dpstream.testing import check_distance
from tests.distance import ways
from tests.distance.served import Http

HEAVY = bool(os.environ.get("DPSTREAM_HEAVY"))
EVERYTHING = tuple(ways.Counted.VARIANTS)
#: What is counted, and how many histories are drawn: for `make test`, and for `make heavy`, which takes all variants.
#: A run takes 10 ms in memory, 100 ms and more with a store, and seconds with a server.
EXAMPLES = {
    ways.Frames: (EVERYTHING, 10, 3_000),
    ways.PandasFrames: (("wards",), 3, 100),
    ways.StoredFrames: (("rows", "people", "names"), 4, 100),
    ways.Successor: (("rows",), 3, 40),
    ways.Ingest: (("wards", "people", "amounts of people"), 8, 300),
    ways.CommandLine: (("people", "names"), 3, 40),
    ways.ParquetFiles: (("wards",), 2, 20),
    ways.Workbooks: (("amounts",), 2, 20),
    ways.StandardInput: (("people",), 2, 30),
    Http: (("people",), 2, 12),
}
#: Names are not taken over HTTP (the server answers 409), and a stream of names has no successor.
WITHOUT_NAMES = (ways.Ingest, ways.Successor, Http)


def cases():
    for kind, (quick, few, many) in EXAMPLES.items():
        for variant in EVERYTHING if HEAVY else quick:
            if variant != "names" or kind not in WITHOUT_NAMES:
                yield pytest.param(kind(variant), many if HEAVY else few, id=f"{kind.__name__}-{variant}")


@pytest.mark.parametrize(("way", "examples"), list(cases()))
def test_a_way_in(way, examples):
    check_distance(way, examples=examples)
