"""Pictures that commands draw: refused before the work rather than after it, saved by their suffix."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from dpstream.charts import require_matplotlib
from dpstream.errors import InvalidArgument

if TYPE_CHECKING:
    from matplotlib.figure import Figure

__all__ = ["Plot", "check_picture", "save_picture"]

SUFFIXES = (".png", ".svg", ".pdf")

Plot = Annotated[
    Path | None, typer.Option("--plot", metavar="FILE", help="Draw a picture: .png, .svg or .pdf (extra: plot).")
]


def check_picture(path: Path | None) -> None:
    """Refuse a picture that could not be drawn or saved.

    Raises
    ------
    InvalidArgument
        If the suffix is none of .png, .svg and .pdf, or there is no such directory.
    MissingExtra
        Without matplotlib.
    """
    if path is None:
        return
    if path.suffix.lower() not in SUFFIXES:
        raise InvalidArgument("--plot", str(path), f"a file that ends in {', '.join(SUFFIXES[:-1])} or {SUFFIXES[-1]}")
    if not path.parent.is_dir():
        raise InvalidArgument("--plot", str(path), "a file in a directory that exists")
    require_matplotlib()


def save_picture(figure: Figure, path: Path) -> None:
    """Write the picture in the format that its suffix names.

    Raises
    ------
    InvalidArgument
        If the file cannot be written.
    """
    try:
        figure.savefig(path, dpi=150)
    except OSError as error:
        raise InvalidArgument("--plot", str(path), f"a file that can be written ({error.strerror})") from None
