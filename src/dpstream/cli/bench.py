"""`dpstream bench`: how fast, on this machine."""

from __future__ import annotations


def bench() -> None:
    """Run the benchmarks."""
