"""Python processes that a page starts draw fixed bytes instead of random ones, so that every build prints the same.

Only the documentation does this: `page_runs.py` puts this folder on the path of the processes that it starts. Keys made
from such bytes are known to everybody.
"""

import hashlib
import os
from pathlib import Path

_turns = Path(os.environ["DPSTREAM_PAGE_TURNS"])
_turn = len(_turns.read_bytes()) if _turns.exists() else 0
with _turns.open("ab") as _file:  # the next process draws other bytes
    _file.write(b".")
_state = hashlib.shake_256(f"{os.environ['DPSTREAM_PAGE']} {_turn}".encode())


def _fixed(size: int) -> bytes:
    drawn = _state.copy().digest(size)
    _state.update(b"next")
    return drawn


os.urandom = _fixed
