"""Norms of rows and columns of L = diag(p) · F · diag(q) where p and q are constant on levels of steps.

p and q do not change while the eleven leading bits of t stay the same. Within such a *level* every sum over steps is
geometric, so norms of rows and columns have closed forms, level by level, however long the stream.
"""

from __future__ import annotations

from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from dpstream import portable
from dpstream.mechanisms.exponentials import Exponentials
from dpstream.mechanisms.scaled_toeplitz import scaled_factors

__all__ = ["Levels", "level_of", "levels_to"]

#: Levels to an octave; steps below twice as many have a level each.
LEVELS = 1024

#: Where, in a level, columns are looked at; between two such places they are bounded.
PARTS = 2

#: A filter that has decayed by this power of e since the first step does not know it any more, to a double's digits.
FORGOTTEN = 40.0


class Levels:
    """Rows and columns of L = diag(p) · F · diag(q) and R = L⁻¹A, for p and q constant on levels.

    Notation as in `scaled_toeplitz`: F⁻¹A has the coefficients 1, v_0 + Σ_a v_a η_a^m, x = 1/p,
    R_ij = (Y_i + Σ_a u_a(j) η_a^(i-j)) / q_i. With k steps from the start of a level,
    u_a = scale_a (η_a^k M_a + x Σ_{1≤i≤k} η_a^i) and, but for k = 0, Y = v_0 x + Σ_a A_a η_a^k.
    """

    def __init__(
        self, limit: int, left: Exponentials, right: Exponentials, p: NDArray[np.float64], q: NDArray[np.float64]
    ) -> None:
        self.left, self.right, self.p, self.q = left, right, p, q
        self.starts, widths = levels_to(limit)
        self.widths = widths.astype(np.float64)

    def factors(self, steps: int) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
        """Dense L and R of the first `steps` releases."""
        level = level_of(np.arange(1, steps + 1))
        p, q = self.p[level], self.q[level]
        return scaled_factors(self.left, self.right, p, q)

    def row_norms(self, steps: NDArray[np.int64]) -> NDArray[np.float64]:
        """‖L_t‖² at these steps."""
        level = level_of(steps)
        inside = (steps - self.starts[level]).astype(np.float64)
        p2, q2 = self.p[level] ** 2, self.q[level] ** 2
        total = q2.copy()
        for pair, rate in enumerate(self._row_rates.tolist()):
            past = portable.exp(-rate * inside) * self._heard[level, pair] + q2 * _sum_from_one(np.array(rate), inside)
            total += self._row_weights[pair] * past
        return p2 * total

    def max_row_norm(self, steps: int) -> float:
        """The largest ‖L_t‖² of the first `steps`: between two ends of a level row norms drift one way."""
        level = int(level_of(np.array([steps]))[0])
        last = self.row_norms(np.array([self.starts[level], steps])).max()
        return float(max(last, self._largest_rows[level - 1])) if level else float(last)

    @cached_property
    def _largest_rows(self) -> NDArray[np.float64]:
        """The largest ‖L_t‖² up to each level's end, itself included."""
        ends = self.starts + self.widths.astype(np.int64) - 1
        return np.maximum.accumulate(np.maximum(self.row_norms(self.starts), self.row_norms(ends)))

    @cached_property
    def _row_rates(self) -> NDArray[np.float64]:
        a, b = np.triu_indices(self.left.rates.size)
        return self.left.rates[a] + self.left.rates[b]

    @cached_property
    def _row_weights(self) -> NDArray[np.float64]:
        a, b = np.triu_indices(self.left.rates.size)
        return np.where(a == b, 1.0, 2.0) * self.left.weights[a] * self.left.weights[b]

    @cached_property
    def _heard(self) -> NDArray[np.float64]:
        """Σ_{j<b} exp(-rate (b-j)) q_j² at each level's start b, for each pair of buffers."""
        rates, widths = self._row_rates[None, :], self.widths[:, None]
        arriving = self.q[:, None] ** 2 * _sum_from_one(rates, widths)
        return _accumulate(portable.exp(-rates * widths), arriving)[:-1]

    @cached_property
    def column_bound(self) -> float:
        """No ‖R e_j‖² exceeds this. Exact where levels are single steps, else at most 0.1 % above.

        From place k to a later place in the same level every part of a column's norm moves one way or is bounded
        by what it takes in: the sum over later rows of Y² falls; u_a and the filtered 1/q² go straight to their
        limits; the filtered Y/q² is at most what it would be with the largest Y of the stretch throughout.
        """
        eta, v, v0 = self.right.rates[1:], self.right.weights[1:], float(self.right.weights[0])
        scale = v * self.right.gaps[1:] / (1.0 - self.right.gaps[1:])
        x, inverse, B = 1.0 / self.p, 1.0 / np.square(self.q), self.widths
        a, b = np.triu_indices(eta.size)
        pair, twice = eta[a] + eta[b], np.where(a == b, 1.0, 2.0)

        memory = _accumulate(portable.exp(-eta * B[:, None]), x[:, None] * _sum_from_one(eta[None, :], B[:, None]))[:-1]
        before = np.append(0.0, x[:-1])
        rise = x - before
        decay = portable.exp(-eta * B[:, None])
        # E is Σ_{j<b} exp(-η (b-j)) (x_j - x_{j-1}). x falls from 1 to 1e-8, so the sum loses digits until it has
        # forgotten the first steps; summed by parts it keeps them as long as it has not.
        forgotten = self.starts[:, None] * eta > FORGOTTEN
        by_parts = before[:, None] - memory * portable.expm1(eta)
        E = np.where(forgotten, _accumulate(decay, decay * rise[:, None])[:-1], by_parts)
        A, flat = v * (E + rise[:, None]), v0 * x
        first = rise + _added(E * v) + v0 * before  # Y at the level's first step

        def own(k: NDArray[np.float64]) -> tuple[NDArray[np.float64], NDArray[np.float64], NDArray[np.float64]]:
            """Sums over the rest of the level, from place k on: Y²/q², filtered Y/q², filtered 1/q²."""
            rest = B - k
            now = A * portable.exp(-eta * k[:, None])
            G1, G2 = _sum_from_zero(eta, rest), _sum_from_zero(pair, rest)
            pairs = _added(now[:, a] * now[:, b] * G2 * twice)
            squares = (pairs + 2.0 * flat * _added(now * G1) + np.square(flat) * rest) * inverse
            crossed = flat[:, None] * G1
            for column, (i, j) in enumerate(zip(a.tolist(), b.tolist(), strict=True)):
                crossed[:, i] += G2[:, column] * now[:, j]
                if i != j:
                    crossed[:, j] += G2[:, column] * now[:, i]
            crossed *= inverse[:, None]
            at_start = k == 0.0
            formula = flat + _added(A)
            squares += np.where(at_start, (np.square(first) - np.square(formula)) * inverse, 0.0)
            crossed += np.where(at_start, (first - formula) * inverse, 0.0)[:, None]
            return squares, crossed, G2 * inverse[:, None]

        whole, crossed, square = own(np.zeros(B.size))
        later_whole = np.append(np.cumsum(whole[::-1])[::-1][1:], 0.0)
        later_crossed = _accumulate(decay[::-1], crossed[::-1])[:-1][::-1]
        later_square = _accumulate(portable.exp(-pair * B[:, None])[::-1], square[::-1])[:-1][::-1]

        def parts(k: NDArray[np.float64]) -> tuple[NDArray[np.float64], ...]:
            whole, crossed, square = own(k)
            rest = (B - k)[:, None]
            u = scale * (
                portable.exp(-eta * k[:, None]) * memory + x[:, None] * _sum_from_one(eta[None, :], k[:, None])
            )
            return (
                u,
                whole + later_whole,
                crossed + portable.exp(-eta * rest) * later_crossed,
                square + portable.exp(-pair * rest) * later_square,
            )

        largest = 0.0
        k = np.zeros(B.size)
        u, whole, crossed, square = parts(k)
        for part in range(1, PARTS + 1):
            end = np.floor((B - 1.0) * (part / PARTS))
            u_end, whole_end, crossed_end, square_end = parts(end)
            stretch = (end - k)[:, None]
            Y = flat + _added(np.maximum(A * portable.exp(-eta * k[:, None]), A * portable.exp(-eta * end[:, None])))
            Y = np.where(k == 0.0, np.maximum(Y, first), Y)
            taken = (Y * inverse)[:, None] * _sum_from_zero(eta, end - k) + portable.exp(-eta * stretch) * crossed_end
            most_u = np.maximum(u, u_end)
            most_crossed = np.maximum(np.maximum(taken, crossed_end), 0.0)
            most_square = np.maximum(square, square_end)
            bound = whole + 2.0 * _added(most_u * most_crossed)
            bound += _added(most_u[:, a] * most_u[:, b] * most_square * twice)
            largest = max(largest, float(bound.max()))
            k, u, whole, crossed, square = end, u_end, whole_end, crossed_end, square_end
        return largest


