"""`dpstream windows`: its options. What they do is in windows_run.py, which is loaded when they make sense."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from dpstream.cli.targets import Plot

__all__ = ["windows"]

WHICH, WRITE = "Which windows", "Where it goes"


def windows(
    store: Annotated[Path, typer.Argument(help="The store's database.")],
    stream: Annotated[
        str | None, typer.Argument(help="The stream's name; may be left out if the store has one.")
    ] = None,
    over: Annotated[
        str,
        typer.Option(
            metavar="LENGTH",
            help="How long a window is: 1d, 7d, 1w (from Monday to Sunday), 1mo (of the calendar), or a number of"
            " steps.",
            rich_help_panel=WHICH,
        ),
    ] = "1w",
    every: Annotated[
        str | None,
        typer.Option(
            metavar="LENGTH",
            help="How far windows are apart. If left out: one follows the other.",
            rich_help_panel=WHICH,
        ),
    ] = None,
    rolling: Annotated[
        bool, typer.Option("--rolling", help="A window up to every step.", rich_help_panel=WHICH)
    ] = False,
    start: Annotated[
        str | None,
        typer.Option(
            "--from", metavar="DATE", help="Only windows that end on this date or later.", rich_help_panel=WHICH
        ),
    ] = None,
    through: Annotated[
        str | None, typer.Option(metavar="DATE", help="Only windows that end by this date.", rich_help_panel=WHICH)
    ] = None,
    confidence: Annotated[
        float,
        typer.Option(help="The chance that the number without noise is between low and high.", rich_help_panel=WHICH),
    ] = 0.95,
    output: Annotated[
        Path | None,
        typer.Option(help="Write the figures to this .csv, .json, .jsonl or .parquet file.", rich_help_panel=WRITE),
    ] = None,
    form: Annotated[
        str | None,
        typer.Option("--as", help="Standard output as table, csv, json, jsonl or parquet.", rich_help_panel=WRITE),
    ] = None,
    as_json: Annotated[
        bool, typer.Option("--json", help="Standard output as JSON lines.", rich_help_panel=WRITE)
    ] = False,
    plot: Plot = None,
    title: Annotated[str | None, typer.Option(help="What stands above the picture.", rich_help_panel=WRITE)] = None,
    label: Annotated[
        str | None,
        typer.Option(help="What is counted, in a word for the picture: visits.", rich_help_panel=WRITE),
    ] = None,
) -> None:
    """Tell what a stream counted in each day, week or month, with error bars.

    The figures come from the releases that are in the store, so they cost no further budget. A window that was not
    asked for when the stream began is told with its exact error. Figures that are not of a whole window, at both ends,
    are marked. Works while another process writes to the store.

    Example: dpstream windows counts.db --over 1w

    Example: dpstream windows counts.db visits --over 1mo --from 2026-01-01 --as csv

    Example: dpstream windows counts.db visits --over 7d --rolling --plot weeks.html --label visits
    """
    given = dict(locals())
    from dpstream.cli.windows_run import run_windows

    run_windows(**given)
