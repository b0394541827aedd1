"""The memory that a thread works in."""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Any

CHUNK = 65536  # items worked on at once: enough to hide the cost of a NumPy call, few enough for the cache


class Scratch(threading.local):
    """What a thread works in, kept between calls: fresh memory costs more than the arithmetic."""

    def __init__(self) -> None:
        self._kept: dict[str, Any] = {}

    def keep(self, name: str, make: Callable[[], Any]) -> Any:
        if name not in self._kept:
            self._kept[name] = make()
        return self._kept[name]


scratch = Scratch()
