"""`dpstream compare`: all mechanisms side by side at one horizon."""

from __future__ import annotations

from collections.abc import Callable
from typing import Annotated

import typer
from rich.console import Console
from rich.progress import track
from rich.table import Table

from dpstream import mechanisms as m
from dpstream.mechanisms.base import Mechanism

#: (row title, constructor, what to say of it), in the order of the paper's Table 1, then what came after.
GAUSSIAN: list[tuple[str, Callable[[int], Mechanism], str]] = [
    ("Binary", m.Binary, "the classic"),
    ("Honaker", m.Honaker, "estimates from below"),
    ("SmoothBinary.paper", m.SmoothBinary.paper, "the paper's tree and price"),
    ("SmoothBinary", m.SmoothBinary, "priced by releases"),
    ("WeightedTree", m.WeightedTree, "a variance for each node"),
    ("SquareRoot", m.SquareRoot, "Henzinger et al."),
    ("SquareRoot normalized", lambda T: m.SquareRoot(T, normalized=True), "columns normalised"),
    ("BufferedToeplitz", m.BufferedToeplitz, "columns normalised"),
    ("BalancedToeplitz", m.BalancedToeplitz, "rows and columns balanced"),
    ("Optimal", m.Optimal, "Denisov et al., certified"),
    ("Unbounded", lambda _: m.Unbounded(), "no horizon: doubling epochs"),
    ("GrowingSmooth", lambda _: m.GrowingSmooth(), "no horizon: one endless tree"),
    ("LogMatrix", lambda _: m.LogMatrix(), "no horizon, growing memory"),
    ("AnytimeToeplitz", lambda _: m.AnytimeToeplitz(), "to 2^40 steps, constant memory"),
]
LAPLACE: list[tuple[str, Callable[[int], Mechanism], str]] = [
    ("Binary", lambda T: m.Binary(T, noise="laplace"), "the classic"),
    ("SmoothBinary", lambda T: m.SmoothBinary(T, noise="laplace"), "unpadded"),
    ("SignedDigits", m.SignedDigits, "adds and subtracts nodes"),
    ("Unbounded", lambda _: m.Unbounded(noise="laplace"), "no horizon: doubling epochs"),
    ("GrowingSmooth", lambda _: m.GrowingSmooth(noise="laplace"), "no horizon: one endless tree"),
]
#: Dense solvers stop here; the table then says so instead of going silent.
OPTIMAL_LIMIT = 2048
#: A terminal of fewer columns gets the numbers only.
NOTES_FROM = 105


def compare(
    horizon: Annotated[int, typer.Option(help="How many running totals are released.")] = 1000,
) -> None:
    """Compare all mechanisms at one horizon: error, sensitivity, draws and memory.

    Example: dpstream compare --horizon 1000
    """
    console = Console()
    tables = [
        _table("Gaussian noise: variance of a release is V / (2ρ)", GAUSSIAN, horizon, console.width),
        _table("Laplace noise: variance of a release is 2V / ε²", LAPLACE, horizon, console.width),
    ]
    for table in tables:
        console.print(table)
    console.print(
        "V is the normalised variance; price is the sensitivity that the noise is scaled by; draws are those of a"
        " release at worst (on average); memory counts the vectors held between two releases (without a horizon: at a"
        " million steps)."
    )


def _table(title: str, rows: list[tuple[str, Callable[[int], Mechanism], str]], horizon: int, width: int) -> Table:
    table = Table(title=f"{horizon:,} releases. {title}", title_justify="left", title_style="bold")
    for heading in ("mechanism", "max V", "mean V", "price", "draws", "memory"):
        table.add_column(heading, justify="left" if heading == "mechanism" else "right", no_wrap=True)
    notes = width >= NOTES_FROM
    if notes:
        table.add_column("note", no_wrap=True)
    for name, make, note in track(rows, description="computing", transient=True, console=Console(stderr=True)):
        if name == "Optimal" and horizon > OPTIMAL_LIMIT:
            row = [name, "–", "–", "–", "–", "–", f"a dense solver: up to {OPTIMAL_LIMIT:,} steps here"]
            table.add_row(*row if notes else row[:-1])
            continue
        mechanism = make(horizon)
        draws = mechanism.draws_per_step
        row = [
            name,
            f"{mechanism.max_variance(horizon):.2f}",
            f"{mechanism.mean_variance(horizon):.2f}",
            f"{mechanism.sensitivity():.3f}",
            f"{draws.worst} ({draws.average:.2f})",
            f"{mechanism.memory:,}",
            note,
        ]
        table.add_row(*row if notes else row[:-1])
    return table
