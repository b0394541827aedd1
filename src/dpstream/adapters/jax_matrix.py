"""Our mechanisms as jax_privacy's `StreamingMatrix`: noise on the device, in its privatizer.

jax_privacy writes A = B C and adds C⁻¹ z to gradients; here A = L R, so that C = R and C⁻¹ = A⁻¹ L, whose row t is
row t of L minus row t - 1: the increments of the noise.
"""

from __future__ import annotations

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from dpstream.errors import HorizonRequired, InvalidArgument, MissingExtra
from dpstream.mechanisms.base import Mechanism
from dpstream.mechanisms.increments import IncrementMechanism
from dpstream.mechanisms.recurrence import RecurrenceMechanism

try:
    from jax_privacy.matrix_factorization.streaming_matrix import StreamingMatrix
except ImportError as error:
    raise MissingExtra(extra="jax", needs="jax_privacy") from error

__all__ = ["streaming_matrix"]


def streaming_matrix(mechanism: Mechanism) -> Any:
    """Return C⁻¹ of a mechanism as a `jax_privacy` StreamingMatrix; past the horizon its rows are NaN.

    Recurrences (BufferedToeplitz, BalancedToeplitz) keep one array a buffer and one more; FittedToeplitz, Banded and
    BandedInverse keep what they keep here. Any other mechanism with one draw a step keeps all draws so far: as many
    arrays as steps, at most 4,096.

    Examples
    --------
    >>> import dpstream as dp
    >>> streaming_matrix(dp.mechanisms.Binary(4)).materialize(4)
    Array([[ 1.,  0.,  0.,  0.],
           [-1.,  1.,  0.,  0.],
           [ 0.,  0.,  1.,  0.],
           [ 0., -1., -1.,  1.]], dtype=float32)
    """
    if not isinstance(mechanism, Mechanism):
        raise InvalidArgument("mechanism", mechanism, "a mechanism from dpstream.mechanisms")
    if mechanism.horizon is None:
        raise HorizonRequired(mechanism=type(mechanism).__name__, method="streaming_matrix")
    if isinstance(mechanism, RecurrenceMechanism):
        return _recurrence(mechanism, mechanism.horizon)
    if isinstance(mechanism, IncrementMechanism):
        return _increments(mechanism)
    return _dense(mechanism)


def _increments(mechanism: IncrementMechanism) -> Any:
    scales = np.append(mechanism.increment_scale(1, mechanism.horizon), np.nan)

    def start(value: Any) -> Any:
        zeros = jnp.zeros(value.shape, value.dtype)
        buffers: tuple[Any, ...] = ()
        while True:  # a band fills up over its first steps; zeros before the first draw change nothing
            _, grown = mechanism.advance_increment(buffers, zeros)
            if len(grown) == len(buffers):
                return jnp.zeros((), jnp.int32), grown
            buffers = grown

    def following(value: Any, state: Any) -> Any:
        t, buffers = state
        noise, buffers = mechanism.advance_increment(buffers, value)
        return noise * jnp.asarray(scales, value.dtype)[jnp.minimum(t, mechanism.horizon)], (t + 1, buffers)

    return StreamingMatrix.from_array_implementation(start, following)


def _recurrence(mechanism: RecurrenceMechanism, horizon: int) -> Any:
    entering = np.append(mechanism.input_scale(1, horizon), np.nan)
    leaving = np.append(mechanism.output_scale(1, horizon), np.nan)
    gaps, weights = mechanism.gaps, mechanism.weights

    def start(value: Any) -> Any:
        zeros = jnp.zeros(value.shape, value.dtype)
        return jnp.zeros((), jnp.int32), zeros, tuple(zeros for _ in gaps)

    def following(value: Any, state: Any) -> Any:
        t, last, buffers = state
        at = jnp.minimum(t, horizon)
        arriving = value * jnp.asarray(entering, value.dtype)[at]
        decayed = [b - b * float(gap) for b, gap in zip(buffers, gaps, strict=True)]
        noise = arriving + sum(b * float(w) for b, w in zip(decayed, weights, strict=True))
        noise = noise * jnp.asarray(leaving, value.dtype)[at]
        return noise - last, (t + 1, noise, tuple(b + arriving for b in decayed))

    return StreamingMatrix.from_array_implementation(start, following)


def _dense(mechanism: Mechanism) -> Any:
    L = mechanism.factors()[0]
    if L.shape[0] != L.shape[1] or np.triu(L, 1).any():
        raise InvalidArgument("mechanism", mechanism, "one with one draw a step, for a StreamingMatrix")
    rows = np.vstack([np.diff(L, axis=0, prepend=0.0), np.full((1, L.shape[1]), np.nan)])

    def start(value: Any) -> Any:
        return jnp.zeros((), jnp.int32), jnp.zeros((L.shape[1], *value.shape), value.dtype)

    def following(value: Any, state: Any) -> Any:
        t, draws = state
        draws = jax.lax.dynamic_update_index_in_dim(draws, value, t, 0)
        row = jnp.asarray(rows, value.dtype)[jnp.minimum(t, L.shape[0])]
        return jnp.tensordot(row, draws, axes=1), (t + 1, draws)

    return StreamingMatrix.from_array_implementation(start, following)
