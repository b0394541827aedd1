"""Mechanisms of every streaming kind, at a horizon that the noise tests can hold against dense matrices."""

from collections.abc import Callable

from dpstream.mechanisms import (
    AnytimeToeplitz,
    BalancedToeplitz,
    Binary,
    BufferedToeplitz,
    GrowingSmooth,
    Honaker,
    LogMatrix,
    Optimal,
    SignedDigits,
    SmoothBinary,
    SquareRoot,
    Unbounded,
    WeightedTree,
)
from dpstream.mechanisms.base import Mechanism

from .of_no_kind import LikeBinary, LikeHonaker, LikeSmooth, LikeSquareRoot, OfNoKind

GAUSSIAN: dict[str, Callable[[int], Mechanism]] = {
    "Binary": Binary,
    "SmoothBinary": SmoothBinary,
    "SmoothBinary-unpadded": lambda T: SmoothBinary(T, padded=False),
    "Honaker": Honaker,
    "WeightedTree": WeightedTree,
    "SignedDigits": lambda T: SignedDigits(T, noise="gaussian"),
    "GrowingSmooth": lambda T: GrowingSmooth(),
    "SquareRoot": SquareRoot,
    "SquareRoot-normalized": lambda T: SquareRoot(T, normalized=True),
    "BufferedToeplitz": BufferedToeplitz,
    "BalancedToeplitz": BalancedToeplitz,
    "AnytimeToeplitz": lambda T: AnytimeToeplitz(),
    "LogMatrix": lambda T: LogMatrix(),
    "Optimal": Optimal,
    "Unbounded": lambda T: Unbounded(),
    "Unbounded-BufferedToeplitz": lambda T: Unbounded(inner=BufferedToeplitz),
    "Unbounded-SquareRoot": lambda T: Unbounded(inner=SquareRoot),
    "OfNoKind": OfNoKind,
    "OfNoKind-Honaker": LikeHonaker,
    "OfNoKind-SmoothBinary": LikeSmooth,
    "OfNoKind-SquareRoot": LikeSquareRoot,
    "Unbounded-OfNoKind": lambda T: Unbounded(inner=LikeHonaker),
}
LAPLACE: dict[str, Callable[[int], Mechanism]] = {
    "Binary-laplace": lambda T: Binary(T, noise="laplace"),
    "SmoothBinary-laplace": lambda T: SmoothBinary(T, noise="laplace"),
    "SmoothBinary-laplace-padded": lambda T: SmoothBinary(T, noise="laplace", padded=True),
    "SignedDigits-laplace": SignedDigits,
    "GrowingSmooth-laplace": lambda T: GrowingSmooth(noise="laplace"),
    "OfNoKind-laplace": lambda T: LikeBinary(T, noise="laplace"),
    "Unbounded-laplace": lambda T: Unbounded(noise="laplace"),
}
ALL = GAUSSIAN | LAPLACE
