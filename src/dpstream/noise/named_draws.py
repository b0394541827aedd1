"""Independent normals for names nobody listed beforehand, each a pure function of (key, name, step, slot).

A name has no place in a vector, so its draws are addressed by the name itself:

    tag   = 96 bits of BLAKE2b(name), keyed
    block = AES-256(tag | slot (8 bits) | pair (24 bits)),   pair = (step - 1) div 2

The two 64-bit words of a block make one pair of normals by the kernel's transform (`kernel.normal_f64`): the cosine is
the draw of the odd step of the pair, the sine that of the even one. Further bits of a draw, which exact rounding asks
for now and then, are the block of the same address under another key, one for each 64 bits.

Two of n names share a tag with a chance of n²/2^97: 2^-57 for a million names.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Mapping
from functools import partial
from typing import Any, NoReturn

import numpy as np
from cryptography.hazmat.primitives.ciphers import Cipher, algorithms, modes
from numpy.typing import NDArray

from dpstream import kernel
from dpstream.errors import InvalidArgument
from dpstream.noise.exact import ideal_double, ideal_normal
from dpstream.noise.keystream import BLOCK_BYTES, CHUNK_BYTES, check_key, derive_key

__all__ = ["SLOTS_LIMIT", "STEPS_LIMIT", "TAG_WORDS", "NamedDraws", "Tags"]

#: Tags of names: three 32-bit words each, one row a name.
Tags = NDArray[np.uint32]

TAG_WORDS = 3
TAG_BYTES = 4 * TAG_WORDS
_PAIR_BITS = 24
SLOTS_LIMIT = 2**8
STEPS_LIMIT = 2 ** (_PAIR_BITS + 1)

#: Pairs of a tile of the kernel: words p and PAIRS + p make draws p and PAIRS + p.
_PAIRS = kernel.TILE_F64 // 2


class NamedDraws:
    """The draws of every name under one key. Safe to share between threads.

    Parameters
    ----------
    key
        32 secret bytes.
    configuration
        Everything else that the draws depend on: other settings have other draws.
    """

    def __init__(self, key: bytes, configuration: Mapping[str, object]) -> None:
        self._key, self._configuration = check_key(key), dict(configuration)
        self._hash = hashlib.blake2b(digest_size=TAG_BYTES, key=self._derived("names"))
        self._block_keys: dict[int, bytes] = {}

    def __repr__(self) -> str:
        return "NamedDraws(key=<hidden>)"

    def __reduce__(self) -> NoReturn:
        raise TypeError("NamedDraws hold a secret key and cannot be pickled")

    def tags(self, names: Iterable[str]) -> Tags:
        """Return the tags of these names, one row each."""
        made = bytearray()
        for name in names:
            one = self._hash.copy()  # half the time of keying it again
            one.update(name.encode())
            made += one.digest()
        return np.frombuffer(made, dtype="<u4").astype(np.uint32).reshape(-1, TAG_WORDS)

    def rows(self, tags: Tags, first: int, count: int, slot: int) -> NDArray[np.float64]:
        """Return the draws of these names at `count` steps from step `first` on: one row a step, one column a name.

        Each is the ideal draw up to `kernel.NORMAL_ERROR`.
        """
        if not (0 <= slot < SLOTS_LIMIT and first >= 1 and first + count - 1 <= STEPS_LIMIT):
            raise InvalidArgument(
                "slot, first, count", (slot, first, count), f"below {SLOTS_LIMIT} and within {STEPS_LIMIT} steps"
            )
        if not len(tags):
            return np.empty((count, 0))
        pair, last = (first - 1) // 2, (first + count - 2) // 2
        pairs, names = last - pair + 1, len(tags)
        blocks = np.zeros((-(-pairs * names // _PAIRS) * _PAIRS, TAG_WORDS + 1), dtype="<u4")
        own = blocks[: pairs * names].reshape(pairs, names, TAG_WORDS + 1)
        own[:, :, :TAG_WORDS] = tags
        own[:, :, TAG_WORDS] = (slot << _PAIR_BITS) + np.arange(pair, last + 1, dtype=np.uint32)[:, None]
        words = self._encrypted(blocks, 0).view("<u8").reshape(-1, _PAIRS, 2)
        tiles = np.ascontiguousarray(words.swapaxes(1, 2))
        draws = np.empty(tiles.shape)
        kernel.normal_f64(tiles, draws.reshape(-1))
        for position in kernel.flag_unsafe(tiles, "normal").tolist():
            tile, lane = divmod(position, kernel.TILE_F64)
            number = tile * _PAIRS + lane % _PAIRS
            if number < pairs * names:
                step = 2 * (pair + number // names) + 1 + lane // _PAIRS
                draws.reshape(-1)[position] = ideal_double(partial(self.ideal, tags[number % names], step, slot))
        both = draws.swapaxes(0, 1).reshape(2, -1)[:, : pairs * names].reshape(2, pairs, names)
        skipped = first - 1 - 2 * pair
        if count == 1:
            return np.asarray(both[skipped])
        return np.asarray(both.swapaxes(0, 1).reshape(2 * pairs, names)[skipped : skipped + count])

    def ideal(self, tag: NDArray[np.uint32], step: int, slot: int, bits: int) -> Any:
        """Return one draw as a ball (flint.arb) that holds its ideal value, from at least `bits` bits."""
        address = np.append(tag, np.uint32((slot << _PAIR_BITS) + (step - 1) // 2)).astype("<u4")
        words = [self._encrypted(address, e).view("<u8").tolist() for e in range(1 + -(-bits // 64))]
        (first, second), further = words[0], [(one, other) for one, other in words[1:]]
        return ideal_normal(first, second, further, bits, sine=step % 2 == 0)

    def _encrypted(self, blocks: NDArray[np.uint32], extension: int) -> NDArray[np.uint8]:
        """Return AES of every block, one by one: no two are equal, so that the cipher is a random function of them."""
        key = self._block_keys.get(extension)
        if key is None:
            key = self._block_keys[extension] = self._derived(f"named draws {extension}")
        encryptor = Cipher(algorithms.AES(key), modes.ECB()).encryptor()  # noqa: S305 (addresses, no message)
        given = blocks.data.cast("B")
        out = np.empty(len(given) + BLOCK_BYTES, dtype=np.uint8)  # `update_into` wants room for a block more
        for low in range(0, len(given), CHUNK_BYTES):
            part = given[low : low + CHUNK_BYTES]
            encryptor.update_into(part, out[low:].data)
        return out[:-BLOCK_BYTES]

    def _derived(self, purpose: str) -> bytes:
        return derive_key(self._key, purpose=purpose, configuration=self._configuration)
