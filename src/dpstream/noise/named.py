"""NamedNoise: a mechanism's noise for names nobody listed beforehand, a pure function of (key, name, step).

Every name, whether it was ever seen or not, has a stream of noise of its own from step 1 on: that of a `NoiseStream` of
one whole number, from draws that are addressed by the name (`dpstream.noise.named_draws`). So a name's noise does not
depend on when the name came up, on other names, or on how often a step is asked for.

* A tree's release is made anew from its O(log T) draws: nothing is kept.
* A recurrence keeps its buffers for each name. The past of a name that comes up at step t is walked through once: t
  draws, 16 steps at a time.

Both are rounded to the nearest integer of the ideal noise by the same guard band and the same ball arithmetic as all
other noise (docs/exact-rounding.md, "Named noise"), so which of the ways a value was computed does not show.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, NoReturn

import numpy as np
from numpy.typing import NDArray

from dpstream import kernel
from dpstream.errors import HorizonExceeded, InvalidArgument, NoiseLawError
from dpstream.mechanisms.base import Mechanism
from dpstream.mechanisms.recurrence import RecurrenceMechanism
from dpstream.mechanisms.stack import StackMechanism
from dpstream.noise.draws import NARROW, Draws
from dpstream.noise.engine import UNIT, Chunks, Engine, make_engine
from dpstream.noise.exact import nearest_integer
from dpstream.noise.keystream import FORMAT_VERSION, Keystream, check_key, fresh_key
from dpstream.noise.named_draws import STEPS_LIMIT, TAG_WORDS, NamedDraws, Tags
from dpstream.noise.recurrence_engine import RecurrenceEngine
from dpstream.noise.recurrence_tables import leap_tables
from dpstream.noise.settings import check_scale

__all__ = ["NamedNoise", "NamedRows", "serves_names"]

#: Names of one chunk of `NamedRows`: the first has few, so that a short list stays small.
FIRST_CHUNK, LARGEST_CHUNK = 64, 1 << 14
#: Draws that a walk through the past makes at a time.
WALK_DRAWS = 1 << 16


def serves_names(mechanism: Mechanism) -> bool:
    """Say whether named noise can stream this mechanism: Gaussian, with a horizon, a tree or a positive recurrence."""
    if mechanism.noise != "gaussian" or mechanism.horizon is None or mechanism.horizon > STEPS_LIMIT:
        return False
    if isinstance(mechanism, StackMechanism):
        return mechanism.entries(1) is not None
    return isinstance(_engine(mechanism, 1), RecurrenceEngine)


class NamedNoise:
    """The noise ``scale · (L z)_t`` of every name, rounded to the nearest integers.

    Parameters
    ----------
    mechanism
        How noise is shared over time: a tree whose entries are single nodes, or a recurrence with positive weights
        (`BalancedToeplitz`, `BufferedToeplitz`, real fitted ones); Gaussian, with a horizon.
    scale
        The scale of the draws z.
    key
        32 secret bytes, or None for fresh ones. **Same key, mechanism and scale: same noise**, for every name.

    Guarantee
    ---------
    Each name's values are those of infinite precision: the integers nearest to ideal Gaussian noise with the
    covariance scale² · L Lᵀ, independent from name to name. Assumed: the key is secret and uniform, BLAKE2b and
    AES-256 are pseudorandom functions, and no two names share a 96-bit tag (2^-57 for a million names).

    Examples
    --------
    >>> from dpstream.mechanisms import BalancedToeplitz
    >>> from dpstream.testing import fixed_key
    >>> noise = NamedNoise(BalancedToeplitz(100), scale=10.0, key=fixed_key("docs"))
    >>> tags = noise.tags(["rose", "tulip"])
    >>> [noise.values(tags, t).tolist() for t in (1, 2, 100)]
    [[24, -30], [-23, -19], [-14, -15]]
    >>> rows = noise.rows()  # the same, step after step
    >>> rows.append(tags, after=0)
    >>> rows.at(1).tolist(), rows.at(2).tolist()
    ([24, -30], [-23, -19])
    """

    def __init__(self, mechanism: Mechanism, scale: float, *, key: bytes | None = None) -> None:
        if not serves_names(mechanism):
            raise NoiseLawError(
                f"{mechanism!r} cannot make noise for names: take a tree of single nodes or a recurrence with positive"
                f" weights and at most {STEPS_LIMIT} steps, such as BalancedToeplitz or SmoothBinary, with Gaussian"
                " noise"
            )
        self._mechanism, self._scale = mechanism, check_scale(scale, exact=True)
        configuration = {"mechanism": mechanism.identity, "scale": repr(self._scale), "format": FORMAT_VERSION}
        self._draws = NamedDraws(fresh_key() if key is None else check_key(key), configuration)
        # Two engines whose loops are used here, for their tables and proven bounds only; they make no noise.
        self._leaping, self._stepping = _engine(mechanism, 1), _engine(mechanism, NARROW)

    def __repr__(self) -> str:
        return f"NamedNoise({self._mechanism!r}, scale={self._scale!r}, key=<hidden>)"

    def __reduce__(self) -> NoReturn:
        raise TypeError("a NamedNoise holds a secret key and cannot be pickled")

    @property
    def mechanism(self) -> Mechanism:
        """How noise is shared over time."""
        return self._mechanism

    @property
    def scale(self) -> float:
        """The scale of the draws."""
        return self._scale

    @property
    def recurrence(self) -> RecurrenceMechanism | None:
        """The recurrence as its engine streams it; None for a tree."""
        return self._stepping.mechanism if isinstance(self._stepping, RecurrenceEngine) else None

    @property
    def slow_buffers(self) -> int:
        """How many buffers of a recurrence are kept in double-double."""
        return self._stepping.slow_buffers if isinstance(self._stepping, RecurrenceEngine) else 0

    def tags(self, names: Iterable[str]) -> Tags:
        """Return what stands for these names under this key, one row each. The names are taken as they are spelled."""
        return self._draws.tags(names)

    def rows(self) -> NamedRows:
        """Return an empty list of names whose noise is made step after step."""
        return NamedRows(self)

    def values(self, tags: Tags, t: int) -> NDArray[np.int64]:
        """Return the noise of release t for these names, whatever was asked before."""
        t = self._checked_step(t)
        if self.recurrence is not None:
            walked = (self.walk(tags[low : low + n], t)[0] for low, n in _batches(len(tags), t))
            unit = np.concatenate([np.empty(0), *walked])
        else:
            unit = self.tree_release(tags, t)
        return self.rounded(unit, tags, t)

    # -- for `NamedRows` ----------------------------------------------------------------------------------------------

    def walk(self, tags: Tags, t: int) -> tuple[NDArray[np.float64], NDArray[np.float64], NDArray[np.float64]]:
        """Walk a recurrence from step 1 to t; return its unit noise at t and both halves of its buffers after t."""
        recurrence = self.recurrence
        assert recurrence is not None  # noqa: S101
        names, buffers = len(tags), len(recurrence.gaps)
        high, low, unit = np.zeros((buffers, names)), np.zeros((buffers, names)), np.zeros(names)
        tables = leap_tables(tuple(recurrence.gaps.tolist()), tuple(recurrence.weights.tolist()))
        most = max(kernel.STEPS_AT_ONCE, WALK_DRAWS // max(names, 1))
        for done in range(0, t if names else 0, most):
            count = min(most, t - done)
            draws = np.ascontiguousarray(self._draws.rows(tags, done + 1, count, 0))
            entering, leaving = recurrence.input_scale(done + 1, count), recurrence.output_scale(done + 1, count)
            out = np.empty((count, names))
            kernel.recurrence_leap_f64(draws, entering, leaving, *tables, high, low, out)
            unit = out[-1]
        return unit, high, low

    def draws(self, tags: Tags, t: int, count: int) -> NDArray[np.float64]:
        """Return the draws of a recurrence at `count` steps from t on, one row a step: two cost as much as one."""
        return np.ascontiguousarray(self._draws.rows(tags, t, count, 0))

    def stepped(
        self, draws: NDArray[np.float64], t: int, high: NDArray[np.float64], low: NDArray[np.float64]
    ) -> NDArray[np.float64]:
        """Make step t of a recurrence from its draws; its buffers stand after t - 1 and move. Return the unit noise."""
        recurrence = self.recurrence
        assert recurrence is not None  # noqa: S101
        out = np.empty(len(draws))
        entering, leaving = (float(of(t, 1)[0]) for of in (recurrence.input_scale, recurrence.output_scale))
        kernel.recurrence_mixed_f64(draws, entering, leaving, recurrence.gaps, recurrence.weights, high, low, out)
        return out

    def tree_release(self, tags: Tags, t: int) -> NDArray[np.float64]:
        """Return a tree's unit noise at t from its O(log T) draws."""
        unit = self._mechanism.noise_of_release(t, lambda step, slot: self._draws.rows(tags, step, 1, slot)[0])
        return np.array(unit, dtype=np.float64)

    def rounded(self, unit: NDArray[np.float64], tags: Tags, t: int) -> NDArray[np.int64]:
        """Return the integers nearest to the ideal noise of release t, given the computed unit noise."""
        scaled = self._scale * unit
        largest = float(np.abs(scaled).max(initial=0.0))
        guard = (self._scale * self.error(t) + 2 * UNIT * largest) * 1.01
        out = np.empty(len(unit), dtype=np.int64)
        for index in kernel.round_guarded(scaled, guard, out).tolist():
            out[index] = self._decided(tags[index], t)
        return out

    def error(self, t: int) -> float:
        """Bound |computed - ideal| of unit noise up to release t: of a walk, of steps, and so of steps after a walk."""
        if self.recurrence is None:
            return self._leaping.error(t)
        return self._leaping.error(t) + self._stepping.error(t)

    def _decided(self, tag: NDArray[np.uint32], t: int) -> int:
        """Return the integer nearest to the ideal noise of one name, by ball arithmetic."""

        def ideal_noise(bits: int) -> Any:
            return self._scale * self._mechanism.noise_of_release(
                t, lambda step, slot: self._draws.ideal(tag, step, slot, bits)
            )

        return nearest_integer(ideal_noise)

    def _checked_step(self, t: int) -> int:
        assert self._mechanism.horizon is not None  # noqa: S101
        if t > self._mechanism.horizon:
            raise HorizonExceeded(horizon=self._mechanism.horizon, step=t)
        if t < 1:
            raise InvalidArgument("t", t, "a step from 1 on")
        return t


