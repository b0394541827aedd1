"""What turns independent draws into a mechanism's correlated noise, in floating point.

One engine per streaming kind: `StackEngine` (trees), `RecurrenceEngine`, `ConvolutionEngine`, `DenseEngine` and
`EpochEngine` (the doubling reduction); `PureStepEngine` streams any other mechanism. Each registers itself by
``class StackEngine(Engine, streams=StackMechanism)``, and `make_engine` picks the nearest.

A *narrow* stream (fewer than 64 coordinates) makes many steps at a time in float64; a *wide* one makes a step at a
time, in chunks of coordinates that stay in cache, on as many threads as asked. Neither chunking nor threads change a
bit of the result.
"""

from __future__ import annotations

import threading
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from typing import Any, ClassVar

import numpy as np
from numpy.typing import DTypeLike, NDArray

from dpstream import kernel
from dpstream.mechanisms.base import Mechanism
from dpstream.noise.draws import NARROW, TILE_BYTES, Draws

__all__ = ["DRAW_ERROR", "Chunks", "Engine", "engine_class", "largest_draw", "make_engine"]

#: Unit roundoff of float64.
UNIT = 2.0**-53
#: |draw - ideal draw| of the float64 kernel, for draws it vouches for (docs/exact-rounding.md, "The transform").
DRAW_ERROR = max(kernel.NORMAL_ERROR, kernel.LAPLACE_ERROR)

#: Nanoseconds of a pure step in Python, whatever the number of coordinates.
PURE_STEP = 10_000.0

#: Coordinates of one chunk: 128 kB of float32 keystream, which stays in the second-level cache with what it is added
#: to; half of it would spend twice the time between the loops.
CHUNK_COORDINATES = 1 << 15


def largest_draw(law: str) -> float:
    """No draw whose leading word is not zero exceeds √(2 ln 2^64) < 9.5 (Gaussian) or ln 2^63 < 44 (Laplace)."""
    return 44.0 if law == "laplace" else 9.5


