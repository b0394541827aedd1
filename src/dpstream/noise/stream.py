"""NoiseStream: a mechanism's correlated noise, one step at a time.

    release_t = (true running sum)_t + noise.step()

Every draw is a pure function of (key, step), so the noise of step t is too: a stream that is restarted, moved or
replayed computes the same values again and can never give a step a second, different noise.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any, Self, TypeAlias, TypeVar, overload

import numpy as np
from numpy.typing import DTypeLike, NDArray

from dpstream.arguments import check_whole
from dpstream.errors import (
    ForkedStream,
    HorizonExceeded,
    InvalidArgument,
    NoiseLawError,
    OutputMismatch,
    StateError,
)
from dpstream.mechanisms.base import Mechanism
from dpstream.noise.draws import STEPS_LIMIT, Draws
from dpstream.noise.engine import Chunks, make_engine
from dpstream.noise.exact_rounding import ExactRounding
from dpstream.noise.keystream import Keystream, check_key, derive_from_digest, fresh_key
from dpstream.noise.saved_state import SavedState, open_state, seal_state
from dpstream.noise.settings import (
    check_dtype,
    check_part,
    check_scale,
    check_shape,
    check_threads,
    settings_digest,
    settings_of,
)
from dpstream.turns import Turn, forks, in_turn

__all__ = ["NoiseStream"]

#: A narrow stream makes up to this many values ahead, in one compiled call.
LOOKAHEAD_VALUES = 512
#: ... and `block` this many at a time, which keeps its temporaries in cache.
BLOCK_VALUES = 1 << 15

#: What a step returns: an array of the stream's dtype, or a NumPy scalar of it if the shape is ().
Noise: TypeAlias = NDArray[Any] | np.float32 | np.float64 | np.int64
Array = TypeVar("Array", bound=NDArray[Any])


class NoiseStream:
    """The noise ``scale · (L z)_t`` of a mechanism, for t = 1, 2, 3, ...

    Parameters
    ----------
    mechanism
        How the noise is shared over time.
    scale
        The scale of the draws z; `dpstream.budget.noise_scale` computes it from a budget.
    shape
        The shape of one release: () for a number.
    dtype
        "float32" or "float64": Gaussian noise in floating point (float lane). "int64": the integers nearest to the
        ideal noise (exact lane; Gaussian, or Laplace for trees).
    key
        32 secret bytes, or None for fresh ones from the operating system. The stream's own key is derived from it and
        from all settings above: streams that differ in anything share no noise. **Two streams with the same key and
        the same settings are the same stream.**
    threads
        How many threads a wide stream may use; None for one, or all processors from 2^18 coordinates on. The values
        do not depend on it.
    part
        (low, high): make only these coordinates of the flattened release, as one row of high - low values, the same
        as the whole stream's. For streams of 64 and more coordinates; `low` is a multiple of 64. None: all of them.

    Guarantee
    ---------
    Adding this noise to the running sums of a stream keeps the budget that `scale` was computed for: zCDP, (ε, δ) or
    pure ε, neighbouring streams as stated there, all releases up to the mechanism's horizon together, also when later
    inputs depend on earlier releases. The exact lane's promise holds for the integers that are published; the float
    lane's is that of real-valued noise. Assumed: the key is secret and uniformly random, AES-256 is a pseudorandom
    function, and each noise value is added to one sum only.

    Examples
    --------
    >>> from dpstream.mechanisms import SmoothBinary
    >>> from dpstream.testing import fixed_key
    >>> noise = NoiseStream(SmoothBinary(1000), scale=3.0, dtype="int64", key=fixed_key("docs"))
    >>> [int(noise.step()) for _ in range(5)]
    [-14, 8, -8, 0, 3]
    >>> noise.t
    5
    >>> again = NoiseStream(SmoothBinary(1000), scale=3.0, dtype="int64", key=fixed_key("docs"))
    >>> again.block(5).tolist()
    [-14, 8, -8, 0, 3]
    """

    def __init__(
        self,
        mechanism: Mechanism,
        scale: float,
        shape: int | Sequence[int] = (),
        *,
        dtype: DTypeLike = "float32",
        key: bytes | None = None,
        threads: int | None = None,
        part: tuple[int, int] | None = None,
    ) -> None:
        if not isinstance(mechanism, Mechanism):
            raise InvalidArgument("mechanism", mechanism, "a mechanism from dpstream.mechanisms")
        self._mechanism = mechanism
        self._dtype = check_dtype(dtype)
        self._exact = self._dtype == np.int64
        self._scale = check_scale(scale, exact=self._exact)
        self._shape = check_shape(shape)
        self._part = check_part(part, math.prod(self._shape))
        self._made = self._shape if self._part is None else (self._part[1] - self._part[0],)
        self._coordinates = math.prod(self._made)
        if mechanism.noise == "laplace" and not self._exact:
            raise NoiseLawError(f"Laplace noise needs dtype='int64' (the exact lane), got dtype={self._dtype.name!r}")
        if mechanism.horizon is not None and mechanism.horizon > STEPS_LIMIT:
            raise InvalidArgument("mechanism", mechanism, f"of at most {STEPS_LIMIT} steps")
        self._threads = check_threads(threads, self._coordinates)
        self._key_is_ours = key is None
        self._open(fresh_key() if key is None else check_key(key))

    def _open(self, key: bytes) -> None:
        """Derive the keys and stand before step 1."""
        self._master = key
        keystream = Keystream(derive_from_digest(key, self._digest("draws")))
        work = np.dtype(np.float64) if self._exact else self._dtype
        whole = math.prod(self._shape)
        self._draws = Draws(keystream, self._mechanism.noise, whole, work, exact=self._exact, part=self._part)
        gain = 1.0 if self._exact or self._draws.narrow else self._scale
        self._engine = make_engine(self._mechanism, self._draws, Chunks(self._coordinates, self._threads), gain)
        self._rounding = ExactRounding(self._engine, self._draws, self._scale) if self._exact else None
        self._most = STEPS_LIMIT if self._mechanism.horizon is None else self._mechanism.horizon
        self._turn = Turn()
        self._t = 0
        self._intact = True
        self._tracking = False
        self._last: NDArray[Any] | None = None
        self._forget_ahead()

    @property
    def _state_key(self) -> bytes:
        return derive_from_digest(self._master, self._digest("state"))

    def _digest(self, purpose: str) -> bytes:
        return settings_digest(purpose, self._mechanism.identity, self._scale, self._shape, self._dtype)

    def _configuration(self) -> dict[str, object]:
        settings = settings_of(self._mechanism.identity, self._scale, self._shape, self._dtype)
        return {**settings, "part": None if self._part is None else list(self._part)}

    def __repr__(self) -> str:
        return (
            f"NoiseStream({self._mechanism!r}, scale={self._scale!r}, shape={self._shape!r},"
            f" dtype={self._dtype.name!r}, key=<hidden>) at step {self._t}"
        )

    def __reduce__(self) -> Any:
        raise TypeError("a NoiseStream holds a secret key and cannot be pickled; use state() and from_state()")

    # -- looking --------------------------------------------------------------------------------------------------

    @property
    def t(self) -> int:
        """How many steps have been made."""
        return self._t

    @property
    def mechanism(self) -> Mechanism:
        """How the noise is shared over time."""
        return self._mechanism

    @property
    def scale(self) -> float:
        """The scale of the draws."""
        return self._scale

    @property
    def shape(self) -> tuple[int, ...]:
        """The shape of one release, or of the part of it that is made here."""
        return self._made

    @property
    def threads(self) -> int:
        """How many threads a step may use."""
        return self._threads

    @property
    def dtype(self) -> np.dtype[Any]:
        """float32, float64 or int64."""
        return self._dtype

    # -- stepping -------------------------------------------------------------------------------------------------

    @overload
    def step(self, out: None = None) -> Noise: ...
    @overload
    def step(self, out: Array) -> Array: ...
    def step(self, out: NDArray[Any] | None = None) -> Noise:
        """Return the noise of the next release, in a new array (a NumPy scalar if the shape is ()) or in `out`.

        Raises
        ------
        HorizonExceeded
            Past the last step; nothing changes, no noise is ever repeated.
        ForkedStream
            In a child of the process that opened the stream.
        StreamInUse
            If a signal handler calls in the middle of another call of its own thread. Other threads take turns.
        OutputMismatch
            If `out` has another shape or dtype, or is not contiguous and writable.
        """
        turn = self._turn
        while True:
            try:
                del turn[0]
                break
            except IndexError:
                turn.wait()
        try:
            if self._t >= self._most:
                raise HorizonExceeded(horizon=self._most, step=self._t + 1)
            if not self._intact:
                self._mend()
            if out is None and not self._made and self._ahead_at < len(self._ahead) and not self._tracking:
                # A number that is made already: no call stands between these lines, so no interrupt comes between them.
                value: Noise = self._ahead[self._ahead_at, 0]
                self._ahead_at += 1
                self._t += 1
                return value
            return self._step(out)
        finally:
            turn.append(None)

    def _step(self, out: NDArray[Any] | None) -> Noise:
        """Make the next step; the caller holds the turn and has checked that there is room."""
        target = self._target(out)
        noise = target.reshape(self._coordinates)
        self._intact = False
        if self._draws.narrow:
            if self._ahead_at == len(self._ahead):
                self._look_ahead()
            noise[...] = self._ahead[self._ahead_at]
            self._ahead_at += 1
        else:
            self._wide_step(noise)
        if self._turn.forks != forks.count:  # a handler forked in the middle: the step is the parent's
            raise ForkedStream
        if self._tracking:
            self._last = noise.copy()
        self._t += 1
        self._intact = True
        return target if out is not None or self._made else target[()]

    @overload
    def increment(self, out: None = None) -> Noise: ...
    @overload
    def increment(self, out: Array) -> Array: ...
    def increment(self, out: NDArray[Any] | None = None) -> Noise:
        """Return the noise of the next release minus that of the one before: what DP-FTRL adds to a gradient."""
        return self._increment(out)

    @in_turn
    def _increment(self, out: NDArray[Any] | None) -> Noise:
        self._check_room(1)
        return self._next_increment(out)

    def _next_increment(self, out: NDArray[Any] | None) -> Noise:
        """Make the next increment; the caller holds the turn and has checked that there is room."""
        target = self._target(out)
        if not self._draws.narrow and not self._tracking and self._engine.has_increments:
            self._intact = False
            self._engine.increment(target.reshape(self._coordinates))
            self._t += 1
            self._intact = True
            return target if out is not None or self._made else target[()]
        flat = target.reshape(self._coordinates)
        if not self._draws.narrow and not self._exact:
            flat.fill(0)
            self._add_wide_increment(flat)
            return target
        before = self._last if self._tracking else self._noise_again()
        self._tracking = False  # until the last noise is whole again: an interruption in between makes it anew
        self._step(target)
        self._last = flat.copy()
        if before is not None:
            flat -= before
        self._tracking = True
        return target if out is not None or self._made else target[()]

    @in_turn
    def add_increment(self, to: Array) -> Array:
        """Add what `increment` would return to `to`, an array of its shape and dtype, in its own memory; return it.

        No vector is made for the noise: it is added chunk by chunk. If the call fails or is interrupted, `to` is
        filled with NaN (0 for int64), since some of its coordinates have noise and some not.
        """
        self._check_room(1)
        flat = self._target(to).reshape(self._coordinates)
        try:
            if self._draws.narrow or self._exact:
                flat += np.asarray(self._next_increment(None)).reshape(self._coordinates)
            else:
                self._add_wide_increment(flat)
            if self._turn.forks != forks.count:
                raise ForkedStream
        except BaseException:
            flat[...] = 0 if self._exact else np.nan
            raise
        return to

    def _add_wide_increment(self, flat: NDArray[Any]) -> None:
        if not self._tracking and self._engine.has_increments:
            self._intact = False
            self._engine.add_increment(flat)
        else:
            last = self._noise_again() if not self._tracking else self._last
            last = np.zeros(self._coordinates, self._dtype) if last is None else last
            self._tracking = False  # until all of `last` is the noise of this step
            self._intact = False
            self._engine.add_difference(last, flat)
            self._last, self._tracking = last, True
        self._t += 1
        self._intact = True

    @in_turn
    def block(self, n: int) -> NDArray[Any]:
        """Return the noise of the next `n` releases, one row each: the same values as n calls of `step`."""
        n = check_whole("n", n, least=0)
        self._check_room(n)
        out = np.empty((n, self._coordinates), dtype=self._dtype)
        self._intact = False
        if self._draws.narrow:
            ready = min(n, len(self._ahead) - self._ahead_at)
            out[:ready] = self._ahead[self._ahead_at : self._ahead_at + ready]
            self._ahead_at += ready
            most = max(1, BLOCK_VALUES // self._coordinates)
            with self._engine.workspace.kept():
                for low in range(ready, n, most):
                    self._narrow_rows(out[low : low + most])
            if n > ready:
                self._forget_ahead()
        else:
            for row in out:
                self._wide_step(row)
        if self._tracking and n:
            self._last = out[-1].copy()
        self._t += n
        self._intact = True
        return out.reshape((n, *self._made))

    @in_turn
    def seek(self, t: int) -> None:
        """Stand after step `t`: the next step will be t + 1. O(log T) draws on a tree, else the time of t steps."""
        t = check_whole("t", t, least=0)
        self._check_fork()
        if self._mechanism.horizon is not None and t > self._mechanism.horizon:
            raise HorizonExceeded(horizon=self._mechanism.horizon, step=t)
        self._seek_engine(t)
        self._t = t
        self._tracking, self._last = False, None

    def fresh(self, key: bytes | None = None) -> NoiseStream:
        """Return a stream with the same settings and its own key, from step 1. It has a budget of its own."""
        return NoiseStream(
            self._mechanism,
            self._scale,
            self._shape,
            dtype=self._dtype,
            key=key,
            threads=self._threads,
            part=self._part,
        )

    # -- saving ---------------------------------------------------------------------------------------------------

    @in_turn
    def state(self) -> bytes:
        """Return where the stream stands, to go on from in another process; the format is in `saved_state`.

        The key is not in it: whoever wants to go on must bring it along.
        """
        self._check_fork()
        if self._key_is_ours:
            raise StateError(
                "this stream made its own key, which is never shown, so a saved state could not be opened again;"
                " give the stream a key of yours to save it"
            )
        if not self._intact:
            self._mend()
        base, arrays = self._ahead_base if self._draws.narrow else (self._engine.t, self._engine.arrays())
        return seal_state(SavedState(self._t, base, arrays), self._configuration(), self._state_key)

    @classmethod
    def from_state(
        cls,
        state: bytes,
        mechanism: Mechanism,
        scale: float,
        shape: int | Sequence[int] = (),
        *,
        dtype: DTypeLike = "float32",
        key: bytes,
        threads: int | None = None,
        part: tuple[int, int] | None = None,
    ) -> Self:
        """Go on where `state` was saved. All settings and the key must be those of the saved stream.

        Raises
        ------
        StateError
            If the state is no bytes, is damaged, or belongs to another stream, version or key.
        """
        if not isinstance(state, (bytes, bytearray, memoryview)):
            raise StateError(f"state must be the bytes that state() returned, got {type(state).__name__}")
        stream = cls(mechanism, scale, shape, dtype=dtype, key=check_key(key), threads=threads, part=part)
        saved = open_state(bytes(state), stream._configuration(), stream._state_key)
        stream._engine.restore(saved.base, saved.arrays)
        stream._forget_ahead()
        if stream._draws.narrow and saved.t > saved.base:
            stream._narrow_rows(np.empty((saved.t - saved.base, stream._coordinates), dtype=stream._dtype))
        stream._t = saved.t
        return stream

    # -- inside ---------------------------------------------------------------------------------------------------

    def _check_fork(self) -> None:
        if self._turn.forks != forks.count:
            raise ForkedStream

    def _check_room(self, n: int) -> None:
        """Refuse before anything changes: a fork, or steps past the horizon."""
        self._check_fork()
        if self._t + n > self._most:
            raise HorizonExceeded(horizon=self._most, step=self._t + n)
        if not self._intact:
            self._mend()

    def _mend(self) -> None:
        """After an interruption in the middle of a step: the noise is a function of the step, so make it again."""
        self._tracking, self._last = False, None
        self._seek_engine(self._t)

    def _seek_engine(self, t: int) -> None:
        self._intact = False
        self._engine.seek(t)
        self._forget_ahead()
        self._intact = True

    def _forget_ahead(self) -> None:
        """Nothing is made ahead; the engine stands where the stream stands."""
        self._ahead: NDArray[Any] = np.empty((0, self._coordinates), dtype=self._dtype)
        self._ahead_at = 0
        self._ahead_base = (self._engine.t, [a.copy() for a in self._engine.arrays()] if self._draws.narrow else [])

    def _look_ahead(self) -> None:
        """Make the next rows of a narrow stream, more each time, so that a short stream stays small."""
        most = max(1, LOOKAHEAD_VALUES // self._coordinates)
        count = min(max(8, 2 * len(self._ahead)), most)
        if self._mechanism.horizon is not None:
            count = min(count, self._mechanism.horizon - self._engine.t)
        self._ahead_base = (self._engine.t, [a.copy() for a in self._engine.arrays()])
        self._ahead = self._narrow_rows(np.empty((count, self._coordinates), dtype=self._dtype))
        self._ahead_at = 0

    def _narrow_rows(self, out: NDArray[Any]) -> NDArray[Any]:
        """Fill `out` with the engine's next rows, scaled, in the stream's dtype."""
        first = self._engine.t + 1
        unit = self._engine.rows(out.shape[0])
        if self._rounding is not None:
            self._rounding.round(unit, first, out)
        else:
            np.multiply(unit, self._scale, out=out, casting="same_kind")
        return out

    def _wide_step(self, noise: NDArray[Any]) -> None:
        if self._rounding is not None:
            self._rounding.step(noise)
        else:
            self._engine.step(noise)

    def _noise_again(self) -> NDArray[Any] | None:
        """Make the noise of step t once more; None before the first step."""
        if self._t == 0:
            return None
        t = self._t
        try:
            self._seek_engine(t - 1)
            self._t = t - 1
            return np.array(self._step(None)).reshape(self._coordinates)
        finally:
            if self._t != t:  # interrupted: step t was handed out, and must not be handed out again
                self._t, self._intact = t, False

    def _target(self, out: NDArray[Any] | None) -> NDArray[Any]:
        if out is None:
            return np.empty(self._made, dtype=self._dtype)
        if not isinstance(out, np.ndarray) or out.shape != self._made or out.dtype != self._dtype:
            given = f"{out.dtype.name} of shape {out.shape}" if isinstance(out, np.ndarray) else type(out).__name__
            raise OutputMismatch(f"out must be a {self._dtype.name} array of shape {self._made}, got {given}")
        if not (out.flags.c_contiguous and out.flags.writeable):
            raise OutputMismatch("out must be contiguous (C order) and writable")
        return out
