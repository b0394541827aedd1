"""Mechanisms of the user's own on the command line: ``--mechanism module:object``."""

from __future__ import annotations

import importlib
import sys
from typing import Any

from dpstream.arguments import check_horizon
from dpstream.errors import InvalidArgument
from dpstream.mechanisms.base import Mechanism

__all__ = ["own_mechanism"]


def own_mechanism(text: str, horizon: int) -> Mechanism:
    """Return the mechanism that ``module:object`` names, for this horizon.

    The module is imported as Python would from the current folder. The object is a mechanism, or a class or function
    that makes one from a horizon.

    Raises
    ------
    InvalidArgument
        If the module or the object cannot be found, or is no mechanism and makes none; or if it has too few steps.
    """
    module, _, name = text.partition(":")
    if "" not in sys.path:
        sys.path.insert(0, "")  # the current folder, which a console script leaves out
    try:
        found: Any = importlib.import_module(module)
        for part in name.split("."):
            found = getattr(found, part)
    except (ImportError, AttributeError, ValueError, SyntaxError) as error:
        raise InvalidArgument("--mechanism", text, f"module:object, but {error}") from None
    if not isinstance(found, Mechanism) and callable(found):
        try:
            found = found(check_horizon(horizon))
        except TypeError as error:
            raise InvalidArgument("--mechanism", text, f"a class or function of the horizon, but {error}") from None
    if not isinstance(found, Mechanism):
        raise InvalidArgument("--mechanism", text, "a mechanism, or a class or function that makes one from a horizon")
    if found.horizon is not None and found.horizon < horizon:
        raise InvalidArgument("--mechanism", text, f"one for {horizon:,} steps; this one has {found.horizon:,}")
    return found
