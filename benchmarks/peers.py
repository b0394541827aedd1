"""What dpstream is measured against. Each function returns a callable that does one unit of work."""

from __future__ import annotations

import math
import random
from collections.abc import Callable, Iterator, Sequence

import numpy as np

Work = Callable[[], object]


def paper_as_published(horizon: int, coordinates: int) -> Iterator[np.ndarray]:
    """The paper's algorithm in plain NumPy, as its authors publish it: a dictionary of node noise, a running total.

    Draws come from `numpy.random.normal`, in float64, one array for each new node, with a standard deviation as its
    scale (the published code passes a variance there).
    """
    ones = _half_height(horizon)
    sigma, label = math.sqrt(ones), (1 << ones) - 1
    noise = {1 << i: np.random.normal(0.0, sigma, coordinates) for i in range(ones)}  # noqa: NPY002
    total = np.sum(list(noise.values()), axis=0)
    for _ in range(horizon):
        following = _next_label(label)
        changed, bit = label ^ following, 1
        while bit <= changed:
            if label & bit:
                total -= noise.pop(bit)
            if following & bit:
                noise[bit] = np.random.normal(0.0, sigma, coordinates)  # noqa: NPY002
                total += noise[bit]
            bit <<= 1
        label = following
        yield total


def paper_in_float32(horizon: int, coordinates: int) -> Iterator[np.ndarray]:
    """The same with NumPy's fastest generator, in float32: what a user who cares for speed writes."""
    ones = _half_height(horizon)
    sigma, label, draw = np.float32(math.sqrt(ones)), (1 << ones) - 1, np.random.default_rng(1).standard_normal
    noise = {1 << i: draw(coordinates, dtype=np.float32) * sigma for i in range(ones)}
    total = np.sum(list(noise.values()), axis=0)
    for _ in range(horizon):
        following = _next_label(label)
        changed, bit = label ^ following, 1
        while bit <= changed:
            if label & bit:
                total -= noise.pop(bit)
            if following & bit:
                fresh = draw(coordinates, dtype=np.float32)
                fresh *= sigma
                noise[bit] = fresh
                total += fresh
            bit <<= 1
        label = following
        yield total


def _half_height(horizon: int) -> int:
    ones = 1
    while math.comb(2 * ones, ones) < horizon + 1:
        ones += 1
    return ones


def _next_label(label: int) -> int:
    low = label & -label
    carried = label + low
    return carried | (((carried & -carried) // low >> 1) - 1)


def lean_python(horizon: int) -> Iterator[float]:
    """What a careful programmer gets out of plain Python: a list, `random.gauss`, nothing looked up twice."""
    ones = _half_height(horizon)
    sigma, gauss = math.sqrt(ones), random.gauss
    label = (1 << ones) - 1
    noise = [gauss(0, sigma) for _ in range(ones)]
    for _ in range(horizon):
        low = label & -label
        carried = label + low
        replaced = (label ^ carried).bit_length() - low.bit_length()
        label = carried | (((carried & -carried) // low >> 1) - 1)
        for i in range(replaced):
            noise[ones - 1 - i] = gauss(0, sigma)
        yield sum(noise)


def numpy_normals(count: int) -> Work:
    generator, out = np.random.default_rng(1), np.empty(count, dtype=np.float32)
    return lambda: generator.standard_normal(count, dtype=np.float32, out=out)


def torch_normals(count: int) -> Work:
    import torch

    torch.set_num_threads(1)
    out = torch.empty(count, dtype=torch.float32)
    return lambda: torch.randn(count, out=out)


def jax_privacy_blt(gaps: np.ndarray, weights: np.ndarray, coordinates: int) -> Work:
    """One JIT-compiled step of jax_privacy's prefix-sum noise A C⁻¹ z, for a BLT of as many buffers."""
    import jax
    import jax.numpy as jnp
    from jax_privacy.matrix_factorization import buffered_toeplitz, streaming_matrix

    jax.config.update("jax_enable_x64", True)
    strategy = buffered_toeplitz.BufferedToeplitz.build(buf_decay=1 - gaps, output_scale=weights)
    noising = streaming_matrix.multiply_streaming_matrices(
        streaming_matrix.prefix_sum(), strategy.inverse_as_streaming_matrix()
    )

    @jax.jit
    def step(key, state):
        key, draw_key = jax.random.split(key)
        noise, state = noising.multiply_next(jax.random.normal(draw_key, (coordinates,), dtype=jnp.float32), state)
        return noise, key, state

    held = [jax.random.key(1), noising.init_multiply(jax.ShapeDtypeStruct((coordinates,), jnp.float32))]
    _, *held[:] = step(*held)
    _, *held[:] = step(*held)  # the state's dtype settles in the first step, so this one compiles again

    def one_step() -> object:
        noise, *held[:] = step(*held)
        return noise.block_until_ready()

    return one_step


def jax_privacy_banded(coefficients: Sequence[float], coordinates: int) -> Work:
    """One JIT-compiled step of jax_privacy's increments C⁻¹ z, C banded Toeplitz; its state is updated in place."""
    import jax
    import jax.numpy as jnp
    from jax_privacy.matrix_factorization import toeplitz

    noising = toeplitz.inverse_as_streaming_matrix(jnp.asarray(coefficients, dtype=jnp.float32))

    def step(key, state):
        key, draw_key = jax.random.split(key)
        noise, state = noising.multiply_next(jax.random.normal(draw_key, (coordinates,), dtype=jnp.float32), state)
        return noise, key, state

    compiled = jax.jit(step, donate_argnums=1)
    held = [jax.random.key(1), noising.init_multiply(jax.ShapeDtypeStruct((coordinates,), jnp.float32))]

    def one_step() -> object:
        noise, *held[:] = compiled(*held)
        return noise.block_until_ready()

    return one_step


def opendp_gaussians(scale: float, count: int) -> Work:
    """OpenDP's exact discrete Gaussian on a vector of integers."""
    import opendp.prelude as odp

    odp.enable_features("contrib")
    space = odp.vector_domain(odp.atom_domain(T=int), count), odp.l2_distance(T=int)
    measurement = odp.m.make_gaussian(*space, scale)
    zeros = [0] * count
    return lambda: measurement(zeros)
