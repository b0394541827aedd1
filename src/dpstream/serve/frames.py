"""Messages between the server and its writer: JSON with some bytes after it, and their lengths before."""

from __future__ import annotations

import json
import struct
from typing import Any

__all__ = ["Frames", "pack"]

_LENGTHS = struct.Struct("<II")


def pack(header: dict[str, Any], body: bytes = b"") -> bytes:
    """Return a message as bytes."""
    text = json.dumps(header).encode()
    return _LENGTHS.pack(len(text), len(body)) + text + body


class Frames:
    """Finds messages in the bytes that come.

    Examples
    --------
    >>> frames, sent = Frames(), pack({"id": 1}, b"abc") + pack({"id": 2})
    >>> frames.feed(sent[:9]), frames.feed(sent[9:])
    ([], [({'id': 1}, b'abc'), ({'id': 2}, b'')])
    """

    def __init__(self) -> None:
        self._waiting = bytearray()

    def feed(self, more: bytes) -> list[tuple[dict[str, Any], bytes]]:
        """Take some bytes, and return the messages that are whole by now."""
        self._waiting += more
        found, at = [], 0
        while len(self._waiting) - at >= _LENGTHS.size:
            text, body = _LENGTHS.unpack_from(self._waiting, at)
            middle, end = at + _LENGTHS.size + text, at + _LENGTHS.size + text + body
            if len(self._waiting) < end:
                break
            header = json.loads(bytes(self._waiting[at + _LENGTHS.size : middle]))
            found.append((header, bytes(self._waiting[middle:end])))
            at = end
        del self._waiting[:at]
        return found
