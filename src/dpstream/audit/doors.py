"""Doors: the ways by which data gets in and releases get out, each audited as users walk through it.

The other rows of the table run every mechanism in wide objects, of which each coordinate is a trial. That is fast, and
blind to what happens before and around the noise: single numbers and their look-ahead, small histograms, several steps
of one person, replaced inputs, limits on people, stores that are closed and opened again, keys that several streams
share, the command line. Here a trial is what one person could do there.

Each door takes as many releases as it needs and the budget at which a given number of trials shows most, μ near 3.
"""

from __future__ import annotations

import tempfile
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dpstream.audit.row import Row, spent_by
from dpstream.audit.search import Design
from dpstream.audit.trials import Stream
from dpstream.budget import Budget, noise_scale, pure_dp, zcdp
from dpstream.mechanisms import Binary, SmoothBinary, SquareRoot
from dpstream.mechanisms.base import Mechanism
from dpstream.noise.keystream import fresh_key
from dpstream.noise.stream import NoiseStream
from dpstream.participation import Participation
from dpstream.release import ContributionLimit, Counter, RunningSum
from dpstream.store import Store

__all__ = ["doors"]

#: Where trials tell most: μ = 3, and a pure ε of as much.
RHO, EPSILON = zcdp(4.5), pure_dp(3.0)
#: By how much one person changes a step: rounding to whole numbers hides next to nothing of it.
PER_PERSON = 64
#: Trials in one wide object, and objects that are built in one go.
WIDTH, OBJECTS = 10_000, 250
#: The part of the trials asked for that doors of wide and of small objects are given: 60,000 and 20,000 of 200,000.
WIDE, SMALL = 0.3, 0.1


@dataclass(frozen=True)
class Published:
    """Something that publishes, as `audit` wants it, and how its noise is meant to be, if the audit should know."""

    publish: Callable[[Stream], NDArray[Any]]
    design: Design | None = None


def at_steps(horizon: int, *patterns: Sequence[int], size: float = PER_PERSON) -> list[tuple[Stream, Stream]]:
    """Pairs of (no input, an input of `size` in each step of a pattern)."""
    nothing = np.zeros(horizon, dtype=type(size))
    pairs = []
    for pattern in patterns:
        person = nothing.copy()
        person[list(pattern)] = size
        pairs.append((nothing, person))
    return pairs


def doors() -> list[Row]:
    """Every door, one row each."""
    return [
        _numbers("one number, add by add", RHO, SmoothBinary(4), by_add=True),
        _numbers("one number, pure ε", EPSILON, Binary(1, noise="laplace"), by_add=False),
        _small_histogram(),
        _vectors(),
        *(_participation(mechanism, times, apart) for mechanism, times, apart in PARTICIPATIONS),
        _participation_of_vectors(),
        _replaced(),
        _moved_in_time(),
        _limited(),
        _resumed_noise(),
        _neighbouring_streams(),
        _store(),
    ]


# -- small objects, each a trial --------------------------------------------------------------------------------------


def _numbers(title: str, budget: Budget, mechanism: Mechanism, *, by_add: bool) -> Row:
    """Counters of one number: noise made ahead, read by `add`, or by `extend`."""
    horizon = mechanism.horizon
    assert horizon is not None  # noqa: S101
    pairs = at_steps(horizon, *([t] for t in range(horizon)))

    def make(key: bytes | None) -> Published:
        first = Counter(horizon, budget, per_person=PER_PERSON, mechanism=mechanism, key=key)
        design = Design(mechanism, noise_scale(mechanism, budget, per_person=PER_PERSON), rounded=True)

        def publish(stream: Stream) -> NDArray[Any]:
            inputs = stream.tolist()
            found = np.empty((OBJECTS, horizon), dtype=np.int64)
            for trial in range(OBJECTS):
                counter = first if trial == 0 else first.fresh(_another(key, trial))
                found[trial] = [counter.add(x) for x in inputs] if by_add else counter.extend(stream)
            return found

        return Published(publish, design)

    return _row(title, "exact", budget, make, pairs, partial(spent_by, mechanism, budget, pairs), SMALL)


def _small_histogram() -> Row:
    """Histograms of three categories: nothing of one may be read off another."""
    mechanism, width = Binary(3), 3
    pairs = []
    for category in range(width):
        nothing = np.zeros((3, width), dtype=np.int64)
        person = nothing.copy()
        person[0, category] = PER_PERSON
        pairs.append((nothing, person))

    def make(key: bytes | None) -> Published:
        first = Counter(3, RHO, shape=(width,), per_person=PER_PERSON, mechanism=mechanism, key=key)

        def publish(stream: Stream) -> NDArray[Any]:
            counters = [first, *(first.fresh(_another(key, trial)) for trial in range(1, OBJECTS))]
            return np.array([[counter.add(x) for x in stream] for counter in counters]).reshape(OBJECTS, -1)

        return Published(publish)

    return _row("three categories", "exact", RHO, make, pairs, _all, SMALL)


