"""Which mechanism to take: all that can serve, ranked, with the reason why the first is first.

Errors are those of the budget asked for, under the participation asked for (a mechanism that is good for one
step a person need not be good for five).
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from itertools import chain

from dpstream.arguments import check_horizon, check_whole, check_windows
from dpstream.budget import Budget, check_budget, pure_dp, zcdp
from dpstream.errors import DpstreamError, InvalidArgument, NoiseLawError, NothingFits
from dpstream.mechanisms.anytime_toeplitz import AnytimeToeplitz
from dpstream.mechanisms.balanced_toeplitz import BalancedToeplitz
from dpstream.mechanisms.base import Mechanism, NoiseLaw
from dpstream.mechanisms.buffered_toeplitz import BufferedToeplitz
from dpstream.mechanisms.growing_smooth import GrowingSmooth
from dpstream.mechanisms.smooth import SmoothBinary
from dpstream.noise.settings import check_shape
from dpstream.participation import Participation, check_participation
from dpstream.release.fitted_candidates import Question, fitted_candidates
from dpstream.release.lane import Lane
from dpstream.release.plan_rows import (
    TABLES,
    UNBOUNDED_STEPS,
    VECTORS,
    Objective,
    PlanRow,
    candidates,
    error_of,
    given_mechanisms,
    row_of,
    with_windows,
)
from dpstream.release.plan_text import mechanism_title, size_text, time_text

__all__ = ["Objective", "Plan", "PlanRow", "choose", "plan", "pure_in_float_lane"]

_OBJECTIVES = ("max", "mean", "speed", "uniform")

#: Windows of trees are looked at step by step; beyond this horizon the tree that is best for totals is taken.
LAPLACE_STEPS = 1024
#: Longest horizon for which all mechanisms are compared to find the best one; above, which one is best is known.
PLAN_STEPS = 64


@dataclass(frozen=True)
class Plan:
    """Mechanisms ranked for one purpose; `print` it for a table.

    Attributes
    ----------
    rows
        The mechanisms that can serve, best first; those that need too much memory come last.
    objective
        What they are ranked by.
    left_out
        Mechanisms that were not considered, and why.
    """

    horizon: int | None
    budget: Budget
    shape: tuple[int, ...]
    lane: Lane
    objective: Objective
    participation: Participation
    rows: tuple[PlanRow, ...]
    left_out: dict[str, str] = field(compare=False)
    windows: tuple[int, ...] = ()

    @property
    def mechanism(self) -> Mechanism:
        """The first one."""
        return self.rows[0].mechanism

    @property
    def reason(self) -> str:
        """One sentence on why the first is first."""
        first = self.rows[0]
        name = type(first.mechanism).__name__
        others = [row for row in self.rows[1:] if row.fits]
        if self.objective == "uniform":
            return f"{name} is first because every release carries noise of the very same law."
        if not others:
            return f"{name} is first because no other mechanism fits."
        second = type(others[0].mechanism).__name__
        if self.windows:
            return f"{name} is first because no window, nor the total, is far from the least noise of any mechanism."
        if self.objective == "speed":
            return (
                f"{name} is first because its noise takes least time, about {time_text(first.nanoseconds)} a release;"
                f" {second} takes {time_text(others[0].nanoseconds)}."
            )
        what = "largest" if self.objective == "max" else "mean"
        mine, theirs = (error_of(row, self.objective) for row in (first, others[0]))
        more = 100 * (theirs**2 / mine**2 - 1)
        return (
            f"{name} is first because its {what} variance is least among those that fit the memory:"
            f" {second} has {more:.3g} % more."
        )

    def __str__(self) -> str:
        steps = "no horizon" if self.horizon is None else f"{self.horizon:,} releases"
        person = "one step a person" if self.participation == Participation() else repr(self.participation)
        title = f"{steps}, {self.budget!r}, shape {self.shape}, {self.lane} lane, {person}; by {self.objective!r}"
        if self.horizon is None:
            title += f" over {UNBOUNDED_STEPS:,} steps"
        heading = (
            "",
            "mechanism",
            "max std",
            "mean std",
            *(f"last {w}" for w in self.windows),
            "draws",
            "memory",
            "time",
            "",
        )
        lines = [heading] + [
            (
                str(i),
                mechanism_title(row.mechanism),
                f"{row.max_stddev:.4g}",
                f"{row.mean_stddev:.4g}",
                *(f"{error:.4g}" for error in row.window_stddev),
                f"{row.draws:.3g}",
                size_text(row.memory),
                time_text(row.nanoseconds),
                "" if row.fits else "too much memory",
            )
            for i, row in enumerate(self.rows, start=1)
        ]
        widths = [max(map(len, column)) for column in zip(*lines, strict=True)]
        table = [
            "  ".join(
                cell.ljust(width) if i in (1, len(line) - 1) else cell.rjust(width)
                for i, (cell, width) in enumerate(zip(line, widths, strict=True))
            ).rstrip()
            for line in lines
        ]
        within = [
            f"With it the sum of {'each step' if w == 1 else f'any {w:,} steps in a row'} is within ±{off:,.4g} of the"
            " sum without noise, 95 times of 100."
            for w, off in self.within().items()
        ]
        notes = [f"{name} left out: {why}" for name, why in self.left_out.items()]
        return "\n".join([title, *table, self.reason, *within, *notes])

    def within(self, confidence: float = 0.95) -> dict[int, float]:
        """Return, for each window, how far noise moves its sum at most, with this confidence, by the first one.

        For a per-person limit of 1 and the window that is least exact.
        """
        from dpstream.release.error_bars import window_half_width  # which stands on settings, and these on plans

        return {
            window: window_half_width(self.mechanism, self.budget, self.participation, self.lane, window, confidence)
            for window in self.windows
        }


def plan(
    horizon: int | None,
    budget: Budget,
    *,
    shape: int | Sequence[int] = (),
    lane: Lane | None = None,
    objective: Objective = "max",
    participation: Participation | None = None,
    memory: int | None = None,
    optimal: bool = False,
    mechanisms: Iterable[Mechanism] | None = None,
    windows: Sequence[int] | None = None,
) -> Plan:
    """Rank all mechanisms that can serve.

    Parameters
    ----------
    horizon, budget, shape, participation
        As for `Counter` and `RunningSum`.
    lane
        "exact" (Counter; the default) or "float" (RunningSum).
    objective
        "max": the least largest variance. "mean": the least mean variance. "speed": the least time. "uniform": the same
        noise law at every release (the padded smooth tree), then the least variance.
    memory
        The most bytes that the noise may keep between two steps; None for 64 vectors of the lane's numbers and 16 MB of
        tables.
    optimal
        Consider the certified optimum, too: seconds to minutes to find, a dense matrix to keep, for the last percent.
    mechanisms
        Rank these, also mechanisms of your own, instead of those of `dpstream.mechanisms.catalogue`. Those that do not
        reach the horizon or have another noise law are left out.
    windows
        Lengths of windows, such as (1, 7, 30): sums of the last so many steps are wanted beside the running total. Each
        mechanism has an error for each window; first is the one whose largest variance, of a window or of the total,
        relative to the least that any of them has for the same, is least. Objectives "max" and "mean" only. With
        windows, or with several steps a person, mechanisms fitted to just that are considered, too, which takes a few
        seconds, and so is noise that is independent for every step (plain DP-SGD).

    Raises
    ------
    NothingFits
        If no mechanism can serve at all.

    Examples
    --------
    >>> import dpstream as dp
    >>> plan = dp.plan(horizon=1000, budget=dp.zcdp(rho=0.5))
    >>> type(plan.mechanism).__name__
    'BalancedToeplitz'
    >>> counter = dp.Counter(horizon=1000, budget=dp.zcdp(rho=0.5), mechanism=plan.mechanism)
    """
    horizon, budget = None if horizon is None else check_horizon(horizon), check_budget(budget)
    if lane not in (None, "exact", "float"):
        raise InvalidArgument("lane", lane, "'exact', 'float' or None")
    if objective not in _OBJECTIVES:
        raise InvalidArgument("objective", objective, f"one of {', '.join(map(repr, _OBJECTIVES))}")
    checked = check_shape(shape)
    lane = "exact" if lane is None else lane
    if lane == "float" and budget.noise == "laplace":
        raise pure_in_float_lane(budget)
    room = None if memory is None else check_whole("memory", memory)
    participation = check_participation(participation)
    lengths = _checked_lengths(windows, horizon, objective)
    left_out: dict[str, str] = {}
    rows = []
    if mechanisms is None:
        considered = candidates(horizon, budget.noise, objective, optimal, left_out)
        if horizon is not None and objective != "uniform" and (lengths or participation.reach(horizon) > 1):
            vectors = VECTORS if room is None else room // (math.prod(checked) * (8 if lane == "exact" else 4))
            wanted = _with_total(lengths, horizon)
            question = Question(horizon, budget.noise, participation, wanted, objective, vectors, lane == "exact")
            considered = chain(considered, fitted_candidates(question, left_out))
    else:
        considered = given_mechanisms(mechanisms, horizon, budget, left_out)
    for mechanism in considered:
        row = row_of(mechanism, horizon, budget, math.prod(checked), lane, participation, room)
        try:
            rows.append(with_windows(row, budget, participation, lengths, objective, lane))
        except DpstreamError as error:  # some mechanisms know windows of short streams only
            left_out[type(mechanism).__name__] = str(error)
    if not rows:
        raise NothingFits(wanted=f"horizon={horizon}, {budget!r}, objective={objective!r}", reasons=left_out)
    # With windows, the running total is one of the figures: whoever asks for weeks publishes it at every step.
    figures = {id(row): (error_of(row, objective), *row.window_stddev) for row in rows}
    least = [min(errors) for errors in zip(*figures.values(), strict=True)]

    def rank(row: PlanRow) -> tuple[bool, float, float, float]:
        worst = max(own / best for own, best in zip(figures[id(row)], least, strict=True)) if lengths else 0.0
        return not row.fits, worst or error_of(row, objective), row.nanoseconds, row.max_stddev

    rows.sort(key=rank)
    return Plan(horizon, budget, checked, lane, objective, participation, tuple(rows), left_out, lengths)


def pure_in_float_lane(budget: Budget) -> NoiseLawError:
    """Why a pure budget has no place in the float lane."""
    return NoiseLawError(
        f"{budget!r} needs Laplace noise, which is made exactly rounded only: use Counter (the exact lane) for a pure"
        " budget, or zcdp or approx_dp for floating-point sums"
    )


@lru_cache(maxsize=256)
def choose(
    horizon: int | None,
    noise: NoiseLaw,
    coordinates: int,
    lane: Lane,
    participation: Participation,
    windows: tuple[int, ...] = (),
) -> Mechanism:
    """The first of the plan for the least largest variance. No budget is needed: it scales all errors alike.

    With one step a person the first is known without looking at the others, which saves the time of computing their
    sensitivities; a test holds this against the plan. With windows only those are looked at that can be first, for the
    same reason. Without a horizon nothing is fitted, and windows change nothing.
    """
    if windows and horizon is not None:
        return _choose_for_windows(horizon, noise, coordinates, lane, participation, windows)
    if participation.reach(horizon) == 1 and (horizon is None or horizon > PLAN_STEPS):
        if noise == "laplace":
            return GrowingSmooth(noise="laplace") if horizon is None else SmoothBinary(horizon, noise="laplace")
        if horizon is None:
            return AnytimeToeplitz()
        return BalancedToeplitz(horizon) if 16 * horizon <= TABLES else BufferedToeplitz(horizon)
    budget = zcdp(0.5) if noise == "gaussian" else pure_dp(1.0)
    return plan(horizon, budget, shape=(coordinates,), lane=lane, participation=participation).mechanism


def _choose_for_windows(
    horizon: int,
    noise: NoiseLaw,
    coordinates: int,
    lane: Lane,
    participation: Participation,
    windows: tuple[int, ...],
) -> Mechanism:
    """The best of what is fitted to windows and total, of noise for each step alone, and of what is best for totals."""
    for_totals = choose(horizon, noise, coordinates, lane, participation)
    if noise == "laplace" and horizon > LAPLACE_STEPS:
        return for_totals
    budget = zcdp(0.5) if noise == "gaussian" else pure_dp(1.0)
    question = Question(horizon, noise, participation, _with_total(windows, horizon), "max", VECTORS, lane == "exact")
    ranked = plan(
        horizon,
        budget,
        shape=(coordinates,),
        lane=lane,
        participation=participation,
        mechanisms=None if noise == "laplace" else [for_totals, *fitted_candidates(question, {})],
        windows=windows,
    )
    return ranked.mechanism


def _checked_lengths(windows: Sequence[int] | None, horizon: int | None, objective: Objective) -> tuple[int, ...]:
    if windows is None:
        return ()
    if horizon is None:
        raise InvalidArgument("windows", windows, "left out without a horizon")
    if objective not in ("max", "mean"):
        raise InvalidArgument("objective", objective, "'max' or 'mean' with windows")
    return check_windows(windows, horizon)


def _with_total(windows: tuple[int, ...], horizon: int) -> tuple[int, ...]:
    """Return the windows and the whole stream; () stays ()."""
    return windows if not windows or windows[-1] == horizon else (*windows, horizon)
