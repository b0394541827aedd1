"""Where the workers get the secret key from: a function, the environment or a file; never from the plan.

Whatever is given to Spark is pickled into the query's plan and sent around. So a key itself is refused, and so is a
function that carries one; only the way to the key travels, and each worker process takes it once.
"""

from __future__ import annotations

import functools
import os
import string
import types
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from dpstream.errors import InvalidArgument, KeyFileMissing
from dpstream.noise.keystream import KEY_BYTES, check_key
from dpstream.store.master_key import ENVIRONMENT, key_from_hex, read_key_file

__all__ = ["SecretSource"]

_ALLOWED = (
    "a function that fetches 32 bytes on the worker, the path of a key file that every worker can read, or 'env:NAME'"
    " for an environment variable with 64 hexadecimal digits; not the key itself, which would stand in Spark's plan"
)
#: Keys of this process, by where they came from.
_fetched: dict[object, bytes] = {}


@dataclass(frozen=True)
class SecretSource:
    """The way to a key, which can be pickled; the key is fetched by `key()`, once a process.

    Examples
    --------
    >>> SecretSource.of("env:DPSTREAM_MASTER_KEY")
    SecretSource(where='env:DPSTREAM_MASTER_KEY')
    """

    where: str | Callable[[], bytes]

    @classmethod
    def of(cls, given: object) -> SecretSource:
        """Return the source that `secret=` names; None is the environment variable DPSTREAM_MASTER_KEY."""
        if given is None:
            return cls(f"env:{ENVIRONMENT}")
        if isinstance(given, os.PathLike):
            return cls(os.fspath(Path(given).absolute()))
        if isinstance(given, str):
            if given.startswith("env:") and given != "env:":
                return cls(given)
            if _could_be_a_key(given):
                raise InvalidArgument("secret", "64 hexadecimal digits", _ALLOWED)
            return cls(os.fspath(Path(given).absolute()))
        if callable(given):
            if _carries_key(given):
                raise InvalidArgument("secret", "a function with a key in it", _ALLOWED)
            return cls(given)
        raise InvalidArgument("secret", f"an object of type {type(given).__name__}", _ALLOWED)

    def key(self) -> bytes:
        """Return the key. Called on workers."""
        if self.where not in _fetched:
            _fetched[self.where] = self._fetch()
        return _fetched[self.where]

    def _fetch(self) -> bytes:
        if not isinstance(self.where, str):
            return check_key(self.where())
        if not self.where.startswith("env:"):
            try:
                return read_key_file(Path(self.where))
            except FileNotFoundError:
                raise KeyFileMissing(path=self.where) from None
        variable = self.where[4:]
        digits = os.environ.get(variable)
        if digits is None:
            raise InvalidArgument(
                "secret",
                self.where,
                f"an environment variable that the workers have (spark.executorEnv.{variable}, or"
                " a secret of the cluster's own)",
            )
        return key_from_hex(digits, f"the environment variable {variable}")


def _carries_key(function: object) -> bool:
    """Say whether a function, or an object that is called, holds a value that could be a key."""
    held: list[object] = [*getattr(function, "__dict__", {}).values()]
    if isinstance(function, functools.partial):
        held += [*function.args, *function.keywords.values()]
        if _carries_key(function.func):
            return True
    elif isinstance(function, types.FunctionType):
        held += [*function.__code__.co_consts, *(function.__defaults__ or ())]
        held += [cell.cell_contents for cell in function.__closure__ or ()]
        held += [function.__globals__.get(name) for name in function.__code__.co_names]
    return any(_could_be_a_key(one) for one in held)


def _could_be_a_key(value: object) -> bool:
    if isinstance(value, str):
        return len(value) == 2 * KEY_BYTES and not set(value) - set(string.hexdigits)
    return isinstance(value, (bytes, bytearray)) and len(value) == KEY_BYTES
