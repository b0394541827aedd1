"""The kernel's block functions are the pure steps of the mechanisms; the precise recurrences are precise."""

from __future__ import annotations

from fractions import Fraction
from types import ModuleType

import numpy as np
import pytest

from dpstream.mechanisms.honaker import Honaker
from dpstream.mechanisms.recurrence import RecurrenceMechanism, RecurrenceState
from dpstream.mechanisms.smooth import SmoothBinary
from dpstream.mechanisms.stack import StackMechanism
from dpstream.noise.recurrence_tables import leap_tables


def streamed(mechanism: StackMechanism, z: np.ndarray, zpad: np.ndarray) -> np.ndarray:
    """Releases by the pure step, one at a time."""
    state = mechanism.start()
    out = np.empty_like(z)
    for t in range(len(z)):
        draws = [z[t], zpad[t]][: mechanism.draws_at(t + 1)]
        out[t], state = mechanism.advance(state, draws)
    return out


@pytest.mark.parametrize("d", [1, 3])
@pytest.mark.parametrize(
    "mechanism",
    [SmoothBinary(700), SmoothBinary(700, noise="laplace"), Honaker(700)],
    ids=["padded", "bare", "honaker"],
)
def test_stack_block_is_the_pure_step(
    kernel: ModuleType, rng: np.random.Generator, mechanism: StackMechanism, d: int
) -> None:
    n = 700
    z, zpad = rng.standard_normal((2, n, d))
    moves = mechanism.moves(1, n)
    assert moves is not None
    stack, out, depth = np.zeros((40, d)), np.empty((n, d)), 0
    for first, last in ((0, 1), (1, 350), (350, n)):  # in blocks, to carry the stack over
        part = slice(first, last)
        depth = kernel.stack_block_f64(
            moves.pops[part],
            moves.push[part],
            moves.padding[part],
            moves.mix,
            z[part],
            zpad[part],
            stack,
            depth,
            out[part],
        )
    assert out.tobytes() == streamed(mechanism, z, zpad).tobytes()


@pytest.mark.parametrize("label", [2**9 - 1, 0b1011001110, 0b100110111])
def test_smooth_moves_are_those_of_the_mechanism(kernel: ModuleType, label: int) -> None:
    mechanism = SmoothBinary(1000, zeros=8, ones=label.bit_count(), noise="gaussian")
    n = 1000
    pops, padding = np.empty((2, n), np.uint8)
    reached = kernel.smooth_moves(label, pops, padding)
    cursor = label
    for t in range(n):
        move, cursor = mechanism.next_move(cursor)
        assert move.pops == pops[t]
        assert move.padding == ((np.sqrt(padding[t]),) if padding[t] else ())
    assert reached == cursor


def test_smooth_moves_end_with_the_last_label(kernel: ModuleType) -> None:
    one = np.empty(1, np.uint8)
    assert kernel.smooth_moves(2**62 + 2**61, one, one.copy()) == 2**63 + 1
    for last in (2**63, 3 << 62, 2**64 - 1):
        with pytest.raises(ValueError, match="successors in 64 bits"):
            kernel.smooth_moves(last, one, one.copy())
    for bad in (0, -1, 2**64):
        with pytest.raises(ValueError, match="from 1 to"):
            kernel.smooth_moves(bad, one, one.copy())


class FewBuffers(RecurrenceMechanism):
    """Just enough of a mechanism to run its pure step."""

    horizon = 10**6

    def __init__(self, gaps: np.ndarray, weights: np.ndarray) -> None:
        self._gaps, self._weights = gaps, weights

    @property
    def gaps(self) -> np.ndarray:
        return self._gaps

    @property
    def weights(self) -> np.ndarray:
        return self._weights

    def input_scale(self, first: int, count: int) -> np.ndarray:
        return 1 / np.sqrt(np.arange(first, first + count))

    def output_scale(self, first: int, count: int) -> np.ndarray:
        return 1 + 1 / np.arange(first, first + count)


FewBuffers.__abstractmethods__ = frozenset()


@pytest.mark.parametrize("d", [1, 3])
def test_plain_recurrence_block_is_the_pure_step(kernel: ModuleType, rng: np.random.Generator, d: int) -> None:
    n, gaps, weights = 300, np.array([1e-5, 0.01, 0.4, 0.9]), np.array([0.2, 0.1, 0.3, -0.1])
    mechanism = FewBuffers(gaps, weights)
    q, p = mechanism.input_scale(1, n), mechanism.output_scale(1, n)
    z, buffers, out = rng.standard_normal((n, d)), np.zeros((4, d)), np.empty((n, d))
    kernel.recurrence_block_f64(z, q, p, gaps, weights, buffers, out)
    state, expected = RecurrenceState(0, ()), np.empty((n, d))
    for t in range(n):
        expected[t], state = mechanism.advance(state, [z[t]])
    assert np.array_equal(out, expected)
    assert np.array_equal(buffers, np.stack(state.buffers))


