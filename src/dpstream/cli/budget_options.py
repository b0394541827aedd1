"""The options that state a privacy budget, and the budget they make."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer

from dpstream.errors import BudgetError

if TYPE_CHECKING:
    from dpstream.budget import Budget

__all__ = ["Delta", "Epsilon", "Rho", "budget_in_words", "budget_of", "check_budget_options"]

PANEL = "Budget: how much may be learned about one person"

Rho = Annotated[float | None, typer.Option(help="A zCDP budget ρ.", rich_help_panel=PANEL)]
Epsilon = Annotated[
    float | None,
    typer.Option(help="A budget ε: with --delta an (ε, δ) one, alone a pure one.", rich_help_panel=PANEL),
]
Delta = Annotated[
    float | None,
    typer.Option(help="The δ that goes with ε: well below one over the number of people.", rich_help_panel=PANEL),
]


def budget_of(rho: float | None, epsilon: float | None, delta: float | None, default: Budget | None = None) -> Budget:
    """Return the budget that the options ask for.

    Raises
    ------
    BudgetError
        If they ask for none, where there is no default, or for two.
    """
    if rho is None and epsilon is None and delta is None and default is not None:
        return default
    check_budget_options(rho, epsilon, delta)
    from dpstream.budget import approx_dp, pure_dp, zcdp

    if rho is not None:
        return zcdp(rho)
    assert epsilon is not None  # noqa: S101
    return pure_dp(epsilon) if delta is None else approx_dp(epsilon, delta)


def check_budget_options(rho: float | None, epsilon: float | None, delta: float | None) -> None:
    """Refuse options that state no budget, or two. Loads nothing: a usage error comes at once."""
    if (rho is not None and epsilon is None and delta is None) or (epsilon is not None and rho is None):
        return
    given = [f"--{name} {value:g}" for name, value in (("rho", rho), ("epsilon", epsilon), ("delta", delta)) if value]
    raise BudgetError(
        "the budget",
        " ".join(given) or "none",
        "given as --rho, or as --epsilon, or as --epsilon with --delta (--epsilon 1 --delta 1e-6 is a usual choice)",
    )


def budget_in_words(budget: Budget) -> str:
    """Return a budget as people write it: ρ = 0.5, or ε = 1, δ = 1e-06."""
    letters = (("ρ", "rho"), ("ε", "epsilon"), ("δ", "delta"))
    return ", ".join(f"{letter} = {getattr(budget, name):g}" for letter, name in letters if hasattr(budget, name))
