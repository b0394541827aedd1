"""`dpstream paper`: everything the paper states and shows, measured again, next to its words."""

from __future__ import annotations

from collections import Counter
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer
from rich.console import Console
from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn

from dpstream.cli.app import Interrupted

if TYPE_CHECKING:
    from dpstream.paper.content import Outcome

__all__ = ["paper"]


def paper(
    output: Annotated[Path, typer.Option(help="The directory that gets the report.")] = Path("paper-report"),
    quick: Annotated[bool, typer.Option("--quick", help="Short horizons and few runs: half a minute.")] = False,
    fresh: Annotated[bool, typer.Option("--fresh", help="Compute again what an earlier run has finished.")] = False,
    docs: Annotated[Path | None, typer.Option(help="Also write paper.md and its pictures into this directory.")] = None,
) -> None:
    """Measure again what the paper on the smooth binary mechanism states and shows, and write a report.

    All figures, Table 1 and every claim of arXiv:2306.09666, as one HTML page, Markdown, pictures and CSV files. A run
    that is interrupted goes on where it stopped. Needs the extra `plot`.

    Example: dpstream paper --quick --output paper-report
    """
    from dpstream.paper.run import make_report

    columns = (
        TextColumn("{task.description}"),
        BarColumn(),
        TextColumn("{task.percentage:.0f} %"),
        TimeElapsedColumn(),
    )
    with Progress(*columns, console=Console(stderr=True), transient=True) as progress:
        bar = progress.add_task("starting", total=None)

        def report(title: str, done: float, total: int) -> None:
            progress.update(bar, description=title, completed=done, total=total)

        try:
            outcome = make_report(output, quick=quick, fresh=fresh, docs=docs, report=report)
        except KeyboardInterrupt:
            raise Interrupted("The parts that are finished are kept: the same command goes on from there.") from None
    console = Console()
    console.print(_summary(outcome))
    console.print(f"Report: {output / 'report.html'}", soft_wrap=True, highlight=False)


def _summary(outcome: Outcome) -> str:
    from dpstream.paper.content import VERDICTS

    counts = Counter(claim.verdict for claim in outcome.claims)
    listed = ", ".join(f"{counts[verdict]} {mark} {words}" for verdict, (mark, words) in VERDICTS.items())
    return f"{len(outcome.parts)} tables and figures; {len(outcome.claims)} claims: {listed}."
