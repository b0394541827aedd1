"""Row and column norms of L = diag(p) · F · diag(q), F a buffered Toeplitz matrix, in O(T · buffers²).

Let F⁻¹A have the coefficients r_0 = 1, r_m = v_0 + Σ_a v_a η_a^m (`Exponentials` with gaps g_a = 1 - η_a and
g_0 = 0), so that F⁻¹ has -v_a g_a η_a^(m-1), m ≥ 1. With x = 1/p, the entry of R = L⁻¹A at (i, j), i ≥ j, is

    R_ij = (Y_i + Σ_a u_a(j) η_a^(i-j)) / q_i,
    u_a(j) = v_a g_a Σ_{k<j} η_a^(j-1-k) x_k,
    Y_i = (F⁻¹x)_i = Σ_{k≤i} r_{i-k} (x_k - x_{k-1}),  x_0 = 0,

because Σ_{k≥j} (F⁻¹)_ik x_k is all of (F⁻¹x)_i less the part with k < j. Column norms follow by expanding the
square: each sum over i ≥ j is a one-pole filter run backwards. Y is formed from the differences of x, which are
exact in floating point, so that no large numbers cancel; all u_a are positive.

A filter's pole 1 - gap is a double, and after 2^24 steps its rounding alone would show in the ninth digit. So
filters run over blocks, and what is carried from block to block decays by exp(-rate · length), with the rate
from the gap.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
from numpy.typing import NDArray

from dpstream import portable
from dpstream.mechanisms.exponentials import Exponentials
from dpstream.mechanisms.toeplitz import lower_toeplitz

__all__ = ["ColumnProducts", "column_norms", "row_norms", "scaled_factors", "to_float32_precision"]

#: Long enough to hide the cost of a call, short enough for the cache.
BLOCK = 2**14


def row_norms(left: Exponentials, p: NDArray[np.float64], q: NDArray[np.float64]) -> NDArray[np.float64]:
    """‖L_t‖² for every t: p_t² (q_t² + Σ_{j<t} f²_{t-j} q_j²), with f² a sum of one exponential per pair of buffers."""
    a, b, twice = _pairs(left.weights.size)
    heard = _Filters(left.rates[a] + left.rates[b])
    weights = (twice * left.weights[a] * left.weights[b]).tolist()
    norms = np.empty_like(q)
    for block in _blocks(q.size):
        q2 = q[block] ** 2
        total = q2.copy()
        for weight, past in zip(weights, heard.past(q2), strict=True):
            past *= weight
            total += past
        norms[block] = p[block] ** 2 * total
    return norms


def column_norms(right: Exponentials, p: NDArray[np.float64], q: NDArray[np.float64]) -> NDArray[np.float64]:
    """‖R e_j‖² for every j."""
    norms = np.empty_like(q)
    for block, u, alone, shared in _column_blocks(right, p, q):
        for u_a, shared_a in zip(u, shared, strict=True):
            shared_a *= u_a
            alone += shared_a
        norms[block] = alone
    return norms


def scaled_factors(
    left: Exponentials, right: Exponentials, p: NDArray[np.float64], q: NDArray[np.float64]
) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Return dense L = diag(p) · F · diag(q) and R = L⁻¹A, from the coefficients of F and of F⁻¹A."""
    lags = np.arange(p.size, dtype=np.float64)
    inverse = lower_toeplitz(np.append(1.0, np.diff(right.at(lags)))) / p
    # Column j of R adds up the columns k ≥ j of L⁻¹.
    R = np.cumsum(inverse[:, ::-1], axis=1)[:, ::-1] / q[:, None]
    return p[:, None] * lower_toeplitz(left.at(lags)) * q, np.tril(R)


def to_float32_precision(scales: NDArray[np.float64]) -> NDArray[np.float64]:
    """Round scalings to 24 significant bits.

    Exponentials differ in their last digit from one computer's library to another's. Scalings are free to be anything
    (R follows from them), so they are rounded: then both computers make the same mechanism and the same noise.
    """
    return scales.astype(np.float32).astype(np.float64)


class ColumnProducts:
    """Bounds on the scalar products of two columns of R a given number of steps apart; O(T · buffers) each.

    For j ≤ k the product is α(k) + Σ_a u_a(j) η_a^(k-j) β_a(k), see `_column_blocks`. Its factor
    u_a(j) η_a^(k-j) = v_a g_a Σ_{i<j} η_a^(k-1-i) x_i is positive and only falls as j moves away from k. So with |α|
    and |β_a| in place of α and β_a the result bounds the absolute product, and falls as the distance grows.
    """

    def __init__(self, right: Exponentials, p: NDArray[np.float64], q: NDArray[np.float64]) -> None:
        self.rates = right.rates[1:]
        self.u = np.empty((self.rates.size, p.size))
        self.alone, self.shared = np.empty(p.size), np.empty_like(self.u)
        for block, u, alone, shared in _column_blocks(right, p, q):
            self.u[:, block], self.alone[block], self.shared[:, block] = u, np.abs(alone), np.abs(shared)

    def at(self, distance: int) -> float:
        """No product of two columns at least this far apart exceeds this."""
        total = self.alone[distance:].copy()
        for u, rate, shared in zip(self.u, self.rates.tolist(), self.shared, strict=True):
            total += float(portable.exp(-rate * distance)) * u[: u.size - distance] * shared[distance:]
        return float(total.max())


