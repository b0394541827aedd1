"""Counter: private running counts, whole numbers in and whole numbers out.

    release_t = (exact running count)_t + (integer nearest to the ideal noise of step t)

The published integer is the one that infinite precision would publish, so the guarantee holds for the bits that leave
the machine. Nothing is clipped, rounded or dropped, and a refused input changes nothing.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Generic, TypeVar, cast, overload

import numpy as np
from numpy.typing import ArrayLike, NDArray

from dpstream.arguments import check_probability, check_whole
from dpstream.budget import Budget
from dpstream.errors import ForkedStream, HorizonExceeded, NoReleaseYet
from dpstream.mechanisms.base import Mechanism
from dpstream.noise.stream import NoiseStream
from dpstream.participation import Participation
from dpstream.release.error_bars import Estimate, estimate_from_releases
from dpstream.release.histogram import HistogramSums
from dpstream.release.past_releases import KEPT_NUMBERS, PastArrays, PastNumbers, not_kept
from dpstream.release.release_stream import ReleaseStream
from dpstream.release.secret_state import SecretState
from dpstream.release.settings import Neighbours, StreamSettings
from dpstream.turns import Turn, forks, in_turn

__all__ = ["Counter"]

Released = TypeVar("Released", bound=int | NDArray[np.int64])

#: A counter of single numbers keeps at most this many noise values ready: one compiled call for all of them.
MAX_LOOKAHEAD = 2048
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
    windows
        Lengths of the windows that are wanted, such as (1, 7, 30): `window` tells their sums from the same releases,
        without further budget. With mechanism="auto" noise is fitted to them (which takes up to 3 s), and a histogram
        keeps the releases they need. Other windows are answered, too, with their exact error.
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
    (131, 230)
    >>> visits.extend([120, 0, 141])
    array([350, 350, 489])
    >>> visits.t, visits.remaining
    (5, 360)
    >>> visits.estimate()
    Estimate(value=489, stddev=2.66..., low=484, high=494)
    >>> visits.window(3)  # the last three days
    Estimate(value=259, stddev=3.09..., low=253, high=265)
    """

    __slots__ = ("_ahead", "_base", "_cells", "_least", "_most", "_next", "_past", "_ready", "_shifted")

    _cells: HistogramSums | None
    _past: PastNumbers | PastArrays | None

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
        windows: Sequence[int] = (),
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
        windows: Sequence[int] = (),
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
        windows: Sequence[int] = (),
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
            windows=windows,
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
            self._past = PastArrays(settings.windows[-1] + 1) if settings.windows else None
            return
        self._cells = None
        self._least, self._most = settings.input_range
        total = int(state.sums[0])
        self._shifted = total - NOISE_OFFSET
        # _ahead[i] belongs to step _base + i + 1: the release for i < _next, noise plus NOISE_OFFSET from there on; the
        # list has _ready items. An index that counts from the list's own start spares `add` a subtraction.
        self._ahead = [0 if state.last is None else int(state.last)]
        self._base, self._next, self._ready = state.t - 1, 1, 1
        if state.t and state.last is None:
            self._ahead[0] = total + int(self._noise_from(state.t - 1).step())
        self._past = PastNumbers(max(KEPT_NUMBERS, *(w + 1 for w in settings.windows), 0))

    # -- looking ------------------------------------------------------------------------------------------------------

    @property
    def t(self) -> int:
        """How many releases have been made."""
        return self._base + self._next if self._cells is None else self._cells.t

    @in_turn
    def estimate(self, confidence: float = 0.95, *, since: int = 0) -> Estimate[Released]:
        """Return the last release, or its change since an earlier one, with an interval that holds the count.

        The interval is of whole numbers, and holds the count without noise with this probability or more. It accounts
        for noise only: rows that the caller left out, such as those beyond a limit per person, are not in the count.
        For the total it is the narrowest, exact for rounded noise of either law; for a change it is proven, and the
        narrowest but for very little noise (`dpstream.release.change_law`). For a histogram, arrays: each entry's
        interval holds on its own.

        Parameters
        ----------
        confidence
            How often the interval holds the count without noise, at least.
        since
            An earlier release: what was counted in the steps after it. 0 for all steps.

        Raises
        ------
        NoReleaseYet
            Before the first release.
        ReleaseNotKept
            If the earlier release is not kept: a counter of single numbers keeps its last 65,536, a histogram only what
            its `windows` need.
        """
        return self._estimate(check_probability("confidence", confidence), since)

    @in_turn
    def window(self, steps: int, confidence: float = 0.95) -> Estimate[Released]:
        """Return what was counted in the last `steps` steps, since the start if there are fewer; see `estimate`.

        No budget is spent: it is the difference of two releases. They share noise, so its error is less than that of
        the two added up.
        """
        steps = check_whole("steps", steps)
        return self._estimate(check_probability("confidence", confidence), max(self.t - steps, 0))

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
                if self._next == self._ready:
                    self._look_ahead()
                    if turn.forks != forks.count:
                        raise ForkedStream
                ahead, i = self._ahead, self._next
                # No call stands between these assignments, so an interrupt cannot come between them either.
                self._shifted = shifted = self._shifted + x
                self._next = i + 1
                ahead[i] = release = shifted + ahead[i]
                return release
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

    def _estimate(self, confidence: float, since: int) -> Estimate[Released]:
        t = self.t
        if t == 0:
            raise NoReleaseYet
        if not check_whole("since", since, least=0):
            return estimate_from_releases(self._settings, t, self._last_release(), confidence)
        earlier = self._release(since) if since < t else None  # which the law of the change refuses by name
        return estimate_from_releases(self._settings, t, self._last_release(), confidence, since, earlier)

    def _release(self, step: int) -> Any:
        """Return an earlier release, if it is kept."""
        past = self._past
        if self._cells is None and step > self._base:
            return self._ahead[step - 1 - self._base]
        found = None if past is None else past.get(step)
        if found is None:
            raise not_kept(self._settings, self.t, step)
        return found

    def _last_release(self) -> Any:
        """Return the last release, made once more if an interrupt took it away."""
        cells = self._cells
        if cells is None:
            return self._ahead[self._next - 1]
        if cells.last is None:
            cells.last = np.add(self._noise_from(cells.t - 1).step(), cells.sums, dtype=np.int64)
        return cells.last.copy()

    def _look_ahead(self) -> None:
        """Make the noise of the next steps, more each time, so that a short count stays small."""
        self._check_room(1)
        t, used = self.t, self._ahead
        count = min(max(8, 2 * len(used)), MAX_LOOKAHEAD, self._settings.last - t)
        ahead = [used[-1], *(self._noise_from(t).block(count) + NOISE_OFFSET).tolist()]
        self._keep_used()
        self._ahead, self._base, self._next, self._ready = ahead, t - 1, 1, count + 1

    def _keep_used(self) -> None:
        """Keep the releases that stand in `_ahead`; what is kept already is skipped."""
        if self.t:
            # Before the first step the list begins with an item that is no release, and _base is -1.
            cast(PastNumbers, self._past).put(max(self._base, 0) + 1, self._ahead[-min(self._base, 0) : self._next])

    @in_turn
    def _add_row(self, row: NDArray[np.int64]) -> NDArray[np.int64]:
        self._check_room(1)
        cells = cast(HistogramSums, self._cells)
        release = cells.take(row, self._noise_from(cells.t))
        if self._past is not None:
            self._past.put(cells.t, release[None])
        return release

    @in_turn
    def _extend_rows(self, rows: NDArray[np.int64]) -> NDArray[np.int64]:
        self._check_room(len(rows))
        cells = cast(HistogramSums, self._cells)
        releases = cells.take_many(rows, self._noise_from(cells.t))
        if self._past is not None:
            self._past.put(cells.t - len(releases) + 1, releases)
        return releases

    @in_turn
    def _extend_numbers(self, rows: NDArray[np.int64]) -> NDArray[np.int64]:
        self._check_room(len(rows))
        n, t, i = len(rows), self.t, self._next
        out = np.empty(n, dtype=np.int64)
        ready = min(n, self._ready - i)
        out[:ready] = self._ahead[i : i + ready]
        out[:ready] -= NOISE_OFFSET
        stream = self._noise_from(t + ready) if n > ready else self._stream
        total = self._shifted + NOISE_OFFSET
        for low, high in _pieces(ready, n):
            if high > ready:
                out[low:high] = stream.block(high - low)
            sums = np.cumsum(rows[low:high], dtype=np.int64)
            sums += total
            out[low:high] += sums
            total = int(sums[-1])
        shifted = total - NOISE_OFFSET
        if n == ready:
            ahead = self._ahead.copy()
            ahead[i : i + n] = out.tolist()
            self._shifted, self._next, self._ahead = shifted, i + n, ahead
        else:
            self._keep_used()
            ahead, base = [int(out[-1])], t + n - 1
            self._shifted, self._ahead, self._base, self._next, self._ready = shifted, ahead, base, 1, 1
            cast(PastNumbers, self._past).put(t + 1, out)
        return out


def _pieces(ready: int, n: int) -> list[tuple[int, int]]:
    """Cut 0..n into pieces that stay in cache; what is ready comes as a piece of its own."""
    starts = list(range(ready, n, CACHE_VALUES))
    pieces = [(low, min(low + CACHE_VALUES, n)) for low in starts]
    return [(0, ready), *pieces] if ready else pieces
