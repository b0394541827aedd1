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
from dpstream.budget import Budget
from dpstream.errors import (
    HorizonExceeded,
    InputNotFinite,
    InputOutOfBound,
    InputShapeError,
    InputTypeError,
    InvalidArgument,
    StateError,
)
from dpstream.mechanisms.base import Mechanism
from dpstream.noise.engine import Chunks
from dpstream.noise.settings import check_shape, check_threads
from dpstream.noise.stream import NoiseStream
from dpstream.participation import Participation
from dpstream.release.plan import choose, pure_in_float_lane
from dpstream.release.terms import (
    Terms,
    check_budget,
    check_flag,
    check_name,
    check_participation,
    check_release_horizon,
    settle_mechanism,
)
from dpstream.release.under_terms import UnderTerms

__all__ = ["RunningSum"]

#: The norm of an input is computed with a relative error below half of this; inputs longer than `per_person` by this
#: much pass, and the noise is priced for twice as much more.
NORM_ERROR = 2.0**-16
#: The grid is at most this part of a release's standard deviation.
GRID = {"float32": 2.0**-16, "float64": 2.0**-32}
#: float64 coordinates at a time: few enough to stay in cache, enough to pay for a NumPy call.
CHUNK = 1 << 15
#: No grid is finer than this: its inverse must fit into a float32.
FINEST_GRID = 2.0**-80
#: Bounds for which no square underflows or overflows enough to matter.
BOUNDS = {"float32": (1e-10, 1e15), "float64": (1e-100, 1e100)}


