"""Writes format_1/: a small store, and what it must give to whoever opens it. Run by hand, when the format is made.

    python -m tests.store.make_format_1

What is in there was written by this script and by nothing else; test_format_1.py reads it. A change of dpstream that
cannot read it any more needs a new format (`database.MIGRATIONS`), and these files stay as they are. Keys, tags and
nonces are fixed, so that the script writes the same releases again.
"""

from __future__ import annotations

import hashlib
import itertools
import json
import os
import shutil
import sys
from pathlib import Path
from unittest import mock

import numpy as np

import dpstream as dp
from dpstream.mechanisms import BalancedToeplitz, SmoothBinary

FOLDER = Path(__file__).parent / "format_1"
MASTER_KEY = hashlib.sha256(b"dpstream test vector, format 1").digest()


def visits(store: dp.Store) -> dp.store.DurableCounter:
    """A counter with positions, over a tree."""
    return store.counter("visits", 100, dp.zcdp(0.5), per_person=3, mechanism=SmoothBinary(100), source="doors")


def wards(store: dp.Store) -> dp.store.DurableCounter:
    """A histogram with limited rows of a person, over a recurrence."""
    return store.counter(
        "wards", 100, dp.approx_dp(1, 1e-6), shape=(3,), per_person=2, rows_per_person=2, people=50,
        mechanism=BalancedToeplitz(100),
    )  # fmt: skip


def energy(store: dp.Store) -> dp.store.DurableSum:
    """A running sum."""
    return store.running_sum("energy", 100, dp.zcdp(0.1), shape=4, dtype="float64", mechanism=SmoothBinary(100))


def write(folder: Path) -> None:
    """Make the store and the file of what it must give."""
    calls = itertools.count()

    def urandom(n: int) -> bytes:
        return hashlib.shake_256(b"%d" % next(calls)).digest(n)

    folder.mkdir()
    with (
        mock.patch.object(os, "urandom", urandom),
        dp.Store(folder / "counts.db", master_key=MASTER_KEY, limit=dp.zcdp(5)) as store,
    ):
        visits(store).extend([1, 0, 2, 1], first_position=10)
        counted = wards(store)
        limit = counted.contribution_limit()
        people = {limit.fingerprint(person): 1 for person in ("ann", "bob")}
        counted.extend([[1, 0, 1], [0, 0, 0]], contributions=people)
        energy(store).extend(np.eye(4))
        with store.counter("over", 10, dp.pure_dp(0.5)) as over:
            over.add(1)
        store.retire("over")
        expected = {
            "desc": "four streams: positions, limited people, floats, retired",
            "written_by": "tests/store/make_format_1.py",
            "dpstream": dp.__version__,
            "limit": repr(store.limit),
            "releases": {
                info.name: np.array([r.value for r in store.releases(info.name)]).tolist() for info in store.streams()
            },
            "positions": {info.name: info.position for info in store.streams()},
        }
    (folder / "expected.json").write_text(json.dumps(expected, indent=1) + "\n")


if __name__ == "__main__":
    if FOLDER.exists() and "--again" not in sys.argv:
        sys.exit(f"{FOLDER} is there: a format that was published never changes (--again: nothing was published yet)")
    shutil.rmtree(FOLDER, ignore_errors=True)
    write(FOLDER)
