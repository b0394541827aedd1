"""The rows of a plan: which mechanisms can serve, and what each of them costs.

Times are predicted by the engines (`Engine.nanoseconds`) from the number of draws and the memory that a step moves:
right to a factor of two, and good enough to tell a tree from a Toeplitz mechanism.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from typing import Literal

from dpstream.budget import Budget, noise_scale
from dpstream.errors import DpstreamError, InvalidArgument, MechanismTooShort, NoiseLawError
from dpstream.mechanisms.base import Mechanism, NoiseLaw
from dpstream.mechanisms.catalogue import ENTRIES
from dpstream.mechanisms.smooth import SmoothBinary
from dpstream.noise.draws import NARROW
from dpstream.noise.engine import engine_class
from dpstream.participation import Participation
from dpstream.release.lane import Lane
from dpstream.release.mechanism_argument import check_mechanism

__all__ = [
    "TABLES",
    "UNBOUNDED_STEPS",
    "VECTORS",
    "Objective",
    "PlanRow",
    "candidates",
    "error_of",
    "given_mechanisms",
    "row_of",
    "with_windows",
]

Objective = Literal["max", "mean", "speed", "uniform"]

#: Unless told otherwise a mechanism may keep this many vectors: enough for every tree and every recurrence.
VECTORS = 64
#: Streams without a horizon are ranked by their errors up to here.
UNBOUNDED_STEPS = 2**16
#: ... and tables of this many bytes, which all streams of one mechanism share.
TABLES = 2**24


@dataclass(frozen=True)
class PlanRow:
    """One mechanism that can serve, and what it costs.

    Attributes
    ----------
    mechanism
        The mechanism; it goes straight into `Counter` or `RunningSum`.
    max_stddev, mean_stddev
        The largest standard deviation of a release, and the root of the mean variance, for a bound of 1.
    draws
        Independent draws a release takes on average, per coordinate.
    memory
        Bytes that the noise keeps between two steps, tables included.
    nanoseconds
        Predicted time of a release's noise.
    fits
        Whether it keeps to the memory allowed.
    window_stddev
        For each window that was asked for, the largest standard deviation of its sum (the root of the mean variance, if
        that is the objective).
    """

    mechanism: Mechanism
    max_stddev: float
    mean_stddev: float
    draws: float
    memory: int
    nanoseconds: float
    fits: bool
    window_stddev: tuple[float, ...] = ()


def candidates(
    horizon: int | None, noise: NoiseLaw, objective: Objective, optimal: bool, left_out: dict[str, str]
) -> Iterator[Mechanism]:
    """Yield the mechanisms of the catalogue that can serve; note why others cannot."""
    if objective == "uniform":
        if horizon is not None:
            yield SmoothBinary(horizon, noise=noise, padded=True)
        return
    for entry in ENTRIES:
        if not entry.planned or noise not in entry.laws or entry.endless is not (horizon is None):
            continue
        if entry.most_steps is not None and horizon is not None and horizon > entry.most_steps:
            left_out[entry.name] = f"it keeps its whole history, and {horizon:,} steps are too many for that"
        elif entry.slow and not optimal:
            left_out[entry.name] = "it takes seconds to minutes to find; ask for it with optimal=True"
        else:
            try:
                yield entry.make(0 if horizon is None else horizon, noise)
            except DpstreamError as error:
                left_out[entry.name] = str(error)


def given_mechanisms(
    mechanisms: Iterable[Mechanism], horizon: int | None, budget: Budget, left_out: dict[str, str]
) -> Iterator[Mechanism]:
    """Yield the caller's mechanisms that can serve; note why others cannot."""
    for mechanism in mechanisms:
        try:
            checked = check_mechanism(mechanism, horizon, budget)
        except (MechanismTooShort, NoiseLawError) as error:
            left_out[repr(mechanism)] = str(error)
        else:
            if checked is None:
                raise InvalidArgument("mechanisms", mechanism, "mechanisms, such as dp.mechanisms.Binary(100)")
            yield checked


def with_windows(
    row: PlanRow,
    budget: Budget,
    participation: Participation,
    windows: tuple[int, ...],
    objective: Objective,
    lane: Lane,
) -> PlanRow:
    """Return the row with the error of each window; two roundings in the exact lane."""
    scale = noise_scale(row.mechanism, budget, participation=participation)
    unit = (2 if budget.noise == "laplace" else 1) * (scale / row.mechanism.sensitivity(participation)) ** 2
    measure = row.mechanism.mean_variance if objective == "mean" else row.mechanism.max_variance
    rounding = 1 / 6 if lane == "exact" else 0.0  # of two releases; half of it where a window is the whole stream
    found = [
        math.sqrt(
            unit * measure(window=w, participation=participation)
            + (rounding / 2 if w == row.mechanism.horizon else rounding)
        )
        for w in windows
    ]
    return replace(row, window_stddev=tuple(found))


def row_of(
    mechanism: Mechanism,
    horizon: int | None,
    budget: Budget,
    coordinates: int,
    lane: Lane,
    participation: Participation,
    room: int | None,
) -> PlanRow:
    """Return what a mechanism costs under a budget, and whether it keeps to the memory (None: 64 vectors)."""
    steps = UNBOUNDED_STEPS if horizon is None else horizon
    scale = noise_scale(mechanism, budget, participation=participation)
    unit = 2 * scale**2 if budget.noise == "laplace" else scale**2
    rounding = 1 / 12 if lane == "exact" else 0.0
    exact = lane == "exact"
    engine = engine_class(mechanism, exact=exact)
    vectors = engine.vectors(mechanism, exact=exact, narrow=coordinates < NARROW)
    number = 8 if exact or coordinates < NARROW else 4
    tables = mechanism.table_bytes
    held = vectors * coordinates * number + tables
    return PlanRow(
        mechanism,
        math.sqrt(unit * mechanism.max_squared_row_norm(steps) + rounding),
        math.sqrt(unit * mechanism.mean_squared_row_norm(steps) + rounding),
        mechanism.draws_per_step.average,
        held,
        engine.nanoseconds(mechanism, steps, coordinates, exact=exact),
        held <= room if room is not None else vectors <= VECTORS and tables <= TABLES,
    )


def error_of(row: PlanRow, objective: Objective) -> float:
    """What the rows are sorted by: less is better."""
    if objective == "speed":
        return row.nanoseconds
    return row.mean_stddev if objective == "mean" else row.max_stddev