GAPS, WEIGHTS = np.array([1e-7, 0.003, 0.4]), np.array([0.21, 0.13, 0.3])


def exact_releases(x: list[Fraction]) -> list[Fraction]:
    """The releases of the inputs x by buffers with these gaps and weights, in fractions."""
    buffers, releases = [Fraction(0)] * 3, []
    for u in x:
        total = u
        for i in range(3):
            decayed = buffers[i] * (1 - Fraction(GAPS[i]))
            total += Fraction(WEIGHTS[i]) * decayed
            # Exact fractions grow without end; 400 bits are exact enough.
            buffers[i] = Fraction(round((decayed + u) * 2**400), 2**400)
        releases.append(total)
    return releases


def worst_error(out: np.ndarray, exact: list[Fraction]) -> float:
    """The largest relative error, in units of 2^-53."""
    return float(
        max(abs(Fraction(value) / ideal - 1) for value, ideal in zip(out.tolist(), exact, strict=True)) * 2**53
    )


@pytest.mark.parametrize("pieces", [[2000], [8, 16, 1, 1, 200, 1774]])
def test_leaps_do_not_repeat_their_roundings(kernel: ModuleType, rng: np.random.Generator, pieces: list[int]) -> None:
    """All roundings together are at most 16 units for any positive input; plain doubles repeat theirs at every step."""
    n, d = sum(pieces), 2
    q, p = np.concatenate([np.ones((2, n // 2)), rng.uniform(0.5, 2, (2, n // 2))], axis=1)
    z, out, plain = np.full((n, d), 1 / 3), np.empty((n, d)), np.empty((n, d))
    z[:, 1] = rng.uniform(0, 2, n)
    high, low = np.zeros((2, 3, d))
    tables = leap_tables(tuple(GAPS.tolist()), tuple(WEIGHTS.tolist()))
    for first, count in zip(np.cumsum([0, *pieces]), pieces, strict=False):
        here = slice(first, first + count)
        kernel.recurrence_leap_f64(z[here], q[here], p[here], *tables, high, low, out[here])
    kernel.recurrence_block_f64(z, q, p, GAPS, WEIGHTS, np.zeros((3, d)), plain)
    for j in range(d):
        exact = exact_releases([Fraction(a) * Fraction(b) for a, b in zip(z[:, j].tolist(), q.tolist(), strict=True)])
        exact = [a * Fraction(b) for a, b in zip(exact, p.tolist(), strict=True)]
        assert worst_error(out[:, j], exact) < 14
        if j == 0:  # the same input at every step is rounded in the same direction
            assert worst_error(plain[:, j], exact) > 40


def test_the_low_halves_keep_slow_buffers_right(kernel: ModuleType) -> None:
    """The slowest buffer in double-double: the other two forget their roundings within 1 / 0.003 steps."""
    n = 2000
    exact = exact_releases([Fraction(1 / 3)] * n)
    worst = []
    for slow in (0, 1, 3):
        high, low, out = np.zeros((3, 1)), np.zeros((slow, 1)), np.empty(n)
        for t in range(n):
            kernel.recurrence_mixed_f64(np.array([1 / 3]), 1.0, 1.0, GAPS, WEIGHTS, high, low, out[t : t + 1])
        worst.append(worst_error(out, exact))
    assert worst[0] > 20
    assert max(worst[1:]) < 8


def test_rounding(kernel: ModuleType) -> None:
    x = np.array([0.0, -0.0, 0.49, -0.49, 0.5, 1.5, -2.5, 2.4999, 1e15 + 0.5, -(2.0**61), 2.0**52 + 1, 2.0**51 + 0.5])
    out = np.empty(x.size, np.int64)
    flagged = np.frombuffer(kernel.round_guarded(x, 1e-3, out), np.int64)
    assert flagged.tolist() == [4, 5, 6, 7, 8, 11]
    sure = np.setdiff1d(np.arange(x.size), flagged)
    assert out[sure].tolist() == [0, 0, 0, 0, -(2**61), 2**52 + 1]
    assert np.all(np.abs(out[flagged] - x[flagged]) <= 0.5)
    assert np.frombuffer(kernel.round_guarded(x, 0.0, out), np.int64).tolist() == [4, 5, 6, 8, 11]
    assert np.frombuffer(kernel.round_guarded(x, 0.5, out), np.int64).size == x.size


@pytest.mark.parametrize("bad", [np.nan, np.inf, -np.inf, 2.0**62, -(2.0**62), 1e300])
def test_rounding_refuses_what_no_integer_is_near(kernel: ModuleType, bad: float) -> None:
    x, out = np.zeros(1000), np.full(1000, 7)
    x[777] = bad
    with pytest.raises(ValueError, match="finite and below"):
        kernel.round_guarded(x, 0.1, out)
    assert (out == 7).all()


def filtered(response: np.ndarray, z: np.ndarray) -> np.ndarray:
    """Σ_m response[m] z[t - m]."""
    return np.array([response[: t + 1][::-1] @ z[: t + 1] for t in range(len(z))])


POLES = [0.9, 0.7 + 0.4j, -0.3 + 0.8j]  # a complex pole stands for itself and its conjugate
POLE_WEIGHTS = [0.5, 0.3 - 0.2j, -0.1 + 0.4j]


def pole_table() -> np.ndarray:
    """The poles as the kernel takes them: (gap, turn, weight, turned weight)."""
    table = []
    for pole, weight in zip(POLES, POLE_WEIGHTS, strict=True):
        pair = isinstance(pole, complex)
        size = 2 if pair else 1
        table.append([1 - pole.real, pole.imag, size * weight.real, -2 * weight.imag if pair else 0.0])
    return np.array(table)


def pole_response(count: int) -> np.ndarray:
    """What an input adds to the increments from its own on: 1, then Re Σ w d^m, twice that for a pair."""
    m = np.arange(count)
    response = sum(
        (2 if isinstance(d, complex) else 1) * (w * np.power(d, m)).real
        for d, w in zip(POLES, POLE_WEIGHTS, strict=True)
    )
    return np.where(m == 0, 1.0, response)


@pytest.mark.parametrize("summed", [False, True])
@pytest.mark.parametrize("slow", [0, 2, 3])
def test_increment_steps_filter_by_complex_poles(
    kernel: ModuleType, rng: np.random.Generator, slow: int, summed: bool
) -> None:
    n, d = 60, 64
    table, z = pole_table(), rng.standard_normal((n, d))
    rows = [1, 2, 2]
    scale = rng.uniform(0.5, 2, n)
    expected = filtered(pole_response(n), z) * scale[:, None]
    expected = np.cumsum(expected, axis=0) if summed else expected
    for dtype, suffix, error in ((np.float32, "f32", 1e-5), (np.float64, "f64", 1e-13)):
        slow_state, fast = np.zeros((sum(rows[:slow]), d)), np.zeros((sum(rows[slow:]), d), dtype)
        total = np.zeros(d) if summed else None
        out = np.empty((n, d), dtype)
        step = getattr(kernel, f"increment_step_{suffix}")
        for t in range(n):
            before = slow_state.copy(), fast.copy(), None if total is None else total.copy()
            step(z[t].astype(dtype), 1.0, scale[t], table, slow, slow_state, fast, total, 0, d, out[t], 0)
            added = np.full(d, 0.75, dtype)
            step(z[t].astype(dtype), 1.0, scale[t], table, slow, *before, 0, d, added, 1)
            np.testing.assert_array_equal(added, out[t] + dtype(0.75))
        assert np.abs(out - expected).max() < error * np.abs(expected).max()
    block, state = np.empty((n, d)), np.zeros((5, d))
    kernel.increment_block_f64(z, scale, table, state, np.zeros(d) if summed else None, block)
    if slow == 0:
        np.testing.assert_array_equal(block, out)
    else:
        np.testing.assert_allclose(block, out, rtol=0, atol=1e-12)


@pytest.mark.parametrize("bands", [1, 4])
def test_banded_steps_invert_the_band(kernel: ModuleType, rng: np.random.Generator, bands: int) -> None:
    """The band applied to the increments gives the draws back."""
    n, d = 30, 200
    coefficients = np.array([0.5, -0.25, 0.2, 0.1])[:bands]
    z = rng.standard_normal((n, 224))
    ring, total, increments, out = np.zeros((bands, d)), np.zeros(d), np.empty((n, d)), np.empty(d)
    again = ring.copy()
    for t in range(n):
        kernel.banded_step_f64(z[t], 2.0, 3.0, coefficients, ring, t % bands, None, 0, d, increments[t], 0)
        kernel.banded_step_f64(z[t], 2.0, 3.0, coefficients, again, t % bands, total, 0, d, out, 0)
        np.testing.assert_array_equal(ring, again)
        np.testing.assert_allclose(out, increments[: t + 1].sum(axis=0), rtol=0, atol=1e-11)
    response = np.zeros(n)
    response[: bands + 1] = [1.0, *coefficients]
    np.testing.assert_allclose(filtered(response, increments), 6.0 * z[:, :d], rtol=0, atol=1e-11)
