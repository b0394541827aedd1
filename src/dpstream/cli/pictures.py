"""Pictures that commands write: checked before any work is done, saved by their suffix."""

from __future__ import annotations

import io
from pathlib import Path
from typing import TYPE_CHECKING

from dpstream.charts import require_matplotlib
from dpstream.cli.page import curves_page, empty_page, require_plotly
from dpstream.cli.release_page import release_page
from dpstream.cli.release_picture import NOTHING, ReleasePicture, draw_picture
from dpstream.cli.targets import NotWritten, Target, check_target, opened
from dpstream.errors import InvalidArgument

if TYPE_CHECKING:
    from matplotlib.figure import Figure

__all__ = ["check_picture", "save_curves", "save_releases", "write_releases"]

SUFFIXES = (".png", ".svg", ".pdf", ".html")


def check_picture(path: Path | None) -> None:
    """Refuse a picture that could not be drawn or saved.

    Raises
    ------
    InvalidArgument
        If the suffix is unknown, or the file cannot be written.
    MissingExtra
        Without matplotlib or, for a page, without plotly.
    """
    if path is None:
        return
    if path.suffix.lower() not in SUFFIXES:
        raise InvalidArgument("--plot", str(path), f"a file ending in {', '.join(SUFFIXES)}")
    check_target("--plot", path)
    require_matplotlib()
    if path.suffix.lower() == ".html":
        require_plotly()


def save_curves(figure: Figure, path: Path, heading: str) -> None:
    """Write a picture of curves in the format that its suffix names.

    Raises
    ------
    InvalidArgument
        If the file cannot be written.
    """
    with opened("--plot", path) as target:
        if target is not None:
            whole = _drawn(figure, ".svg") if _is_page(target) else _drawn(figure, target.path.suffix)
            _write(target, curves_page(figure, heading, whole.decode()).encode() if _is_page(target) else whole)


def save_releases(picture: ReleasePicture, path: Path, paragraph: str = "") -> None:
    """Write a picture of releases in the format that its suffix names; see `write_releases`."""
    with opened("--plot", path) as target:
        if target is not None:
            write_releases(picture, target, paragraph)


def write_releases(picture: ReleasePicture, target: Target, paragraph: str = "") -> None:
    """Write a picture of releases into a target that is open, and finish it.

    `paragraph` stands below the picture in a page: how the figures are protected.

    Raises
    ------
    NotWritten
        If the disk does not take it.
    """
    figure = draw_picture(picture)
    if not _is_page(target):
        _write(target, _drawn(figure, target.path.suffix))
    elif not picture.released.empty:
        _write(target, release_page(picture, _drawn(figure, ".svg").decode(), paragraph).encode())
    else:
        _write(target, empty_page(picture.title or NOTHING).encode())


def _is_page(target: Target) -> bool:
    return target.path.suffix.lower() == ".html"


def _drawn(figure: Figure, suffix: str) -> bytes:
    held = io.BytesIO()
    figure.savefig(held, format=suffix.lower()[1:], dpi=150)
    return held.getvalue()


def _write(target: Target, content: bytes) -> None:
    try:
        target.file.write(content)
        target.file.flush()
    except OSError as error:
        raise NotWritten(f"{target.option} {target.path}", error.strerror or str(error)) from None
    target.finish()
