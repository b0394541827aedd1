"""Row and column norms of L = diag(p) · F · diag(q) on a thinned grid of steps, differentiable in p and q.

F is a buffered Toeplitz matrix, R = L⁻¹A. Time is kept step by step near the ends and thinned geometrically between;
sequences are taken as linear between grid points, where every one-pole filter has a closed form. With 24 points an
octave the norms are good to about 1e-4 of themselves, enough to fit by: what ships is verified step by step.

The formulas are those of dpstream.mechanisms.scaled_toeplitz.
"""

from __future__ import annotations

import os

os.environ.setdefault("JAX_PLATFORMS", "cpu")
os.environ.setdefault("JAX_ENABLE_X64", "1")
os.environ.setdefault("OMP_NUM_THREADS", "1")
os.environ.setdefault("XLA_FLAGS", "--xla_cpu_multi_thread_eigen=false intra_op_parallelism_threads=1")

import jax
import jax.numpy as jnp
import numpy as np
from scipy.interpolate import BSpline
from scipy.optimize import minimize

from dpstream.mechanisms.exponentials import zolotarev

#: A buffer has forgotten the start after this many of its own life times.
FORGOTTEN = 12.0


def time_grid(horizon: int, *, mirrored: bool, single: int = 32, per_octave: int = 24) -> np.ndarray:
    """Steps 1..`single`, then `per_octave` an octave; `mirrored`: as dense at the end as at the start."""
    last = (horizon + 1) // 2 if mirrored else horizon
    steps = np.arange(1, min(single, last) + 1, dtype=float)
    if last > single:
        octaves = np.arange(1 / per_octave, np.log2(last / single) + 1e-12, 1 / per_octave)
        steps = np.concatenate([steps, np.round(single * 2.0**octaves), [last]])
    return np.unique(np.concatenate([steps, horizon + 1 - steps]) if mirrored else steps)


def spline_basis(u: np.ndarray, knots: np.ndarray) -> np.ndarray:
    """Cubic B-splines on `knots` at u."""
    padded = np.concatenate([[knots[0]] * 3, knots, [knots[-1]] * 3])
    return BSpline(padded, np.eye(padded.size - 4), 3)(np.clip(u, knots[0], knots[-1]))


def spline_rises(steps: np.ndarray, knots: np.ndarray) -> np.ndarray:
    """Rises of the cubic B-splines in ln t from t - 1 to t; 0 at t = 1.

    Differences of values would leave rounding errors of 2^-53 where a rise is about 1/t: at t = 2^50 nothing else. So
    late rises are Taylor's series in ln t, which ends for a cubic (but for the few steps that hold a knot).
    """
    padded = np.concatenate([[knots[0]] * 3, knots, [knots[-1]] * 3])
    spline = BSpline(padded, np.eye(padded.size - 4), 3)
    u, width = np.clip(np.log(steps), knots[0], knots[-1]), -np.log1p(-1 / np.maximum(steps, 2.0))[:, None]
    series = spline(u, 1) * width - spline(u, 2) * width**2 / 2 + spline(u, 3) * width**3 / 6
    values = spline(u) - spline(np.log(np.maximum(steps - 1, 1.0)))
    return np.where((steps < 2**12)[:, None], values, series)


def _geometric_sums(length: jnp.ndarray, rate: jnp.ndarray) -> tuple[jnp.ndarray, jnp.ndarray]:
    """Σ e^(-rate i) and Σ i e^(-rate i) over 0 ≤ i < length, by series where rate · length is small."""
    B = length
    small = B * rate < 0.05
    x = jnp.where(small, 0.05 / B, rate)
    gap, end = -jnp.expm1(-x), jnp.exp(-B * x)
    zeroth = -jnp.expm1(-B * x) / gap
    first = (jnp.exp(-x) * -jnp.expm1(-B * x) - B * end * gap) / gap**2
    n = B - 1
    powers = [
        B,
        n * B / 2,
        n * B * (2 * n + 1) / 6,
        (n * B / 2) ** 2,
        n * B * (2 * n + 1) * (3 * n * n + 3 * n - 1) / 30,
        (n * B) ** 2 * (2 * n * n + 2 * n - 1) / 12,
    ]
    series = [1.0, -rate, rate**2 / 2, -(rate**3) / 6, rate**4 / 24]
    zeroth_small = sum(c * powers[k] for k, c in enumerate(series))
    first_small = sum(c * powers[k + 1] for k, c in enumerate(series))
    return jnp.where(small, zeroth_small, zeroth), jnp.where(small, first_small, first)


def _one_pole(steps: np.ndarray, rates: jnp.ndarray) -> tuple[jnp.ndarray, jnp.ndarray, jnp.ndarray]:
    """From one grid point to the next: decay, share of the near input, share of the far input."""
    length = jnp.asarray(np.diff(steps))[:, None]
    zeroth, first = _geometric_sums(length, rates[None, :])
    far = first / length
    return jnp.exp(-length * rates[None, :]), zeroth - far, far


def _scan(start, decay, arriving, *, reverse):
    def step(state, item):
        state = item[0] * state + item[1]
        return state, state

    return jax.lax.scan(step, start, (decay, arriving), reverse=reverse, unroll=8)[1]


