"""The mechanisms that the noise tests hold against dense matrices: of every streaming kind, and of none."""

from collections.abc import Callable, Iterable
from typing import Any

import pytest

from dpstream.mechanisms import Unbounded
from dpstream.mechanisms.base import Mechanism
from tests.mechanism_subjects import BOUNDED, ENDLESS, FROM_NUMBERS

from .of_no_kind import LikeBinary, LikeHonaker, LikeSmooth, LikeSquareRoot, OfNoKind

#: Streamed as another one is, with other numbers.
SAME_PATH = {
    "SmoothBinary.paper",
    "SmoothBinary-nodes",
    "SignedDigits-laplace-3",
    "SignedDigits-laplace-7",
    "BufferedToeplitz-plain",
    "BufferedToeplitz-3",
}
ALL: dict[str, Callable[[int], Mechanism]] = {
    name: make for name, make in (BOUNDED | FROM_NUMBERS | ENDLESS).items() if name not in SAME_PATH
} | {
    "OfNoKind": OfNoKind,
    "OfNoKind-Honaker": LikeHonaker,
    "OfNoKind-SmoothBinary": LikeSmooth,
    "OfNoKind-SquareRoot": LikeSquareRoot,
    "Unbounded-OfNoKind": lambda _: Unbounded(inner=LikeHonaker),
    "OfNoKind-laplace": lambda T: LikeBinary(T, noise="laplace"),
}
LAPLACE = {name: make for name, make in ALL.items() if "laplace" in name}
GAUSSIAN = {name: make for name, make in ALL.items() if "laplace" not in name}


def variants_heavy(names: Iterable[str]) -> list[Any]:
    """Names as cases of a test, of which those that stream as another one does run with the heavier suite only."""
    return [
        pytest.param(name, marks=pytest.mark.heavy) if "-" in name and not name.endswith("-laplace") else name
        for name in names
    ]
