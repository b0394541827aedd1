"""Streams a Toeplitz factor of any coefficients: online convolution that draws its history again instead of keeping it.

Draws are a pure function of (key, step), so the past need not be held in memory: at the end of every block of 64 steps
the draws that are carried forward (`dpstream.mechanisms.convolution`) are made once more, a few columns at a time. What
is held is the block at hand and the parts of coming releases that are already computed: half the horizon at most.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dpstream import portable
from dpstream.mechanisms.base import Mechanism
from dpstream.mechanisms.convolution import ConvolutionMechanism, carry_forward, carry_size
from dpstream.noise.draws import NARROW, Draws
from dpstream.noise.engine import DRAW_ERROR, UNIT, Chunks, Engine, largest_draw

__all__ = ["ConvolutionEngine"]

#: Steps whose draws are summed directly; longer distances go through the FFT.
BLOCK = 64
#: Doubles in flight in one FFT: 8 MB.
FFT_SIZE = 1 << 20


class ConvolutionEngine(Engine, streams=ConvolutionMechanism):
    """See `dpstream.mechanisms.convolution` for the scheme."""

    mechanism: ConvolutionMechanism

    def __init__(self, mechanism: ConvolutionMechanism, draws: Draws, chunks: Chunks, gain: float = 1.0) -> None:
        super().__init__(mechanism, draws, chunks, gain)
        self.reset()

    @classmethod
    def _nanoseconds_kept(cls, mechanism: Mechanism, steps: int, *, exact: bool) -> float:
        """Return the time of blocks of doubling length, each by FFT."""
        del mechanism
        return (0.18 if exact else 0.03) * max(1.0, math.log2(steps)) ** 2

    def reset(self) -> None:
        self.t = 0
        d = self.draws.coordinates
        self._block = np.zeros((BLOCK, d), dtype=self.draws.dtype)
        self._ready = np.empty((0, d))
        near = np.zeros(BLOCK)
        known = self.mechanism.coefficients(
            BLOCK if self.mechanism.horizon is None else min(BLOCK, self.mechanism.horizon)
        )
        near[: known.size] = known
        self._near = np.ascontiguousarray(near[::-1])
        self._pending = np.empty((0, d), dtype=self.draws.dtype)
        self._pending_from = 0  # the first row of _pending is for release _pending_from + 1

    def seek(self, t: int) -> None:
        """Recompute the parts of coming releases: carry forward the aligned runs of draws in 1..t, largest first."""
        self.reset()
        start = t - t % BLOCK
        done = 0
        while done < start:
            size = 1 << ((start - done).bit_length() - 1)
            done += size
            self.t = done
            self._carry()
        self.t = start
        if self.draws.narrow:
            self._ready = self._whole_block() if t > start else self._ready
            self.t = t
            return
        for _ in range(t - start):
            self._enter(self.t + 1)
            self.t += 1

    def _error(self, t: int) -> float:
        # One run of each size 2^k ≤ t reaches a release.
        mechanism, largest = self.mechanism, largest_draw(self.draws.law)
        coefficients = mechanism.coefficients(t)
        norm = math.sqrt(portable.dot(coefficients, coefficients))
        scale = float(mechanism.input_scale(1, t).max())
        direct = (DRAW_ERROR + (BLOCK + 4) * UNIT * largest) * scale * math.sqrt(t) * norm
        runs = range(BLOCK.bit_length() - 1, t.bit_length())
        carried = sum(
            portable.tail_of_product_error(coefficients[: 2 << k], scale * largest * math.sqrt(2.0**k)) for k in runs
        )
        return direct + carried

    def rows(self, count: int) -> NDArray[np.float64]:
        out = np.empty((count, self.draws.coordinates))
        done = 0
        while done < count:
            # Always the whole block at hand, so that the bits do not depend on how many rows are asked for at a time.
            position = self.t % BLOCK
            if position == 0:
                self._ready = self._whole_block()
            run = min(count - done, BLOCK - position)
            out[done : done + run] = self._ready[position : position + run]
            self.t += run
            done += run
            if self.t % BLOCK == 0:
                self._carry()
        return out

    def _whole_block(self) -> NDArray[np.float64]:
        """The releases of the next 64 steps (fewer at the horizon) of a narrow stream."""
        horizon = self.mechanism.horizon
        size = BLOCK if horizon is None else min(BLOCK, horizon - self.t)
        self._block[:size] = (
            self.draws.rows(self.t + 1, size, slot=0) * self.mechanism.input_scale(self.t + 1, size)[:, None]
        )
        ready = np.zeros((size, self.draws.coordinates))
        near = self._near[::-1, None]
        for j in range(size):
            ready[j:] += near[: size - j] * self._block[j]
        known = self._pending[self.t - self._pending_from :][:size]
        ready[: known.shape[0]] += known
        return ready

    def step(self, out: NDArray[Any]) -> None:
        position = self.t % BLOCK
        self._enter(self.t + 1)
        near = self._near[BLOCK - 1 - position :].astype(self.draws.dtype)
        portable.weighted_sum(near, self._block[: position + 1], out)
        offset = self.t - self._pending_from
        if self._pending.shape[0] > offset:
            out += self._pending[offset]
        if self.gain != 1.0:
            out *= out.dtype.type(self.gain)
        self.t += 1
        if self.t % BLOCK == 0:
            self._carry()

    def _enter(self, step: int) -> None:
        """Put the scaled draw of `step` into the block."""
        scale = self.draws.dtype.type(self.mechanism.input_scale(step, 1)[0])
        np.multiply(self.draws.rows(step, 1, slot=0)[0], scale, out=self._block[(step - 1) % BLOCK])

    def _carry(self) -> None:
        """Add the last draws' part of coming releases."""
        t, horizon = self.t, self.mechanism.horizon
        n = carry_size(t)
        reach = n if horizon is None else min(n, horizon - t)
        if reach <= 0:
            return
        coefficients = self.mechanism.coefficients(2 * n if horizon is None else min(2 * n, horizon))
        scale = self.mechanism.input_scale(t - n + 1, n)[:, None]
        left = self._pending[t - self._pending_from :]
        if left.shape[0] < reach:  # t is a power of two (or nothing is pending yet): the longest run so far
            grown = np.zeros((reach, self.draws.coordinates), dtype=self.draws.dtype)
            grown[: left.shape[0]] = left
            self._pending, self._pending_from, left = grown, t, grown
        width = self.draws.coordinates if self.draws.narrow else max(NARROW, FFT_SIZE // (2 * n) // NARROW * NARROW)
        for low in range(0, self.draws.coordinates, width):
            high = min(low + width, self.draws.coordinates)
            block = self.draws.columns(t - n + 1, n, 0, low, high) * scale
            left[:reach, low:high] += carry_forward(coefficients, block)[:reach]
