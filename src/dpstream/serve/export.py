"""The pages as files, for any web server: `export_site`."""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path

from dpstream.errors import InvalidArgument
from dpstream.serve.downloads import MEDIA_TYPES, REGISTRY, as_file, data_package, registry_file
from dpstream.serve.figures import Figures
from dpstream.serve.pages import overview_page, stream_page
from dpstream.serve.static_files import STATIC, plotly_file

__all__ = ["Exported", "export_site"]


@dataclass(frozen=True)
class Exported:
    """What `export_site` did: how many streams there are, and how many files were written and were as they are."""

    streams: int
    written: int
    unchanged: int


def export_site(path: str | Path, folder: str | Path) -> Exported:
    """Write the pages of a store, its releases as CSV, JSON and Parquet, and datapackage.json into a folder.

    Files that would not change are left alone, so that what copies the folder elsewhere copies what is new. Each file
    is replaced as a whole. Nothing else in the folder is touched.

    Raises
    ------
    NotAStore
        If there is no store.
    InvalidArgument
        If the folder cannot be written.
    """
    figures, root = Figures(path), Path(folder)
    streams = figures.streams()
    written = unchanged = 0

    def put(name: str, body: bytes) -> None:
        nonlocal written, unchanged
        if _replace(root / name, body):
            written += 1
        else:
            unchanged += 1

    try:
        (root / "streams").mkdir(parents=True, exist_ok=True)
        (root / "static").mkdir(exist_ok=True)
        for name in ("page.css", "page.js"):
            put(f"static/{name}", (STATIC / name).read_bytes())
        if (library := plotly_file()) is not None:
            put("static/plotly.min.js", library.read_bytes())
        for stream in streams:
            for form in MEDIA_TYPES:
                put(f"streams/{stream.slug}.{form}", as_file(stream, stream.table, form))
            put(f"streams/{stream.slug}.{REGISTRY}", registry_file(stream))
            put(f"streams/{stream.slug}.html", stream_page(stream))
        put("datapackage.json", data_package(streams))
        put("index.html", overview_page(streams))  # last: it leads to all others
    except OSError as error:
        raise InvalidArgument("folder", str(root), f"a folder that can be written ({error.strerror})") from None
    return Exported(len(streams), written, unchanged)


def _replace(path: Path, body: bytes) -> bool:
    """Write a file if it is not there with this content."""
    try:
        if path.stat().st_size == len(body) and path.read_bytes() == body:
            return False
    except FileNotFoundError:
        pass
    draft = path.with_name(f".{path.name}.{os.getpid()}")
    try:
        draft.write_bytes(body)
        draft.replace(path)
    finally:
        draft.unlink(missing_ok=True)
    return True
