"""What is fuzzed: every parser of bytes that come from a file or from somebody else.

Each target takes arbitrary bytes and fails unless they are refused by a `DpstreamError` or mean exactly what the
parser's own writer would have written. Run by atheris (`with_atheris.py`, in .ci/run) and, smaller, by Hypothesis
(`make test`).
"""

import numpy as np

from dpstream import NoiseStream
from dpstream.errors import StateError
from dpstream.mechanisms import SmoothBinary
from dpstream.noise.saved_state import SavedState, open_state, seal_state
from dpstream.testing import fixed_key

KEY = fixed_key("fuzz")
CONFIGURATION = {"mechanism": "none", "scale": "1.0", "shape": [2]}
SAVED = SavedState(7, 5, [np.arange(6, dtype=np.float64).reshape(3, 2), np.zeros((0, 2), dtype=np.float32)])
SEALED = seal_state(SAVED, CONFIGURATION, KEY)
STREAM = (SmoothBinary(20), 2.0, (2,))
_stream = NoiseStream(*STREAM, dtype="int64", key=KEY)
NOISE = _stream.block(9)[-1]
NEXT = np.array(NoiseStream(*STREAM, dtype="int64", key=KEY).block(10)[-1])
STATE = _stream.state()
#: magic, version and length, with a header to come.
FRONT = SEALED[:6]


def damaged(sealed: bytes, edits: bytes) -> bytes:
    """Bytes of `edits` in threes: place (two), what to exclusive-or there; a place past the end cuts or grows."""
    out = bytearray(sealed)
    for i in range(0, len(edits) - 2, 3):
        place = int.from_bytes(edits[i : i + 2], "little")
        if place < len(out):
            out[place] ^= edits[i + 2]
        elif edits[i + 2] % 2:
            del out[len(out) // 2 :]
        else:
            out += bytes([edits[i + 2]])
    return bytes(out)


def opens_only_what_was_sealed(sealed: bytes) -> None:
    try:
        found = open_state(sealed, CONFIGURATION, KEY)
    except StateError:
        return
    assert sealed == SEALED, "a state that was never sealed was opened"
    assert (found.t, found.base) == (7, 5)


def raw_bytes(data: bytes) -> None:
    opens_only_what_was_sealed(data)


def any_header(data: bytes) -> None:
    """Right magic and version, and a header of any bytes."""
    opens_only_what_was_sealed(FRONT + len(data).to_bytes(4, "little") + data + SEALED[-60:])


def damaged_state(data: bytes) -> None:
    opens_only_what_was_sealed(damaged(SEALED, data))


def damaged_stream(data: bytes) -> None:
    sealed = damaged(STATE, data)
    try:
        stream = NoiseStream.from_state(sealed, *STREAM, dtype="int64", key=KEY)
    except StateError:
        return
    assert sealed == STATE, "a damaged state was restored"
    assert np.array_equal(stream.step(), NEXT)


TARGETS = (raw_bytes, any_header, damaged_state, damaged_stream)
