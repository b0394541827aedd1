"""Counter: private running counts, whole numbers in and whole numbers out.

    release_t = (exact running count)_t + (integer nearest to the ideal noise of step t)

The published integer is the one that infinite precision would publish, so the guarantee holds for the bits that leave
the machine. Nothing is clipped, rounded or dropped, and a refused input changes nothing.
"""

from __future__ import annotations

from array import array
from collections.abc import Sequence
from typing import Any, Generic, TypeVar, cast, overload

import numpy as np
from numpy.typing import ArrayLike, NDArray

from dpstream.arguments import check_probability
from dpstream.budget import Budget
from dpstream.errors import ForkedStream, HorizonExceeded, NoReleaseYet
from dpstream.mechanisms.base import Mechanism
from dpstream.noise.stream import NoiseStream
from dpstream.participation import Participation
from dpstream.release.error_bars import Estimate, half_width, rounded_stddev
from dpstream.release.histogram import HistogramSums
from dpstream.release.release_stream import ReleaseStream
from dpstream.release.secret_state import SecretState
from dpstream.release.settings import Neighbours, StreamSettings
from dpstream.turns import Turn, forks, in_turn

__all__ = ["Counter"]

Released = TypeVar("Released", bound=int | NDArray[np.int64])

#: A counter of single numbers keeps at most this many noise values ready: one compiled call for all of them.
MAX_LOOKAHEAD = 1024
#: `extend` works on this many values at a time, which stay in cache.
CACHE_VALUES = 1 << 15
#: Added to noise that is kept, and taken away from sums. CPython has ready-made ints from -5 to 256, so reading bare
#: noise would take a little less time when it is small.
NOISE_OFFSET = 2**40


