"""Sums of decaying exponentials: the coefficients of buffered Toeplitz factors, and Zolotarev's choice of them."""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cached_property, lru_cache

import numpy as np
from numpy.typing import NDArray

from dpstream import portable
from dpstream.balls import Ball, rounded

__all__ = ["MOST_BUFFERS", "Exponentials", "equal_columns", "zolotarev"]

#: More buffers gain nothing that a double can hold.
MOST_BUFFERS = 16


@dataclass(frozen=True, eq=False)
class Exponentials:
    """The sequence 1, Σ w_i (1 - g_i), Σ w_i (1 - g_i)², …, with a first term of its own."""

    gaps: NDArray[np.float64]
    weights: NDArray[np.float64]

    def __post_init__(self) -> None:
        self.gaps.flags.writeable = False
        self.weights.flags.writeable = False

    @cached_property
    def rates(self) -> NDArray[np.float64]:
        """-ln(1 - g_i)."""
        return -portable.log1p(-self.gaps)

    def at(self, index: NDArray[np.float64]) -> NDArray[np.float64]:
        """Terms at these indices; between whole numbers, the smooth function through them (from 1/2 on)."""
        # Term by term, so that an entry does not depend on which others are asked for with it.
        total = np.zeros_like(index)
        for weight, rate in zip(self.weights.tolist(), self.rates.tolist(), strict=True):
            alive = rate * index < 746.0  # beyond that exp gives 0, slowly
            if alive.all():
                total += weight * portable.exp(-rate * index)
            elif alive.any():
                total[alive] += weight * portable.exp(-rate * index[alive])
        total[index < 0.5] = 1.0
        return total

    def products(self, count: float, lag: int) -> float:
        """Σ_{0 ≤ i < count} of term i times term i + lag, in closed form."""
        w, x = self.weights, self.rates
        shifted = w * portable.exp(-x * lag)
        first = 1.0 if lag == 0 else portable.total(shifted)
        sums = _geometric(x[:, None] + x[None, :], count - 1)
        return first + portable.total(w[:, None] * sums * shifted[None, :])


def _geometric(rate: NDArray[np.float64], count: float) -> NDArray[np.float64]:
    """Σ_{1 ≤ i ≤ count} exp(-rate · i); `count` terms where the rate is 0."""
    flat = rate == 0.0
    safe = np.where(flat, 1.0, rate)
    return np.where(flat, count, portable.exp(-safe) * portable.expm1(-safe * count) / portable.expm1(-safe))


def zolotarev(epsilon: float, buffers: int) -> tuple[Exponentials, Exponentials]:
    """L and R from the best rational approximation of y^(-1/2) on [ε, 1] with `buffers` poles.

    c_l = ε (sn/cn)²(l K/(2d+1)) with parameter 1 - ε; c_l · c_{2d+1-l} = ε gives the upper half.
    """
    low = np.array([_zolotarev_point(epsilon, i, buffers) for i in range(1, buffers + 1)], dtype=np.float64)
    c = np.concatenate((low, epsilon / low[::-1]))
    poles, zeros = c[0::2], c[1::2]
    return _partial_fractions(poles, zeros), _partial_fractions(np.concatenate(([0.0], zeros)), poles)


@lru_cache(maxsize=4096)
def _zolotarev_point(epsilon: float, index: int, buffers: int) -> float:
    """c_l as the nearest double: sn/cn is θ3/θ4 times θ1/θ2 at l/(2d+1) of a quarter period."""
    import flint

    def point() -> Ball:
        if epsilon == 1.0:  # sn and cn are sine and cosine
            tangent = (flint.arb.pi() * index / (2 * (2 * buffers + 1))).tan()
            return tangent * tangent
        eps = flint.acb(epsilon)
        tau = flint.acb(0, 1) * flint.acb.elliptic_k(eps) / flint.acb.elliptic_k(1 - eps)
        z = flint.acb(index) / (2 * (2 * buffers + 1))
        theta1, theta2, _, _ = flint.acb.modular_theta(z, tau)
        _, _, theta3, theta4 = flint.acb.modular_theta(flint.acb(0), tau)
        ratio = theta3 / theta4 * theta1 / theta2
        return (eps * ratio * ratio).real

    return rounded(point)


def _partial_fractions(poles: NDArray[np.float64], zeros: NDArray[np.float64]) -> Exponentials:
    """Coefficients of Π (1 - x/(1 + zeros)) / Π (1 - x/(1 + poles)).

    All factors are differences of numbers that interlace on a logarithmic scale: nothing cancels.
    """
    weights = np.empty_like(poles)
    for i, pole in enumerate(poles):
        others = np.delete(poles, i)
        above, below = (zeros - pole) / (1.0 + zeros), (others - pole) / (1.0 + others)
        weights[i] = math.prod(above.tolist()) / math.prod(below.tolist())
    return Exponentials(poles / (1.0 + poles), weights)


def equal_columns(right: Exponentials) -> Exponentials:
    """Find u with Σ_{i ≤ n} r_i² u_{n-i} = 1 for every n, as exponentials.

    As a power series, u = 1/((1 - x) ρ(x)) with ρ(x) = Σ r_k² x^k.
    With y = 1/x - 1, ρ = 1 + Σ_m P_m/(y + g_m), where 1 - g_m = (1 - g_a)(1 - g_b) runs over the pairs of
    poles of R, g = 0 among them. P_m > 0, so ρ has exactly one zero y = -h_k in each (-g_{k+1}, -g_k) and one
    in (-1, -g_last), and by residues
    u_n = Σ_k (1 - h_k)^n / (h_k Σ_m P_m/(g_m - h_k)²) for n ≥ 1.
    """
    a, b = np.triu_indices(right.gaps.size)
    g = right.gaps[a] + right.gaps[b] * (1.0 - right.gaps[a])
    P = np.where(a == b, 1.0, 2.0) * right.weights[a] * right.weights[b] * (1.0 - g)
    g, place = np.unique(g, return_inverse=True)
    P = np.asarray(np.bincount(place, weights=P), dtype=np.float64)
    width = np.diff(np.append(g, 1.0))
    index = np.arange(g.size)
    above = index[:, None] > index[None, :]
    following = np.append(g[1:], 1.0)
    distance = np.where(above, g[:, None] - following[None, :], g[:, None] - g[None, :])

    def differences(logit: NDArray[np.float64]) -> NDArray[np.float64]:
        """g_m - h_k, each as a sum of terms of one sign, for h_k at this logit between g_k and g_{k+1}."""
        up, down = width * _logistic(logit), width * _logistic(-logit)
        return np.where(above, distance + down, distance - up)

    low, high = np.full(g.size, -650.0), np.full(g.size, 650.0)
    for _ in range(70):
        middle = 0.5 * (low + high)
        positive = 1.0 + np.add.accumulate(P[:, None] / differences(middle), axis=0)[-1] > 0.0
        low, high = np.where(positive, low, middle), np.where(positive, middle, high)
    logit = 0.5 * (low + high)
    h = np.minimum(g + width * _logistic(logit), 1.0 - 2.0**-53)
    slope = np.add.accumulate(P[:, None] / np.square(differences(logit)), axis=0)[-1]
    return Exponentials(h, 1.0 / (h * slope))


def _logistic(x: NDArray[np.float64]) -> NDArray[np.float64]:
    """1/(1 + e^(-x))."""
    small = portable.exp(-np.abs(x))
    return np.where(x < 0.0, small, 1.0) / (1.0 + small)
