"""The one list of mechanisms: whatever offers mechanisms to choose from reads it.

`ENTRIES` says by which names they are known, how each is made for a horizon and a noise law, and how it looks in
pictures. `CLASSES` are all classes, also those that are made of numbers of the caller's own. A new mechanism is one
file and one entry here; tests/mechanisms/test_catalogue.py fails if it is forgotten.
"""

from __future__ import annotations

import difflib
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from dpstream.errors import InvalidArgument
from dpstream.mechanisms.anytime_toeplitz import AnytimeToeplitz
from dpstream.mechanisms.balanced_toeplitz import BalancedToeplitz
from dpstream.mechanisms.banded import Banded
from dpstream.mechanisms.banded_inverse import BandedInverse
from dpstream.mechanisms.base import Mechanism, NoiseLaw
from dpstream.mechanisms.binary import Binary
from dpstream.mechanisms.buffered_toeplitz import BufferedToeplitz
from dpstream.mechanisms.fitted_toeplitz import FittedToeplitz
from dpstream.mechanisms.from_coefficients import FromCoefficients
from dpstream.mechanisms.from_matrix import FromMatrix
from dpstream.mechanisms.growing_smooth import GrowingSmooth
from dpstream.mechanisms.honaker import Honaker
from dpstream.mechanisms.independent import Independent
from dpstream.mechanisms.log_matrix import LogMatrix
from dpstream.mechanisms.optimal import Optimal
from dpstream.mechanisms.signed_digits import SignedDigits
from dpstream.mechanisms.smooth import SmoothBinary
from dpstream.mechanisms.square_root import SquareRoot
from dpstream.mechanisms.unbounded import Unbounded
from dpstream.mechanisms.weighted import WeightedTree

__all__ = ["CLASSES", "ENTRIES", "Entry", "Look", "entries_for", "entry_named", "mechanism_named"]

BOTH: tuple[NoiseLaw, ...] = ("gaussian", "laplace")
GAUSSIAN: tuple[NoiseLaw, ...] = ("gaussian",)

# The colours of Okabe and Ito, which survive the common kinds of colour blindness.
_BLUE, _ORANGE, _GREEN, _RED = "#0072B2", "#E69F00", "#009E73", "#D55E00"
_PINK, _SKY, _BLACK, _BROWN, _GREY = "#CC79A7", "#56B4E9", "#000000", "#8C6D31", "#7f7f7f"


@dataclass(frozen=True)
class Look:
    """How a mechanism's curve is drawn, in Matplotlib's words."""

    colour: str
    dash: Any
    marker: str


@dataclass(frozen=True)
class Entry:
    """One mechanism that can be asked for by name.

    Attributes
    ----------
    name
        What people type and what tables show.
    make
        Makes it for a horizon and a noise law; one without a last step does not look at the horizon.
    note
        A few words for a table; a dictionary where they differ by noise law.
    look
        How its curve is drawn.
    laws
        The noise laws it has.
    endless
        Whether it needs no horizon.
    planned
        Whether `plan` considers it; not, where another entry of the same class is always better.
    most_steps
        `plan` considers it up to this horizon: beyond, its errors take too long to compute. None: no limit.
    slow
        Whether it takes seconds to minutes to find, so that it must be asked for.
    """

    name: str
    make: Callable[[int, NoiseLaw], Mechanism]
    note: str | dict[NoiseLaw, str]
    look: Look
    laws: tuple[NoiseLaw, ...] = GAUSSIAN
    endless: bool = False
    planned: bool = True
    most_steps: int | None = None
    slow: bool = False

    def note_for(self, noise: NoiseLaw) -> str:
        """Return the note under this noise law."""
        return self.note if isinstance(self.note, str) else self.note[noise]

    def serves(self, horizon: int | None, noise: NoiseLaw) -> bool:
        """Whether it can serve this horizon (None: no last step) under this noise law."""
        return noise in self.laws and (self.endless or horizon is not None)


