"""Counter: private running counts, whole numbers in and whole numbers out.

    release_t = (exact running count)_t + (integer nearest to the ideal noise of step t)

The published integer is the one that infinite precision would publish, so the guarantee holds for the bits that leave
the machine. Nothing is clipped, rounded or dropped unless asked for by name, and a refused input changes nothing.
"""

from __future__ import annotations

import math
from array import array
from collections.abc import Sequence
from dataclasses import replace
from functools import lru_cache
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from dpstream.arguments import check_whole
from dpstream.budget import Budget
from dpstream.errors import (
    HorizonExceeded,
    InputOutOfBound,
    InputShapeError,
    InputTypeError,
    InvalidArgument,
    NoReleaseYet,
    SumsTooLarge,
)
from dpstream.mechanisms.base import Mechanism
from dpstream.noise import stream as noise_stream
from dpstream.noise.settings import check_shape
from dpstream.participation import Participation
from dpstream.release.interval import check_confidence, half_width, rounded_variance
from dpstream.release.plan import choose
from dpstream.release.terms import (
    Neighbours,
    Terms,
    check_budget,
    check_flag,
    check_name,
    check_neighbours,
    check_participation,
    check_release_horizon,
    settle_mechanism,
)
from dpstream.release.under_terms import UnderTerms
from dpstream.release.whole_inputs import exact_norm, one_row, shrunk, whole_number, within_dtype
from dpstream.turns import forks

__all__ = ["Counter"]

#: A counter of single numbers keeps up to this many noise values ready: one compiled call for all of them.
AHEAD = 1024
#: `extend` works on this many values at a time, which stay in cache.
CHUNK = 1 << 15
#: Sums and noise stay below this; noise is given this many standard deviations of room (the largest draw has 44).
LARGEST = 2**63 - 1
#: Without a horizon a step may hold this much unless `per_step` says otherwise: 2^30 such steps fit (`Terms.last`).
ENDLESS_STEP = 2**32
ROOM = 4096
#: Noise waits with this added: Python keeps small numbers ready and makes larger ones, so that reading bare noise would
#: take a little less time when it is small.
LIFT = 2**40
#: √2 rounded up.
_ROOT_2 = 1.4142135623730952


