"""How answers are printed: tables that fit into 80 columns, and sentences that stay whole when piped."""

from __future__ import annotations

from collections.abc import Sequence

from rich import box
from rich.console import Console
from rich.progress import BarColumn, Progress, TextColumn, TimeRemainingColumn
from rich.table import Table
from rich.text import Text

__all__ = ["narrow_table", "number", "progress_bar", "say", "show_table"]


def say(console: Console, text: str, style: str = "") -> None:
    """Print a sentence: wrapped between words on a terminal, in one line where another program reads it."""
    console.print(Text(text, style), soft_wrap=not console.is_terminal, highlight=False)


def number(count: int, noun: str) -> str:
    """Return a number with its noun, in the plural where that is due.

    >>> number(1, "step"), number(2000, "step")
    ('1 step', '2,000 steps')
    """
    return f"{count:,} {noun}{'' if count == 1 else 's'}"


def narrow_table(headings: Sequence[str], *, title: str | None = None, words: Sequence[str] = ()) -> Table:
    """An empty table with no more lines than needed: the first column and those in `words` are text, others numbers."""
    table = Table(
        box=box.SIMPLE_HEAD,
        pad_edge=False,
        collapse_padding=True,
        title=title,
        title_justify="left",
        title_style="bold",
    )
    for i, heading in enumerate(headings):
        text = i == 0 or heading in words
        table.add_column(heading, justify="left" if text else "right", no_wrap=True)
    return table


def show_table(console: Console, table: Table) -> None:
    """Print a table with whole cells: in a terminal that is too narrow lines run over, but no digit is lost."""
    needed = Console(width=1000).measure(table).maximum
    wide = console if needed <= console.width else Console(file=console.file, width=needed, soft_wrap=True)
    wide.print(table)


def progress_bar() -> Progress:
    """Return a progress bar on standard error that vanishes when done; disabled unless that is a terminal."""
    console = Console(stderr=True)
    return Progress(
        TextColumn("{task.description}"),
        BarColumn(),
        TextColumn("{task.percentage:.0f} %"),
        TimeRemainingColumn(),
        console=console,
        transient=True,
        disable=not console.is_terminal,
    )