def _vectors() -> Row:
    """RunningSums whose inputs are as long as is allowed: their norm is looked at, and they are added and released."""
    mechanism = SmoothBinary(3)
    pairs = []
    for step in (0, 2):
        nothing = np.zeros((3, 2))
        person = nothing.copy()
        person[step] = (0.6, -0.8)
        pairs.append((nothing, person))

    def make(key: bytes | None) -> Published:
        def publish(stream: Stream) -> NDArray[Any]:
            found = np.empty((OBJECTS, stream.size))
            for trial in range(OBJECTS):
                total = RunningSum(
                    3,
                    RHO,
                    shape=(2,),
                    per_step=1,
                    dtype="float64",
                    mechanism=mechanism,
                    key=_another(key, trial),
                )
                found[trial] = np.ravel([total.add(x) for x in stream])
            return found

        return Published(publish)

    return _row("vectors of full length", "float64", RHO, make, pairs, _all, SMALL)


# -- several steps of one person, other neighbours, limits -------------------------------------------------------------

PARTICIPATIONS: tuple[tuple[Mechanism, int, int], ...] = (
    (Binary(7), 3, 2),
    (SquareRoot(7), 2, 3),
    (SquareRoot(7), 7, 1),
)


def _participation(mechanism: Mechanism, times: int, apart: int) -> Row:
    """One person in several steps of a Counter."""
    horizon = mechanism.horizon
    assert horizon is not None  # noqa: S101
    participation = Participation(times, apart)
    pairs = at_steps(horizon, *_patterns(horizon, times, apart))

    def make(key: bytes | None) -> Counter[Any]:
        return _wide(horizon, RHO, mechanism=mechanism, participation=participation, key=key)

    possible = partial(spent_by, mechanism, RHO, pairs, participation=participation)
    return _row(f"{times} steps of a person, {type(mechanism).__name__}", "exact", RHO, make, pairs, possible)


def _participation_of_vectors() -> Row:
    """One person in several steps of a RunningSum."""
    mechanism, participation = SquareRoot(6, normalized=True), Participation(3, 2)
    pairs = at_steps(6, *_patterns(6, 3, 2), size=1.0)

    def make(key: bytes | None) -> RunningSum:
        return RunningSum(
            6, RHO, shape=(WIDTH,), dtype="float32", mechanism=mechanism, participation=participation, key=key
        )

    possible = partial(spent_by, mechanism, RHO, pairs, participation=participation)
    return _row("3 steps of a person, SquareRoot", "float32", RHO, make, pairs, possible)