_ColumnBlock = tuple[slice, list[NDArray[np.float64]], NDArray[np.float64], list[NDArray[np.float64]]]


def _column_blocks(right: Exponentials, p: NDArray[np.float64], q: NDArray[np.float64]) -> Iterator[_ColumnBlock]:
    """Yield (block, u, α, β), last block first: column j has the squared norm α + Σ_a u_a β_a.

    α(j) = Σ_{i≥j} Y_i (Y_i + Σ_a u_a(j) η_a^(i-j)) / q_i²,
    β_a(j) = Σ_{i≥j} η_a^(i-j) (Y_i + Σ_b u_b(j) η_b^(i-j)) / q_i².
    """
    x = 1.0 / p
    rates, v = right.rates[1:], right.weights[1:]
    memory, rises = _Filters(rates), _Filters(rates)
    Y, carried, last = np.empty_like(x), [], 0.0
    for block in _blocks(x.size):
        before = np.append(last, x[block][:-1])
        last = x[block][-1]
        rise = x[block] - before
        total = rise + right.weights[0] * before
        for weight, past in zip(v.tolist(), rises.past(rise), strict=True):
            past *= weight
            total += past
        Y[block] = total
        carried.append(memory.state.copy())
        memory.skip(x[block])

    scale = (v * right.gaps[1:] / (1.0 - right.gaps[1:])).tolist()
    a, b, _ = _pairs(v.size)
    cross, square, rest = _Filters(rates), _Filters(rates[a] + rates[b]), 0.0
    for block in reversed(list(_blocks(x.size))):
        inverse = 1.0 / np.square(q[block][::-1])
        seen = Y[block][::-1] * inverse
        alone = rest + np.cumsum(Y[block][::-1] * seen)
        rest = float(alone[-1])
        memory.state = carried.pop()
        u = [factor * past[::-1] for factor, past in zip(scale, memory.past(x[block]), strict=True)]
        shared = list(cross.so_far(seen))
        for u_a, shared_a in zip(u, shared, strict=True):
            alone += u_a * shared_a
        for a_, b_, sums in zip(a.tolist(), b.tolist(), square.so_far(inverse), strict=True):
            shared[a_] += u[b_] * sums
            if a_ != b_:
                sums *= u[a_]
                shared[b_] += sums
        yield block, [u_a[::-1] for u_a in u], alone[::-1], [shared_a[::-1] for shared_a in shared]


def _pairs(count: int) -> tuple[NDArray[np.intp], NDArray[np.intp], NDArray[np.float64]]:
    """Return each unordered pair of buffers once, and how often it counts."""
    a, b = np.triu_indices(count)
    return a, b, np.where(a == b, 1.0, 2.0)


def _blocks(count: int) -> Iterator[slice]:
    for start in range(0, count, BLOCK):
        yield slice(start, min(start + BLOCK, count))


class _Filters:
    """One-pole filters over one input, fed block by block; `state` is Σ_k exp(-rate (n-k)) input_k after n inputs."""

    def __init__(self, rates: NDArray[np.float64]) -> None:
        self.rates = rates
        self.poles = portable.exp(-rates)
        # 1 - pole is exact near 1, so this is how far the double is from the pole meant.
        self.slips: NDArray[np.float64] = portable.log1p(-(1.0 - self.poles)) + rates
        self.state: NDArray[np.float64] = np.zeros_like(rates)

    def so_far(self, block: NDArray[np.float64]) -> NDArray[np.float64]:
        """Return for each pole, a row each, the sums at every step of the block, the step's own input among them."""
        before = self.state.copy()
        sums = portable.one_pole(block, self.poles, before)
        # What was carried into the block decays by the pole that is meant.
        meant = portable.exp(-self.rates * block.size)
        self.state = sums[:, -1] - before * meant * portable.expm1(self.slips * block.size)
        return sums

    def past(self, block: NDArray[np.float64]) -> NDArray[np.float64]:
        """Return the same sums without the step's own input."""
        before = self.state.copy()
        sums = self.so_far(block)
        delayed = np.empty_like(sums)
        delayed[:, 0] = before
        delayed[:, 1:] = sums[:, :-1]
        delayed *= self.poles[:, None]
        return delayed

    def skip(self, block: NDArray[np.float64]) -> None:
        """Take a block in without looking at the sums within it."""
        self.so_far(block)
