"""The draws are the ideal ones, to the error that docs/exact-rounding.md proves.

DPSTREAM_HEAVY=1 holds 10^7 words against ball arithmetic instead of 10^5. The twin, which gives the same bits as the
compiled kernel (test_same_bits.py), is held against it with a few words only.
"""

from __future__ import annotations

import importlib.util
import os
import re
import sys
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType

import numpy as np
import pytest
from flint import arb, ctx, fmpq, fmpz
from scipy import stats

from dpstream.kernel import LAPLACE_ERROR, NORMAL_ERROR, TAIL_LIMIT, twin
from dpstream.kernel.twin import coefficients, transform

ROOT = Path(__file__).parents[2]
HEAVY = os.environ.get("DPSTREAM_HEAVY") == "1"
DRAWS = 2**20 if HEAVY else 2**18  # for the tests of a law
LOWEST, HIGHEST = 2**45, 2**64 - 2**34  # first words of normals
LAPLACE_LOWEST = 2**47  # of 63 bits
ROOT_HALF = 0xB504F333F9DE6484  # √½ · 2^64, where the logarithm changes its exponent


@pytest.fixture(autouse=True)
def _precision() -> Iterator[None]:
    before, ctx.prec = ctx.prec, 160
    yield
    ctx.prec = before


