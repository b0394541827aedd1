"""For tests and documentation only: keys that are the same in every run.

A fixed key makes noise that anybody can recompute. Never use one for real data.
"""

from __future__ import annotations

import hashlib

__all__ = ["fixed_key"]


def fixed_key(label: str) -> bytes:
    """A 32-byte key that follows from `label`, known to everybody.

    Examples
    --------
    >>> len(fixed_key("example"))
    32
    """
    return hashlib.sha256(b"dpstream test key, not for real data: " + label.encode()).digest()
