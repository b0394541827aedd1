"""RunningSum: private running sums of vectors, in floating point.

    release_t = (running sum)_t + (noise of step t), rounded to a grid far below the noise

The noise is Gaussian, made at one or two nanoseconds a coordinate. The true sums are kept in float64 (float32 data) or
with compensation (float64 data), so their error does not grow with the number of steps. The grid keeps the last bits of
floating-point noise, which are not as random as they look (Mironov 2012), from being published.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, DTypeLike, NDArray

from dpstream import kernel
from dpstream.arguments import check_probability, check_whole
from dpstream.budget import Budget
from dpstream.errors import HorizonExceeded, NoReleaseYet, StateError
from dpstream.mechanisms.base import Mechanism
from dpstream.noise.engine import Chunks
from dpstream.noise.settings import check_threads
from dpstream.noise.stream import NoiseStream
from dpstream.participation import Participation
from dpstream.release.error_bars import Estimate, estimate_from_releases
from dpstream.release.past_releases import PastArrays, not_kept
from dpstream.release.release_stream import ReleaseStream
from dpstream.release.secret_state import SecretState
from dpstream.release.settings import Neighbours, StreamSettings
from dpstream.turns import Turn, in_turn

__all__ = ["RunningSum"]

#: float64 coordinates at a time: few enough to stay in cache, enough to pay for a NumPy call.
CACHE_VALUES = 1 << 15


class RunningSum(ReleaseStream):
    """A running sum of vectors, released after every step under differential privacy.

    Parameters
    ----------
    horizon, budget, mechanism, participation, neighbours, name, key
        As for `Counter`; the budget is `zcdp` or `approx_dp`, and inputs may be negative.
    windows
        As for `Counter`. The last ``max(windows) + 1`` releases are kept for them; without windows none is.
    shape
        The shape of a step's input and of a release.
    per_person
        The largest ℓ2 norm of what one person adds to one step. The sum sees a step's total only, so **the caller
        ensures this**; `clip_contribution` clips one person's vector. (With `per_step=per_person`, where each step is
        one person's, the sum checks it.)
    per_step
        The largest ℓ2 norm of a step's input; a longer one is refused. None: no limit but that of the sums, which must
        fit into the dtype.
    dtype
        "float32" or "float64", of inputs and releases.
    threads
        How many threads a wide sum may use, as for `NoiseStream`. The values do not depend on it.

    Guarantee
    ---------
    * Notion: what `budget` says (ρ-zCDP or (ε, δ)), for all releases together.
    * Neighbours: streams that differ in the steps of one person (`participation`). "add-remove": the person's vector is
      there or not. "replace": another one may be in its place, up to 2·per_person away. "replace-anywhere": in other
      steps, too.
    * Norms are computed in floating point. With `per_step` an input passes if its computed norm is at most
      per_step·(1 + 2^-16), and the noise is scaled for per_person·(1 + 2^-15): the rounding is on the safe side.
    * Horizon: `horizon` releases; a further one is refused.
    * Adaptivity: inputs may depend on earlier releases.
    * Threads take turns: each step is released once, its noise is used once.
    * Assumed: the key is secret, uniform and used for this data only; and noise in floating point is as good as real
      noise. The grid makes that plausible, but it is not proven. Where that matters, use `Counter`.

    Examples
    --------
    >>> import dpstream as dp
    >>> from dpstream.testing import fixed_key  # leave the key out for real data
    >>> total = dp.RunningSum(horizon=100, budget=dp.zcdp(rho=0.5), shape=(3,), key=fixed_key("total"))
    >>> total.add([0.6, 0.0, -0.8])
    array([ 5.77536  , -0.7636719, -1.139801 ], dtype=float32)
    >>> total.t, round(total.stddev(), 3)
    (1, 2.253)
    """

    __slots__ = ("_chunks", "_dtype", "_grid", "_lost", "_past", "_sum", "_t", "_whole")

    def __init__(
        self,
        horizon: int | None,
        budget: Budget,
        *,
        shape: int | Sequence[int] = (),
        per_person: float = 1.0,
        per_step: float | None = None,
        dtype: DTypeLike = "float32",
        mechanism: Mechanism | str = "auto",
        participation: Participation | None = None,
        neighbours: Neighbours = "add-remove",
        windows: Sequence[int] = (),
        threads: int | None = None,
        name: str = "",
        key: bytes | None = None,
    ) -> None:
        settings = StreamSettings.for_sum(
            horizon,
            budget,
            shape=shape,
            per_person=per_person,
            per_step=per_step,
            dtype=dtype,
            mechanism=mechanism,
            participation=participation,
            neighbours=neighbours,
            windows=windows,
            name=name,
        )
        self._begin(settings, settings.noise_stream(key, threads=threads), SecretState.start(settings))

    def _begin(self, settings: StreamSettings, noise: NoiseStream, state: SecretState) -> None:
        self._turn = Turn()
        self._settings, self._stream = settings, noise
        self._dtype = np.dtype(settings.dtype)
        self._grid = settings.grid
        coordinates = math.prod(settings.shape)
        self._chunks = Chunks(coordinates, check_threads(noise.threads, coordinates))
        # float32 sums are one compiled pass, so each thread takes its part in a single call.
        width = -(-coordinates // self._chunks.threads) if self._dtype == np.float32 else CACHE_VALUES
        self._chunks.bounds = [(low, min(low + width, coordinates)) for low in range(0, coordinates, width)]
        self._t = state.t
        self._whole = True
        self._sum = state.sums[0]
        # What float64 additions lost, for data that has as many bits as the sum.
        self._lost = state.sums[1] if len(state.sums) > 1 else None
        self._past = PastArrays(settings.windows[-1] + 1) if settings.windows else None

    # -- looking ------------------------------------------------------------------------------------------------------

    @property
    def t(self) -> int:
        """How many releases have been made."""
        return self._t

    @property
    def dtype(self) -> np.dtype[Any]:
        """The dtype of a release."""
        return self._dtype

    @property
    def grid(self) -> float:
        """Releases are whole multiples of this power of two, as far as their dtype can tell."""
        return self._grid

    @in_turn
    def estimate(self, confidence: float = 0.95, *, since: int = 0) -> Estimate[NDArray[Any]]:
        """Return the last release, or its change since an earlier one, with an interval for each of its coordinates.

        The noise of the last release is made once more: O(log T) draws on a tree, else the time of t steps.

        Parameters
        ----------
        confidence
            How often an interval holds the truth, at least.
        since
            An earlier release: the sum of the steps after it. 0 for all steps.

        Raises
        ------
        NoReleaseYet
            Before the first release.
        ReleaseNotKept
            If the earlier release is not kept, which takes `windows`.
        """
        return self._estimate(check_probability("confidence", confidence), check_whole("since", since, least=0))

    @in_turn
    def window(self, steps: int, confidence: float = 0.95) -> Estimate[NDArray[Any]]:
        """Return the sum of the last `steps` steps, since the start if there are fewer; see `estimate`.

        No budget is spent: it is the difference of two releases.
        """
        steps = check_whole("steps", steps)
        return self._estimate(check_probability("confidence", confidence), max(self._t - steps, 0))

    def _estimate(self, confidence: float, since: int) -> Estimate[NDArray[Any]]:
        if self._t == 0:
            raise NoReleaseYet
        self._check_whole()
        if since:
            return self._change(confidence, since)
        released = np.array(self._noise_from(self._t - 1).step()).reshape(-1)
        self._chunks.run(lambda low, high: self._add_sums(released[low:high], low, high))
        value = released.reshape(self._settings.shape)
        return estimate_from_releases(self._settings, self._t, value, confidence)

    def _change(self, confidence: float, since: int) -> Estimate[NDArray[Any]]:
        kept = [None if self._past is None else self._past.get(step) for step in (since, self._t)]
        if since < self._t and (kept[0] is None or kept[1] is None):
            raise not_kept(self._settings, self._t, since)
        return estimate_from_releases(self._settings, self._t, kept[1], confidence, since, kept[0])

    @in_turn
    def reveal_secret_state(self) -> SecretState:
        self._check_whole()
        kept = (self._sum,) if self._lost is None else (self._sum, self._lost)
        return SecretState(self._t, tuple(a.copy() for a in kept), None)

    # -- summing ------------------------------------------------------------------------------------------------------

    def add(self, x: ArrayLike) -> NDArray[Any]:
        """Take one step's input and release the sum so far, in a new array.

        Raises
        ------
        InputTypeError, InputShapeError, InputNotFinite, InputOutOfBound
            If the input is not real, of another shape, not finite, or longer than `per_step`; nothing changes.
        HorizonExceeded
            Past the last release; nothing changes.
        ForkedStream
            In a child of the process that built the sum.
        StreamInUse
            In a signal handler that came in the middle of another call.
        """
        return self._add_checked(self._settings.check_row(x).reshape(-1))

    @in_turn
    def _add_checked(self, x: NDArray[Any]) -> NDArray[Any]:
        """`extend_checked` of one row, without the cost of a loop, which is a tenth of a step of 10^4 coordinates."""
        self._check_room(1)
        out = np.empty(self._settings.shape, dtype=self._dtype)
        self._take(x, out)
        if self._past is not None:
            self._past.put(self._t, out[None, ...])
        return out

    def extend(self, xs: ArrayLike) -> NDArray[Any]:
        """Take many steps' inputs, one row each; one release each, exactly those of `add` in a loop.

        All rows are checked before the first is taken.
        """
        return self.extend_checked(self._settings.check_rows(xs))

    @in_turn
    def extend_checked(self, rows: NDArray[Any]) -> NDArray[Any]:
        self._check_room(len(rows))
        out = np.empty((len(rows), *self._settings.shape), dtype=self._dtype)
        for i, row in enumerate(rows):
            self._take(row.reshape(-1), out[i, ...])
        if self._past is not None:
            self._past.put(self._t - len(out) + 1, out)
        return out

    # -- inside -------------------------------------------------------------------------------------------------------

    def _take(self, x: NDArray[Any], out: NDArray[Any]) -> None:
        self._noise_from(self._t).step(out)
        flat = out.reshape(-1)
        add = self._add_compensated if self._lost is not None else self._add_in_float64
        t = self._t
        self._whole = False
        self._chunks.run(lambda low, high: add(x[low:high], flat[low:high], low, high))
        self._t = t + 1
        self._whole = True

    def _add_in_float64(self, x: NDArray[Any], release: NDArray[Any], low: int, high: int) -> None:
        """Add float32 data to its sums, and the sums to the noise that `release` holds."""
        kernel.release_f32(x, self._sum[low:high], release, self._grid)

    def _add_compensated(self, x: NDArray[Any], release: NDArray[Any], low: int, high: int) -> None:
        """The same for float64 data: what rounding loses is summed on its own (Knuth's two-sum)."""
        total, lost = self._sum[low:high], self._lost[low:high]  # type: ignore[index]
        new = total + x
        added = new - total
        lost += (total - (new - added)) + (x - added)
        total[...] = new
        self._add_sums(release, low, high)

    def _add_sums(self, release: NDArray[Any], low: int, high: int) -> None:
        """Add the sums to the noise that `release` holds, and round to the grid."""
        if self._lost is None:
            kernel.release_f32(np.zeros(high - low, dtype=np.float32), self._sum[low:high], release, self._grid)
            return
        release += self._sum[low:high] + self._lost[low:high]
        self._round(release)

    def _round(self, release: NDArray[Any]) -> None:
        """Round to the nearest multiple of the grid, a power of two: scaling by it rounds nothing."""
        release *= release.dtype.type(1 / self._grid)
        np.rint(release, out=release)
        release *= release.dtype.type(self._grid)

    def _check_room(self, n: int) -> None:
        self._check_whole()
        if self._t + n > self._settings.last:
            raise HorizonExceeded(horizon=self._settings.last, step=self._t + n)

    def _check_whole(self) -> None:
        if not self._whole:
            raise StateError(
                "this RunningSum was interrupted while it added an input, so part of its sums has it and part has not;"
                " it can not go on"
            )
