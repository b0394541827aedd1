"""Keys stay where they are, and each part of a derivation makes another key."""

import copy
import itertools
import json
import os
import pickle

import numpy as np
import pytest

import dpstream as dp
from dpstream.errors import ForkedStore, InvalidArgument
from dpstream.mechanisms import Binary, SmoothBinary
from dpstream.store import tables
from dpstream.store.master_key import read_key_file, write_key_file
from dpstream.store.sealing import StoreSeals
from dpstream.testing import fixed_key

from .conftest import visits

MASTER, STORE, TAG = bytes(32), bytes(16), bytes(16)
SETTINGS = {"horizon": 1000, "budget": dp.zcdp(0.5), "mechanism": SmoothBinary(1000), "per_person": 3}


def changed(one):
    return one[:-1] + bytes([one[-1] ^ 1])


def holders(store):
    counter = visits(store)
    return [store, counter, store._files, store._files.seals, store._files.witness, counter._seals]


def test_what_holds_a_key_cannot_be_copied(path):
    with dp.Store(path) as store:
        for holder in holders(store):
            for take in (copy.copy, copy.deepcopy, pickle.dumps, lambda x: pickle.dumps(x, protocol=0)):
                with pytest.raises(TypeError, match=r"cannot be (copied or )?pickled"):
                    take(holder)


def test_keys_are_not_used_in_a_forked_child(path):
    with dp.Store(path) as store:
        *_, store_seals, _, seals = holders(store)
        uses = [
            store_seals.check,
            lambda: store_seals.noise_key("visits", TAG, "{}"),
            lambda: store_seals.people_key(TAG),
            lambda: store_seals.stream(TAG),
            lambda: store_seals.name_digest("visits"),
            lambda: seals.seal_sums(b"", (0,)),
            lambda: seals.open_sums(bytes(40), (0,)),
            lambda: seals.seal_batch(1, 1, bytes(8), None),
            lambda: seals.seal_people(b"", (0,)),
            lambda: seals.input_digests(1, np.zeros(1, np.int64)),
        ]
        child = os.fork()
        if child == 0:
            refused = 0
            for use in uses:
                try:
                    use()
                except ForkedStore:
                    refused += 1
            os._exit(refused)
        assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == len(uses)
        for use in uses:
            use()


def test_every_part_of_a_derivation_makes_another_key():
    """Master key, store, tag, name and each setting, one at a time."""
    configuration = {"lane": "exact", "horizon": 10, "budget": {"kind": "zcdp", "rho": 0.5}, "clip": False}
    seals = StoreSeals(MASTER, STORE)
    text = json.dumps(configuration)
    keys = [
        seals.noise_key("a", TAG, text),
        seals.noise_key("b", TAG, text),
        seals.noise_key("a", changed(TAG), text),
        StoreSeals(changed(MASTER), STORE).noise_key("a", TAG, text),
        StoreSeals(MASTER, changed(STORE)).noise_key("a", TAG, text),
    ]
    for setting, value in (("lane", "float"), ("horizon", 11), ("budget", {"kind": "zcdp", "rho": 0.6}), ("more", 1)):
        keys.append(seals.noise_key("a", TAG, json.dumps(configuration | {setting: value})))
    keys += [seals.people_key(TAG), seals.people_key(changed(TAG)), seals.witness_key]
    assert len(set(keys)) == len(keys)


def test_no_two_uses_of_a_stream_share_a_key():
    seals = [StoreSeals(MASTER, STORE).stream(tag) for tag in (TAG, changed(TAG))]
    sealed = {
        (one, what): getattr(one, f"seal_{what}")(b"x" * 40, (1, 2)) for one in seals for what in ("sums", "people")
    }
    for (one, what), content in sealed.items():
        for other, how in itertools.product(seals, ("sums", "people")):
            opened = getattr(other, f"open_{how}")(content, (1, 2))
            assert (opened is not None) == ((one, what) == (other, how))
    assert seals[0].input_digests(1, np.zeros(3, np.int64)) != seals[1].input_digests(1, np.zeros(3, np.int64))


def noise(folder, monkeypatch, *, name="visits", master=MASTER, store=STORE, tag=TAG, kind="counter", **settings):
    """The noise of the first 50 steps of a stream in a store all of whose random parts are given."""
    folder.mkdir()
    with monkeypatch.context() as patched:
        patched.setattr("dpstream.store.store_files.os.urandom", lambda n: store[:n] if n == 16 else bytes(n))
        opened = dp.Store(folder / "counts.db", master_key=master)
    with monkeypatch.context() as patched, opened:
        patched.setattr(tables.os, "urandom", lambda n: tag if n == 16 else bytes(range(n)))
        made = opened.counter(name, **(SETTINGS | settings))
        zeros = np.zeros((50, *made.shape), dtype=np.int64)
        given = {} if made.rows_per_person is None else {"contributions": {}}
        return made.extend(zeros, **given).reshape(50, -1)[:, 0].tolist()


DIFFERENT = {
    "master key": {"master": changed(MASTER)},
    "store": {"store": changed(STORE)},
    "tag": {"tag": changed(TAG)},
    "name": {"name": "visits "},
    "horizon": {"horizon": 999},
    "budget, a hair": {"budget": dp.zcdp(0.5000000001)},
    "kind of budget": {"budget": dp.approx_dp(1, 1e-6)},
    "mechanism": {"mechanism": Binary(1000)},
    "length of the mechanism": {"mechanism": SmoothBinary(1001)},
    "per_person": {"per_person": 4},
    "per_step": {"per_step": 1000},
    "participation": {"participation": dp.Participation(times=2)},
    "separation": {"participation": dp.Participation(times=2, separation=3)},
    "neighbours": {"neighbours": "replace"},
    "shape": {"shape": (1,)},
    "source": {"source": "doors"},
    "rows_per_person": {"rows_per_person": 3},
}


def test_the_noise_of_a_stream_depends_on_every_part(tmp_path, monkeypatch):
    """σ is above 2, so two streams that share no noise agree in all of 50 steps with probability below 2^-50."""
    found = {"as it is": noise(tmp_path / "0", monkeypatch)}
    assert noise(tmp_path / "again", monkeypatch) == found["as it is"]  # nothing else decides it
    for i, (what, parts) in enumerate(DIFFERENT.items(), start=1):
        found[what] = noise(tmp_path / str(i), monkeypatch, **parts)
    for (one, first), (other, second) in itertools.combinations(found.items(), 2):
        agree = np.mean(np.array(first) == np.array(second))
        assert agree < 0.8, (one, other)


def test_a_key_file_is_never_taken_for_a_new_one(tmp_path):
    file = tmp_path / "stream.key"
    write_key_file(file, fixed_key("one"))
    write_key_file(file, fixed_key("one"))  # the same key may be written again
    with pytest.raises(InvalidArgument, match="a new key needs a new path"):
        write_key_file(file, fixed_key("another"))
    write_key_file(file, fixed_key("another"), keep=True)
    assert read_key_file(file) == fixed_key("one")