def _patterns(horizon: int, times: int, apart: int) -> list[list[int]]:
    """The patterns of steps that tell most for the mechanisms here: as close together as allowed, first and last."""
    length = (times - 1) * apart + 1
    return [list(range(start, start + length, apart)) for start in {0, (horizon - length) // 2, horizon - length}]


def _replaced() -> Row:
    """One person moves from one category of a histogram to another."""
    mechanism = Binary(3)
    there = np.zeros((3, 2), dtype=np.int64)
    there[0, 0] = PER_PERSON
    pairs = [(there, there[:, ::-1].copy())]

    def make(key: bytes | None) -> Published:
        counter = _wide(3, RHO, width=2 * WIDTH, mechanism=mechanism, neighbours="replace", key=key)

        def publish(stream: Stream) -> NDArray[Any]:
            released = counter.extend(np.repeat(stream, WIDTH, axis=1))
            return np.concatenate([released[:, :WIDTH].T, released[:, WIDTH:].T], axis=1)

        return Published(publish)

    return _row("moved to another category", "exact", RHO, make, pairs, _all)


def _moved_in_time() -> Row:
    """One person comes on another day: two changes, one in each step."""
    mechanism = SquareRoot(8, normalized=True)
    pairs = [(at_steps(8, [0])[0][1], at_steps(8, [7])[0][1])]

    def make(key: bytes | None) -> Counter[Any]:
        return _wide(8, RHO, mechanism=mechanism, neighbours="replace-anywhere", key=key)

    possible = partial(spent_by, mechanism, RHO, pairs, distance=2 * PER_PERSON)
    return _row("moved to another day", "exact", RHO, make, pairs, possible)


def _limited() -> Row:
    """Everybody comes in every step; a ContributionLimit lets each of them in twice."""
    mechanism, horizon = SquareRoot(4), 4
    pairs = at_steps(horizon, range(horizon))
    counted = at_steps(horizon, range(2))

    def make(key: bytes | None) -> Published:
        limit = ContributionLimit(2, capacity=WIDTH, key=key)
        counter = _wide(horizon, RHO, mechanism=mechanism, participation=limit.participation, key=key)

        def publish(stream: Stream) -> NDArray[Any]:
            kept = [[limit.keep(person) if x else False for person in range(WIDTH)] for x in stream]
            return counter.extend(np.array(kept) * stream[:, None]).T

        return Published(publish)

    possible = partial(spent_by, mechanism, RHO, counted, participation=Participation(2))
    return _row("people under a limit", "exact", RHO, make, pairs, possible)


# -- noise that goes on, and noise that others use ---------------------------------------------------------------------


def _resumed_noise() -> Row:
    """A NoiseStream that is saved and restored, moved back, and read by blocks and single steps."""
    mechanism, horizon = SmoothBinary(6), 6
    pairs = at_steps(horizon, *([t] for t in range(horizon)), size=1.0)

    def make(key: bytes | None) -> Published:
        settings: Any = (mechanism, noise_scale(mechanism, RHO), (WIDTH,))
        options: Any = {"dtype": "float64", "key": fresh_key() if key is None else key}

        def publish(stream: Stream) -> NDArray[Any]:
            noise = NoiseStream(*settings, **options)
            parts = [noise.block(2)]
            noise = NoiseStream.from_state(noise.state(), *settings, **options)
            parts.append(np.asarray(noise.step())[None].copy())
            noise.block(2)
            noise.seek(3)
            parts.append(noise.block(horizon - 3))
            released: NDArray[Any] = np.concatenate(parts) + np.cumsum(stream)[:, None]
            return released.T

        return Published(publish)

    return _row("noise saved, restored, moved", "float64", RHO, make, pairs, partial(spent_by, mechanism, RHO, pairs))


def _neighbouring_streams() -> Row:
    """One key for many counters that differ in one setting each; the person is in the first only.

    If a setting were missing where keys are derived, another counter would have the same draws, and publish the
    first one's noise bare (or scaled).
    """
    mechanism = Binary(3)
    pairs = at_steps(3, [0], [2])
    usual: dict[str, Any] = {"horizon": 3, "budget": RHO, "mechanism": mechanism, "per_step": 2 * PER_PERSON * WIDTH}
    others: list[dict[str, Any]] = [
        {"horizon": 2},
        {"budget": zcdp(4.6)},
        {"mechanism": SquareRoot(3)},
        {"per_person": PER_PERSON + 1},
        {"per_step": PER_PERSON * WIDTH},
        {"participation": Participation(2, 9)},
        {"neighbours": "replace"},
        {"neighbours": "replace-anywhere"},
        {"name": "another"},
        {"width": WIDTH + 1},
    ]

    def make(key: bytes | None) -> Published:
        shared = fresh_key() if key is None else key

        def publish(stream: Stream) -> NDArray[Any]:
            wide = np.repeat(stream[:, None], WIDTH, axis=1)
            released = [_wide(**usual, key=shared).extend(wide)]
            for change in others:
                settings = usual | change
                other = _wide(**settings, key=shared)
                nothing = np.zeros((settings["horizon"], *other.shape), dtype=np.int64)
                released.append(other.extend(nothing)[:, :WIDTH])
            return np.concatenate(released).T

        return Published(publish)

    return _row("other streams under its key", "exact", RHO, make, pairs, partial(spent_by, mechanism, RHO, pairs))


def _store() -> Row:
    """A store with two streams of the same settings: closed and opened again half-way; the person is in one of them."""
    mechanism, horizon = Binary(4), 4
    pairs = at_steps(horizon, [0], [2])

    def make(key: bytes | None) -> Published:
        def publish(stream: Stream) -> NDArray[Any]:
            wide = np.repeat(stream[:, None], WIDTH, axis=1)
            released = []
            with tempfile.TemporaryDirectory() as folder:
                for half in (wide[:2], wide[2:]):
                    with Store(Path(folder) / "audit.db", master_key=key) as store:
                        for name, inputs in (("with", half), ("without", 0 * half)):
                            stream_of = store.counter(
                                name,
                                horizon=horizon,
                                budget=RHO,
                                shape=(WIDTH,),
                                per_person=PER_PERSON,
                                mechanism=mechanism,
                            )
                            released.append(stream_of.extend(inputs))
            return np.concatenate(released).T

        return Published(publish)

    return _row("a store, opened twice", "exact", RHO, make, pairs, partial(spent_by, mechanism, RHO, pairs))


# -- building blocks --------------------------------------------------------------------------------------------------


def _row(
    title: str,
    lane: str,
    budget: Budget,
    make: Callable[[bytes | None], Any],
    pairs: list[tuple[Stream, Stream]],
    possible: Callable[[], float],
    part: float = WIDE,
) -> Row:
    kind = "pure_dp" if budget is EPSILON else "zcdp"
    return Row(title, lane, kind, len(pairs[0][0]), budget, make, pairs, possible, part)


def _all() -> float:
    return 1.0


def _wide(
    horizon: int,
    budget: Budget,
    *,
    width: int = WIDTH,
    per_person: int = PER_PERSON,
    **settings: Any,
) -> Counter[Any]:
    """A Counter of which every coordinate is a trial."""
    return Counter(horizon, budget, shape=(width,), per_person=per_person, **settings)


def _another(key: bytes | None, number: int) -> bytes | None:
    """The `number`-th key after `key`, or None for a fresh one."""
    return None if key is None else (int.from_bytes(key, "big") + number).to_bytes(33, "big")[-32:]
