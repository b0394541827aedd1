"""Chooses among fits: real roots or complex pairs, columns normalised or not, as many buffers as can be told apart.

`fitting` minimises closed forms; here its results become mechanisms, are judged by the errors that they truly have,
and those with normalised columns are improved by these. The better one is returned: trying more never makes it worse.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np

from dpstream.arguments import check_horizon, check_whole
from dpstream.errors import InvalidArgument
from dpstream.mechanisms.fit_arguments import Objective, checked_epochs, checked_objective, fitted_windows
from dpstream.mechanisms.fitted_scales import fit_scales
from dpstream.mechanisms.fitting import Fitted, RealArray, Task, fit_real, fit_with_pairs, interlacing_roots
from dpstream.mechanisms.matrix_participation import LARGEST_GRAM
from dpstream.mechanisms.minimax import minimax
from dpstream.participation import Participation

if TYPE_CHECKING:
    from dpstream.mechanisms.fitted_toeplitz import FittedToeplitz

__all__ = ["LARGEST_NORMALIZED", "MOST_BUFFERS", "NORMALIZED_WINDOWS", "best_fit"]

MOST_BUFFERS = 12
#: The variances of normalised increments are computed step by step.
LARGEST_NORMALIZED = 2**22
#: Complex pairs gain nothing where contributions may be closer than this.
LEAST_SEPARATION = 8
#: Zeros that are too small for a mechanism are raised to this.
LEAST_ZERO = 0.01
#: Normalised columns are fitted to windows up to here, where a fit takes five seconds and they still gain 2 %.
NORMALIZED_WINDOWS = 2**14

#: Makes a mechanism of horizon, poles, zeros, and whether columns are normalised.
Maker = Callable[[int, tuple[complex, ...], tuple[complex, ...], bool], "FittedToeplitz"]


def best_fit(
    make: Maker,
    horizon: int,
    participation: Participation | None,
    windows: Sequence[int] | None,
    objective: Objective,
    buffers: int | None,
    complex_pairs: bool | None,
    normalized: bool | None,
) -> tuple[FittedToeplitz, bool]:
    """Return the best mechanism found, and whether its fit came to rest. Arguments as for `FittedToeplitz.fit`."""
    horizon = check_horizon(horizon, most=2**40)
    k, b = checked_epochs(participation, horizon)
    objective = checked_objective(objective)
    lengths = fitted_windows(windows, horizon)
    if buffers is not None and check_whole("buffers", buffers) > MOST_BUFFERS:
        raise InvalidArgument("buffers", buffers, f"at most {MOST_BUFFERS}")
    pairs_allowed = k > 1 and b >= LEAST_SEPARATION and (buffers is None or (buffers >= 4 and buffers % 2 == 0))
    if complex_pairs and not pairs_allowed:
        raise InvalidArgument(
            "complex_pairs",
            complex_pairs,
            f"False unless buffers is even and at least 4, and participation has times > 1 and separation >="
            f" {LEAST_SEPARATION}",
        )
    with_pairs = pairs_allowed and windows is None if complex_pairs is None else complex_pairs
    if normalized is None:
        normalized = horizon <= NORMALIZED_WINDOWS if windows is not None else k > 1 and horizon <= LARGEST_NORMALIZED
    if buffers is None:
        buffers = 4 if with_pairs else min(4 if windows is None else 3, max(1, (horizon.bit_length() + 1) // 2))
    task = Task(horizon, k, b, objective, lengths, (1.0,) * len(lengths), normalized)
    if len(lengths) > 1:
        task = replace(task, references=tuple(_alone(make, task, window) for window in lengths))
    found = [] if complex_pairs else [_separable(make, task, buffers)]
    if with_pairs:
        found.append(_told_apart(make, fit_with_pairs(task, buffers // 2 - 1), horizon))
    made = [(make(horizon, fit.poles, fit.zeros, normalized), fit.converged) for fit in found]
    if normalized and windows is not None and horizon <= NORMALIZED_WINDOWS:
        made = [(_improved(make, m, task) if m.interlacing else m, converged) for m, converged in made]
    if normalized and k == 2 and horizon <= LARGEST_GRAM:
        made += [(replace(m, scales=fit_scales(m, task)), converged) for m, converged in made]
    return min(made, key=lambda pair: float(_errors(pair[0], task).max()))


def _errors(mechanism: FittedToeplitz, task: Task) -> RealArray:
    """V of each window over its reference, with the sensitivity that is charged."""
    participation = Participation(task.times, task.separation)
    measure = mechanism.max_variance if task.objective == "max" else mechanism.mean_variance
    return np.array(
        [
            measure(window=window, participation=participation) / reference
            for window, reference in zip(task.windows, task.references, strict=True)
        ]
    )


def _improved(make: Maker, mechanism: FittedToeplitz, task: Task) -> FittedToeplitz:
    """Improve real roots by the errors of normalised columns, which the closed forms of `fitting` leave out."""

    def at(z: RealArray) -> FittedToeplitz | None:
        try:
            found = make(task.horizon, *interlacing_roots(z), task.normalized)
        except InvalidArgument:  # roots that cannot be told apart
            return None
        return found if found.interlacing else None

    def errors(z: RealArray) -> RealArray:
        found = at(z)
        return np.full(len(task.windows), np.inf) if found is None else np.log(_errors(found, task))

    chain = np.ravel(np.column_stack([mechanism.poles, mechanism.zeros])).real
    start = np.log(np.diff(np.append(0.0, 1.0 / chain - 1.0)))
    best = at(minimax(errors, start))
    better = best is not None and _errors(best, task).max() < _errors(mechanism, task).max()
    return best if best is not None and better else mechanism


def _alone(make: Maker, task: Task, window: int) -> float:
    """Return the V that a real family of four buffers has for this window alone; that of fresh noise for one step."""
    if window == 1 and task.times == 1:
        return 1.0
    alone = replace(task, windows=(window,), references=(1.0,), normalized=False)
    found = _separable(make, alone, 4)
    return float(_errors(make(task.horizon, found.poles, found.zeros, False), alone)[0])


def _separable(make: Maker, task: Task, buffers: int) -> Fitted:
    """Fit with as many real buffers as can be told apart: short horizons do not need the others."""
    for fewer in range(buffers, 0, -1):
        found = fit_real(task, fewer)
        # Where contributions may be close together the last zero goes to 0, which no root may be.
        raised = found._replace(zeros=tuple(complex(max(zero.real, LEAST_ZERO)) for zero in found.zeros))
        for tried in (found, raised):
            try:
                m = make(task.horizon, tried.poles, tried.zeros, False)
            except InvalidArgument:
                continue
            if m.interlacing:
                return tried
    return Fitted((0.5,), (0.25,), converged=False)


def _told_apart(make: Maker, found: Fitted, horizon: int) -> Fitted:
    """Move roots that have met apart, as little as it takes."""
    for share in (0.0, 1e-4, 1e-3, 1e-2):
        poles, zeros = (
            tuple(
                complex(round(1 - (1 - p.real) * (1 + share * i), 12), p.imag) if p.imag == 0 else p
                for i, p in enumerate(roots)
            )
            for roots in (found.poles, found.zeros)
        )
        try:
            make(horizon, poles, zeros, False)
        except InvalidArgument:
            continue
        return Fitted(poles, zeros, found.converged)
    return Fitted((0.9, 0.5), (0.7, 0.25), converged=False)
