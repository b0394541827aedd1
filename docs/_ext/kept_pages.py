"""Keeps what pages printed, and how long they took, so that a page runs again only after a change.

What a page printed is kept in build/pages as long as neither its blocks nor the package change. build/page-times.txt
says how long each page took when it was last run.
"""

from __future__ import annotations

import hashlib
import json
import resource
import time
from dataclasses import asdict, dataclass
from pathlib import Path

from page_runs import DOCS, ROOT, Page, Result, recorded, run_page

KEPT = ROOT / "build" / "pages"
TIMES = ROOT / "build" / "page-times.txt"


def package_fingerprint() -> str:
    """Changes with every change of the package, of the examples and of what runs the pages."""
    files = [*(ROOT / "src").rglob("*.py"), *(ROOT / "src").rglob("*.[ch]"), *(ROOT / "examples").rglob("*.py")]
    files += [*(DOCS / "_ext").rglob("*.py")]
    return hashlib.sha256(b"".join(hashlib.sha256(path.read_bytes()).digest() for path in sorted(files))).hexdigest()


@dataclass(frozen=True)
class Shown:
    """What the blocks of a page printed, and the seconds that running them took, by the clock and by the processor."""

    results: list[Result]
    seconds: float = 0.0
    processor: float = 0.0


def kept_of(page: Page) -> Path:
    """Where is kept what a page printed."""
    return KEPT / f"{page.name.replace('/', '.')}.json"


def results_of(page: Page, package: str) -> Shown:
    """What a page prints: from its record, as kept, or from a run now.

    The processor's time is that of all programs which this process has started and waited for, so only one page runs
    in a process at a time.
    """
    if page.recorded:
        return Shown(recorded(page))
    stamp = page.fingerprint + package
    if kept_of(page).exists():
        told = json.loads(kept_of(page).read_text())
        if told["stamp"].startswith(page.fingerprint) if not package else told["stamp"] == stamp:
            return Shown(
                [Result(**result) for result in told["results"]], told.get("seconds", 0.0), told.get("processor", 0.0)
            )
    began, spent = time.monotonic(), _processor_seconds()
    results = run_page(page)
    shown = Shown(results, round(time.monotonic() - began, 2), round(_processor_seconds() - spent, 2))
    KEPT.mkdir(parents=True, exist_ok=True)
    kept_of(page).write_text(json.dumps({"stamp": stamp, **asdict(shown)}))
    return shown


def _processor_seconds() -> float:
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


def seconds_last_time(page: Page) -> float:
    """How long a page took when it was last run: the longest begin first, so that none is waited for at the end."""
    if page.recorded or not kept_of(page).exists():
        return 0.0
    return float(json.loads(kept_of(page).read_text()).get("processor", 0.0))


def write_times(shown: dict[str, Shown]) -> None:
    """List the pages by the time that running them took."""
    lines = [
        f"{one.processor:7.1f} {one.seconds:7.1f}  {name}\n"
        for name, one in sorted(shown.items(), key=lambda item: -item[1].processor)
    ]
    total = f"{sum(one.processor for one in shown.values()):7.1f} {sum(one.seconds for one in shown.values()):7.1f}"
    TIMES.parent.mkdir(parents=True, exist_ok=True)
    TIMES.write_text(f"processor seconds, seconds by the clock, page\n{''.join(lines)}{total}  all pages\n")