class NamedRows:
    """Names in the order in which they came, and their noise step after step: the values of `NamedNoise.values`.

    Memory of a name: 12 bytes for its tag, 8 for its last noise, and for a recurrence 8 for draws and 8 for each
    buffer (16 for the slow ones); nothing more for a tree. For one thread at a time.
    """

    def __init__(self, noise: NamedNoise) -> None:
        self._noise = noise
        self._chunks: list[_Chunk] = []
        self._count = 0

    def __len__(self) -> int:
        return self._count

    def __reduce__(self) -> NoReturn:
        raise TypeError("NamedRows hold a secret key and cannot be pickled")

    @property
    def nbytes(self) -> int:
        """How many bytes the arrays take."""
        return sum(chunk.nbytes for chunk in self._chunks)

    def append(self, tags: Tags, *, after: int) -> None:
        """Add names that come up after step `after`; what they would have had until then is worked out."""
        at, end = self._count, self._count + len(tags)
        while at < end:
            room = sum(chunk.room for chunk in self._chunks)
            if at >= room:
                self._chunks.append(_Chunk(self._noise, room, min(FIRST_CHUNK << len(self._chunks), LARGEST_CHUNK)))
                continue
            chunk = next(chunk for chunk in reversed(self._chunks) if chunk.first <= at)
            at += chunk.put(at, tags[at - self._count :], after)
        self._count = end  # last: an interruption before leaves the names to be put there again

    def cut(self, count: int) -> None:
        """Forget the names from number `count` on."""
        self._count = min(count, self._count)

    def at(self, t: int) -> NDArray[np.int64]:
        """Return the noise of release t for all names; cheap for the step after the last one, or that one."""
        t = self._noise._checked_step(t)
        return np.concatenate([np.empty(0, dtype=np.int64), *(chunk.at(t) for chunk in self._chunks)])[: self._count]


