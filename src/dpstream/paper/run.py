"""Computes the report part by part, and keeps each part as soon as it is finished.

A run that is interrupted goes on where it stopped. Everything is written as a whole or not at all.
"""

from __future__ import annotations

import csv
import io
import os
import platform
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import scipy

import dpstream
from dpstream.charts import require_matplotlib
from dpstream.paper.as_html import as_html
from dpstream.paper.as_markdown import as_markdown
from dpstream.paper.atomic_write import check_directory, write
from dpstream.paper.claims import CLAIMS
from dpstream.paper.content import Outcome, blocks
from dpstream.paper.finished import Finished
from dpstream.paper.model import Claim, ClaimMaker, Measured, Part, Progress, Row
from dpstream.paper.parts import PARTS

if TYPE_CHECKING:
    from matplotlib.figure import Figure

__all__ = ["make_report"]

#: Told what is being done, how many parts are finished (with fractions) and how many there are.
Report = Callable[[str, float, int], None]


@dataclass(frozen=True)
class _Task:
    """A part or a claim, as the runner sees it."""

    key: str
    title: str
    compute: Callable[[bool, Progress], Measured | Claim]
    draw: Callable[[Any], Figure] | None


def make_report(
    output: Path, *, quick: bool = False, fresh: bool = False, docs: Path | None = None, report: Report | None = None
) -> Outcome:
    """Compute what is not yet computed and write the report into `output`.

    Parameters
    ----------
    output
        A directory; made if it is not there. It gets ``report.html``, ``report.md``, and for each part its data as CSV
        and its picture as PNG and SVG.
    quick
        Shorter horizons and fewer runs: half a minute instead of a quarter of an hour.
    fresh
        Compute everything again, also what is finished.
    docs
        A directory that gets ``paper.md`` and its pictures in ``paper/``.
    report
        Called with what is being done, how much of it is done, and out of how much.

    Raises
    ------
    MissingExtra
        Without matplotlib; nothing is computed or written then.
    InvalidArgument
        If a directory cannot be written.
    """
    require_matplotlib()
    check_directory("output", output)
    if docs is not None:
        check_directory("docs", docs)
    finished = Finished(output / "finished", {"dpstream": dpstream.__version__, "quick": quick})
    tasks = [*map(_task_of_part, PARTS), *map(_task_of_claim, CLAIMS)]
    found: dict[str, Measured | Claim] = {}
    for i, task in enumerate(tasks):

        def tell(share: float, i: int = i, title: str = task.title) -> None:
            if report is not None:
                report(title, i + share, len(tasks))

        tell(0.0)
        data = None if fresh else finished.find(task.key)
        if data is None:
            data = task.compute(quick, tell)
            finished.keep(task.key, data)
            _write_files(output, task, data)
        elif not all((output / name).exists() for name in _names(task)):
            _write_files(output, task, data)
        found[task.key] = data
        tell(1.0)
    outcome = Outcome(
        {key: data for key, data in found.items() if isinstance(data, Measured)},
        [data for data in found.values() if isinstance(data, Claim)],
        frozenset(task.key for task in tasks if task.draw is not None),
        _circumstances(quick),
    )
    _write_report(outcome, output, docs)
    return outcome


def _task_of_part(part: Part) -> _Task:
    return _Task(part.key, part.title, part.compute, part.draw)


def _task_of_claim(maker: ClaimMaker) -> _Task:
    return _Task(f"claim-{maker.key}", maker.title, lambda quick, _: maker.compute(quick), maker.draw)


def _names(task: _Task) -> list[str]:
    pictures = [] if task.draw is None else [f"{task.key}.svg", f"{task.key}.png"]
    return [f"{task.key}.csv", *pictures]


def _write_files(output: Path, task: _Task, data: Measured | Claim) -> None:
    write(output / f"{task.key}.csv", _as_csv(data.rows))
    if task.draw is not None:
        figure = task.draw(data)
        write(output / f"{task.key}.svg", _as_image(figure, "svg"))
        figure.set_layout_engine("none")  # everything has its place now
        write(output / f"{task.key}.png", _as_image(figure, "png"))


def _as_csv(rows: list[Row]) -> str:
    out = io.StringIO()
    columns = list(dict.fromkeys(column for row in rows for column in row))
    writer = csv.DictWriter(out, columns, lineterminator="\n")
    writer.writeheader()
    writer.writerows(rows)
    return out.getvalue()


def _as_image(figure: Figure, kind: str) -> bytes:
    import matplotlib as mpl

    out = io.BytesIO()
    # Without a salt and a date the same data gives the same file.
    with mpl.rc_context({"svg.hashsalt": "dpstream"}):
        figure.savefig(out, format=kind, dpi=160, metadata={"Date": None} if kind == "svg" else None)
    return out.getvalue()


def _circumstances(quick: bool) -> str:
    threads = os.cpu_count() or 1
    return (
        f"Made by dpstream {dpstream.__version__} with “dpstream paper{' --quick' if quick else ''}”, on {threads}"
        f" cores ({platform.machine()}), Python {platform.python_version()}, NumPy {np.__version__}, SciPy"
        f" {scipy.__version__}. Timings are those of this machine and its other work, and count as ratios only; all"
        " other numbers are the same everywhere." + (" A quick run: short horizons, few runs." if quick else "")
    )


def _write_report(outcome: Outcome, output: Path, docs: Path | None) -> None:
    page = blocks(outcome)
    write(output / "report.html", as_html(page, lambda key: (output / f"{key}.svg").read_bytes()))
    write(output / "report.md", as_markdown(page))
    if docs is not None:
        (docs / "paper").mkdir(exist_ok=True)
        for key in outcome.drawn:
            write(docs / "paper" / f"{key}.svg", (output / f"{key}.svg").read_bytes())
        write(docs / "paper.md", as_markdown(page, pictures="paper/", data=False))
