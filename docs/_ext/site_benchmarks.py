"""Sphinx: the table of benchmarks, from docs/benchmarks.json; and the command that updates that file.

usage: python docs/_ext/site_benchmarks.py output/benchmarks.json [--remark "quiet machine"]

Rows of the new run replace those of the same work; others stay.
"""

from __future__ import annotations

import argparse
import datetime as dt
import json
import os
import platform
from pathlib import Path
from typing import Any

RECORDED = Path(__file__).resolve().parent.parent / "benchmarks.json"


def machine() -> str:
    """Return the processor and its number of cores, in words."""
    names = [
        line.split(":")[1].strip()
        for line in (Path("/proc/cpuinfo").read_text() if Path("/proc/cpuinfo").exists() else "").splitlines()
        if line.startswith("model name")
    ]
    return f"{names[0] if names else platform.processor()}, {os.cpu_count()} cores, {platform.system()}"


def record(run: Path, remark: str = "", recorded: Path = RECORDED) -> int:
    """Put the rows of a run into the recorded file; return how many there are then."""
    known = json.loads(recorded.read_text()) if recorded.exists() else []
    rows = {(row["work"], row["against"]): row for row in known}
    day = dt.date.fromtimestamp(run.stat().st_mtime).isoformat()
    for row in json.loads(run.read_text()):
        rows[row["work"], row["against"]] = row | {"day": day, "machine": machine(), "remark": remark}
    recorded.write_text(json.dumps(list(rows.values()), indent=1, ensure_ascii=False) + "\n")
    return len(rows)


def table(rows: list[dict[str, Any]]) -> str:
    """Return the rows as Markdown, and under them which run each is from."""
    runs: dict[str, int] = {}
    lines = [
        "| work | against | ours | theirs | | ratio | wanted | floors | run |",
        "|---|---|--:|--:|---|--:|--:|--:|--:|",
    ]
    for row in rows:
        floors = "" if row.get("floors") is None else f"{row['floors']:.1f}"
        wanted = row["wanted"] + ("" if row["met"] else " **missed**")
        told = f"{row['day']}, {row['remark'] or 'no remark'}; {row['machine']}"
        run = runs.setdefault(told, len(runs) + 1)
        lines.append(
            f"| {row['work']} | {row['against']} | {row['ours']:.3g} | {row['peer']:.3g} | {row['unit']} "
            f"| {row['ratio']:.2f}× | {wanted} | {floors} | {run} |"
        )
    return "\n".join([*lines, "", "Runs:", "", *(f"{run}. {told}" for told, run in runs.items()), ""])


def setup(app: Any) -> dict[str, Any]:
    """Register the directive."""
    from sphinx.util.docutils import SphinxDirective

    class Benchmarks(SphinxDirective):
        """The table."""

        def run(self) -> list[Any]:
            self.env.note_dependency(str(RECORDED))
            return list(self.parse_text_to_nodes(table(json.loads(RECORDED.read_text()))))

    app.add_directive("benchmarks", Benchmarks)
    return {"parallel_read_safe": True, "parallel_write_safe": True}


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("run", type=Path)
    parser.add_argument("--remark", default="")
    given = parser.parse_args()
    print(f"{record(given.run, given.remark)} rows in {RECORDED}")
