"""Sums of decaying exponentials: the coefficients of buffered Toeplitz factors, and Zolotarev's choice of them."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np
import scipy  # its parts are loaded when they are first used
from numpy.typing import NDArray

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
        rates: NDArray[np.float64] = -np.log1p(-self.gaps)
        return rates

    def at(self, index: NDArray[np.float64]) -> NDArray[np.float64]:
        """Terms at these indices; between whole numbers, the smooth function through them (from 1/2 on)."""
        # Term by term, so that an entry does not depend on which others are asked for with it.
        total = np.zeros_like(index)
        for weight, rate in zip(self.weights.tolist(), self.rates.tolist(), strict=True):
            alive = rate * index < 746.0  # beyond that exp gives 0, slowly
            if alive.all():
                total += weight * np.exp(-rate * index)
            elif alive.any():
                total[alive] += weight * np.exp(-rate * index[alive])
        total[index < 0.5] = 1.0
        return total

    def products(self, count: float, lag: int) -> float:
        """Σ_{0 ≤ i < count} of term i times term i + lag, in closed form."""
        w, x = self.weights, self.rates
        shifted = w * np.exp(-x * lag)
        first = 1.0 if lag == 0 else float(shifted.sum())
        return first + float(w @ _geometric(x[:, None] + x[None, :], count - 1) @ shifted)


def _geometric(rate: NDArray[np.float64], count: float) -> NDArray[np.float64]:
    """Σ_{1 ≤ i ≤ count} exp(-rate · i); `count` terms where the rate is 0."""
    flat = rate == 0.0
    safe = np.where(flat, 1.0, rate)
    return np.where(flat, count, np.exp(-safe) * np.expm1(-safe * count) / np.expm1(-safe))


def zolotarev(epsilon: float, buffers: int) -> tuple[Exponentials, Exponentials]:
    """L and R from the best rational approximation of y^(-1/2) on [ε, 1] with `buffers` poles.

    c_l = ε (sn/cn)²(l K/(2d+1)) with parameter 1 - ε; c_l · c_{2d+1-l} = ε gives the upper half, where cn
    loses digits.
    """
    d = buffers
    quarter = scipy.special.ellipkm1(epsilon)
    sn, cn, _, _ = scipy.special.ellipj(np.arange(1, d + 1) * (quarter / (2 * d + 1)), 1.0 - epsilon)
    low = epsilon * (sn / cn) ** 2
    c = np.concatenate((low, epsilon / low[::-1]))
    poles, zeros = c[0::2], c[1::2]
    return _partial_fractions(poles, zeros), _partial_fractions(np.concatenate(([0.0], zeros)), poles)


def _partial_fractions(poles: NDArray[np.float64], zeros: NDArray[np.float64]) -> Exponentials:
    """Coefficients of Π (1 - x/(1 + zeros)) / Π (1 - x/(1 + poles)).

    All factors are differences of numbers that interlace on a logarithmic scale: nothing cancels.
    """
    weights = np.empty_like(poles)
    for i, pole in enumerate(poles):
        others = np.delete(poles, i)
        weights[i] = np.prod((zeros - pole) / (1.0 + zeros)) / np.prod((others - pole) / (1.0 + others))
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
        up, down = width * scipy.special.expit(logit), width * scipy.special.expit(-logit)
        return np.where(above, distance + down, distance - up)

    low, high = np.full(g.size, -650.0), np.full(g.size, 650.0)
    for _ in range(70):
        middle = 0.5 * (low + high)
        positive = 1.0 + (P[:, None] / differences(middle)).sum(axis=0) > 0.0
        low, high = np.where(positive, low, middle), np.where(positive, middle, high)
    logit = 0.5 * (low + high)
    h = np.minimum(g + width * scipy.special.expit(logit), 1.0 - 2.0**-53)
    slope = (P[:, None] / differences(logit) ** 2).sum(axis=0)
    return Exponentials(h, 1.0 / (h * slope))
