"""How far reading has come: a bar with rows a second, for people only."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

from rich.console import Console
from rich.progress import BarColumn, Progress, TextColumn, TimeRemainingColumn

from dpstream.events.tables import STDIN

__all__ = ["reading_progress"]


@contextmanager
def reading_progress(sources: Sequence[str], *, quiet: bool) -> Iterator[Callable[[int, int], None]]:
    """Show how many bytes and rows were read; nothing at all when output is piped."""
    shown = not quiet and sys.stdout.isatty() and sys.stderr.isatty()
    sizes = [Path(source).stat().st_size if source != STDIN and Path(source).is_file() else None for source in sources]
    total = None if None in sizes else sum(size for size in sizes if size is not None)
    columns = (
        TextColumn("reading"),
        BarColumn(),
        TextColumn("{task.percentage:3.0f} %" if total else ""),
        TextColumn("{task.fields[rows]:,} rows, {task.fields[rate]:,.0f} a second"),
        TimeRemainingColumn(),
    )
    with Progress(*columns, console=Console(stderr=True), transient=True, disable=not shown) as progress:
        task = progress.add_task("reading", total=total, rows=0, rate=0.0)

        def show(read: int, rows: int) -> None:
            elapsed = progress.tasks[task].elapsed or 0.0
            progress.update(task, completed=read, rows=rows, rate=rows / elapsed if elapsed else 0.0)

        yield show
