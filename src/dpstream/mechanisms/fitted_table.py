"""Tables of fitted coefficients that ship with the package.

A fit decides how good a mechanism is, never whether it is private; but it does decide the noise. So a table has a
digest, which is part of the identity of every mechanism made from it: after a new fit, streams have new keys.
"""

from __future__ import annotations

import hashlib
import json
from functools import cache
from importlib import resources
from typing import Any, NamedTuple

__all__ = ["FittedTable", "read_table"]


class FittedTable(NamedTuple):
    """The content of a table, and 16 hexadecimal digits that stand for it."""

    content: dict[str, Any]
    digest: str


@cache
def read_table(name: str) -> FittedTable:
    """Read a table that lies beside this file."""
    text = resources.files("dpstream.mechanisms").joinpath(name).read_bytes()
    return FittedTable(json.loads(text), hashlib.sha256(text).hexdigest()[:16])
