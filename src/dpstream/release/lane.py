"""The two lanes: exactly rounded integers, or floating point."""

from __future__ import annotations

from typing import Literal

__all__ = ["Lane"]

Lane = Literal["exact", "float"]