class Counter(UnderTerms):
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
        the sums, which must fit into 64 bits: (2^63 - 1 - room for the noise) / `horizon`, or 2^32 without a horizon.
    mechanism
        How noise is shared over time; "auto" takes the first of `dpstream.plan`.
    participation
        In how many steps one person may appear; `ContributionLimit` enforces it.
    neighbours
        "add-remove": a person's input may be there or be 0. "replace": it may be there or be another one; inputs are
        then counts, never negative.
    clip
        Make inputs that are too large fit, and count them in `clipped`, instead of refusing them: numbers move to the
        nearest one allowed, histograms shrink (rounded towards 0).
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
      vectors without negative entries are no further apart than that).
    * Horizon: `horizon` releases; a further one is refused.
    * Adaptivity: inputs may depend on earlier releases.
    * Exactness: the integers released are those of infinite precision; no δ is added, no sum can overflow.
    * Key: assumed secret, uniform, and used for this data only.

    Examples
    --------
    >>> import dpstream as dp
    >>> from dpstream.testing import fixed_key  # leave the key out for real data
    >>> visits = dp.Counter(horizon=1000, budget=dp.zcdp(rho=0.5), key=fixed_key("visits"))
    >>> visits.add(1), visits.add(0)
    (..., ...)
    >>> visits.extend([1, 1, 0, 1])
    array([...])
    >>> visits.t, visits.remaining
    (6, 994)
    >>> low, high = visits.interval(confidence=0.999999)
    >>> low <= 4 <= high
    True
    """

    __slots__ = (
        "_ahead",
        "_at",
        "_before",
        "_clip",
        "_clipped",
        "_forks",
        "_last",
        "_least",
        "_made",
        "_most",
        "_per_step",
        "_scale",
        "_stream",
        "_sum",
        "_terms",
    )

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
        clip: bool = False,
        name: str = "",
        key: bytes | None = None,
    ) -> None:
        horizon, budget = check_release_horizon(horizon), check_budget(budget)
        terms, scale, limit = _settled(
            horizon,
            budget,
            check_shape(shape),
            check_whole("per_person", per_person),
            None if per_step is None else check_whole("per_step", per_step),
            settle_mechanism(mechanism, horizon, budget),
            check_participation(participation),
            check_neighbours(neighbours),
        )
        if check_name(name) or check_flag("clip", clip):
            terms = replace(terms, name=name, clip=clip)
        self._terms, self._scale, self._per_step = terms, scale, limit
        self._clip = clip
        self._clipped = 0
        self._stream = terms.stream(key, scale=scale)
        self._forks = forks.count
        # An empty range for histograms, so that `add` passes them on.
        self._least, self._most = (1, 0) if terms.shape else (0 if neighbours == "replace" else -limit, limit)
        # Noise made ahead, plus LIFT: _ahead[_at:] is still to come, _ahead[_at - 1] was that of the last release.
        self._ahead = array("q", [LIFT])
        self._at = self._made = 1
        self._before = -1
        self._sum: Any = np.zeros(terms.shape, dtype=np.int64) if terms.shape else 0
        self._last: Any = None

    def __repr__(self) -> str:
        terms = self._terms
        return (
            f"Counter(horizon={terms.horizon}, budget={terms.budget!r}, shape={terms.shape},"
            f" per_person={terms.per_person:g}, mechanism={terms.mechanism!r}, name={terms.name!r}, key=<hidden>)"
            f" at step {self.t}"
        )

    def __reduce__(self) -> Any:
        raise TypeError("a Counter holds a secret key and exact counts and cannot be pickled")

    # -- looking ------------------------------------------------------------------------------------------------------

    @property
    def t(self) -> int:
        """How many releases have been made."""
        return self._before + self._at

    def stddev(self, t: int | None = None) -> float:
        """The standard deviation of release t, rounding included; of the last one if t is left out.

        Before the first release: that of the first.
        """
        return math.sqrt(rounded_variance(self._terms.noise(max(self.t, 1) if t is None else t, self._scale)))

    def interval(self, confidence: float = 0.95) -> tuple[Any, Any]:
        """(low, high), the narrowest around the last release that holds the true count with this probability or more.

        Exact for rounded noise of either law. For a histogram, arrays: each entry's interval holds on its own.

        Raises
        ------
        NoReleaseYet
            Before the first release.
        """
        confidence = check_confidence(confidence)
        if self.t == 0:
            raise NoReleaseYet
        h = half_width(self._terms.noise(self.t, self._scale), confidence)
        last = self._last_release()
        return last - h, last + h

    def describe(self) -> str:
        """One paragraph in plain words: what is promised, to whom, against whom, and what is not."""
        return self._terms.describe(self.stddev(), max(self.t, 1))

    # -- counting -----------------------------------------------------------------------------------------------------

    def add(self, x: Any = 1) -> Any:
        """Take one step's input and release the count so far: an int, or an int64 array for a histogram.

        Raises
        ------
        InputTypeError, InputShapeError, InputOutOfBound
            If x is not whole, of another shape, or too large; nothing changes.
        HorizonExceeded
            Past the last release; nothing changes.
        ForkedStream
            In a child of the process that built the counter.
        """
        at = self._at
        if type(x) is int and self._least <= x <= self._most and at < self._made and self._forks == forks.count:
            # No call stands between these two assignments, so an interrupt cannot come between them either.
            self._sum = total = self._sum + x
            self._at = at + 1
            return total + self._ahead[at] - LIFT
        return self._add_array(x) if self._terms.shape else self._add_number(x)

    def extend(self, xs: ArrayLike) -> NDArray[np.int64]:
        """Take many steps' inputs; one release each, exactly those of `add` in a loop. All or nothing is taken.

        `xs` holds whole numbers (or True and False), one row a step.
        """
        rows, clipped = self._checked_rows(xs)
        self._check_room(len(rows))
        if self._terms.shape:
            return self._extend_arrays(rows, clipped)
        return self._extend_numbers(rows, clipped)

    def fresh(self, key: bytes | None = None) -> Counter:
        """A counter with the same settings and its own key, from step 1. It spends a budget of its own."""
        terms = self._terms
        return Counter(
            terms.horizon,
            terms.budget,
            shape=terms.shape,
            per_person=int(terms.per_person),
            per_step=self._per_step,
            mechanism=terms.mechanism,
            participation=terms.participation,
            neighbours=terms.neighbours,
            clip=self._clip,
            name=terms.name,
            key=key,
        )

    def _resume(self, t: int, sums: Any, last: Any, clipped: int, stream: noise_stream.NoiseStream) -> None:
        """Stand after step t, which had these sums and this release: for a store, which keeps them."""
        self._stream = stream
        self._sum, self._clipped = sums, clipped
        if self._terms.shape:
            # A copy: the next release is made in this array.
            self._last = None if last is None else np.array(last, dtype=np.int64)
        elif t:
            self._ahead = array("q", [last - sums + LIFT])
        self._at = self._made = 1
        self._before = t - 1

    # -- single numbers -----------------------------------------------------------------------------------------------

    def _add_number(self, x: Any) -> int:
        x = whole_number(x)
        fits = min(max(x, self._least), self._most)
        if fits != x and not self._clip:
            raise InputOutOfBound(given=x, least=self._least, most=self._most, what="the value")
        self._check_room(1)
        if self._at == self._made:
            self._look_ahead()
        at = self._at
        self._clipped += fits != x
        self._sum = total = self._sum + fits
        self._at = at + 1
        return int(total + self._ahead[at] - LIFT)

    def _look_ahead(self) -> None:
        """Make the noise of the next steps, more each time, so that a short count stays small."""
        t, last = self.t, self._ahead[-1]
        count = min(max(8, 2 * self._made), AHEAD, self._terms.last - t)
        ahead = array("q", [last])
        ahead.frombytes((self._noise_from(t).block(count) + LIFT).tobytes())
        self._ahead, self._at, self._made, self._before = ahead, 1, count + 1, t - 1

    def _noise_from(self, t: int) -> noise_stream.NoiseStream:
        """The stream, standing after step t: it may have gone on and been interrupted before we took its noise."""
        if self._stream.t != t:
            self._stream.seek(t)
        return self._stream

    def _extend_numbers(self, rows: NDArray[np.int64], clipped: int) -> NDArray[np.int64]:
        n, t, at = len(rows), self.t, self._at
        out = np.empty(n, dtype=np.int64)
        ready = min(n, self._made - at)
        out[:ready] = self._ahead[at : at + ready]
        out[:ready] -= LIFT
        stream = self._noise_from(t + self._made - at) if n > ready else self._stream
        total = self._sum
        for low, high in _pieces(ready, n):
            if high > ready:
                out[low:high] = stream.block(high - low)
            sums = np.cumsum(rows[low:high], dtype=np.int64)
            sums += total
            out[low:high] += sums
            total = int(sums[-1])
        if n == ready:
            self._sum, self._at, self._clipped = total, at + n, self._clipped + clipped
        else:
            ahead = array("q", [int(out[-1]) - total + LIFT])
            self._sum, self._clipped = total, self._clipped + clipped
            self._ahead, self._at, self._made, self._before = ahead, 1, 1, t + n - 1
        return out

    # -- histograms ---------------------------------------------------------------------------------------------------

    def _add_array(self, x: Any) -> NDArray[np.int64]:
        rows, clipped = self._checked_rows(one_row(x, self._terms.shape))
        self._check_room(1)
        row, sums = rows[0], self._sum
        # The last release's own array becomes this one's: one array less while the noise is made.
        release, self._last = self._last, None
        if release is None:
            release = np.empty(self._terms.shape, dtype=np.int64)
        self._noise_from(self.t).step(release)
        # As in `add`: no call, and so no interrupt, from here to the last assignment.
        sums += row
        release += sums
        self._last = release
        self._clipped += clipped
        self._at += 1
        return np.array(release)

    def _last_release(self) -> Any:
        """The last release, made once more if an interrupt took it away."""
        if not self._terms.shape:
            return self._sum + self._ahead[self._at - 1] - LIFT
        if self._last is None:
            self._last = self._noise_from(self.t - 1).step() + self._sum
        return self._last

    def _extend_arrays(self, rows: NDArray[np.int64], clipped: int) -> NDArray[np.int64]:
        n = len(rows)
        out: NDArray[np.int64] = self._noise_from(self.t).block(n)
        if n == 0:
            return out
        total = self._sum.copy()
        for noise, row in zip(out, rows, strict=True):
            total += row
            noise += total
        last = out[-1].copy()
        self._sum, self._last, self._clipped = total, last, self._clipped + clipped
        self._at += n
        return out

    # -- the door -----------------------------------------------------------------------------------------------------

    def _check_room(self, n: int) -> None:
        self._stream._check_fork()
        if self.t + n > self._terms.last:
            raise HorizonExceeded(horizon=self._terms.last, step=self.t + n)

    def _checked_rows(self, xs: ArrayLike) -> tuple[NDArray[np.int64], int]:
        """The inputs of many steps as whole numbers within bounds, and how many had to be clipped."""
        given = np.asarray(xs)
        shape = self._terms.shape
        if given.shape[1:] != shape or given.ndim == 0:
            raise InputShapeError(given=given.shape, allowed=str(("n", *shape)).replace("'", ""))
        if given.size == 0:
            return np.empty((0, *shape), dtype=np.int64), 0
        if given.dtype.kind not in "iub":
            raise InputTypeError(given=f"{given.dtype.name} values", allowed="whole numbers (or True and False)")
        if shape:
            return self._checked_histograms(given)
        low, high = int(given.min()), int(given.max())
        if low >= self._least and high <= self._most:
            return given, 0
        if not self._clip:
            off = low if low < self._least else high
            raise InputOutOfBound(given=off, least=self._least, most=self._most, what="the value")
        clipped = int(((given < self._least) | (given > self._most)).sum())
        return np.clip(given, *within_dtype(given.dtype, self._least, self._most)).astype(np.int64), clipped

    def _checked_histograms(self, given: NDArray[Any]) -> tuple[NDArray[np.int64], int]:
        counts_only = self._terms.neighbours == "replace"
        laplace = self._terms.budget.noise == "laplace"
        clipped, rows = 0, given
        for i, row in enumerate(given):
            low, high = int(row.min()), int(row.max())
            norm = exact_norm(row, max(high, -low), laplace=laplace)
            if norm <= (self._per_step if laplace else self._per_step**2) and not (counts_only and low < 0):
                continue
            if not self._clip:
                if counts_only and low < 0:
                    raise InputOutOfBound(given=low, least=0, most=self._per_step, what="every entry")
                size, which = (float(norm), "ℓ1") if laplace else (math.sqrt(norm), "ℓ2")
                raise InputOutOfBound(given=size, least=0, most=self._per_step, what=f"the {which} norm")
            if clipped == 0:
                rows = given.astype(np.int64)
            clipped += 1
            rows[i] = shrunk(row, self._per_step, counts_only=counts_only, laplace=laplace)
        return rows.astype(np.int64, copy=False), clipped


@lru_cache(maxsize=256)
def _settled(
    horizon: int | None,
    budget: Budget,
    shape: tuple[int, ...],
    per_person: int,
    per_step: int | None,
    mechanism: Mechanism | None,
    participation: Participation,
    neighbours: Neighbours,
) -> tuple[Terms, float, int]:
    """The terms (without a name), the scale of the noise, and the largest input of a step.

    Remembered, because many counters with the same settings may be built at once.
    """
    if per_step is not None and per_step < per_person:
        raise InvalidArgument("per_step", per_step, f"at least per_person={per_person}, or None")
    distance = float(per_person)
    if neighbours == "replace" and math.prod(shape) > 1:
        distance *= 2.0 if budget.noise == "laplace" else _ROOT_2
    chosen = choose(horizon, budget.noise, math.prod(shape), "exact", participation) if mechanism is None else mechanism
    terms = Terms(
        "exact",
        horizon,
        budget,
        chosen,
        shape,
        per_person,
        distance,
        participation,
        neighbours,
        "int64",
        "",
        max(per_person, ENDLESS_STEP) if per_step is None else per_step,
    )
    scale = terms.scale
    noise = math.ceil(ROOM * terms.typical_noise(scale)[1])
    if per_step is None and horizon is not None:
        terms = replace(terms, per_step=max(per_person, (LARGEST - 1 - noise) // horizon))
    limit = int(terms.per_step)
    if terms.last * limit + noise >= LARGEST:
        raise SumsTooLarge(horizon=terms.last, per_step=limit, noise=noise, most=LARGEST)
    return terms, scale, limit


def _pieces(ready: int, n: int) -> list[tuple[int, int]]:
    """0..n in pieces that stay in cache; what is ready comes as a piece of its own."""
    starts = list(range(ready, n, CHUNK))
    pieces = [(low, min(low + CHUNK, n)) for low in starts]
    return [(0, ready), *pieces] if ready else pieces
