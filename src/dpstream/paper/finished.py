"""What is already computed: one JSON file a part, good for the same settings and the same version only."""

from __future__ import annotations

import json
from dataclasses import asdict
from pathlib import Path
from typing import Any

from dpstream.paper.atomic_write import write
from dpstream.paper.model import Claim, Grid, Measured

__all__ = ["Finished"]

#: Of the files; others are computed again.
FORMAT = 1


class Finished:
    """The finished parts of a report.

    Parameters
    ----------
    directory
        Where they are kept.
    settings
        What they depend on; parts kept under other settings do not count.
    """

    def __init__(self, directory: Path, settings: dict[str, object]) -> None:
        self._directory = directory
        self._settings = {"format": FORMAT, **settings}

    def keep(self, key: str, data: Measured | Claim) -> None:
        """Store what was computed."""
        self._directory.mkdir(exist_ok=True)
        kept = {"settings": self._settings, "kind": type(data).__name__, "data": asdict(data)}
        write(self._directory / f"{key}.json", json.dumps(kept, ensure_ascii=False, allow_nan=False, indent=1))

    def find(self, key: str) -> Measured | Claim | None:
        """What is kept under this key; None if nothing, or nothing that is whole and of these settings."""
        try:
            kept = json.loads((self._directory / f"{key}.json").read_text())
            if kept["settings"] != self._settings:
                return None
            return _loaded(kept["kind"], kept["data"])
        except (OSError, ValueError, KeyError, TypeError):
            return None


def _loaded(kind: str, data: dict[str, Any]) -> Measured | Claim:
    if kind == Claim.__name__:
        return Claim(**data)
    table = data["table"]
    return Measured(data["rows"], data["findings"], None if table is None else Grid(**table))
