"""What dpstream is measured against. Each function returns a callable that does one unit of work."""

from __future__ import annotations

import math
import random
from collections.abc import Callable, Iterator

import numpy as np

Work = Callable[[], object]


class PaperInNumpy:
    """The paper's Algorithm 2 in plain NumPy: a dictionary of node noise, nodes replaced as the leaf label moves.

    Vectors of `coordinates` float32 values, noise from `numpy.random.Generator`, standard deviation (not variance, as
    the paper's public code has it) as scale.
    """

    def __init__(self, horizon: int, coordinates: int) -> None:
        ones = 1
        while math.comb(2 * ones, ones) < horizon + 1:
            ones += 1
        self.height, self.sigma = 2 * ones, math.sqrt(ones)
        self.label = (1 << ones) - 1
        self.generator = np.random.default_rng(1)
        self.coordinates = coordinates
        self.nodes: dict[tuple[int, int], np.ndarray] = {}

    def step(self) -> np.ndarray:
        low = self.label & -self.label
        carried = self.label + low
        self.label = carried | (((carried & -carried) // low >> 1) - 1)
        wanted = [(depth, self.label >> depth) for depth in range(self.height) if self.label >> depth & 1]
        self.nodes = {node: self.nodes[node] if node in self.nodes else self._draw() for node in wanted}
        return np.sum(list(self.nodes.values()), axis=0)

    def _draw(self) -> np.ndarray:
        return self.generator.standard_normal(self.coordinates, dtype=np.float32) * np.float32(self.sigma)


def paper_in_python(horizon: int) -> Iterator[float]:
    """The same algorithm for single numbers, as a generator: a dictionary of nodes, one NumPy draw for each new one.

    This is how the paper's authors publish it, with a standard deviation where their code passes a variance.
    """
    ones = 1
    while math.comb(2 * ones, ones) < horizon + 1:
        ones += 1
    sigma, draw = math.sqrt(ones), np.random.default_rng(1).normal
    label = (1 << ones) - 1
    noise = {1 << i: draw(0.0, sigma) for i in range(ones)}
    total = sum(noise.values())
    for _ in range(horizon):
        low = label & -label
        carried = label + low
        following = carried | (((carried & -carried) // low >> 1) - 1)
        changed, bit = label ^ following, 1
        while bit <= changed:
            if label & bit:
                total -= noise.pop(bit)
            if following & bit:
                noise[bit] = draw(0.0, sigma)
                total += noise[bit]
            bit <<= 1
        label = following
        yield total


def lean_python(horizon: int) -> Iterator[float]:
    """What a careful programmer gets out of plain Python: a list, `random.gauss`, nothing looked up twice."""
    ones = 1
    while math.comb(2 * ones, ones) < horizon + 1:
        ones += 1
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


def opendp_gaussians(scale: float, count: int) -> Work:
    """OpenDP's exact discrete Gaussian on a vector of integers."""
    import opendp.prelude as odp

    odp.enable_features("contrib")
    space = odp.vector_domain(odp.atom_domain(T=int), count), odp.l2_distance(T=int)
    measurement = odp.m.make_gaussian(*space, scale)
    zeros = [0] * count
    return lambda: measurement(zeros)