class RunningSum(UnderTerms):
    """A running sum of vectors, released after every step under differential privacy.

    Parameters
    ----------
    horizon, budget, mechanism, participation, name, key
        As for `Counter`; the budget is `zcdp` or `approx_dp`.
    shape
        The shape of a step's input and of a release.
    per_person
        The largest ℓ2 norm of what one person adds to one step, and of a step's input.
    dtype
        "float32" or "float64", of inputs and releases.
    clip
        Scale inputs that are too long down to `per_person`, and count them in `clipped`, instead of refusing them.
    threads
        How many threads a wide sum may use, as for `NoiseStream`. The values do not depend on it.

    Guarantee
    ---------
    * Notion: what `budget` says (ρ-zCDP or (ε, δ)), for all releases together.
    * Neighbours: streams that differ in the steps of one person (`participation`), whose input in such a step is there
      or is 0. (For neighbours whose input is replaced by another one, give twice the largest norm as `per_person`.)
    * Norms are computed in floating point. An input passes if its computed norm is at most per_person·(1 + 2^-16), and
      the noise is priced for per_person·(1 + 2^-15): the rounding is on the safe side.
    * Horizon: `horizon` releases; a further one is refused.
    * Adaptivity: inputs may depend on earlier releases.
    * Assumed: the key is secret, uniform and used for this data only; and noise in floating point is as good as real
      noise. The grid makes that plausible, but it is not proven. Where that matters, use `Counter`.

    Examples
    --------
    >>> import dpstream as dp
    >>> from dpstream.testing import fixed_key  # leave the key out for real data
    >>> total = dp.RunningSum(horizon=100, budget=dp.zcdp(rho=0.5), shape=(3,), per_person=1.0, key=fixed_key("total"))
    >>> total.add([0.6, 0.0, -0.8])
    array([...], dtype=float32)
    >>> total.t, total.clipped
    (1, 0)
    """

    def __init__(
        self,
        horizon: int | None,
        budget: Budget,
        shape: int | Sequence[int],
        *,
        per_person: float = 1.0,
        dtype: DTypeLike = "float32",
        mechanism: Mechanism | str = "auto",
        participation: Participation | None = None,
        clip: bool = False,
        threads: int | None = None,
        name: str = "",
        key: bytes | None = None,
    ) -> None:
        horizon, budget = check_release_horizon(horizon), check_budget(budget)
        if budget.noise == "laplace":
            raise pure_in_float_lane(budget)
        self._dtype = _check_dtype(dtype)
        lengths = check_shape(shape)
        self._per_person = _check_per_person(per_person, self._dtype)
        persons = check_participation(participation)
        coordinates = math.prod(lengths)
        chosen = settle_mechanism(mechanism, horizon, budget)
        self._terms = Terms(
            lane="float",
            horizon=horizon,
            budget=budget,
            mechanism=choose(horizon, budget.noise, coordinates, "float", persons) if chosen is None else chosen,
            shape=lengths,
            per_person=self._per_person,
            distance=self._per_person * (1 + 2 * NORM_ERROR),
            participation=persons,
            neighbours="add-remove",
            dtype=self._dtype.name,
            name=check_name(name),
            per_step=self._per_person,
            clip=check_flag("clip", clip),
        )
        self._clip = clip
        self._clipped = 0
        self._scale = self._terms.scale
        least, _ = self._terms.typical_noise(self._scale)
        self._grid = _power_of_two_below(max(least * GRID[self._dtype.name], FINEST_GRID))
        self._chunks = Chunks(coordinates, check_threads(threads, coordinates))
        # float32 sums are one compiled pass, so each thread takes its part in a single call.
        width = -(-coordinates // self._chunks.threads) if self._dtype == np.float32 else CHUNK
        self._chunks.bounds = [(low, min(low + width, coordinates)) for low in range(0, coordinates, width)]
        self._stream = self._terms.stream(key, scale=self._scale, threads=threads)
        self._t = 0
        self._whole = True
        self._sum = np.zeros(coordinates)
        # What float64 additions lost, for data that has as many bits as the sum.
        self._lost = np.zeros(coordinates) if self._dtype == np.float64 else None

    def __repr__(self) -> str:
        terms = self._terms
        return (
            f"RunningSum(horizon={terms.horizon}, budget={terms.budget!r}, shape={terms.shape},"
            f" per_person={terms.per_person:g}, dtype={terms.dtype!r}, mechanism={terms.mechanism!r},"
            f" name={terms.name!r}, key=<hidden>)"
            f" at step {self._t}"
        )

    def __reduce__(self) -> Any:
        raise TypeError("a RunningSum holds a secret key and exact sums and cannot be pickled")

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

    def stddev(self, t: int | None = None) -> float:
        """The standard deviation of each coordinate of release t; of the last one if t is left out.

        Before the first release: that of the first.
        """
        noise = self._terms.noise(max(self._t, 1) if t is None else t, self._scale)
        return math.sqrt(noise.variance + self._grid**2 / 12)

    def describe(self) -> str:
        """One paragraph in plain words: what is promised, to whom, against whom, and what is not."""
        return self._terms.describe(self.stddev(), max(self._t, 1))

    # -- summing ------------------------------------------------------------------------------------------------------

    def add(self, vector: ArrayLike) -> NDArray[Any]:
        """Take one step's input and release the sum so far, in a new array.

        Raises
        ------
        InputTypeError, InputShapeError, InputNotFinite, InputOutOfBound
            If the input is not real, of another shape, not finite, or longer than `per_person`; nothing changes.
        HorizonExceeded
            Past the last release; nothing changes.
        ForkedStream
            In a child of the process that built the sum.
        """
        x, clipped = self._checked(self._as_input(vector, self._terms.shape))
        self._check_room(1)
        out = np.empty(self._terms.shape, dtype=self._dtype)
        self._take(x, clipped, out)
        return out

    def extend(self, matrix: ArrayLike) -> NDArray[Any]:
        """Take many steps' inputs, one row each; one release each, exactly those of `add` in a loop.

        All rows are checked before the first is taken.
        """
        given = np.asarray(matrix)
        shape = self._terms.shape
        if given.ndim == 0 or given.shape[1:] != shape:
            raise InputShapeError(given=given.shape, allowed=str(("n", *shape)).replace("'", ""))
        if given.size == 0:
            return np.empty((0, *shape), dtype=self._dtype)
        # As in `add`: lists arrive as float64 and are taken, arrays of more bits than the sum's are not.
        listed = not isinstance(matrix, np.ndarray)
        rows = [self._checked(self._as_input(row.tolist() if listed else row, shape)) for row in given]
        self._check_room(len(rows))
        out = np.empty((len(rows), *shape), dtype=self._dtype)
        for i, (x, clipped) in enumerate(rows):
            self._take(x, clipped, out[i, ...])
        return out

    def _resume(self, t: int, sums: list[NDArray[Any]], clipped: int, stream: NoiseStream) -> None:
        """Stand after step t, which had these sums (and lost these roundings): for a store, which keeps them."""
        self._stream = stream
        self._sum = sums[0]
        self._lost = sums[1] if self._lost is not None else None
        self._clipped, self._t = clipped, t

    # -- inside -------------------------------------------------------------------------------------------------------

    def _take(self, x: NDArray[Any], clipped: bool, out: NDArray[Any]) -> None:
        if self._stream.t != self._t:  # an interrupt came between the noise and the sums: make the noise again
            self._stream.seek(self._t)
        self._stream.step(out)
        flat = out.reshape(-1)
        add = self._add_compensated if self._lost is not None else self._add_in_float64
        self._whole = False
        self._chunks.run(lambda low, high: add(x[low:high], flat[low:high], low, high))
        self._t += 1
        self._clipped += clipped
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
        new += lost
        release += new
        self._round(release)

    def _round(self, release: NDArray[Any]) -> None:
        """To the nearest multiple of the grid, a power of two: scaling by it rounds nothing."""
        release *= release.dtype.type(1 / self._grid)
        np.rint(release, out=release)
        release *= release.dtype.type(self._grid)

    # -- the door -----------------------------------------------------------------------------------------------------

    def _check_room(self, n: int) -> None:
        self._stream._check_fork()
        if not self._whole:
            raise StateError(
                "this RunningSum was interrupted while it added an input, so part of its sums has it and part has not;"
                " it can not go on"
            )
        if self._t + n > self._terms.last:
            raise HorizonExceeded(horizon=self._terms.last, step=self._t + n)

    def _as_input(self, vector: ArrayLike, shape: tuple[int, ...]) -> NDArray[Any]:
        given = np.asarray(vector)
        if given.shape != shape:
            raise InputShapeError(given=given.shape, allowed=str(shape))
        # Lists of Python floats arrive as float64: they are taken, an array of more bits is not.
        too_many_bits = isinstance(vector, np.ndarray) and given.dtype.itemsize > self._dtype.itemsize
        if given.dtype.kind not in "fiub" or too_many_bits:
            raise InputTypeError(
                given=f"{given.dtype.name} values", allowed=f"real numbers that fit into {self._dtype.name}"
            )
        with np.errstate(over="ignore"):  # what does not fit becomes infinite, and is refused as such
            return np.ascontiguousarray(given, dtype=self._dtype).reshape(-1)

    def _checked(self, x: NDArray[Any]) -> tuple[NDArray[Any], bool]:
        """The input, scaled down if it is too long and may be; and whether it was."""
        norm = math.sqrt(_squared_norm(x))
        if norm <= self._per_person * (1 + NORM_ERROR):
            return x, False
        if not np.isfinite(x).all():
            raise InputNotFinite
        if not self._clip:
            raise InputOutOfBound(given=norm, least=0, most=self._per_person, what="the ℓ2 norm")
        wide = x.astype(np.float64)
        largest = float(np.abs(wide).max())
        wide /= largest  # so that no square overflows
        wide *= self._per_person / math.sqrt(float(np.dot(wide, wide)))
        return wide.astype(self._dtype), True


def _squared_norm(x: NDArray[Any]) -> float:
    """Σ x², to a relative error below NORM_ERROR whatever the order of the additions; inf or NaN if it overflows."""
    with np.errstate(over="ignore", invalid="ignore"):
        return float(np.dot(x, x)) if x.dtype == np.float64 else kernel.squared_norm_f32(x)


def _power_of_two_below(x: float) -> float:
    """The largest power of two that is at most x > 0."""
    return math.ldexp(0.5, math.frexp(x)[1])


def _check_dtype(dtype: DTypeLike) -> np.dtype[Any]:
    try:
        known = np.dtype(dtype)
    except TypeError:
        known = None
    if known is None or known not in (np.float32, np.float64):
        raise InvalidArgument("dtype", dtype, "'float32' or 'float64'")
    return known


def _check_per_person(per_person: object, dtype: np.dtype[Any]) -> float:
    least, most = BOUNDS[dtype.name]
    if (
        not isinstance(per_person, bool)
        and isinstance(per_person, (int, float, np.integer, np.floating))
        and least <= per_person <= most
    ):
        return float(per_person)
    raise InvalidArgument("per_person", per_person, f"a number from {least:g} to {most:g} for {dtype.name}")
