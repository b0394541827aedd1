"""How pictures look: one colour, dash and marker for each mechanism, the same wherever it is drawn.

The colours are those of Okabe and Ito, which survive the common kinds of colour blindness; dashes and markers carry the
same distinction for grey print. Matplotlib is the extra `plot` and is imported only when something is drawn.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from dpstream.errors import MissingExtra

if TYPE_CHECKING:
    from matplotlib.figure import Figure

__all__ = ["ACCENT", "GREY", "curve", "new_figure", "require_matplotlib"]

#: What a picture is about, where it is not a mechanism; and what is there to compare.
ACCENT = "#0072B2"
GREY = "#7f7f7f"

_BLUE, _ORANGE, _GREEN, _RED = "#0072B2", "#E69F00", "#009E73", "#D55E00"
_PINK, _SKY, _BLACK, _BROWN = "#CC79A7", "#56B4E9", "#000000", "#8C6D31"
#: Mechanism: (colour, dash, marker).
_LOOKS: dict[str, tuple[str, Any, str]] = {
    "Binary": (_ORANGE, "--", "s"),
    "Honaker": (_GREEN, "-.", "^"),
    "SmoothBinary": (_BLUE, "-", "o"),
    "SmoothBinary.paper": (_SKY, (0, (5, 1)), "D"),
    "WeightedTree": (_BROWN, (0, (3, 1, 1, 1)), "P"),
    "SignedDigits": (_BROWN, ":", "*"),
    "SquareRoot": (_PINK, ":", "v"),
    "BufferedToeplitz": (_RED, (0, (4, 1, 1, 1, 1, 1)), "X"),
    "BalancedToeplitz": (_BLACK, (0, (8, 1)), "d"),
    "Optimal": (GREY, "-", "+"),
    "Unbounded": (_ORANGE, (0, (1, 2)), "<"),
    "GrowingSmooth": (_BLUE, (0, (1, 2)), ">"),
    "LogMatrix": (_PINK, (0, (1, 2)), "1"),
    "AnytimeToeplitz": (_RED, (0, (1, 2)), "2"),
}


def require_matplotlib() -> None:
    """Raise `MissingExtra` unless pictures can be drawn."""
    try:
        import matplotlib.figure  # noqa: F401
    except ImportError:
        raise MissingExtra(extra="plot", needs="matplotlib") from None


def new_figure(width: float = 7.0, height: float = 4.3) -> Figure:
    """An empty figure whose parts keep out of each other's way.

    Raises
    ------
    MissingExtra
        Without matplotlib.
    """
    require_matplotlib()
    from matplotlib.figure import Figure

    return Figure(figsize=(width, height), layout="constrained")


def curve(mechanism: str, *, markers: bool = False) -> dict[str, Any]:
    """The keywords for `Axes.plot` that make a mechanism look as it does everywhere.

    >>> curve("SmoothBinary")["color"]
    '#0072B2'
    """
    colour, dash, marker = _LOOKS[mechanism]
    look: dict[str, Any] = {"color": colour, "linestyle": dash, "linewidth": 1.6}
    return look | {"marker": marker, "markersize": 5} if markers else look
