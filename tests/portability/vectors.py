"""Calls of every function of the kernel with fixed arguments: what each must answer, bit for bit, on every machine.

Arguments come from SHAKE-256, so that they depend on no version of any library. The answers are the NumPy twin's;
`DIGEST` pins arguments and answers together. `replay` asks a Python module for the same, and `write` makes the file
that driver.c reads, which has no Python in it: for other processors, for sanitizers, for emulators.
"""

from __future__ import annotations

import hashlib
import struct
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from dpstream.kernel import twin

__all__ = ["DIGEST", "Call", "answered", "calls", "digest", "replay", "write"]

#: SHA-256 of the file that `write` makes. A change means that the kernel computes something else, and with it every
#: stored stream: never change it without a new format of the noise (docs/stability.md).
DIGEST = "7b9550e035f9464bddeddde3ed86380aa0c8a3cb6ce6e154c11201bc76e5db75"
MAGIC = b"dpvector"
#: Lengths of vectors: within a tile, at the ends of tiles, over several, and past sixteen of them (banded steps).
SIZES = (1, 31, 32, 64, 65, 200, 1100)


class Call(NamedTuple):
    """A function of the kernel, and the arguments of one call of it."""

    name: str
    args: tuple[Any, ...]


class _Numbers:
    """Numbers that follow from a text."""

    def __init__(self, text: str) -> None:
        self._seed = text.encode()
        self._made = 0

    def bytes(self, size: int) -> NDArray[np.uint8]:
        self._made += 1
        return np.frombuffer(hashlib.shake_256(self._seed + b" %d" % self._made).digest(size), np.uint8).copy()

    def doubles(self, *shape: int) -> NDArray[np.float64]:
        """Multiples of 2^-52 from -1 to 1."""
        whole = self.bytes(8 * int(np.prod(shape))).view("<u8") >> np.uint64(11)
        return (whole.astype(np.float64) * 2.0**-52 - 1.0).reshape(shape)

    def floats(self, *shape: int) -> NDArray[np.float32]:
        return self.doubles(*shape).astype(np.float32)

    def positive(self, *shape: int) -> NDArray[np.float64]:
        return np.abs(self.doubles(*shape))

    def below(self, limit: int) -> int:
        return int(self.bytes(8).view("<u8")[0] % np.uint64(limit))


def calls() -> Iterator[Call]:
    """Yield all calls, with arrays of their own."""
    yield from _draws()
    for suffix, tile, dtype in (("f32", 64, np.float32), ("f64", 32, np.float64)):
        for n in SIZES:
            yield from _long_steps(suffix, tile, dtype, n)
    yield from _sums()
    yield from _short_steps()
    yield from _rounding()


