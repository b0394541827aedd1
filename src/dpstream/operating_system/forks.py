"""Tells of forks, after which a child would repeat its parent's noise."""

from __future__ import annotations

import os
from collections.abc import Callable

__all__ = ["in_forked_children"]


def in_forked_children(do: Callable[[], None]) -> None:
    """Call `do` in every child that this process forks from now on; Windows has no forks, and nothing to do."""
    if hasattr(os, "register_at_fork"):
        os.register_at_fork(after_in_child=do)
