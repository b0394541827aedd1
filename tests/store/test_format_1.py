"""A store that was written once (make_format_1.py) stays readable, to the last bit, and goes on."""

import json
import shutil

import numpy as np
import pytest

import dpstream as dp
from dpstream.errors import StreamRetired

from .make_format_1 import FOLDER, MASTER_KEY, energy, visits, wards

EXPECTED = json.loads((FOLDER / "expected.json").read_text())


@pytest.fixture
def store(tmp_path):
    shutil.copytree(FOLDER, tmp_path / "copy")
    with dp.Store(tmp_path / "copy" / "counts.db", master_key=MASTER_KEY, adopt=True) as opened:
        yield opened


def test_what_it_holds(store):
    assert {info.name: info.position for info in store.streams()} == EXPECTED["positions"]
    for name, values in EXPECTED["releases"].items():
        np.testing.assert_array_equal([release.value for release in store.releases(name)], values)
    assert repr(store.limit) == EXPECTED["limit"]
    assert [info.retired for info in store.streams()] == [False, False, False, True]


def test_every_release_is_made_again_from_the_key(store):
    """Key derivation, noise and seals are those of the day when it was written."""
    store.check_seals()
    for name in EXPECTED["releases"]:
        found = store.verify(name)
        assert found.findings == ()
        assert found.every_input == (name == "visits")


def test_it_goes_on(store):
    again = visits(store)
    assert again.add(2, position=12) == EXPECTED["releases"]["visits"][2]  # known
    again.add(1, position=14)
    counted = wards(store)
    limit = counted.contribution_limit()
    assert [limit.take(person, 5) for person in ("ann", "bob", "cid")] == [1, 1, 2]
    counted.extend([[1, 0, 0]], contributions={limit.fingerprint("cid"): 1})
    energy(store).add(np.zeros(4))
    for name in ("visits", "wards", "energy"):
        assert store.verify(name).ok
    with pytest.raises(StreamRetired):
        store.counter("over", 10, dp.pure_dp(0.5))