class Chunks:
    """Splits the coordinates of a wide step into cache-sized chunks of whole tiles, spread over threads."""

    def __init__(self, coordinates: int, threads: int) -> None:
        self.bounds = [
            (low, min(low + CHUNK_COORDINATES, coordinates)) for low in range(0, coordinates, CHUNK_COORDINATES)
        ]
        self.threads = min(threads, len(self.bounds))
        self._pool = ThreadPoolExecutor(self.threads, "dpstream") if self.threads > 1 else None

    def run(self, work: Callable[[int, int], None]) -> None:
        """Call work(low, high) for every chunk; return when all are done."""
        if self._pool is None:
            for low, high in self.bounds:
                work(low, high)
            return
        share = -(-len(self.bounds) // self.threads)
        parts = [self.bounds[i : i + share] for i in range(0, len(self.bounds), share)]
        for done in [self._pool.submit(_run_part, work, part) for part in parts]:
            done.result()


def _run_part(work: Callable[[int, int], None], part: list[tuple[int, int]]) -> None:
    for low, high in part:
        work(low, high)


class Workspace:
    """Arrays that are used again by the next block of the same size, so that long blocks touch no new memory."""

    def __init__(self) -> None:
        self._arrays: dict[str, NDArray[Any]] = {}
        self._keep = False

    def array(self, name: str, shape: int | tuple[int, ...], dtype: DTypeLike = np.float64) -> NDArray[Any]:
        """An uninitialised array; the same one as before for the same name and shape, while `kept` lasts."""
        wanted = (shape,) if isinstance(shape, int) else shape
        found = self._arrays.get(name)
        if found is None or found.shape != wanted:
            found = np.empty(wanted, dtype=dtype)
            if self._keep:
                self._arrays[name] = found
        return found

    @contextmanager
    def kept(self) -> Iterator[None]:
        """Keep arrays for reuse inside, and let go of them at the end."""
        self._keep = True
        try:
            yield
        finally:
            self._keep = False
            self._arrays.clear()


class Engine(ABC):
    """The noise of one stream, step after step; `t` counts the steps made.

    Parameters
    ----------
    mechanism, draws
        Whose noise, made of which draws.
    gain
        A wide float stream's scale, multiplied in where it costs nothing. Narrow and exact streams have gain 1 and are
        scaled by their caller.
    """

    #: Which engines stream which kind of mechanism; the first that can is taken.
    _by_kind: ClassVar[dict[type[Mechanism], list[type[Engine]]]] = {}

    #: Whether `error` is known only for releases that were made.
    error_is_measured: ClassVar[bool] = False

    def __init_subclass__(cls, streams: type[Mechanism] | None = None) -> None:
        super().__init_subclass__()
        if streams is not None:
            cls._by_kind.setdefault(streams, []).append(cls)

    def __init__(self, mechanism: Mechanism, draws: Draws, chunks: Chunks, gain: float = 1.0) -> None:
        self.mechanism = mechanism
        self.draws = draws
        self.chunks = chunks
        self.gain = gain
        self.t = 0
        self.workspace = Workspace()
        self._rooms = threading.local()
        self._errors: dict[int, float] = {}

    @classmethod
    def can_stream(cls, mechanism: Mechanism, *, exact: bool) -> bool:
        """Whether this engine can stream a mechanism of its kind in the exact or the float lane."""
        del mechanism, exact
        return True

    @classmethod
    def vectors(cls, mechanism: Mechanism, *, exact: bool, narrow: bool) -> int:
        """How many vectors of the lane's numbers a stream keeps between two steps."""
        del exact, narrow
        return mechanism.memory

    @classmethod
    def nanoseconds(cls, mechanism: Mechanism, steps: int, coordinates: int, *, exact: bool) -> float:
        """Return the predicted time of one step's noise: its draws, what is kept of them, and the rounding.

        The constants were measured on one core of a 2.x GHz x86-64 server; they are right to a factor of two elsewhere.
        """
        draw, rounding = (6.0, 1.2) if exact else (1.5, 0.0)
        kept = cls._nanoseconds_kept(mechanism, steps, exact=exact)
        return (draw * mechanism.draws_per_step.average + kept + rounding) * coordinates

    @classmethod
    def _nanoseconds_kept(cls, mechanism: Mechanism, steps: int, *, exact: bool) -> float:
        """Return the part of `nanoseconds` per coordinate for what is kept; by default one addition to one vector."""
        del mechanism, steps
        return 0.6 if exact else 0.5

    @abstractmethod
    def rows(self, count: int) -> NDArray[np.float64]:
        """The noise of the next `count` steps of a narrow stream, one row a step; good until the next call."""

    @abstractmethod
    def step(self, out: NDArray[Any]) -> None:
        """The noise of the next step of a wide stream."""

    def add_difference(self, last: NDArray[Any], to: NDArray[Any]) -> None:
        """Make the next step of a wide stream; add its noise minus `last` to `to`, and keep the noise in `last`.

        With the noise of the step before in `last`, that is the increment.
        """
        noise = np.empty(self.draws.coordinates, dtype=self.draws.dtype)
        self.step(noise)
        self._add_difference(noise, last, to)

    @staticmethod
    def _add_difference(noise: NDArray[Any], last: NDArray[Any], to: NDArray[Any]) -> None:
        (kernel.add_increment_f32 if noise.dtype == np.float32 else kernel.add_increment_f64)(noise, last, to)

    def _chunk_room(self, size: int) -> NDArray[Any]:
        """Return the calling thread's room for the noise of a chunk."""
        held = self._rooms.__dict__
        if "chunk" not in held:
            held["chunk"] = np.empty(CHUNK_COORDINATES, dtype=self.draws.dtype)
        room: NDArray[Any] = held["chunk"][:size]
        return room

    #: Whether `increment` and `add_increment` can be called.
    has_increments: ClassVar[bool] = False

    def increment(self, out: NDArray[Any]) -> None:
        """Write the noise of the next step of a wide stream minus that of the step before to `out`."""
        raise NotImplementedError(f"{type(self).__name__} makes running totals only")

    def add_increment(self, to: NDArray[Any]) -> None:
        """Add what `increment` would write to `to`."""
        raise NotImplementedError(f"{type(self).__name__} makes running totals only")

    @abstractmethod
    def seek(self, t: int) -> None:
        """Stand after step t, as if all steps up to t had just been made."""

    def error(self, t: int) -> float:
        """A proven bound on |computed - ideal| for every release up to t, at gain 1 in float64.

        Worked out once for every doubling of t.
        """
        reach = 1 << (t - 1).bit_length()
        if reach not in self._errors:
            self._errors[reach] = self._error(min(reach, self.mechanism.horizon or reach))
        return self._errors[reach]

    @abstractmethod
    def _error(self, t: int) -> float:
        """Compute the bound that `error` caches."""

    def arrays(self) -> list[NDArray[Any]]:
        """What `restore` needs besides t. Nothing, if `seek` is cheap."""
        return []

    def restore(self, t: int, arrays: list[NDArray[Any]]) -> None:
        """Stand after step t, where `arrays` was taken."""
        del arrays  # nothing was kept
        self.seek(t)

    def replay(self, t: int) -> None:
        """`seek` for engines that know no shortcut: forget everything and step to t."""
        self.reset()
        if self.draws.narrow:
            while self.t < t:
                self.rows(min(4096, t - self.t))
        else:
            unused = np.empty(self.draws.coordinates, dtype=self.draws.dtype)
            while self.t < t:
                self.step(unused)

    @abstractmethod
    def reset(self) -> None:
        """Stand before step 1."""


def engine_class(mechanism: Mechanism, *, exact: bool) -> type[Engine]:
    """Return the engine of the mechanism's kind; that of `Mechanism` itself if it is of no known kind."""
    for kind in type(mechanism).__mro__:
        for found in Engine._by_kind.get(kind, ()):
            if found.can_stream(mechanism, exact=exact):
                return found
    raise TypeError(f"mechanism must be a Mechanism, got {type(mechanism).__name__}")


def make_engine(mechanism: Mechanism, draws: Draws, chunks: Chunks, gain: float = 1.0) -> Engine:
    """Make the engine that streams this mechanism from these draws."""
    return engine_class(mechanism, exact=draws.exact)(mechanism, draws, chunks, gain)


def word_buffer(draws: Draws) -> NDArray[np.uint8]:
    """Room for the keystream of one chunk."""
    return np.empty(-(-CHUNK_COORDINATES // NARROW) * NARROW // draws.tile * TILE_BYTES, dtype=np.uint8)