@pytest.fixture(scope="module")
def fit() -> ModuleType:
    spec = importlib.util.spec_from_file_location("fit_polynomials", ROOT / "research" / "fit_polynomials.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module  # dataclasses look their module up
    spec.loader.exec_module(module)
    return module


def words_against_balls(kernel: ModuleType) -> int:
    if kernel is twin:
        return 2 * 10**4
    return 10**7 if HEAVY else 10**5


def around(*centres: int) -> list[int]:
    """Each centre, its neighbours, and points a little further off."""
    steps = [0, 1, 2, 3, 2**10, 2**11, 2**12 - 1, 2**20]
    return [c + sign * step for c in centres for step in steps for sign in (1, -1)]


def first_words(rng: np.random.Generator, count: int) -> np.ndarray:
    """Leading words in the proven range: even in the word and in its logarithm, at the ends, and where cases change."""
    edges = around(LOWEST, HIGHEST, *(1 << k for k in range(45, 64)), *(ROOT_HALF >> k for k in range(19)))
    edges += [2**64 - 1 - w for w in edges]
    edges = [w for w in edges if LOWEST <= w <= HIGHEST]
    quarter = (count - len(edges)) // 4
    small = np.exp2(rng.uniform(45, 63.99, quarter)).astype(np.uint64)
    large = ~np.exp2(rng.uniform(34, 63.99, quarter)).astype(np.uint64)
    lowest = rng.integers(LOWEST, LOWEST + LOWEST // 64, quarter, dtype=np.uint64)  # the unseen bits weigh most here
    even = rng.integers(LOWEST, HIGHEST, count - len(edges) - 3 * quarter, dtype=np.uint64)
    words = np.concatenate([np.array(edges, np.uint64), small, large, lowest, even])
    return rng.permutation(np.clip(words, LOWEST, HIGHEST))


def second_words(rng: np.random.Generator, count: int) -> np.ndarray:
    """Angles: even, close to multiples of a quarter turn, and at the eighths where the quarter changes."""
    edges = np.array([w % 2**64 for w in around(*(k << 61 for k in range(8)))], np.uint64)
    half = (count - edges.size) // 2
    close = np.exp2(rng.uniform(0, 61, half)).astype(np.uint64) + (rng.integers(0, 8, half, dtype=np.uint64) << 61)
    even = rng.integers(0, 2**64, count - edges.size - half, dtype=np.uint64)
    return rng.permutation(np.concatenate([edges, close, even]))


def distance(computed: float, ideal: arb) -> float:
    return float((arb(computed) - ideal).abs_upper())


def ball(value: fmpq, radius: fmpq) -> arb:
    return arb(value).union(arb(value + radius)).union(arb(value - radius))


def test_normals_are_within_the_proven_error(kernel: ModuleType, rng: np.random.Generator) -> None:
    tiles = words_against_balls(kernel) // 32
    first, second = first_words(rng, tiles * 16), second_words(rng, tiles * 16)
    words = np.stack([first.reshape(-1, 16), second.reshape(-1, 16)], axis=1)
    out = np.empty(words.size)
    kernel.normal_f64(words, out)
    flagged = np.frombuffer(kernel.flag_unsafe(words, "normal"), np.int64)
    assert flagged.size == 0
    pairs = out.reshape(-1, 2, 16)
    x, y = pairs[:, 0].ravel().tolist(), pairs[:, 1].ravel().tolist()
    half = fmpq(1, fmpz(2) ** 65)
    worst = 0.0
    for a, b, w1, w2 in zip(x, y, first.tolist(), second.tolist(), strict=True):
        u = ball(fmpq(2 * w1 + 1, fmpz(2) ** 65), half)
        r = (-2 * u.log()).sqrt()
        turn = ball(fmpq(2 * w2 + 1, fmpz(2) ** 64), 2 * half)  # half turns
        worst = max(worst, distance(a, r * turn.cos_pi()), distance(b, r * turn.sin_pi()))
    print(f"largest error of a normal: {worst * 2**53:.2f} · 2^-53, allowed {NORMAL_ERROR * 2**53:.0f}")
    assert worst <= NORMAL_ERROR


def test_laplace_draws_are_within_the_proven_error(kernel: ModuleType, rng: np.random.Generator) -> None:
    edges = around(2**63 - 1, *(1 << k for k in range(47, 63)), *(ROOT_HALF >> k for k in range(1, 17)))
    edges += [2**63 - 1 - k for k in (0, 1, 2, 3, 2**9, 2**10, 2**30)]
    fractions = np.array([w for w in edges if LAPLACE_LOWEST <= w < 2**63], np.uint64)
    sixth = words_against_balls(kernel) // 6
    spread = np.exp2(rng.uniform(47, 62.999, sixth)).astype(np.uint64)
    top = np.uint64(2**63 - 1) - np.exp2(rng.uniform(0, 62, sixth)).astype(np.uint64)
    lowest = rng.integers(LAPLACE_LOWEST, LAPLACE_LOWEST + LAPLACE_LOWEST // 64, sixth, dtype=np.uint64)
    fractions = np.clip(np.concatenate([fractions, spread, top, lowest]), LAPLACE_LOWEST, 2**63 - 1)
    signs = rng.integers(0, 2, fractions.size, dtype=np.uint64)
    words = fractions | signs << np.uint64(63)
    out = np.empty(words.size)
    kernel.laplace_f64(words, out)
    assert np.array_equal(np.signbit(out), signs == 1)
    assert np.frombuffer(kernel.flag_unsafe(words, "laplace"), np.int64).size == 0
    half = fmpq(1, fmpz(2) ** 64)
    worst = 0.0
    for z, w in zip(np.abs(out).tolist(), fractions.tolist(), strict=True):
        worst = max(worst, distance(z, -ball(fmpq(2 * w + 1, fmpz(2) ** 64), half).log()))
    print(f"largest error of a Laplace draw: {worst * 2**53:.2f} · 2^-53, allowed {LAPLACE_ERROR * 2**53:.0f}")
    assert worst <= LAPLACE_ERROR


def test_a_wrong_last_coefficient_would_be_noticed(rng: np.random.Generator, monkeypatch: pytest.MonkeyPatch) -> None:
    """The check above can fail: a twin with one coefficient off by 2^-44 breaks the bound."""
    monkeypatch.setattr(transform, "COS64", (transform.COS64[0] * (1 + 2.0**-44), *transform.COS64[1:]))
    words = np.stack([np.full(16, LOWEST, np.uint64), np.full(16, 2**61 - 1, np.uint64)])
    out = np.empty(32)
    twin.normal_f64(words, out)
    half = fmpq(1, fmpz(2) ** 65)
    r = (-2 * ball(fmpq(2 * LOWEST + 1, fmpz(2) ** 65), half).log()).sqrt()
    assert distance(float(out[0]), r * arb(fmpq(2 * (2**61 - 1) + 1, fmpz(2) ** 64)).cos_pi()) > NORMAL_ERROR


def test_flags_name_exactly_what_is_outside(kernel: ModuleType) -> None:
    tile = np.full((2, 16), 2**63, np.uint64)
    outside = {0: LOWEST - 1, 3: 0, 7: HIGHEST + 1, 15: 2**64 - 1}
    for p, word in outside.items():
        tile[0, p] = word
    tile[0, 1], tile[0, 2] = LOWEST, HIGHEST
    tile[1] = 0  # angles are always safe
    words = np.concatenate([np.full((2, 16), 2**62, np.uint64), tile])
    flagged = np.frombuffer(kernel.flag_unsafe(words, "normal"), np.int64)
    assert flagged.tolist() == [32, 35, 39, 47, 48, 51, 55, 63]
    sign = 2**63
    fractions = np.array([0, LAPLACE_LOWEST - 1, LAPLACE_LOWEST, 2**63 - 1], np.uint64)
    laplace = np.concatenate([fractions, fractions + np.uint64(sign)])
    assert np.frombuffer(kernel.flag_unsafe(laplace, "laplace"), np.int64).tolist() == [0, 1, 4, 5]


def float32_pairs(rng: np.random.Generator, tiles: int) -> np.ndarray:
    words = rng.integers(0, 2**32, (tiles, 2, 32), dtype=np.uint32)
    powers = 2 ** np.arange(32, dtype=np.uint64)
    words[0, 0], words[1, 0], words[2, 0] = powers, ~powers.astype(np.uint32), powers - 1
    words[3, 0] = (powers * np.sqrt(2)).astype(np.uint32)
    words[:4, 1, :24] = [(k * 2**29 + e) % 2**32 for k in range(8) for e in (-1, 0, 1)]
    return words


def test_float32_normals_are_accurate(kernel: ModuleType, rng: np.random.Generator) -> None:
    """To 2^-21 of the radius, in the middle, in the tail and where the radius is tiny."""
    words = float32_pairs(rng, 2**14)
    words[100:2000, 0] >>= rng.integers(0, 32, (1900, 32), dtype=np.uint32)
    words[2000:4000, 0] = ~(words[2000:4000, 0] >> rng.integers(0, 32, (2000, 32), dtype=np.uint32))
    out = np.empty(words.size, np.float32)
    kernel.normal_f32(words, out)
    x, y = np.moveaxis(out.reshape(words.shape).astype(np.float64), 1, 0)
    w, turn = words[:, 0].astype(np.float64) + 0.5, (words[:, 1].astype(np.float64) + 0.5) / 2**32
    near_one = np.log1p((w - 2.0**32) / 2**32)
    r = np.sqrt(-2 * np.where(w > 2**31, near_one, np.log(w / 2**32)))
    for z, ideal in ((x, r * np.cos(2 * np.pi * turn)), (y, r * np.sin(2 * np.pi * turn))):
        assert np.max(np.abs(z - ideal) / r) < 2.0**-21


def test_float32_normals_are_close_whatever_bits_follow(kernel: ModuleType, rng: np.random.Generator) -> None:
    """Within 2^-11 of the ideal normal of every continuation of their words, unless `flag_tails_f32` names them."""
    words = float32_pairs(rng, 2**6)
    words[4:20, 0] = rng.integers(TAIL_LIMIT, 2 * TAIL_LIMIT, (16, 32), dtype=np.uint32)
    words[20:30, 0] = ~rng.integers(0, 2**10, (10, 32), dtype=np.uint32)
    words[30, 0, :2] = TAIL_LIMIT
    words[:, 0][words[:, 0] < TAIL_LIMIT] = TAIL_LIMIT
    assert kernel.flag_tails_f32(words) == b""
    out = np.empty(words.size, np.float32)
    kernel.normal_f32(words, out)
    half = fmpq(1, fmpz(2) ** 33)
    worst = 0.0
    for pairs, (first, second) in zip(out.reshape(words.shape).tolist(), words.tolist(), strict=True):
        for a, b, w1, w2 in zip(*pairs, first, second, strict=True):
            u = ball(fmpq(2 * w1 + 1, fmpz(2) ** 33), half)
            r = (-2 * u.log()).sqrt() if w1 < 2**32 - 1 else arb(2.0**-16).union(arb(0))
            turn = ball(fmpq(2 * w2 + 1, fmpz(2) ** 32), 2 * half)
            worst = max(worst, distance(a, r * turn.cos_pi()), distance(b, r * turn.sin_pi()))
    assert 2.0**-13 < worst < 2.0**-11


@pytest.mark.parametrize("bits", [32, 64])
def test_tails_are_flagged_exactly(kernel: ModuleType, bits: int) -> None:
    half = 1024 // bits
    words = np.full((3, 2, half), 2 ** (bits - 1), f"u{bits // 8}")
    words[1, 0, [2, 5, 9]] = np.array([0, TAIL_LIMIT, TAIL_LIMIT], words.dtype) << np.array(bits - 32, words.dtype)
    words[1, 0, 5] -= 1
    words[2, 1] = 0  # angles
    flag = getattr(kernel, f"flag_tails_f{bits}")
    lanes = 2 * half
    assert np.frombuffer(flag(words), np.int64).tolist() == [lanes + 2, lanes + 5, lanes + half + 2, lanes + half + 5]
    words[1, 0, [2, 5]] = 2 ** (bits - 1)
    assert flag(words) == b""
    assert flag(b"") == b""
    with pytest.raises(ValueError, match="words must have a multiple of 256 bytes, got 8"):
        flag(bytes(8))


def test_float32_ends(kernel: ModuleType) -> None:
    words = np.zeros((2, 32), np.uint32)
    words[0] = 0
    out = np.empty(64, np.float32)
    kernel.normal_f32(words, out)
    assert 6.76 < out[0] < 6.77
    words[0] = 2**32 - 1 - np.arange(32)
    kernel.normal_f32(words, out)
    assert out[0] == pytest.approx(2.0**-16, rel=1e-6)
    assert np.unique(out[:32]).size == 32  # no grid near zero radius


@pytest.mark.parametrize("suffix", ["f32", "f64"])
def test_normals_have_the_normal_law(kernel: ModuleType, rng: np.random.Generator, suffix: str) -> None:
    """Kolmogorov-Smirnov, moments, tails and independence within pairs; false alarms at 10^-6 each."""
    dtype, half = (np.float32, 32) if suffix == "f32" else (np.float64, 16)
    out = np.empty(DRAWS, dtype)
    getattr(kernel, f"normal_{suffix}")(rng.bytes(out.nbytes), out)
    z = out.astype(np.float64)
    assert stats.kstest(z, "norm").pvalue > 1e-6
    assert abs(z.mean()) < 5 / np.sqrt(DRAWS)
    assert abs(z.var() - 1) < 5 * np.sqrt(2 / DRAWS)
    for limit in (2.0, 3.0, 4.0):
        expected = 2 * stats.norm.sf(limit)
        assert stats.binomtest(int((np.abs(z) > limit).sum()), z.size, expected).pvalue > 1e-6
    x, y = np.moveaxis(z.reshape(-1, 2, half), 1, 0)
    assert abs(np.mean(x * y)) < 5 / np.sqrt(x.size)
    assert abs(np.mean((x**2 - 1) * (y**2 - 1))) < 10 / np.sqrt(x.size)


def test_laplace_draws_have_the_laplace_law(kernel: ModuleType, rng: np.random.Generator) -> None:
    out = np.empty(DRAWS)
    kernel.laplace_f64(rng.bytes(out.nbytes), out)
    assert stats.kstest(out, "laplace").pvalue > 1e-6
    assert stats.binomtest(int((np.abs(out) > 8).sum()), out.size, np.exp(-8)).pvalue > 1e-6


def test_all_three_copies_of_the_coefficients_are_one(fit: ModuleType) -> None:
    header = (ROOT / "src" / "dpstream" / "kernel" / "coefficients.h").read_text()
    for target in fit.TARGETS:
        fitted = fit.fit(target)
        assert list(getattr(coefficients, target.name)) == fitted
        found = re.search(rf" {target.name}\[\] = {{(.*?)}};", header, re.DOTALL)
        assert found is not None
        assert [float.fromhex(c) for c in re.findall(r"-?0x[0-9a-f.]+p[+-]\d+", found[1])] == fitted
    for name in ("LN2_HIGH", "LN2_LOW"):
        found = re.search(rf"{name} (0x\S+)", header)
        assert found is not None
        assert float.fromhex(found[1]) == getattr(coefficients, name)


def test_the_polynomials_are_as_good_as_the_proof_says(fit: ModuleType) -> None:
    claimed = {"LOG64": -51.4, "SIN64": -51.8, "COS64": -49.4}
    for target in fit.TARGETS:
        if target.name in claimed:
            bound = fit.error_bound(target, fit.fit(target))
            assert bound < arb(2) ** arb(claimed[target.name])


def test_ln2_in_two_parts() -> None:
    ln2 = arb(2).log()
    assert abs(arb(coefficients.LN2_HIGH) + arb(coefficients.LN2_LOW) - ln2) < arb(2) ** -86
    assert (int(coefficients.LN2_HIGH * 2**53) & 2**20 - 1) == 0  # room for a factor of 20 bits
