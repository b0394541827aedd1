"""The compiled kernel and its NumPy twin agree to the last bit, in every function.

DPSTREAM_HEAVY=1 takes longer vectors and more steps. Without it they are just long enough for every path: more
than one of the twin's chunks of 65,536, ends inside a tile, more steps than a stack is deep.
"""

from __future__ import annotations

import inspect
import os
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np
import pytest

from dpstream.kernel import twin

EDGES_32 = np.array(
    [
        0, 1, 2, 3, 2**8, 2**23, 2**24 - 1, 2**24 + 1, 2**29, 2**30 - 1, 2**30, 2**31 - 1, 2**31, 2**31 + 1,
        3 * 2**30, 2**32 - 2**24, 2**32 - 3, 2**32 - 2, 2**32 - 1, 0xB504F333, 0xB504F334, 0x5A827999,
    ],
    dtype=np.uint32,
)  # fmt: skip
EDGES_64 = np.array(
    [
        0, 1, 2, 3, 2**32 - 1, 2**32, 2**45 - 1, 2**45, 2**47 - 1, 2**47, 2**53 + 1, 2**61, 2**62 - 1, 2**62,
        2**63 - 1, 2**63, 2**63 + 1, 2**63 + 2**47 - 1, 2**63 + 2**47, 3 * 2**62, 2**64 - 2**34,
        2**64 - 2**34 + 1, 2**64 - 3, 2**64 - 2, 2**64 - 1,
        0xB504F333F9DE6484, 0x5A827999FCEF3242, 0xB504F333F9DE6485,
    ],
    dtype=np.uint64,
)  # fmt: skip
HEAVY = os.environ.get("DPSTREAM_HEAVY") == "1"
SIZES = (0, 1, 63, 64, 65, 1000, 200_001 if HEAVY else 66_001)


