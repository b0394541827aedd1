"""Fits poles and zeros of a rational strategy to a participation or to windows.

R(x) = Π (1 - ζ_i x) / Π (1 - π_i x) and L = A R⁻¹. What is minimised is log Δ² + log error, with Δ² under the
participation and the error a largest or mean variance of totals or of windows: all closed forms, so that no cost grows
with the horizon. Gradients are differences, computed for all parameters in one array; largest values are approached by
norms of growing order. Nothing is random: the same question has the same answer.

A fit decides how good a mechanism is, never whether it is private: its sensitivity is computed from its parameters
alone.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import lru_cache
from typing import Any, Literal, NamedTuple

import numpy as np
from numpy.typing import NDArray

from dpstream.mechanisms.exponential_sums import geometric, triangular

__all__ = ["Fitted", "RealArray", "Task", "fit_real", "fit_with_pairs", "interlacing_roots"]

RealArray = NDArray[np.float64]
Family = Literal["real", "pairs"]

#: Orders of the norms that stand in for a maximum, one after the other. Higher ones make the differences inaccurate.
ORDERS = (6.0, 20.0, 60.0, 150.0)
#: Iterations at each order.
ITERATIONS = 60
#: Step lengths of a line search, relative to Newton's.
LENGTHS = 2.0 ** np.array([1.0, 0.5, 0.0, -0.5, -1.0, -2.0, -3.0, -4.0, -6.0, -8.0, -11.0, -15.0])
#: The loss of parameters that mean nothing.
NOTHING = 60.0
#: A fit has converged if going on gains less than this (half a percent of V).
CHANGE = 5e-3
#: Lags beyond this many separations, and participations beyond this many, are not looked at while fitting.
FAR_LAGS, MOST_COLUMNS = 12, 128
#: Truncations of columns that are looked at while fitting.
COUNTS = 12


class Fitted(NamedTuple):
    """Poles and zeros, and whether the fit came to rest."""

    poles: tuple[complex, ...]
    zeros: tuple[complex, ...]
    converged: bool


@dataclass(frozen=True)
class Task:
    """What a strategy is fitted to.

    `windows` are lengths whose errors are divided by `references`, and the largest ratio counts; a window as long as
    the horizon is the running total. `normalized` fits the sensitivity of normalised columns.
    """

    horizon: int
    times: int
    separation: int
    objective: Literal["max", "mean"]
    windows: tuple[int, ...]
    references: tuple[float, ...]
    normalized: bool = False


@dataclass(frozen=True, eq=False)
class _Problem:
    """The loss of a batch of parameter vectors, one a row."""

    task: Task
    pairs: int
    reals: int
    counts: RealArray = field(init=False)
    lags: RealArray = field(init=False)

    def __post_init__(self) -> None:
        task = self.task
        object.__setattr__(self, "counts", np.unique(np.round(np.geomspace(1, task.horizon, COUNTS))))
        last = min(task.horizon - 1, FAR_LAGS * task.separation)
        lags = [float(task.separation)]
        while lags[-1] < last:
            lags.append(min(lags[-1] + max(1.0, np.floor(lags[-1] / 24)), float(last)))
        object.__setattr__(self, "lags", np.union1d(lags, self._multiples()))

    def _multiples(self) -> RealArray:
        task = self.task
        last = min(task.horizon - 1, FAR_LAGS * task.separation)
        return task.separation * np.arange(1.0, min(task.times - 1, last // task.separation) + 1)

    def unpack(self, z: RealArray) -> tuple[NDArray[Any], NDArray[Any]]:
        """Logarithms of poles and zeros, a row each.

        Real family: distances 1/π - 1 and 1/ζ - 1 in one increasing chain. With pairs: decay and turn of each pair,
        then the distance of each real one, on a logarithmic scale.
        """
        if not self.pairs:
            chain = np.log1p(np.cumsum(np.exp(z), axis=1))
            return -chain[:, 0::2], -chain[:, 1::2]
        half = z.shape[1] // 2
        return self._side(z[:, :half]), self._side(z[:, half:])

    def _side(self, z: RealArray) -> NDArray[Any]:
        p = 2 * self.pairs
        turning = -np.exp(z[:, 0:p:2]) + 1j * np.exp(z[:, 1:p:2])
        return np.concatenate([turning, turning.conj(), -np.log1p(np.exp(z[:, p:]))], axis=1)

    def loss(self, z: RealArray, order: float | None = None) -> RealArray:
        """Log of Δ² times error for each row of z; with an order, its smooth stand-in."""
        with np.errstate(all="ignore"):
            poles, zeros = self.unpack(np.atleast_2d(z))
            squared, gain = self._squared_sensitivity(poles, zeros, order)
            value = np.log(squared) + np.log(gain * self._error(poles, zeros, order))
        return np.where(np.isfinite(value), value, NOTHING)

    def slope(self, z: RealArray, order: float | None) -> tuple[float, RealArray]:
        """Loss and gradient."""
        h, m = 1e-6, z.size
        moves = h * np.eye(m)
        values = self.loss(np.concatenate([z[None], z + moves, z - moves]), order)
        return float(values[0]), (values[1 : m + 1] - values[m + 1 :]) / (2 * h)

    def _error(self, poles: NDArray[Any], zeros: NDArray[Any], order: float | None) -> RealArray:
        task, n = self.task, self.task.horizon
        logs = np.concatenate([zeros, np.zeros((len(zeros), 1))], axis=1)
        weights = _weights(poles, logs)
        pairs = logs[:, :, None] + logs[:, None, :]
        ratios = []
        for window, reference in zip(task.windows, task.references, strict=True):
            late = weights * np.expm1(logs * window)
            if task.objective == "max":
                start, rest = (
                    geometric(pairs, np.asarray(float(window))),
                    geometric(pairs, np.asarray(float(n - window))),
                )
            else:
                start = triangular(pairs, window) + (n - window) * geometric(pairs, np.asarray(float(window)))
                start, rest = start / n, triangular(pairs, n - window) / n
            error = np.einsum("zi,zij,zj->z", weights, start, weights)
            if window < n:
                error = error + np.einsum("zi,zij,zj->z", late, rest, late)
            ratios.append(error.real / reference)
        return _largest(np.stack(ratios, axis=1), order)

    def _squared_sensitivity(
        self, poles: NDArray[Any], zeros: NDArray[Any], order: float | None
    ) -> tuple[RealArray, RealArray]:
        """Δ², and what the error is multiplied by: normalised columns scale the noise up by about their norm."""
        task, n = self.task, float(self.task.horizon)
        w = _weights(zeros, poles)
        nu = poles[:, :, None] + poles[:, None, :]
        single = 1 + np.einsum("za,zab,zb->z", w, geometric(nu, np.asarray(n - 1), start=1), w).real
        if task.times == 1:
            return single, np.ones_like(single)
        if not self.pairs:
            return self._first_columns(poles, w, nu), np.ones_like(single)
        counts = self.counts
        past = geometric(nu[:, None], counts[:, None, None] - 1, start=1)
        v = w[:, None, :] * (1 + np.einsum("za,zmab->zmb", w, past))
        turned = np.exp(poles[:, :, None] * self.lags)
        products = np.abs((v @ turned).real)
        if task.normalized:
            squares = 1 + np.einsum("za,zmab,zb->zm", w, past, w).real
            products /= np.sqrt(squares[:, :, None] * self._later_squares(poles, w, nu, turned))
        else:
            products /= single[:, None, None]
        inside = (counts[:, None] + self.lags <= n) | (counts[:, None] == 1.0)
        products = np.where(inside, products, 0.0)
        multiples = self._multiples()
        first = np.searchsorted(self.lags, multiples)
        pairs = 2.0 * (task.times - np.arange(1.0, multiples.size + 1))
        top = products.max(axis=(1, 2))[:, None]
        if order is None:
            envelope = np.maximum.accumulate(products.max(axis=1)[:, ::-1], axis=1)[:, ::-1][:, first]
        else:
            powers = ((products / top[:, :, None]) ** order).sum(axis=1)
            envelope = top * np.cumsum(powers[:, ::-1], axis=1)[:, ::-1][:, first] ** (1 / order)
        whole = task.times + envelope @ pairs
        return (whole, single) if task.normalized else (whole * single, np.ones_like(single))

    def _later_squares(self, poles: NDArray[Any], w: NDArray[Any], nu: NDArray[Any], turned: NDArray[Any]) -> RealArray:
        """Σ_{j<M+l} r_j² for every M and l: the whole sum without its tail."""
        tails = w[:, :, None] * w[:, None, :] / -np.expm1(nu)
        a, b = np.triu_indices(poles.shape[1])
        twice = np.where(a == b, 1.0, 2.0)
        fading = np.exp(poles[:, None, :] * self.counts[:, None])
        left = (tails[:, a, b] * twice)[:, None, :] * fading[:, :, a] * fading[:, :, b]
        whole = 1 + (tails * np.exp(nu)).sum(axis=(1, 2)).real
        later: RealArray = whole[:, None, None] - (left @ (turned[:, a, :] * turned[:, b, :])).real
        return later

    def _first_columns(self, poles: NDArray[Any], w: NDArray[Any], nu: NDArray[Any]) -> RealArray:
        """‖Σ_{q<k} R e_{qb}‖², or a sum over every few q where k is large."""
        task = self.task
        k = task.times
        q = np.unique(np.round(np.linspace(0, k - 1, min(k, MOST_COLUMNS))))
        share = k / q.size
        past = geometric(nu[:, None], (task.horizon - q * task.separation)[:, None, None] - 1, start=1)
        before = geometric((poles * task.separation)[:, None, :], q[:, None], start=1)
        reached = np.einsum("za,zqab->zqb", w, past)
        own = 1 + np.einsum("zqb,zb->zq", reached, w)
        cross = np.einsum("zqb,zb,zqb->zq", 1 + reached, w, before)
        total: RealArray = share * (own + 2 * cross).real.sum(axis=1)
        return total


def interlacing_roots(z: RealArray) -> tuple[tuple[complex, ...], tuple[complex, ...]]:
    """Return the poles and zeros of a real family with these parameters, rounded to 12 digits."""
    chain = -np.log1p(np.cumsum(np.exp(z)))
    return _points(chain[0::2]), _points(chain[1::2])


@lru_cache(maxsize=256)
def fit_real(task: Task, buffers: int) -> Fitted:
    """Fit a real family, whose poles and zeros interlace: π_1 > ζ_1 > π_2 and so on."""
    problem = _Problem(task, 0, buffers)
    reach = min(task.separation if task.times > 1 else task.horizon, max(task.windows))
    starts = [
        np.log(np.diff(np.concatenate([[0.0], np.geomspace(slowest / reach, 3.0, 2 * buffers)])))
        for slowest in (0.5, 4.0, 16.0)
        if slowest / reach < 1.0
    ]
    starts = starts or [np.log(np.diff(np.concatenate([[0.0], np.geomspace(0.5, 3.0, 2 * buffers)])))]
    smooth = len(task.windows) == 1
    return _best(
        problem, starts, (ORDERS[0],) * 2 if smooth else ORDERS, keep=len(starts), iterations=100 if smooth else 80
    )


@lru_cache(maxsize=256)
def fit_with_pairs(task: Task, pairs: int) -> Fitted:
    """Fit `pairs` complex pairs and two real poles and zeros, started from optima of separation 256, scaled."""
    s = 256.0 / task.separation
    real = [np.log(min(0.0126 * s, 0.35)), np.log(0.555)], [np.log(0.14), np.log(3.0)]
    base = _pair(0.008 * s, 0.0206 * s), _pair(0.0042 * s, 0.0231 * s)
    if pairs == 1:
        starts = [np.array(base[0] + real[0] + base[1] + real[1])]
    else:
        starts = []
        for turn in (0.03, 0.045, 0.06):
            for gap in (0.006, 0.012):
                further = [_pair(gap * s * (1 + i), turn * s * (1 + 0.5 * i)) for i in range(pairs - 1)]
                zeros = [_pair(0.8 * gap * s * (1 + i), 1.02 * turn * s * (1 + 0.5 * i)) for i in range(pairs - 1)]
                left, right = sum(further, base[0]), sum(zeros, base[1])
                starts.append(np.array(left + real[0] + right + real[1]))
    return _best(_Problem(task, pairs, 2), starts, ORDERS, keep=2, iterations=ITERATIONS)


def _pair(gap: float, turn: float) -> list[float]:
    """Decay and turn of 1 - gap ± i·turn, on a logarithmic scale."""
    point = complex(max(1.0 - gap, 0.3), min(turn, 0.9))
    return [float(np.log(max(-np.log(abs(point)), 1e-3))), float(np.log(np.angle(point)))]


def _best(problem: _Problem, starts: list[RealArray], orders: tuple[float, ...], keep: int, iterations: int) -> Fitted:
    """Minimise from every start at the first order, go on with the best few, and return the best point seen."""
    candidates = [(float(problem.loss(z)[0]), z) for z in starts]
    best = min(candidates, key=lambda found: found[0])
    for order in orders:
        moved = [_descend(problem, z, order, iterations) for _, z in candidates]
        candidates = sorted(((float(problem.loss(z)[0]), z) for z in moved), key=lambda found: found[0])[:keep]
        best = min(best, candidates[0], key=lambda found: found[0])
        keep = 1
    further = _descend(problem, best[1], orders[-1], 5)
    gain = best[0] - float(problem.loss(further)[0])
    with np.errstate(all="ignore"):
        poles, zeros = problem.unpack(best[1][None])
    return Fitted(_points(poles[0]), _points(zeros[0]), bool(best[0] < NOTHING and gain < CHANGE))


def _descend(problem: _Problem, z: RealArray, order: float, iterations: int) -> RealArray:
    """Minimise by BFGS; all step lengths of a line search are tried at once, in one array.

    SciPy's L-BFGS-B finds the same, but its few parameters are spread over all cores by a threaded BLAS, which costs
    ten times more than everything else.
    """
    value, slope = problem.slope(z, order)
    inverse, fresh = np.eye(z.size), True
    for _ in range(iterations):
        direction = -(inverse * slope).sum(axis=1)
        if not (direction * slope).sum() < 0.0:
            inverse, fresh, direction = np.eye(z.size), True, -slope
        longest = float(np.abs(direction).max())
        if not 0.0 < longest < np.inf:
            break
        tried = z + (LENGTHS * min(1.0, 1.0 / longest))[:, None] * direction
        values = problem.loss(tried, order)
        found = int(np.argmin(values))
        gain = value - float(values[found])
        if not gain > 1e-10:
            if fresh:
                break
            inverse, fresh = np.eye(z.size), True
            continue
        before, old = z, slope
        z, (value, slope) = tried[found], problem.slope(tried[found], order)
        step, change = z - before, slope - old
        bend = float((step * change).sum())
        if bend > 1e-14:
            if fresh:  # a first guess of the scale
                inverse *= bend / float((change * change).sum())
            moved = (inverse * change).sum(axis=1)
            inverse += (1.0 + float((change * moved).sum()) / bend) * np.multiply.outer(step, step) / bend
            inverse -= (np.multiply.outer(moved, step) + np.multiply.outer(step, moved)) / bend
            fresh = False
    return z


def _points(logs: NDArray[Any]) -> tuple[complex, ...]:
    """The numbers with these logarithms, rounded to 12 digits."""
    points = np.exp(np.asarray(logs, dtype=np.complex128))
    return tuple(complex(round(p.real, 12), round(p.imag, 12)) for p in points.tolist())


def _weights(top: NDArray[Any], bottom: NDArray[Any]) -> NDArray[Any]:
    """Weights of Π (1 - exp(top) x) / Π (1 - exp(bottom) x), a row each; `bottom` may have one factor more."""
    up = np.prod(np.exp(top[:, None, :]) * np.expm1(bottom[:, :, None] - top[:, None, :]), axis=2)
    down = np.exp(bottom[:, None, :]) * np.expm1(bottom[:, :, None] - bottom[:, None, :])
    own = np.arange(bottom.shape[1])
    down[:, own, own] = 1.0
    extra = bottom.shape[1] - top.shape[1]
    result: NDArray[Any] = up / np.prod(down, axis=2) * np.exp(bottom * (extra - 1))
    return result


def _largest(ratios: RealArray, order: float | None) -> RealArray:
    """The largest of each row, or the norm of this order."""
    top: RealArray = ratios.max(axis=1)
    if order is None or ratios.shape[1] == 1:
        return top
    smooth: RealArray = top * ((ratios / top[:, None]) ** order).sum(axis=1) ** (1 / order)
    return smooth
