"""Pictures that commands draw: refused before the work rather than after it, saved by their suffix."""

from __future__ import annotations

import base64
import html
import io
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from dpstream.charts import require_matplotlib
from dpstream.cli.targets import NotWritten, Target, check_target, opened
from dpstream.errors import InvalidArgument

if TYPE_CHECKING:
    from matplotlib.figure import Figure

__all__ = ["Plot", "check_picture", "draw_into", "save_picture"]

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
    check_target("--plot", path)
    require_matplotlib()


def save_picture(figure: Figure, path: Path, title: str) -> None:
    """Write the picture in the format that its suffix names; .html is a page that holds it.

    Raises
    ------
    InvalidArgument
        If the file cannot be written.
    """
    with opened("--plot", path) as target:
        if target is not None:
            draw_into(target, figure, title)


def draw_into(target: Target, figure: Figure, title: str) -> None:
    """Write the picture into a target that is open, and finish it.

    Raises
    ------
    NotWritten
        If the disk does not take it.
    """
    suffix = target.path.suffix.lower()
    held = io.BytesIO()
    if suffix == ".html":
        held.write(_page(figure, html.escape(title)).encode())
    else:
        figure.savefig(held, format=suffix[1:], dpi=150)
    try:
        target.file.write(held.getbuffer())
        target.file.flush()
    except OSError as error:
        raise NotWritten(f"{target.option} {target.path}", error.strerror or str(error)) from None
    target.finish()


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
