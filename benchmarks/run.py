"""Runs the benchmarks on one core and prints a table; the figures also go to output/benchmarks.json.

usage: python benchmarks/run.py [NAME ...]

NAME: noise, release, store, count, training, discovery, serve, or a function of one; all of them if left out.
"""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

os.environ["OMP_NUM_THREADS"] = os.environ["OPENBLAS_NUM_THREADS"] = "1"
os.environ["XLA_FLAGS"] = "--xla_cpu_multi_thread_eigen=false intra_op_parallelism_threads=1"
os.environ["JAX_PLATFORMS"] = "cpu"
if hasattr(os, "sched_setaffinity"):  # before anything starts a thread: all sides share one core
    os.sched_setaffinity(0, {max(os.sched_getaffinity(0))})

from rich.console import Console
from rich.table import Table

import count
import discovery
import noise
import release
import serve
import store
import training
from measure import Row


def table(rows: list[Row]) -> Table:
    made = Table(title="dpstream against its peers: medians, same run, one core", title_justify="left")
    for heading in ("work", "against", "ours", "peer", "", "ratio", "wanted", "floors", ""):
        made.add_column(heading, justify="left" if heading in ("work", "against") else "right")
    for row in rows:
        made.add_row(
            row.work,
            row.against,
            f"{row.ours:.2f}",
            f"{row.peer:.2f}",
            row.unit,
            f"{row.ratio:.2f}×",
            row.wanted,
            "" if row.floors is None else f"{row.floors:.1f}",
            "[green]met" if row.met else "[red]missed",
        )
    return made


def chosen(names: list[str]) -> list[Callable[[], Iterator[Row]]]:
    """The benchmarks of these names, or all; a name that is none is refused before anything is measured."""
    files = {module.__name__: module.ALL for module in (noise, release, store, count, training, discovery, serve)}
    known = {suite.__name__: suite for suites in files.values() for suite in suites}
    for name in names:
        if name not in files and name not in known:
            sys.exit(f"no benchmark is called {name!r}; there are {', '.join([*files, *known])}")
    return [s for file, suites in files.items() for s in suites if not names or {file, s.__name__} & {*names}]


def main(names: list[str]) -> None:
    console = Console(width=170)
    rows: list[Row] = []
    for suite in chosen(names):
        with console.status(f"measuring {suite.__name__} ..."):
            rows.extend(suite())
    console.print(table(rows))
    console.print("floors: our time over that of the keystream alone plus one pass that adds two arrays.")
    target = Path("output/benchmarks.json")
    target.parent.mkdir(exist_ok=True)
    target.write_text(json.dumps([row.as_json() for row in rows], indent=2, ensure_ascii=False))


if __name__ == "__main__":
    main(sys.argv[1:])
