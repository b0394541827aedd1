"""The hot loops: compiled C where it could be built, a NumPy twin everywhere else, bit for bit the same.

`dpstream.kernel.twin` describes the functions. Which of the two runs is told by `name`; the environment
variable ``DPSTREAM_KERNEL`` set to ``compiled`` or ``twin`` before the import chooses. The twin warns once,
at its first use, with `SlowKernelWarning`: its results are the same, only later.
"""

from __future__ import annotations

import os
import warnings
from collections.abc import Callable
from functools import wraps
from importlib import import_module
from typing import TYPE_CHECKING, Any

import numpy as np

from dpstream.kernel import twin
from dpstream.kernel.twin import *  # noqa: F403 - their types; the functions themselves are replaced below

__all__ = ["SlowKernelWarning", "name", *twin.__all__]


class SlowKernelWarning(UserWarning):
    """The NumPy twin is at work instead of the compiled kernel: correct, but several times slower."""


def _chosen() -> str:
    wish = os.environ.get("DPSTREAM_KERNEL", "")
    if wish not in ("", "compiled", "twin"):
        raise ValueError(f"DPSTREAM_KERNEL must be 'compiled' or 'twin', got {wish!r}")
    if wish == "twin":
        return "twin"
    try:
        import_module("dpstream.kernel._compiled")
    except ImportError:
        if wish == "compiled":
            raise
        return "twin"
    return "compiled"


_warned = False


def _warning(function: Callable[..., Any]) -> Callable[..., Any]:
    """Make a function of the twin warn, the first time that any of them is called."""

    @wraps(function)
    def warned(*args: Any) -> Any:
        global _warned
        if not _warned:
            _warned = True
            reason = "as DPSTREAM_KERNEL asks" if os.environ.get("DPSTREAM_KERNEL") else "the compiled one is missing"
            warnings.warn(f"dpstream runs on its slow NumPy kernel: {reason}", SlowKernelWarning, stacklevel=2)
        return function(*args)

    return warned


def _indices(function: Callable[..., bytes]) -> Callable[..., Any]:
    """C hands positions back as the bytes of int64 numbers."""

    @wraps(function)
    def wrapped(*args: Any) -> Any:
        return np.frombuffer(function(*args), np.int64)

    return wrapped


name = _chosen()

if not TYPE_CHECKING:
    _module = import_module("dpstream.kernel._compiled" if name == "compiled" else "dpstream.kernel.twin")
    for _function in twin.__all__:
        if _function.islower():  # a constant is the same for both
            _call = getattr(_module, _function)
            if name == "twin":
                _call = _warning(_call)
            elif _function in ("flag_unsafe", "round_guarded"):
                _call = _indices(_call)
            globals()[_function] = _call
