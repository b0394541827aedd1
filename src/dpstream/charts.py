"""How pictures look: one colour, dash and marker for each mechanism, the same wherever it is drawn.

The looks stand in `dpstream.mechanisms.catalogue`; dashes and markers carry the distinction for grey print.
Matplotlib is the extra `plot` and is imported only when something is drawn.
"""

from __future__ import annotations

import zlib
from typing import TYPE_CHECKING, Any

from dpstream.errors import MissingExtra
from dpstream.mechanisms.catalogue import ENTRIES, Look

if TYPE_CHECKING:
    from matplotlib.figure import Figure

__all__ = ["ACCENT", "GREY", "curve", "legend_below", "new_figure", "require_matplotlib"]

#: What a picture is about, where it is not a mechanism; and what is there to compare.
ACCENT = "#0072B2"
GREY = "#7f7f7f"

#: What a mechanism that is not in the catalogue looks like, one of these by its name.
_OTHER_LOOKS = tuple(
    Look(colour, dash, marker)
    for colour, marker in (("#332288", "p"), ("#117733", "h"), ("#882255", "8"), ("#44AA99", "3"), ("#999933", "4"))
    for dash in ("-", "--", ":")
)


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
    """Return the keywords for `Axes.plot` that make a mechanism look as it does everywhere.

    `mechanism` is a name of the catalogue; any other name has a look of its own, always the same.

    >>> curve("SmoothBinary")["color"]
    '#0072B2'
    >>> curve("MyOwn") == curve("MyOwn")
    True
    """
    look = next((entry.look for entry in ENTRIES if entry.name == mechanism), None)
    if look is None:
        look = _OTHER_LOOKS[zlib.crc32(mechanism.encode()) % len(_OTHER_LOOKS)]
    drawn: dict[str, Any] = {"color": look.colour, "linestyle": look.dash, "linewidth": 1.6}
    return drawn | {"marker": look.marker, "markersize": 5} if markers else drawn


def legend_below(figure: Figure) -> None:
    """Put the legend under the axes, in two columns."""
    figure.legend(loc="outside lower center", ncols=2, fontsize="small", frameon=False)