def _added(columns: NDArray[np.float64]) -> NDArray[np.float64]:
    """The sum of each row, from its first entry to its last."""
    sums: NDArray[np.float64] = np.add.accumulate(columns, axis=1)[:, -1]
    return sums


def _sum_from_one(rates: NDArray[np.float64], counts: NDArray[np.float64]) -> NDArray[np.float64]:
    """Σ_{1 ≤ i ≤ count} exp(-rate · i), rates and counts broadcast."""
    sums: NDArray[np.float64] = portable.expm1(-rates * counts) / -portable.expm1(rates)
    return sums


def _sum_from_zero(rates: NDArray[np.float64], counts: NDArray[np.float64]) -> NDArray[np.float64]:
    """Σ_{0 ≤ i < count} exp(-rate · i), an array (counts, rates)."""
    sums: NDArray[np.float64] = portable.expm1(-rates[None, :] * counts[:, None]) / portable.expm1(-rates)
    return sums


def _accumulate(decay: NDArray[np.float64], arriving: NDArray[np.float64]) -> NDArray[np.float64]:
    """s_0 = 0, s_{m+1} = decay_m s_m + arriving_m, all of them."""
    states = np.zeros((decay.shape[0] + 1, decay.shape[1]), dtype=decay.dtype)
    for m in range(decay.shape[0]):
        np.multiply(decay[m], states[m], out=states[m + 1])
        states[m + 1] += arriving[m]
    return states


def level_of(steps: NDArray[np.int64]) -> NDArray[np.int64]:
    """Number the levels from 0: a step's level follows from its eleven leading bits."""
    octave = np.frexp(steps.astype(np.float64))[1].astype(np.int64) - 1  # exact: steps stay below 2^53
    shift = np.maximum(octave - (LEVELS.bit_length() - 1), 0)
    level: NDArray[np.int64] = LEVELS * shift + (steps >> shift) - 1
    return level


def levels_to(steps: int) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """First step and width of each level up to `steps`, the last one cut there."""
    count = int(level_of(np.array([steps]))[0]) + 1
    index = np.arange(1, count + 1)
    shift = np.maximum((index - LEVELS) // LEVELS, 0)
    starts = (index - LEVELS * shift) << shift
    return starts, np.diff(np.append(starts, steps + 1))
