"""Writes formats_1.json: what is on disks and in keys in format 1, byte for byte. Run by hand, when a format is made.

    python -m tests.package.make_formats [--again]

test_formats.py holds the code to it. What the file says was true of a version that was published never changes:
docs/stability.md, "Formats", says what to do instead.
"""

from __future__ import annotations

import hashlib
import json
import os
import sys
import tempfile
from pathlib import Path
from unittest import mock

import dpstream as dp
from dpstream.adapters import run_key
from dpstream.noise.keystream import FORMAT_VERSION, derive_key
from dpstream.release import OpenSettings, StreamSettings
from dpstream.store.database import MIGRATIONS
from dpstream.store.master_key import write_key_file
from dpstream.store.witness import Record, Witness
from dpstream.testing import fixed_key

TARGET = Path(__file__).with_name("formats_1.json")
M = dp.mechanisms


def formats() -> dict[str, object]:
    """Return everything that is pinned, by what it is."""
    key = fixed_key("formats")
    return {
        "noise": {
            "format": FORMAT_VERSION,
            "derived key": derive_key(key, purpose="formats", configuration={"a": [1, 2.5], "b": None}).hex(),
        },
        "key file": _key_file(key),
        "steps file": run_key.VERSION,
        "noise state": _noise_state(key),
        "witness record": Record(b"n" * 16, b"t" * 16, 3, 7, retired=True, ingests=5).pack().hex(),
        "witness header": _witness_header(),
        "schema": {
            "formats": len(MIGRATIONS),
            "sha256 of the script of format 1": hashlib.sha256(MIGRATIONS[0].encode()).hexdigest(),
        },
        "settings of a counter": StreamSettings.for_counter(
            365, dp.approx_dp(1, 1e-6), mechanism=M.SmoothBinary(365), windows=(1, 7), per_person=2
        ).as_json(),
        "settings of a sum": StreamSettings.for_sum(
            100, dp.zcdp(0.5), shape=(3,), dtype="float32", mechanism=M.SmoothBinary(100)
        ).as_json(),
        "settings of names": OpenSettings.of(
            horizon=30, budget=dp.approx_dp(6, 1e-9), names_per_person=32, mechanism=M.SmoothBinary(30)
        ).as_json(),
    }


def _key_file(key: bytes) -> str:
    with tempfile.TemporaryDirectory() as folder:
        write_key_file(Path(folder) / "key", key)
        return (Path(folder) / "key").read_text()


def _witness_header() -> str:
    """The first 16 bytes and the store's id; the inode between them is the file's own."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "witness"
        Witness.create(path, b"k" * 32, b"s" * 16)
        header = path.read_bytes()
        return (header[:16] + header[24:40]).hex()


def _noise_state(key: bytes) -> dict[str, object]:
    """A saved state, sealed with a fixed nonce, and the noise after it."""
    stream = dp.NoiseStream(M.SmoothBinary(100), 3.0, (70,), dtype="float32", key=key)
    stream.block(5)
    with mock.patch.object(os, "urandom", lambda n: b"\x07" * n):
        state = stream.state()
    return {"state": state.hex(), "next": [float(value).hex() for value in stream.step()[:8]]}


if __name__ == "__main__":
    if TARGET.exists() and "--again" not in sys.argv:
        sys.exit(f"{TARGET} is there: a format that was published never changes (--again: nothing was published yet)")
    TARGET.write_text(json.dumps(json.loads(json.dumps(formats())), indent=1) + "\n")
