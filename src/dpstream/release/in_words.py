"""Says in plain words what a stream promises, to whom, against whom, and what it does not promise."""

from __future__ import annotations

import math

from dpstream.budget import ZCDP, ApproxDP, PureDP
from dpstream.release.limit_words import row_limit_in_words
from dpstream.release.settings import StreamSettings

__all__ = ["describe"]


def describe(settings: StreamSettings, stddev: float, t: int, *, rows_per_person: int | None = None) -> str:
    """Return one paragraph on the promise of these settings; `stddev` is that of release t.

    `rows_per_person`: how many rows of one person a store counts at most, if it does; then nobody is left out.
    """
    law = "Gaussian" if settings.budget.noise == "gaussian" else "Laplace"
    what, rounding = (
        ("counts", "rounded to whole numbers without floating-point error")
        if settings.lane == "exact"
        else ("sums", "computed in floating point and rounded to a grid far below it")
    )
    length = "without a last one" if settings.horizon is None else f"{settings.horizon:,} at most"
    return (
        f"These are running {what} with {law} noise ({type(settings.mechanism).__name__}), {rounding}: the standard"
        f" deviation of release {t:,} is {stddev:.4g}. Promised: {_promise(settings)} for all releases together"
        f" ({length}), also when later inputs depend on earlier releases. To whom:"
        f" {_protected(settings, rows_per_person)}. {_who_ensures_it(settings, rows_per_person)}"
        " Against whom: anyone who sees every release and knows this program, its settings and all other data, but"
        " not the key. Not promised:"
        f"{'' if rows_per_person else ' anything to a person who is in more steps or adds more to one;'} anything"
        " against those who see the inputs, the key, or this process at work; secrecy of facts about groups of people;"
        " and other publications about the same people, which spend budgets of their own."
        + ("" if settings.lane == "exact" else " The promise is that of real-valued noise; see docs/releases.md.")
    )


def _promise(settings: StreamSettings) -> str:
    budget = settings.budget
    if isinstance(budget, PureDP):
        return f"pure differential privacy with epsilon = {budget.epsilon:g}"
    if isinstance(budget, ApproxDP):
        return f"({budget.epsilon:g}, {budget.delta:g})-differential privacy"
    if isinstance(budget, ZCDP):
        return f"zero-concentrated differential privacy with rho = {budget.rho:g}"
    return repr(budget)


def _protected(settings: StreamSettings, rows_per_person: int | None) -> str:
    k, s = settings.participation.times, settings.participation.separation
    person = "everyone who is in one step only" if k == 1 else f"everyone who is in at most {k} steps"
    if k > 1 and s > 1:
        person += f", at least {s} steps apart"
    amount = f"{settings.per_person:g}"
    if math.prod(settings.shape) > 1 or settings.lane == "float":
        amount += " in ℓ1 norm" if settings.budget.noise == "laplace" else " in ℓ2 norm"
    hidden = {
        "add-remove": "nobody can tell whether they are in the data",
        "replace": "what they added cannot be told from anything else they might have added in the same steps (in which"
        " steps they were can be told)",
        "replace-anywhere": "neither what they added nor in which steps can be told from anything else they might have"
        " added",
    }[settings.neighbours]
    if rows_per_person is not None and rows_per_person <= settings.per_person:
        return f"everyone, because the counted rows of one person add at most {amount}, in whatever steps; {hidden}"
    return f"{person} and adds at most {amount} there; {hidden}"


def _who_ensures_it(settings: StreamSettings, rows_per_person: int | None) -> str:
    if rows_per_person is not None and rows_per_person <= settings.per_person:
        return f"{row_limit_in_words(rows_per_person)} The store refuses to count more rows of anyone."
    if settings.per_step is not None and settings.per_step <= settings.per_person:
        return "A step's total is checked against what one person may add, so each step must be one person's."
    return (
        f"dpstream sees only totals here. You must ensure that nobody adds more than {settings.per_person:g} to a step"
        " or is in more steps."
    )