class Counter(ReleaseStream, Generic[Released]):
    """A running count, or a running histogram, released after every step under differential privacy.

    Parameters
    ----------
    horizon
        How many releases there will be at most; None for no last one.
    budget
        `zcdp`, `approx_dp` or `pure_dp`.
    shape
        () for one number; (k,) for a histogram over k declared categories.
    per_person
        What one person adds to one step at most: a whole number (ℓ2 norm for a histogram, ℓ1 for a pure budget). The
        counter sees a step's total only, so **the caller ensures this**. (With `per_step=per_person`, where each step
        is one person's, the counter does.)
    per_step
        What one step may add up to at most, in the same norm; larger inputs are refused. None: no limit but that of
        the sums, which must fit into 64 bits: each entry at most (2^63 - 1 - room for the noise) / `horizon`, or 2^32
        without a horizon.
    mechanism
        How noise is shared over time; "auto" takes the first of `dpstream.plan`.
    participation
        In how many steps one person may appear; `ContributionLimit` enforces it.
    neighbours
        "add-remove": a person may be there or not. "replace": a person may have added something else in the same
        steps; *when* they did is not protected. "replace-anywhere": something else, in other steps too (at most twice
        the noise). With the last two, inputs are counts, never negative.
    name
        Whose count this is. Counters with different names share no noise even under one key.
    key
        32 secret bytes, or None for fresh ones. **Same key, name and settings: same noise**: never use them for other
        data.

    Guarantee
    ---------
    * Notion: what `budget` says (ρ-zCDP, (ε, δ) or pure ε), for all releases together.
    * Neighbours: streams that differ in the steps of one person (`participation`), each of them by
      "add-remove": at most `per_person`;
      "replace": at most `per_person` for a number, and for a histogram √2·per_person in ℓ2 or 2·per_person in ℓ1 (two
      vectors without negative entries are no further apart than that);
      "replace-anywhere": one stream has the person in some steps, the other in others.
    * Horizon: `horizon` releases; a further one is refused.
    * Adaptivity: inputs may depend on earlier releases.
    * Exactness: the integers released are those of infinite precision; no δ is added, no sum can overflow.
    * Threads take turns: each step is released once, its noise is used once.
    * Key: assumed secret, uniform, and used for this data only.

    Examples
    --------
    >>> import dpstream as dp
    >>> from dpstream.testing import fixed_key  # leave the key out for real data
    >>> visits = dp.Counter(horizon=365, budget=dp.zcdp(rho=0.5), key=fixed_key("visits"))
    >>> visits.add(132), visits.add(97)  # two days' visits
    (133, 234)
    >>> visits.extend([120, 0, 141])
    array([350, 348, 489])
    >>> visits.t, visits.remaining
    (5, 360)
    >>> visits.estimate()
    Estimate(value=489, stddev=2.66..., low=484, high=494)
    """

    __slots__ = ("_ahead", "_base", "_cells", "_end", "_least", "_most", "_shifted", "_t")

    _cells: HistogramSums | None

    @overload
    def __init__(
        self: Counter[int],
        horizon: int | None,
        budget: Budget,
        *,
        shape: tuple[()] = (),
        per_person: int = 1,
        per_step: int | None = None,
        mechanism: Mechanism | str = "auto",
        participation: Participation | None = None,
        neighbours: Neighbours = "add-remove",
        name: str = "",
        key: bytes | None = None,
    ) -> None: ...
    @overload
    def __init__(
        self: Counter[NDArray[np.int64]],
        horizon: int | None,
        budget: Budget,
        *,
        shape: int | Sequence[int],
        per_person: int = 1,
        per_step: int | None = None,
        mechanism: Mechanism | str = "auto",
        participation: Participation | None = None,
        neighbours: Neighbours = "add-remove",
        name: str = "",
        key: bytes | None = None,
    ) -> None: ...
    def __init__(
        self,
        horizon: int | None,
        budget: Budget,
        *,
        shape: int | Sequence[int] = (),
        per_person: int = 1,
        per_step: int | None = None,
        mechanism: Mechanism | str = "auto",
        participation: Participation | None = None,
        neighbours: Neighbours = "add-remove",
        name: str = "",
        key: bytes | None = None,
    ) -> None:
        settings = StreamSettings.for_counter(
            horizon,
            budget,
            shape=shape,
            per_person=per_person,
            per_step=per_step,
            mechanism=mechanism,
            participation=participation,
            neighbours=neighbours,
            name=name,
        )
        self._begin(settings, settings.noise_stream(key), SecretState.start(settings))

    def _begin(self, settings: StreamSettings, noise: NoiseStream, state: SecretState) -> None:
        self._turn = Turn()
        self._settings, self._stream = settings, noise
        if settings.shape:
            # An empty range, so that `add` passes every input on.
            self._least, self._most = 1, 0
            # A copy of the last release: the next one is made in this array.
            last = None if state.last is None else np.array(state.last, dtype=np.int64)
            self._cells = HistogramSums(state.t, np.array(state.sums[0]), last)
            return
        self._cells = None
        self._least, self._most = settings.input_range
        total = int(state.sums[0])
        self._shifted = total - NOISE_OFFSET
        # Noise plus NOISE_OFFSET: _ahead[t - _base] is that of step t + 1; steps up to _end are there.
        before = 0 if state.last is None else int(state.last) - total
        self._ahead = array("q", [before + NOISE_OFFSET])
        self._t = self._end = state.t
        self._base = state.t - 1

    # -- looking ------------------------------------------------------------------------------------------------------

    @property
    def t(self) -> int:
        """How many releases have been made."""
        return self._t if self._cells is None else self._cells.t

    @in_turn
    def estimate(self, confidence: float = 0.95) -> Estimate[Released]:
        """Return the last release with its standard deviation and an interval that holds the true count.

        The interval is the narrowest of whole numbers around the release that holds the truth with this probability or
        more; exact for rounded noise of either law. For a histogram, arrays: each entry's interval holds on its own.

        Raises
        ------
        NoReleaseYet
            Before the first release.
        """
        confidence = check_probability("confidence", confidence)
        t = self.t
        if t == 0:
            raise NoReleaseYet
        law = self._settings.noise_at(t)
        h = half_width(law, confidence)
        value = self._last_release()
        return Estimate(value, rounded_stddev(law), value - h, value + h)

    @in_turn
    def reveal_secret_state(self) -> SecretState:
        t, cells = self.t, self._cells
        last = None if t == 0 else np.array(self._last_release(), dtype=np.int64)
        return SecretState(
            t, (np.array(self._shifted + NOISE_OFFSET if cells is None else cells.sums, dtype=np.int64),), last
        )

    # -- counting -----------------------------------------------------------------------------------------------------

    def add(self, x: ArrayLike) -> Released:
        """Take one step's input and release the count so far: an int, or an int64 array for a histogram.

        Raises
        ------
        InputTypeError, InputShapeError, InputOutOfBound
            If x is not whole, of another shape, or too large; nothing changes.
        HorizonExceeded
            Past the last release; nothing changes.
        ForkedStream
            In a child of the process that built the counter.
        StreamInUse
            In a signal handler that came in the middle of another call.
        """
        if type(x) is int and self._least <= x <= self._most:
            turn = self._turn
            while True:
                try:
                    del turn[0]
                    break
                except IndexError:
                    turn.wait()
            try:
                t = self._t
                if turn.forks != forks.count:
                    raise ForkedStream
                if t == self._end:
                    self._look_ahead()
                # No call stands between these two assignments, so an interrupt cannot come between them either.
                self._shifted = shifted = self._shifted + x
                self._t = t + 1
                return shifted + self._ahead[t - self._base]
            finally:
                turn.append(None)
        if self._cells is not None:
            return cast(Released, self._add_row(self._settings.check_row(x)[0]))
        return self.add(self._settings.check_number(x))

    def extend(self, xs: ArrayLike) -> NDArray[np.int64]:
        """Take many steps' inputs; one release each, exactly those of `add` in a loop. All or nothing is taken.

        `xs` holds whole numbers (or True and False), one row a step.
        """
        return self.extend_checked(self._settings.check_rows(xs))

    def extend_checked(self, rows: NDArray[np.int64]) -> NDArray[np.int64]:
        return self._extend_numbers(rows) if self._cells is None else self._extend_rows(rows)

    # -- inside: all of it in turn ------------------------------------------------------------------------------------

    def _check_room(self, n: int) -> None:
        if self.t + n > self._settings.last:
            raise HorizonExceeded(horizon=self._settings.last, step=self.t + n)

    def _last_release(self) -> Any:
        """Return the last release, made once more if an interrupt took it away."""
        cells = self._cells
        if cells is None:
            return self._shifted + self._ahead[self._t - 1 - self._base]
        if cells.last is None:
            cells.last = np.add(self._noise_from(cells.t - 1).step(), cells.sums, dtype=np.int64)
        return cells.last.copy()

    def _look_ahead(self) -> None:
        """Make the noise of the next steps, more each time, so that a short count stays small."""
        self._check_room(1)
        t, last = self._t, self._ahead[-1]
        count = min(max(8, 2 * len(self._ahead)), MAX_LOOKAHEAD, self._settings.last - t)
        ahead = array("q", [last])
        ahead.frombytes((self._noise_from(t).block(count) + NOISE_OFFSET).tobytes())
        self._ahead, self._base, self._end = ahead, t - 1, t + count

    @in_turn
    def _add_row(self, row: NDArray[np.int64]) -> NDArray[np.int64]:
        self._check_room(1)
        cells = cast(HistogramSums, self._cells)
        return cells.take(row, self._noise_from(cells.t))

    @in_turn
    def _extend_rows(self, rows: NDArray[np.int64]) -> NDArray[np.int64]:
        self._check_room(len(rows))
        cells = cast(HistogramSums, self._cells)
        return cells.take_many(rows, self._noise_from(cells.t))

    @in_turn
    def _extend_numbers(self, rows: NDArray[np.int64]) -> NDArray[np.int64]:
        self._check_room(len(rows))
        n, t = len(rows), self._t
        out = np.empty(n, dtype=np.int64)
        ready = min(n, self._end - t)
        out[:ready] = self._ahead[t - self._base : t - self._base + ready]
        out[:ready] -= NOISE_OFFSET
        stream = self._noise_from(self._end) if n > ready else self._stream
        total = self._shifted + NOISE_OFFSET
        for low, high in _pieces(ready, n):
            if high > ready:
                out[low:high] = stream.block(high - low)
            sums = np.cumsum(rows[low:high], dtype=np.int64)
            sums += total
            out[low:high] += sums
            total = int(sums[-1])
        if n == ready:
            self._shifted, self._t = total - NOISE_OFFSET, t + n
        else:
            ahead, end, base = array("q", [int(out[-1]) - total + NOISE_OFFSET]), t + n, t + n - 1
            shifted = total - NOISE_OFFSET
            self._shifted, self._t, self._ahead, self._base, self._end = shifted, end, ahead, base, end
        return out


def _pieces(ready: int, n: int) -> list[tuple[int, int]]:
    """Cut 0..n into pieces that stay in cache; what is ready comes as a piece of its own."""
    starts = list(range(ready, n, CACHE_VALUES))
    pieces = [(low, min(low + CACHE_VALUES, n)) for low in starts]
    return [(0, ready), *pieces] if ready else pieces
