"""A `dpstream count` command to paste: what was given, and proposals for what was not."""

from __future__ import annotations

import csv
import datetime as dt
import shlex
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from dpstream.events.count_settings import ENDS, SETTINGS

__all__ = ["OPTIONS", "what_is_missing", "whole_command"]

#: The options of the settings of a count.
OPTIONS = {name: f"--{(setting.option or name).replace('_', '-')}" for name, setting in SETTINGS.items()}
_WORDS = {
    "time": "which column says when a row happened (--time COLUMN)",
    "end": "how long you will publish (--until DATE, --horizon 365 for a year of days, or --unbounded for no end)",
    "budget": "the budget (--epsilon 1 --delta 1e-6 is a usual choice)",
}
#: Names of columns of times, the likeliest first.
_TIMES = ("timestamp", "datetime", "date_time", "time", "when", "date", "day", "datum", "zeit", "ts")


def what_is_missing(lacking: list[str], given: Mapping[str, Any]) -> str:
    """Return a sentence that names all that a command lacks, and a command that has it.

    Parameters
    ----------
    lacking
        What `count_settings.missing` returned.
    given
        The options that were given, by the names of their arguments; "files" are the files.
    """
    *most, last = (_WORDS[name] for name in lacking)
    listed = f"{', '.join(most)} and {last}" if most else last
    count = {1: "one thing is", 2: "two things are"}.get(len(lacking), "three things are")
    return f"{count} missing: {listed}. Try: {whole_command(lacking, given)}"


def whole_command(lacking: list[str], given: Mapping[str, Any]) -> str:
    """Return the command that was given, with proposals for what it lacks."""
    files = list(given.get("files") or [])
    words = ["dpstream", "count", *files]
    proposed = dict(given)
    if "time" in lacking:
        proposed["time"] = _time_column(files) or "COLUMN"
    year = dt.date.today().year
    if not given.get("start"):
        proposed["start"] = f"{year}-01-01"
    if "end" in lacking:
        proposed["until"] = f"{year}-12-31"
    if "budget" in lacking:
        proposed |= {"epsilon": 1, "delta": "1e-6"}
    if files and "-" not in files:
        proposed.setdefault("store", f"{Path(files[0]).name.split('.')[0]}.db")
    order = ["time", "every", "start", *ENDS, "rho", "epsilon", "delta", "store"]
    for name in sorted(proposed, key=lambda name: order.index(name) if name in order else len(order)):
        if name in SETTINGS:
            words += _option(name, proposed[name])
    return shlex.join(words)


def _option(name: str, value: Any) -> list[str]:
    option = OPTIONS[name]
    if value is True:
        return [option]
    if isinstance(value, (tuple, list)):
        return [option, ",".join(map(str, value))]
    return [option, f"{value:g}" if isinstance(value, float) else str(value)]


def _time_column(files: list[str]) -> str | None:
    """The column of a text file that is called like a time, if there is one."""
    try:
        with open(files[0], encoding="utf-8-sig", newline="") as file:
            first = file.readline(10_000)
    except (OSError, ValueError, IndexError):
        return None
    for separator in ",;\t":
        names = next(csv.reader([first], delimiter=separator), [])
        found = [name for word in _TIMES for name in names if name.strip().lower() == word]
        found += [name for name in names if name.strip().lower().endswith(("_at", "_time", "_date", "time", "date"))]
        if found:
            return found[0]
    return None