def _forward(inputs, decay, near, far):
    """Σ_{k ≤ t} pole^(t-k) input_k at the grid points."""
    tail = _scan(inputs[0], decay, near * inputs[1:] + far * inputs[:-1], reverse=False)
    return jnp.concatenate([inputs[:1], tail])


def _backward(inputs, decay, near, far):
    """Σ_{i ≥ t} pole^(i-t) input_i at the grid points."""
    head = _scan(inputs[-1], decay, near * inputs[:-1] + far * inputs[1:], reverse=True)
    return jnp.concatenate([head, inputs[-1:]])


class ThinnedNorms:
    """log ‖L_t‖² and log ‖R e_t‖² at the grid points, for one F given by Zolotarev's (ε, buffers)."""

    def __init__(self, steps: np.ndarray, epsilon: float, buffers: int) -> None:
        left, right = zolotarev(epsilon, buffers)
        a, b = np.triu_indices(buffers)
        twice = np.where(a == b, 1.0, 2.0)
        self.steps, self.a, self.b, self.twice = steps, a, b, twice
        self.row_weights = twice * left.weights[a] * left.weights[b]
        self.row_filter = _one_pole(steps, jnp.asarray(left.rates[a] + left.rates[b]))
        self.integral, self.v, self.gaps = right.weights[0], right.weights[1:], right.gaps[1:]
        self.filter = _one_pole(steps, jnp.asarray(right.rates[1:]))
        self.pair_filter = _one_pole(steps, jnp.asarray(right.rates[1:][a] + right.rates[1:][b]))
        self.sum_filter = _one_pole(steps, jnp.zeros(1))

    def __call__(self, log_p, log_p_rise, log_q):
        """`log_p_rise` is log p at each grid point minus log p one step before; its first entry is not used."""
        pairs, single = jnp.ones((1, self.a.size)), jnp.ones((1, self.v.size))
        q2 = jnp.exp(2 * log_q)[:, None]
        heard = _forward(q2 * pairs, *self.row_filter) - q2
        rows = 2 * log_p + jnp.log(q2[:, 0] + heard @ self.row_weights)
        x = jnp.exp(-log_p)
        rise = (-x * jnp.expm1(log_p_rise)).at[0].set(x[0])[:, None]
        before = (x * jnp.exp(log_p_rise)).at[0].set(0.0)
        slow = self.gaps / (1 - self.gaps) * (_forward(x[:, None] * single, *self.filter) - x[:, None])
        # Σ_k η^(t-k) (x_k - x_{k-1}) = x_t - slow_t: the left side suits buffers that have forgotten the start, the
        # right side those that have not, where the rises since the start would have to cancel. The first x is 10^5
        # times the last at 2^50, so that a start must be forgotten to e^-12 before errors of interpolation do no harm.
        risen = jnp.where(
            self.gaps * self.steps[:, None] > FORGOTTEN, _forward(rise * single, *self.filter), x[:, None] - slow
        )
        Y = rise[:, 0] + (risen - rise) @ self.v + self.integral * before
        u = slow * self.v
        inverse = 1 / q2
        whole = _backward((Y * Y)[:, None] * inverse, *self.sum_filter)[:, 0]
        cross = _backward(Y[:, None] * inverse * single, *self.filter)
        square = _backward(inverse * pairs, *self.pair_filter)
        columns = whole + 2 * (u * cross).sum(1) + (u[:, self.a] * u[:, self.b] * square) @ self.twice
        return rows, jnp.log(columns)


def minimise_largest(norms, bases, start, *, sharpness, iterations, pull=1e-5, bend=0.0, even=0.0, offset=0.0):
    """Fit spline coefficients (p, then q) to minimise max rows - offset, plus max columns, in logarithms.

    `bases` are the splines at the grid points, and their rises over the step before each.
    The maxima are softened (log-sum-exp), sharper and sharper. `pull` holds the coefficients near `start` and the
    mean of log p near 0: it settles what the maximum leaves open, such as a constant moved from p to q. `bend` is the
    price of second differences, `even` that of rows after the tenth that fall more than 5 % below the largest.
    """
    at, rises = (jnp.asarray(basis) for basis in bases)
    m = at.shape[1]
    anchor = jnp.asarray(start)

    def both(z):
        rows, columns = norms(at @ z[:m], rises @ z[:m], at @ z[m:])
        return rows - offset, columns

    def loss(z, P):
        rows, columns = both(z)
        soft = sum(jax.scipy.special.logsumexp(P * v) - jnp.log(v.size) for v in (rows, columns)) / P
        missing = jnp.maximum(rows.max() - rows - 0.05, 0.0) * (norms.steps > 10)
        soft += even * jnp.mean(missing**2)
        bends = jnp.sum(jnp.diff(z[:m], 2) ** 2) + jnp.sum(jnp.diff(z[m:], 2) ** 2)
        return soft + pull * (jnp.sum((z - anchor) ** 2) + jnp.sum(z[:m]) ** 2) + bend * bends

    slope = jax.jit(jax.value_and_grad(loss))
    z = np.asarray(start, dtype=float)
    for P in sharpness:
        found = minimize(
            lambda z, P=P: tuple(np.asarray(value, dtype=float) for value in slope(z, float(P))),
            z,
            jac=True,
            method="L-BFGS-B",
            options={"maxiter": iterations},
        )
        z = found.x
    rows, columns = both(z)
    return z, float(jnp.exp(rows.max() + columns.max()))
