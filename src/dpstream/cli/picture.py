"""Pictures that commands draw: refused before the work rather than after it, saved by their suffix."""

from __future__ import annotations

import base64
import html
import io
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from dpstream.charts import require_matplotlib
from dpstream.cli.output_files import check_writable
from dpstream.errors import InvalidArgument

if TYPE_CHECKING:
    from matplotlib.figure import Figure

__all__ = ["Plot", "check_picture", "save_picture"]

SUFFIXES = (".png", ".svg", ".pdf", ".html")

Plot = Annotated[
    Path | None, typer.Option("--plot", metavar="FILE", help="Draw a picture: .png, .svg, .pdf or .html (extra: plot).")
]


def check_picture(path: Path | None) -> None:
    """Refuse a picture that could not be drawn or saved.

    Raises
    ------
    InvalidArgument
        If the suffix is unknown, or the file cannot be written.
    MissingExtra
        Without matplotlib.
    """
    if path is None:
        return
    if path.suffix.lower() not in SUFFIXES:
        raise InvalidArgument("--plot", str(path), f"a file ending in {', '.join(SUFFIXES)}")
    check_writable("--plot", path)
    require_matplotlib()


def save_picture(figure: Figure, path: Path, title: str) -> None:
    """Write the picture in the format that its suffix names; .html is a page that holds it.

    Raises
    ------
    InvalidArgument
        If the file cannot be written.
    """
    try:
        if path.suffix.lower() == ".html":
            path.write_text(_page(figure, html.escape(title)), encoding="utf-8")
        else:
            figure.savefig(path, dpi=150)
    except OSError as error:
        raise InvalidArgument("--plot", str(path), f"a file that can be written ({error.strerror})") from None


def _page(figure: Figure, title: str) -> str:
    held = io.BytesIO()
    figure.savefig(held, format="svg")
    picture = base64.b64encode(held.getvalue()).decode()
    return (
        f'<!doctype html>\n<html lang="en"><meta charset="utf-8"><title>{title}</title>\n'
        '<meta name="viewport" content="width=device-width">\n'
        f'<body style="max-width:60rem;margin:2rem auto;font-family:sans-serif"><h1>{title}</h1>\n'
        f'<img alt="{title}" style="width:100%" src="data:image/svg+xml;base64,{picture}"></body></html>\n'
    )