class _Chunk:
    """Room for some names from number `first` on, with the buffers of all of them after step `t`.

    `t` is -1 while buffers are being moved. Columns without a name have the noise of the tag 0, which nobody looks at.
    """

    def __init__(self, noise: NamedNoise, first: int, room: int) -> None:
        self._noise, self.first, self.room = noise, first, room
        self._tags = np.zeros((room, TAG_WORDS), dtype=np.uint32)
        recurrence = noise.recurrence
        buffers = 0 if recurrence is None else len(recurrence.gaps)
        self._high, self._low = np.zeros((buffers, room)), np.zeros((noise.slow_buffers, room))
        self._t, self._made = 0, np.zeros(room, dtype=np.int64)
        self._made_at = 0
        #: Draws come in pairs of steps, an odd one and the next: those of the next, and which it is; 0: none are kept.
        self._ahead, self._ahead_at = np.zeros(0), 0

    @property
    def nbytes(self) -> int:
        return sum(array.nbytes for array in (self._tags, self._high, self._low, self._made, self._ahead))

    def put(self, at: int, tags: Tags, after: int) -> int:
        """Put as many names as there is room for at number `at`, their buffers after step `after`; return how many."""
        start = at - self.first
        new = tags[: self.room - start]
        if not start:
            self._t = after  # no names here yet
        elif self._t != after:
            self._stand(after)
        self._made_at = self._ahead_at = 0
        self._tags[start : start + len(new)] = new
        self._walk(slice(start, start + len(new)), after)
        return len(new)

    def at(self, t: int) -> NDArray[np.int64]:
        if self._made_at != t:
            unit = self._unit(t)
            self._made_at = 0
            self._made[:] = self._noise.rounded(unit, self._tags, t)
            self._made_at = t
        return self._made

    def _unit(self, t: int) -> NDArray[np.float64]:
        if self._noise.recurrence is None:
            return self._noise.tree_release(self._tags, t)
        if self._t != t - 1:
            self._stand(t - 1)
        draws = self._draws(t)
        self._t = -1  # an interruption in the middle leaves buffers that no step stands for
        unit = self._noise.stepped(draws, t, self._high, self._low)
        self._t = t
        return unit

    def _draws(self, t: int) -> NDArray[np.float64]:
        if self._ahead_at == t:
            return self._ahead
        both = self._noise.draws(self._tags, t, 1 + t % 2)
        self._ahead_at = 0
        if t % 2:
            self._ahead = both[1].copy()  # a view would keep both rows
            self._ahead_at = t + 1
        first: NDArray[np.float64] = both[0]
        return first

    def _stand(self, t: int) -> None:
        """Put all buffers after step t."""
        self._t = -1
        self._walk(slice(0, self.room), t)
        self._t = t

    def _walk(self, where: slice, t: int) -> None:
        if self._noise.recurrence is None:
            return
        first = where.start
        for low, n in _batches(where.stop - first, t):
            names = slice(first + low, first + low + n)
            _, self._high[:, names], rest = self._noise.walk(self._tags[names], t)
            self._low[:, names] = rest[: len(self._low)]


def _batches(names: int, steps: int) -> Iterable[tuple[int, int]]:
    """Cut names into runs (first, how many) whose draws of so many steps fit the cache."""
    most = max(1, WALK_DRAWS // max(steps, 1))
    return [(low, min(most, names - low)) for low in range(0, names, most)]


def _engine(mechanism: Mechanism, coordinates: int) -> Engine:
    """Return the exact engine of a mechanism for so many coordinates, under a key that nothing is drawn from."""
    draws = Draws(Keystream(bytes(32)), mechanism.noise, coordinates, np.dtype(np.float64), exact=True)
    return make_engine(mechanism, draws, Chunks(coordinates, 1))
