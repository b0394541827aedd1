"""The keystream: AES-256-CTR at documented counters, keys that show nowhere."""

import copy
import os
import pickle
import threading
import traceback

import numpy as np
import pytest
from cryptography.hazmat.primitives.ciphers import Cipher, algorithms, modes

from dpstream.errors import InvalidArgument, KeyLengthError
from dpstream.noise.keystream import Keystream, derive_key, fresh_key
from dpstream.testing import fixed_key


def read(stream: Keystream, blocks: int, **where: int) -> bytes:
    out = np.empty(16 * blocks, dtype=np.uint8)
    stream.fill(out, **where)
    return out.tobytes()


def test_counter_layout():
    """purpose 1 (8 bits) | extension (16) | slot (24) | block (80), block by block, through ECB of the counters."""
    key, slot, block, extension = fixed_key("layout"), 3, 2**70 + 12345, 7
    cipher = Cipher(algorithms.AES(key), modes.ECB()).encryptor()  # noqa: S305
    counters = b"".join((1 << 120 | extension << 104 | slot << 80 | block + i).to_bytes(16, "big") for i in range(5000))
    assert read(Keystream(key), 5000, slot=slot, block=block, extension=extension) == cipher.update(counters)


def test_any_order_any_chunking():
    stream, other = Keystream(fixed_key("order")), Keystream(fixed_key("order"))
    whole = read(stream, 1000, slot=0, block=0)
    pieces = [(700, 300), (0, 1), (1, 99), (100, 600)]
    parts = {at: read(other, n, slot=0, block=at) for at, n in pieces}
    assert b"".join(parts[at] for at in sorted(parts)) == whole
    read(stream, 3, slot=1, block=5)
    assert read(stream, 10, slot=0, block=990) == whole[-160:]
    words = stream.words(slot=0, block=4)
    assert b"".join(w.to_bytes(8, "little") for w in words) == whole[64:80]


def test_slots_and_extensions_do_not_meet():
    stream = Keystream(fixed_key("apart"))
    seen = {read(stream, 1, slot=s, block=b, extension=e) for s in range(4) for b in range(4) for e in range(4)}
    assert len(seen) == 64


def test_threads_share_a_keystream():
    stream = Keystream(fixed_key("threads"))
    expected = {slot: read(stream, 2000, slot=slot, block=0) for slot in range(4)}
    wrong: list[int] = []

    def work(slot: int) -> None:
        for _ in range(50):
            if read(stream, 2000, slot=slot, block=0) != expected[slot]:
                wrong.append(slot)

    threads = [threading.Thread(target=work, args=(slot % 4,)) for slot in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not wrong


@pytest.mark.parametrize("where", [{"slot": 2**24, "block": 0}, {"slot": 0, "block": 2**80}, {"slot": -1, "block": 0}])
def test_bounds_are_checked(where):
    with pytest.raises(InvalidArgument):
        read(Keystream(fixed_key("bounds")), 1, **where)


def test_every_setting_changes_the_derived_key():
    master = fixed_key("master")
    settings = {"mechanism": "Binary(7)", "scale": "1.0", "shape": [2]}
    keys = {derive_key(master, purpose="draws", configuration=settings)}
    keys.add(derive_key(master, purpose="state", configuration=settings))
    keys.add(derive_key(fixed_key("other"), purpose="draws", configuration=settings))
    for name, value in (("mechanism", "Binary(8)"), ("scale", "1.0000000000000002"), ("shape", [3]), ("new", 1)):
        keys.add(derive_key(master, purpose="draws", configuration=settings | {name: value}))
    assert len(keys) == 7
    assert derive_key(master, purpose="draws", configuration=dict(reversed(settings.items()))) in keys


def test_the_key_shows_nowhere():
    key = os.urandom(32)
    stream = Keystream(key)
    assert key.hex() not in repr(stream)
    assert repr(key)[2:-1] not in repr(stream) + str(stream)
    for leak in (pickle.dumps, copy.copy, copy.deepcopy):
        with pytest.raises(TypeError, match="secret key"):
            leak(stream)
    with pytest.raises(KeyLengthError) as caught:
        Keystream(key[:31])
    text = "".join(traceback.format_exception(caught.value))
    assert repr(key[:31])[2:-1] not in text
    assert key[:31].hex() not in text
    assert "got 31 bytes" in text


@pytest.mark.parametrize("key", ["a" * 32, 7, None, bytes(16), bytes(33), b""])
def test_bad_keys(key):
    with pytest.raises(KeyLengthError, match="key must be 32 bytes or None"):
        Keystream(key)


def test_fresh_keys_differ():
    assert len({fresh_key() for _ in range(100)}) == 100