#: In the order of the paper's Table 1, then what came after.
ENTRIES: tuple[Entry, ...] = (
    Entry("Binary", lambda T, noise: Binary(T, noise=noise), "the classic", Look(_ORANGE, "--", "s"), BOTH),
    Entry("Honaker", lambda T, _: Honaker(T), "estimates from below", Look(_GREEN, "-.", "^")),
    Entry(
        "SmoothBinary.paper",
        lambda T, _: SmoothBinary.paper(T),
        "the paper's tree and sensitivity",
        Look(_SKY, (0, (5, 1)), "D"),
        planned=False,
    ),
    Entry(
        "SmoothBinary",
        lambda T, noise: SmoothBinary(T, noise=noise),
        {"gaussian": "sensitivity of the releases", "laplace": "unpadded"},
        Look(_BLUE, "-", "o"),
        BOTH,
    ),
    Entry(
        "WeightedTree", lambda T, _: WeightedTree(T), "a variance for each node", Look(_BROWN, (0, (3, 1, 1, 1)), "P")
    ),
    Entry(
        "SignedDigits",
        lambda T, noise: SignedDigits(T, noise=noise),
        "adds and subtracts nodes",
        Look(_BROWN, ":", "*"),
        BOTH,
    ),
    Entry(
        "SquareRoot.plain",
        lambda T, _: SquareRoot(T),
        "Henzinger et al.",
        Look(_PINK, (0, (2, 1)), "^"),
        planned=False,
        most_steps=2**22,
    ),
    Entry(
        "SquareRoot",
        lambda T, _: SquareRoot(T, normalized=True),
        "columns normalised",
        Look(_PINK, ":", "v"),
        most_steps=2**22,
    ),
    Entry(
        "BufferedToeplitz",
        lambda T, _: BufferedToeplitz(T),
        "columns normalised",
        Look(_RED, (0, (4, 1, 1, 1, 1, 1)), "X"),
    ),
    Entry(
        "BalancedToeplitz",
        lambda T, _: BalancedToeplitz(T),
        "rows and columns balanced",
        Look(_BLACK, (0, (8, 1)), "d"),
    ),
    Entry(
        "FittedToeplitz",
        lambda T, _: FittedToeplitz.fit(T),
        "fitted to the horizon",
        Look(_GREEN, (0, (8, 1)), "p"),
        planned=False,
    ),
    Entry(
        "Banded",
        lambda T, _: Banded.fit(T),
        "64 bands",
        Look(_SKY, "--", "h"),
        planned=False,
        most_steps=2**22,
    ),
    Entry(
        "BandedInverse",
        lambda T, _: BandedInverse.fit(T),
        "8 bands, no state",
        Look(_SKY, ":", "8"),
        planned=False,
        most_steps=2**22,
    ),
    Entry(
        "Independent",
        lambda T, noise: Independent(T, noise=noise),
        "each step alone",
        Look(_GREY, "--", "x"),
        BOTH,
        planned=False,
    ),
    Entry("Optimal", lambda T, _: Optimal(T), "Denisov et al., certified", Look(_GREY, "-", "+"), slow=True),
    Entry(
        "Unbounded",
        lambda _, noise: Unbounded(noise=noise),
        "no horizon: doubling epochs",
        Look(_ORANGE, (0, (1, 2)), "<"),
        BOTH,
        endless=True,
    ),
    Entry(
        "GrowingSmooth",
        lambda _, noise: GrowingSmooth(noise=noise),
        "no horizon: one endless tree",
        Look(_BLUE, (0, (1, 2)), ">"),
        BOTH,
        endless=True,
    ),
    Entry(
        "LogMatrix", lambda *_: LogMatrix(), "no horizon, growing memory", Look(_PINK, (0, (1, 2)), "1"), endless=True
    ),
    Entry(
        "AnytimeToeplitz",
        lambda *_: AnytimeToeplitz(),
        "to 2^40 steps, constant memory",
        Look(_RED, (0, (1, 2)), "2"),
        endless=True,
    ),
)

#: Every class of mechanisms by its name; the last two are made of numbers that the caller brings.
CLASSES: dict[str, type[Mechanism]] = {
    kind.__name__: kind
    for kind in (
        AnytimeToeplitz,
        BalancedToeplitz,
        Banded,
        BandedInverse,
        Binary,
        BufferedToeplitz,
        FittedToeplitz,
        GrowingSmooth,
        Honaker,
        Independent,
        LogMatrix,
        Optimal,
        SignedDigits,
        SmoothBinary,
        SquareRoot,
        Unbounded,
        WeightedTree,
        FromCoefficients,
        FromMatrix,
    )
}


def entries_for(horizon: int | None, noise: NoiseLaw) -> list[Entry]:
    """Return the entries that can serve this horizon (None: no last step) under this noise law."""
    return [entry for entry in ENTRIES if entry.serves(horizon, noise)]


def entry_named(text: str) -> Entry | None:
    """Return the entry that a text stands for; None if it stands for none, or for more than one.

    Capitals, hyphens, underscores, dots and spaces do not matter, and the beginning of a name is enough if no other
    name begins so.
    """
    letters = _letters(text)
    beginning = [entry for entry in ENTRIES if letters and _letters(entry.name).startswith(letters)]
    shortest = min(beginning, key=lambda entry: len(entry.name), default=None)
    # "smooth" is SmoothBinary although SmoothBinary.paper begins so, too.
    return shortest if shortest and all(entry.name.startswith(shortest.name) for entry in beginning) else None


def mechanism_named(text: str, horizon: int | None, noise: NoiseLaw) -> Mechanism:
    """Return the mechanism of this name, made for the horizon (None: no last step) and the noise law.

    Names are read as by `entry_named`.

    Raises
    ------
    InvalidArgument
        If no mechanism, or more than one, has this name; or the one that has it cannot serve. The message says which
        name may have been meant, and lists those that can serve.

    Examples
    --------
    >>> mechanism_named("smooth-binary", 1000, "gaussian")
    SmoothBinary(horizon=1000, noise='gaussian', padded=True, sensitivity_of='releases', zeros=4, ones=10)
    >>> mechanism_named("anytime", None, "gaussian")
    AnytimeToeplitz(limit=1099511627776)
    >>> mechanism_named("bnary", 10, "laplace")
    Traceback (most recent call last):
    dpstream.errors.InvalidArgument: mechanism must be one of Binary, ... (did you mean Binary?), got 'bnary'
    """
    entry = entry_named(text)
    if entry is not None and entry.serves(horizon, noise):
        return entry.make(0 if horizon is None else horizon, noise)
    raise InvalidArgument("mechanism", text, _allowed(text, entry, horizon, noise))


def _letters(text: str) -> str:
    return "".join(c for c in text.casefold() if c.isalnum())


def _allowed(text: str, found: Entry | None, horizon: int | None, noise: NoiseLaw) -> str:
    """Say what could have been typed instead, the nearest named first."""
    law = "Gaussian" if noise == "gaussian" else "Laplace"
    length = "without a horizon" if horizon is None else f"over {horizon:,} steps"
    serving = {_letters(entry.name): entry.name for entry in entries_for(horizon, noise)}
    near = difflib.get_close_matches(_letters(text), serving, n=1)
    hint = f" ({found.name} cannot serve that)" if found else f" (did you mean {serving[near[0]]}?)" if near else ""
    return f"one of {', '.join(serving.values())} for {law} noise {length}{hint}"