def words(rng: np.random.Generator, draws: int, tile: int) -> np.ndarray:
    """Words for so many draws, in whole tiles; every pair of edges stands at the beginning."""
    count = -(-draws // tile) * tile
    source = rng.integers(0, 2**32 if tile == 64 else 2**64, count, dtype=np.uint32 if tile == 64 else np.uint64)
    edges = EDGES_32 if tile == 64 else EDGES_64
    first, second = (grid.ravel() for grid in np.meshgrid(edges, edges))
    pairs = source.reshape(-1, 2, tile // 2)
    full = min(len(pairs), first.size // (tile // 2))
    pairs[:full, 0] = first[: full * (tile // 2)].reshape(full, tile // 2)
    pairs[:full, 1] = second[: full * (tile // 2)].reshape(full, tile // 2)
    return source


def assert_same(a: np.ndarray, b: np.ndarray) -> None:
    assert a.dtype == b.dtype
    assert a.shape == b.shape
    assert a.tobytes() == b.tobytes()


def both(compiled: ModuleType, name: str, *args: Any) -> list[tuple[Any, list[Any]]]:
    """What each kernel returns, and the arrays it was given as it left them."""
    results = []
    for module in (compiled, twin):
        copies = [arg.copy() if isinstance(arg, np.ndarray) else arg for arg in args]
        results.append((getattr(module, name)(*copies), copies))
    return results


def assert_both_same(compiled: ModuleType, name: str, *args: Any) -> Any:
    (value, left), (other, right) = both(compiled, name, *args)
    if isinstance(value, bytes):
        value = np.frombuffer(value, np.int64)
        assert_same(value, np.frombuffer(other, np.int64))
    else:
        assert value == other
    for a, b in zip(left, right, strict=True):
        if isinstance(a, np.ndarray):
            assert_same(a, b)
    return value


def test_the_same_functions_with_the_same_arguments(compiled: ModuleType) -> None:
    functions = {name for name in twin.__all__ if name.islower()}
    assert {name for name, f in vars(compiled).items() if inspect.isbuiltin(f)} == functions
    for name in functions:
        there, here = inspect.signature(getattr(compiled, name)), inspect.signature(getattr(twin, name))
        assert [(p.name, p.kind) for p in there.parameters.values()] == [
            (p.name, p.kind) for p in here.parameters.values()
        ]


@pytest.mark.parametrize(
    ("name", "tile", "draws"),
    [("normal_f32", 64, 2**24 if HEAVY else 2**22), ("normal_f64", 32, 2**23 if HEAVY else 2**21)],
)
def test_normals(compiled: ModuleType, rng: np.random.Generator, name: str, tile: int, draws: int) -> None:
    out = np.empty(draws, np.float32 if tile == 64 else np.float64)
    assert_both_same(compiled, name, words(rng, draws, tile), out)


def test_laplace(compiled: ModuleType, rng: np.random.Generator) -> None:
    assert_both_same(compiled, "laplace_f64", words(rng, 2**21, 32), np.empty(2**21))


@pytest.mark.parametrize("kind", ["normal", "laplace"])
def test_flags(compiled: ModuleType, rng: np.random.Generator, kind: str) -> None:
    source = words(rng, 2**21, 32)
    source[::50_021] = 7
    assert assert_both_same(compiled, "flag_unsafe", source, kind).size > 40


@pytest.mark.parametrize(("suffix", "tile"), [("f32", 64), ("f64", 32)])
def test_tails(compiled: ModuleType, rng: np.random.Generator, suffix: str, tile: int) -> None:
    source = words(rng, 2**21, tile)
    source[::50_021] = 7
    assert assert_both_same(compiled, f"flag_tails_{suffix}", source).size > 40


@pytest.mark.parametrize("suffix", ["f32", "f64"])
def test_fused_steps_take_keystream_or_draws(compiled: ModuleType, rng: np.random.Generator, suffix: str) -> None:
    """The same bits either way, and from either kernel."""
    tile, dtype = (64, np.float32) if suffix == "f32" else (32, np.float64)
    n = 1000
    keystream = [words(rng, n, tile), words(rng, n, tile)[::-1].copy()]
    made = [np.empty(source.size, dtype) for source in keystream]
    for source, draws in zip(keystream, made, strict=True):
        compiled.__dict__[f"normal_{suffix}"](source, draws)
    gaps, weights = np.array([1e-4, 0.1, 0.5]), np.array([0.2, 0.3, 0.4])
    results = set()
    for module in (compiled, twin):
        for node, pad in [(a, b) for a in (keystream[0], made[0]) for b in (keystream[1], made[1])]:
            top, out = np.ones(n, dtype), np.empty(n, dtype)
            getattr(module, f"stack_step_{suffix}")(node, 1.7, pad, 0.3, top, top, out)
            slow, fast, release = np.ones((1, n)), np.ones((2, n), dtype), np.empty(n, dtype)
            step = getattr(module, f"recurrence_step_{suffix}")
            step(node, 1.1, 0.9, gaps, weights, slow, fast, 0, n, release)
            results.add(b"".join(array.tobytes() for array in (top, out, slow, fast, release)))
    assert len(results) == 1
    for source, draws in zip(keystream, made, strict=True):  # read, never written
        again = np.empty(source.size, dtype)
        compiled.__dict__[f"normal_{suffix}"](source, again)
        assert_same(again, draws)


@pytest.mark.parametrize("offset", [1, 3, 4])
def test_words_need_not_be_aligned(kernel: ModuleType, rng: np.random.Generator, offset: int) -> None:
    source = rng.bytes(offset + 256 * 3)
    for name, dtype in (("normal_f32", np.float32), ("normal_f64", np.float64), ("laplace_f64", np.float64)):
        shifted, plain = np.empty((2, 256 * 3 // np.dtype(dtype).itemsize), dtype)
        getattr(kernel, name)(memoryview(source)[offset:], shifted)
        getattr(kernel, name)(source[offset:], plain)
        assert_same(shifted, plain)


@pytest.mark.parametrize("n", SIZES)
@pytest.mark.parametrize("padded", [False, True])
@pytest.mark.parametrize("based", [False, True])
@pytest.mark.parametrize("suffix", ["f32", "f64"])
def test_stack_step(
    compiled: ModuleType, rng: np.random.Generator, n: int, padded: bool, based: bool, suffix: str
) -> None:
    tile, dtype = (64, np.float32) if suffix == "f32" else (32, np.float64)
    base = rng.standard_normal(n).astype(dtype) if based else None
    pad = words(rng, n, tile)[::-1].copy() if padded else None
    node, top, out = words(rng, n, tile), np.empty(n, dtype), np.empty(n, dtype)
    assert_both_same(compiled, f"stack_step_{suffix}", node, 1.7, pad, 0.3, base, top, out)
    if not padded:
        assert_both_same(compiled, f"stack_step_{suffix}", node, 1.7, None, 0.3, base, top, None)
    last, to = rng.standard_normal((2, n)).astype(dtype)
    assert_both_same(compiled, f"stack_increment_{suffix}", node, 1.7, pad, 0.3, base, top, last, to)


@pytest.mark.parametrize("suffix", ["f32", "f64"])
def test_stack_step_is_the_transform_and_two_sums(kernel: ModuleType, rng: np.random.Generator, suffix: str) -> None:
    tile, dtype = (64, np.float32) if suffix == "f32" else (32, np.float64)
    n, whole = 1000, -(-1000 // tile) * tile
    node, pad = words(rng, n, tile), words(rng, n, tile)[::-1].copy()
    z, zpad = np.empty((2, whole), dtype)
    getattr(kernel, f"normal_{suffix}")(node, z)
    getattr(kernel, f"normal_{suffix}")(pad, zpad)
    base = rng.standard_normal(n).astype(dtype)
    top, out = base.copy(), np.empty(n, dtype)
    getattr(kernel, f"stack_step_{suffix}")(node, 1.7, pad, 0.3, top, top, out)  # in place
    assert_same(top, base + z[:n] * dtype(1.7))
    assert_same(out, top + zpad[:n] * dtype(0.3))
    top, last, to = base.copy(), z[:n].copy(), zpad[:n].copy()
    getattr(kernel, f"stack_increment_{suffix}")(node, 1.7, pad, 0.3, top, top, last, to)
    assert_same(to, zpad[:n] + (out - z[:n]))
    assert_same(last, out)


@pytest.mark.parametrize("n", SIZES)
@pytest.mark.parametrize("slow", [0, 1, 2])
@pytest.mark.parametrize("suffix", ["f32", "f64"])
def test_recurrence_step(compiled: ModuleType, rng: np.random.Generator, n: int, slow: int, suffix: str) -> None:
    tile, dtype = (64, np.float32) if suffix == "f32" else (32, np.float64)
    gaps, weights = np.array([1e-6, 1e-3, 0.1, 0.7]), rng.standard_normal(4)
    slow_state = rng.standard_normal((slow, n)) if slow else None
    fast_state = rng.standard_normal((4 - slow, n)).astype(dtype)
    for lo, hi in ((0, n), (n // 2 // tile * tile, n), (0, n // 3)):
        out = np.empty(hi - lo, dtype)
        source = words(rng, hi - lo, tile)
        assert_both_same(
            compiled,
            f"recurrence_step_{suffix}",
            source,
            1.3,
            0.9,
            gaps,
            weights,
            slow_state,
            fast_state,
            lo,
            hi,
            out,
        )


#: Real buffers and pairs in any order: (gap, turn, weight, turned weight).
TABLE = np.array([[1e-6, 0.0, 0.3, 0.0], [1e-3, 2e-3, 0.7, -0.2], [0.1, 0.0, -1.5, 0.0], [0.4, 0.5, 0.2, 0.9]])


@pytest.mark.parametrize("n", SIZES)
@pytest.mark.parametrize("slow", [0, 1, 2, 4])
@pytest.mark.parametrize("summed", [False, True])
@pytest.mark.parametrize("suffix", ["f32", "f64"])
def test_increment_step(
    compiled: ModuleType, rng: np.random.Generator, n: int, slow: int, summed: bool, suffix: str
) -> None:
    tile, dtype = (64, np.float32) if suffix == "f32" else (32, np.float64)
    rows = [1 + (row[1] != 0) for row in TABLE]
    slow_state = rng.standard_normal((sum(rows[:slow]), n)) if slow else None
    fast_state = rng.standard_normal((sum(rows[slow:]), n)).astype(dtype)
    total = rng.standard_normal(n) if summed else None
    for lo, hi in ((0, n), (n // 2 // tile * tile, n), (0, n // 3)):
        args = (words(rng, hi - lo, tile), 1.3, 0.9, TABLE, slow, slow_state, fast_state, total, lo, hi)
        for add in (0, 1):
            out = rng.standard_normal(hi - lo).astype(dtype)
            assert_both_same(compiled, f"increment_step_{suffix}", *args, out, add)


@pytest.mark.parametrize("summed", [False, True])
@pytest.mark.parametrize("d", [1, 3, 40])
def test_increment_block(compiled: ModuleType, rng: np.random.Generator, d: int, summed: bool) -> None:
    for n in (0, 1, 300):
        state, total = rng.standard_normal((6, d)), rng.standard_normal(d) if summed else None
        args = (rng.standard_normal((n, d)), rng.uniform(0.5, 1, n), TABLE, state, total, np.empty((n, d)))
        assert_both_same(compiled, "increment_block_f64", *args)


@pytest.mark.parametrize("n", SIZES)
@pytest.mark.parametrize("bands", [0, 1, 5])
@pytest.mark.parametrize("summed", [False, True])
@pytest.mark.parametrize("suffix", ["f32", "f64"])
def test_banded_step(
    compiled: ModuleType, rng: np.random.Generator, n: int, bands: int, summed: bool, suffix: str
) -> None:
    tile, dtype = (64, np.float32) if suffix == "f32" else (32, np.float64)
    ring, total = rng.standard_normal((bands, n)).astype(dtype), rng.standard_normal(n) if summed else None
    for lo, hi in ((0, n), (n // 2 // tile * tile, n), (0, n // 3)):
        args = (words(rng, hi - lo, tile), 1.3, 0.9, rng.standard_normal(bands), ring, max(bands - 2, 0), total, lo, hi)
        for add in (0, 1):
            out = rng.standard_normal(hi - lo).astype(dtype)
            assert_both_same(compiled, f"banded_step_{suffix}", *args, out, add)


@pytest.mark.parametrize("suffix", ["f32", "f64"])
def test_recurrence_step_in_chunks(kernel: ModuleType, rng: np.random.Generator, suffix: str) -> None:
    tile, dtype = (64, np.float32) if suffix == "f32" else (32, np.float64)
    n, cut = 1000, 6 * tile
    gaps, weights, source = np.array([1e-6, 0.1, 0.7]), rng.standard_normal(3), words(rng, n, tile)
    step = getattr(kernel, f"recurrence_step_{suffix}")
    slow, fast = rng.standard_normal((1, n)), rng.standard_normal((2, n)).astype(dtype)
    slow_too, fast_too = slow.copy(), fast.copy()
    whole, parts = np.empty((2, n), dtype)
    step(source, 1.3, 0.9, gaps, weights, slow, fast, 0, n, whole)
    step(source[cut:], 1.3, 0.9, gaps, weights, slow_too, fast_too, cut, n, parts[cut:])
    step(source[:cut], 1.3, 0.9, gaps, weights, slow_too, fast_too, 0, cut, parts[:cut])
    for a, b in ((whole, parts), (slow, slow_too), (fast, fast_too)):
        assert_same(a, b)


@pytest.mark.parametrize("suffix", ["f32", "f64"])
def test_add_increment(compiled: ModuleType, rng: np.random.Generator, suffix: str) -> None:
    for n in SIZES:
        noise, last, out = rng.standard_normal((3, n)).astype(np.float32 if suffix == "f32" else np.float64)
        assert_both_same(compiled, f"add_increment_{suffix}", noise, last, out)
        expected = out + (noise - last)
        getattr(compiled, f"add_increment_{suffix}")(noise, last, out)
        assert_same(out, expected)
        assert_same(last, noise)


@pytest.mark.parametrize("spread", [1e-3, 1.0, 1e7])
def test_release(compiled: ModuleType, rng: np.random.Generator, spread: float) -> None:
    for n in SIZES:
        x, noise = (spread * rng.standard_normal((2, n))).astype(np.float32)
        total = spread * rng.standard_normal(n)
        assert_both_same(compiled, "release_f32", x, total, noise, 2.0**-16)


def test_release_at_the_edges(compiled: ModuleType) -> None:
    """Ties, both zeros, what underflows, and where a float32 has no bits below the grid."""
    edges = [0.0, -0.0, 0.5, 1.5, 2.5, 0.49999997, 2.0**22 + 0.5, 2.0**23 - 0.5, 2.0**23, 2.0**24, 1e-42, 2.0**-140]
    values = np.array([sign * edge for edge in edges for sign in (1, -1)])
    for grid in (1.0, 2.0**-8, 2.0**20):
        noise = (values * grid).astype(np.float32)
        for x in (0.0, -0.0):
            given = np.full(values.size, x, np.float32)
            assert_both_same(compiled, "release_f32", given, np.full(values.size, x), noise, grid)


@pytest.mark.parametrize("spread", [1e-18, 1.0, 1e18, 1e30])
def test_squared_norm(compiled: ModuleType, rng: np.random.Generator, spread: float) -> None:
    for n in (*SIZES, 1023, 1024, 1025):
        x = (spread * rng.standard_normal(n)).astype(np.float32)
        norm = assert_both_same(compiled, "squared_norm_f32", x)
        if spread < 1e19:
            assert norm == pytest.approx(float(np.dot(x.astype(np.float64), x.astype(np.float64))), rel=2.0**-19)
        elif n:
            assert norm == np.inf
    for bad in (np.nan, np.inf):
        assert not np.isfinite(compiled.squared_norm_f32(np.array([0, bad, 0], np.float32)))


def test_release_rounds_to_the_grid(compiled: ModuleType, rng: np.random.Generator) -> None:
    x, noise = rng.standard_normal((2, 1000)).astype(np.float32)
    total = rng.standard_normal(1000)
    expected = np.rint((total + x + noise) / 2.0**-8) * 2.0**-8
    release = noise.copy()
    compiled.release_f32(x, total, release, 2.0**-8)
    np.testing.assert_allclose(release, expected, atol=2.0**-8 * 0.501)
    assert (release == np.rint(release * 2.0**8) * 2.0**-8).all()


def random_moves(rng: np.random.Generator, n: int, depth: int, most: int) -> tuple[np.ndarray, int]:
    pops = np.empty(n, np.uint8)
    for t in range(n):
        least = 1 if depth == most else 0
        pops[t] = rng.integers(least, min(depth, 5) + 1) if depth else 0
        depth += 1 - int(pops[t])
    return pops, depth


@pytest.mark.parametrize("d", [1, 2, 7, 16])
@pytest.mark.parametrize("mixed", [False, True])
@pytest.mark.parametrize("padded", [False, True])
def test_stack_block(compiled: ModuleType, rng: np.random.Generator, d: int, mixed: bool, padded: bool) -> None:
    for n, depth in ((0, 3), (1, 0), (300, 0), ((4000 if mixed else 40_000) if HEAVY else 1500, 5)):
        most = 20
        pops, after = random_moves(rng, n, depth, most)
        padding = rng.standard_normal(n) * rng.integers(0, 2, n) if padded else np.zeros(n)
        zpad = rng.standard_normal((n, d)) if padded else None
        if zpad is not None:
            zpad[padding == 0] = np.nan  # must not be read as a number
        mix = rng.uniform(0, 0.2, (6, 5)) if mixed else None  # an average: with more, entries would grow until overflow
        z, stack = rng.standard_normal((n, d)), rng.standard_normal((most, d))
        args = (pops, rng.standard_normal(n), padding, mix, z, zpad, stack, depth, np.zeros((n, d)))
        assert assert_both_same(compiled, "stack_block_f64", *args) == after


@pytest.mark.parametrize(
    "label", [1, 0b111, 2**5 - 1 << 3, 2**17 - 1, 2**30 + 2**11 - 1, 0b1011001110011 << 40, 5 << 60]
)
def test_smooth_moves(compiled: ModuleType, label: int) -> None:
    for n in (0, 1, 2, 1000, 300_000):
        steps = np.empty((2, n), np.uint8)
        try:
            expected = twin.smooth_moves(label, steps[0].copy(), steps[1].copy())
        except ValueError:
            assert n > 30
            with pytest.raises(ValueError, match="successors"):
                compiled.smooth_moves(label, steps[0].copy(), steps[1].copy())
            continue
        assert assert_both_same(compiled, "smooth_moves", label, steps[0], steps[1]) == expected


@pytest.mark.parametrize("d", [1, 2, 7, 8, 19])
@pytest.mark.parametrize("b", [0, 1, 6, 8, 13])
def test_recurrence_block(compiled: ModuleType, rng: np.random.Generator, d: int, b: int) -> None:
    for n in (0, 1, 50, 1500 if HEAVY else 150):
        gaps, weights = 10.0 ** -rng.uniform(0, 8, b), rng.standard_normal(b)
        state, scales = rng.standard_normal((b, d)), rng.uniform(0.5, 2, (2, n))
        args = (rng.standard_normal((n, d)), *scales, gaps, weights, state, np.zeros((n, d)))
        assert_both_same(compiled, "recurrence_block_f64", *args)


@pytest.mark.parametrize("d", [1, 2, 7, 19])
@pytest.mark.parametrize("b", [0, 1, 6, 8, 13, 32])
def test_recurrence_leap(compiled: ModuleType, rng: np.random.Generator, d: int, b: int) -> None:
    for n in (0, 1, 15, 16, 17, 50, 1500 if HEAVY else 150):
        decay = rng.uniform(0, 1, b) ** np.arange(17)[:, None]
        decay_low = decay * rng.uniform(-1, 1, (17, b)) * 2.0**-54
        high = rng.standard_normal((b, d))
        low = high * rng.uniform(-1, 1, (b, d)) * 2.0**-54
        tables = (rng.standard_normal((b, 16)), rng.standard_normal(16), decay, decay_low)
        scales = rng.uniform(0.5, 2, (2, n))
        args = (rng.standard_normal((n, d)), *scales, *tables, high, low, np.zeros((n, d)))
        assert_both_same(compiled, "recurrence_leap_f64", *args)


@pytest.mark.parametrize("d", [0, 1, 31, 32, 33, 1000])
@pytest.mark.parametrize(("b", "slow"), [(0, 0), (1, 0), (1, 1), (7, 0), (7, 3), (7, 7)])
def test_recurrence_mixed(compiled: ModuleType, rng: np.random.Generator, d: int, b: int, slow: int) -> None:
    gaps, weights, high = 10.0 ** -rng.uniform(0, 8, b), rng.standard_normal(b), rng.standard_normal((b, d))
    low = high[:slow] * rng.uniform(-1, 1, (slow, d)) * 2.0**-54
    args = (rng.standard_normal(d), 1.3, 0.9, gaps, weights, high, low, np.zeros(d))
    assert_both_same(compiled, "recurrence_mixed_f64", *args)


@pytest.mark.parametrize("scale", [1.0, 1e6, 2.0**51, 2.0**58])
def test_rounding(compiled: ModuleType, rng: np.random.Generator, scale: float) -> None:
    for n in (0, 1, 511, 512, 513, 2**20 if HEAVY else 2**17 + 1):
        x = np.clip(rng.standard_normal(n) * scale, -(2.0**61), 2.0**61)
        x[: n // 8] = np.rint(x[: n // 8]) + 0.5
        for guard in (0.0, 1e-3, 0.6):
            assert_both_same(compiled, "round_guarded", x, guard, np.empty(n, np.int64))


def test_the_twin_is_cut_like_the_c() -> None:
    """Each header has a file of the same name; the twin has, besides, memory of its own."""
    folder = Path(twin.__file__).parent
    headers = {header.stem for header in folder.parent.glob("*.h")} - {"loops"}  # which only gathers the others
    assert {part.stem for part in folder.glob("*.py")} - {"__init__", "scratch_memory"} == headers
