"""Key search: whether releases were made under a key that somebody can guess.

The noise is a pure function of the key. Whoever guesses the key subtracts the noise and holds the exact inputs; and a
right guess shows, because wrong ones leave inputs that nobody would have given. So a key is as good as the number of
keys one has to try: 256 bits from the operating system, or the few thousand that a "seed" has.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable

import numpy as np
from numpy.typing import NDArray

from dpstream.audit.trials import Release

__all__ = ["integer_keys", "search_key"]


def integer_keys(count: int) -> Iterable[bytes]:
    """The keys that come to mind when somebody turns the integers below `count` into 32 bytes.

    >>> [key[:2].hex() for key in integer_keys(2)], [key[-2:].hex() for key in integer_keys(2)]
    (['0000', '0000', '0000', '0100'], ['0000', '0000', '0001', '0000'])
    """
    for i in range(count):
        yield i.to_bytes(32, "big")
        yield i.to_bytes(32, "little")


def search_key(
    published: NDArray[np.int64], make_release: Callable[[bytes], Release], largest: int, keys: Iterable[bytes]
) -> bytes | None:
    """The first key under which every input was from 0 to `largest`, or None.

    `make_release` builds the audited Counter under a given key. With n releases of standard deviation σ a wrong key
    passes with a chance of about ((largest + 1)/σ)^n: give enough releases.
    """
    nothing = np.zeros(len(published), dtype=np.int64)
    for key in keys:
        noise = np.asarray(make_release(key).extend(nothing))
        inputs = np.diff(published - noise, prepend=0)
        if inputs.min() >= 0 and inputs.max() <= largest:
            return key
    return None
