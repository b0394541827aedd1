"""The files that pages load: the style sheet, the script, and the chart library from its own package."""

from __future__ import annotations

import gzip
import importlib.util
from functools import lru_cache
from pathlib import Path

from dpstream.serve.content import Content

__all__ = ["STATIC", "plotly_file", "static_file"]

STATIC = Path(__file__).parent / "static"


def plotly_file() -> Path | None:
    """Return the chart library's own file, from the package plotly; None if that is not installed."""
    spec = importlib.util.find_spec("plotly")
    if spec is None or spec.origin is None:
        return None
    found = Path(spec.origin).parent / "package_data" / "plotly.min.js"
    return found if found.is_file() else None


@lru_cache(maxsize=6)
def static_file(name: str, packed: bool) -> Content | None:
    """Return a file of the page, gzip-packed or not; None if there is no such file."""
    files = {
        "page.css": (STATIC / "page.css", "text/css; charset=utf-8"),
        "page.js": (STATIC / "page.js", "text/javascript; charset=utf-8"),
        "plotly.min.js": (plotly_file(), "text/javascript; charset=utf-8"),
    }
    path, kind = files.get(name, (None, ""))
    if path is None:
        return None
    body = path.read_bytes()
    if packed:
        return Content.of(gzip.compress(body, 6, mtime=0), kind, vary="Accept-Encoding", content_encoding="gzip")
    return Content.of(body, kind, vary="Accept-Encoding")