def _draws() -> Iterator[Call]:
    numbers = _Numbers("draws")
    edges = np.array([0, 1, 2, 255, 256, 2**31 - 1, 2**31, 2**32 - 1, 2**63, 2**64 - 1, 2**40, 2**63 - 1], "<u8")
    sources = [numbers.bytes(256 * tiles) for tiles in (1, 2, 40)]
    sources += [np.resize(edges, 64).view(np.uint8), np.resize(edges[::-1], 96).view(np.uint8), numbers.bytes(0)]
    small = numbers.bytes(256 * 8)
    small.view("<u4")[::37] %= 300  # some below the limit of tails, some just above
    small.view("<u8")[::29] >>= np.uint64(40)
    for words in (*sources, small):
        yield Call("normal_f32", (words, np.zeros(words.size // 4, np.float32)))
        yield Call("normal_f64", (words, np.zeros(words.size // 8)))
        yield Call("laplace_f64", (words, np.zeros(words.size // 8)))
        yield Call("flag_unsafe", (words, "normal"))
        yield Call("flag_unsafe", (words, "laplace"))
        yield Call("flag_tails_f32", (words,))
        yield Call("flag_tails_f64", (words,))


def _long_steps(suffix: str, tile: int, dtype: Any, n: int) -> Iterator[Call]:
    numbers = _Numbers(f"long steps {suffix} {n}")
    width = -(-n // tile) * tile

    def words() -> NDArray[np.uint8]:
        return numbers.bytes(width * np.dtype(dtype).itemsize)

    def reals(*shape: int) -> NDArray[Any]:
        return numbers.doubles(*shape).astype(dtype)

    yield Call(f"stack_step_{suffix}", (words(), 1.7, words(), 0.3, reals(n), reals(n), reals(n)))
    yield Call(f"stack_step_{suffix}", (words(), 1.7, None, 0.3, None, reals(n), None))
    yield Call(f"stack_step_{suffix}", (reals(width), 0.9, words(), 0.3, reals(n), reals(n), reals(n)))
    yield Call(f"stack_increment_{suffix}", (words(), 1.7, words(), 0.3, reals(n), reals(n), reals(n), reals(n)))
    yield Call(f"stack_increment_{suffix}", (words(), 1.7, None, 0.3, None, reals(n), reals(n), reals(n)))
    gaps, weights = np.array([1e-6, 1e-3, 0.1, 0.7]), numbers.doubles(4)
    table = np.array([[1e-6, 0.0, 0.3, 0.0], [1e-3, 2e-3, 0.7, -0.2], [0.1, 0.0, -1.5, 0.0], [0.4, 0.5, 0.2, 0.9]])
    lo = n // 2 // tile * tile
    for slow in (0, 2):
        slow_state = numbers.doubles(slow, n) if slow else None
        out = reals(n)
        yield Call(
            f"recurrence_step_{suffix}", (words(), 1.3, 0.9, gaps, weights, slow_state, reals(4 - slow, n), 0, n, out)
        )
        rows = 3 if slow else 0  # a real buffer and a pair
        slow_state = numbers.doubles(rows, n) if slow else None
        total = numbers.doubles(n) if slow else None
        state = (table, slow, slow_state, reals(6 - rows, n), total)
        yield Call(f"increment_step_{suffix}", (words(), 1.3, 0.9, *state, 0, n, reals(n), slow // 2))
        part = numbers.bytes(-(-(n - lo) // tile) * tile * np.dtype(dtype).itemsize)
        ring = (numbers.doubles(5), reals(5, n), slow, total)
        yield Call(f"banded_step_{suffix}", (part, 1.3, 0.9, *ring, lo, n, reals(n - lo), slow // 2))
    yield Call(f"add_increment_{suffix}", (reals(n), reals(n), reals(n)))


def _sums() -> Iterator[Call]:
    numbers = _Numbers("sums")
    for n in (0, *SIZES):
        for size in (1e-3, 1e7):
            x, noise, total = numbers.floats(n), numbers.floats(n), numbers.doubles(n) * size
            yield Call("release_f32", (x, total, noise * np.float32(size), 2.0**-16))
        yield Call("squared_norm_f32", (numbers.floats(n),))
    ties = np.array([0.0, -0.0, 0.5, -1.5, 2.5, 0.49999997, 2.0**22 + 0.5, -(2.0**23), 1e-42, 2.0**-140], np.float32)
    yield Call("release_f32", (np.zeros(ties.size, np.float32), np.zeros(ties.size), ties, 1.0))


def _short_steps() -> Iterator[Call]:
    numbers = _Numbers("short steps")
    for d in (1, 2, 7):
        for mixed in (False, True):
            for padded in (False, True):
                pops = _moves(numbers, 200, 3, 20)
                padding = numbers.doubles(200) * (numbers.bytes(200) % 2) if padded else np.zeros(200)
                zpad = numbers.doubles(200, d) if padded else None
                mix = numbers.positive(6, 5) / 8 if mixed else None
                stack = numbers.doubles(20, d)
                args = (pops, numbers.doubles(200), padding, mix, numbers.doubles(200, d), zpad, stack, 3)
                yield Call("stack_block_f64", (*args, np.zeros((200, d))))
        for b in (0, 1, 6, 13):
            n = 50
            scales = (numbers.positive(n) + 0.5, numbers.positive(n) + 0.5)
            gaps, weights = numbers.positive(b) ** 2, numbers.doubles(b)
            state, out = numbers.doubles(b, d), np.zeros((n, d))
            yield Call("recurrence_block_f64", (numbers.doubles(n, d), *scales, gaps, weights, state, out))
            decay = np.cumprod(np.vstack([np.ones((1, b)), np.repeat(numbers.positive(1, b), 16, 0)]), 0)
            tables = (numbers.doubles(b, 16), numbers.doubles(16), decay, decay * numbers.doubles(17, b) * 2.0**-54)
            high = numbers.doubles(b, d)
            low = high * numbers.doubles(b, d) * 2.0**-54
            yield Call("recurrence_leap_f64", (numbers.doubles(n, d), *scales, *tables, high, low, np.zeros((n, d))))
            for width, slow in ((1, 0), (33, b // 2), (70, b)):
                high = numbers.doubles(b, width)
                low = high[:slow] * numbers.doubles(slow, width) * 2.0**-54
                held = (gaps, weights, high, low, np.zeros(width))
                yield Call("recurrence_mixed_f64", (numbers.doubles(width), 1.3, 0.9, *held))
        table = np.array([[1e-6, 0.0, 0.3, 0.0], [1e-3, 2e-3, 0.7, -0.2], [0.1, 0.0, -1.5, 0.0], [0.4, 0.5, 0.2, 0.9]])
        for total in (None, numbers.doubles(d)):
            args = (numbers.doubles(60, d), numbers.positive(60), table, numbers.doubles(6, d), total)
            yield Call("increment_block_f64", (*args, np.zeros((60, d))))
    for label in (0b11, 0b111, 2**17 - 1, 0b1011001110011 << 40):
        yield Call("smooth_moves", (label, np.zeros(500, np.uint8), np.zeros(500, np.uint8)))


def _moves(numbers: _Numbers, n: int, depth: int, most: int) -> NDArray[np.uint8]:
    pops = np.empty(n, np.uint8)
    for t in range(n):
        least = 1 if depth == most else 0
        pops[t] = least + numbers.below(min(depth, 5) + 1 - least) if depth else 0
        depth += 1 - int(pops[t])
    return pops


def _rounding() -> Iterator[Call]:
    numbers = _Numbers("rounding")
    for scale in (1.0, 1e6, 2.0**51, 2.0**58):
        for n in (0, 1, 513, 1100):
            x = numbers.doubles(n) * scale
            x[: n // 8] = np.rint(x[: n // 8]) + 0.5
            for guard in (0.0, 1e-3, 0.6):
                yield Call("round_guarded", (x, guard, np.zeros(n, np.int64)))


# -- answers ----------------------------------------------------------------------------------------------------------


def answered(call: Call, kernel: Any = twin) -> tuple[tuple[Any, ...], Any]:
    """Return the arguments as they are after the call, and what it returned."""
    args = tuple(arg.copy() if isinstance(arg, np.ndarray) else arg for arg in call.args)
    return args, getattr(kernel, call.name)(*args)


def replay(kernel: Any) -> list[str]:
    """Return the calls that a module answers otherwise than the twin: name and number."""
    wrong = []
    for number, call in enumerate(calls()):
        expected, found = (_as_bytes(*answered(call, module)) for module in (twin, kernel))
        if expected != found:
            wrong.append(f"call {number}, {call.name}")
    return wrong


def _as_bytes(args: tuple[Any, ...], result: Any) -> list[bytes]:
    if isinstance(result, float):
        result = struct.pack("<d", result)
    elif isinstance(result, np.ndarray):
        result = result.tobytes()
    elif not isinstance(result, bytes):
        result = repr(result).encode()
    return [*(arg.tobytes() for arg in args if isinstance(arg, np.ndarray)), result]


# -- the file for driver.c --------------------------------------------------------------------------------------------


def write(path: Path) -> int:
    """Write all calls with the twin's answers for driver.c; return how many there are."""
    count = 0
    with path.open("wb") as file:
        file.write(MAGIC)
        for call in calls():
            file.write(_packed(call))
            count += 1
    return count


def digest() -> str:
    """Return the SHA-256 of what `write` writes."""
    found = hashlib.sha256(MAGIC)
    for call in calls():
        found.update(_packed(call))
    return found.hexdigest()


def _packed(call: Call) -> bytes:
    """Return the name (32 bytes), the arguments before and after, and the result: see driver.c, which reads them."""
    after, result = answered(call)
    parts = [struct.pack("<32sQ", call.name.encode(), len(call.args))]
    for arg, left in zip(call.args, after, strict=True):
        if isinstance(arg, np.ndarray):
            kind = {"u": b"B", "i": b"q"}.get(arg.dtype.kind, arg.dtype.char.encode())
            shape = (*arg.shape, 1, 1)[:2]
            parts.append(struct.pack("<c7xQQQ", kind, *shape, arg.nbytes) + arg.tobytes() + left.tobytes())
        elif isinstance(arg, float):
            parts.append(struct.pack("<c7xd", b"#", arg))
        elif isinstance(arg, int):
            parts.append(struct.pack("<c7xQ", b"+", arg))
        else:
            parts.append(struct.pack("<c7x8s", b"-" if arg is None else b"s", (arg or "").encode()))
    if isinstance(result, float):
        answer = struct.pack("<d", result)
    elif isinstance(result, int):
        answer = struct.pack("<Q", result)
    elif isinstance(result, bytes):
        answer = result
    else:
        answer = b"" if result is None else np.asarray(result, np.int64).tobytes()
    return b"".join(parts) + struct.pack("<Q", len(answer)) + answer


if __name__ == "__main__":
    print(digest())
