"""How noise is shared over time. Pure mathematics: no randomness, no data."""

from dpstream.mechanisms.anytime_toeplitz import AnytimeToeplitz
from dpstream.mechanisms.balanced_toeplitz import BalancedToeplitz
from dpstream.mechanisms.binary import Binary
from dpstream.mechanisms.buffered_toeplitz import BufferedToeplitz
from dpstream.mechanisms.growing_smooth import GrowingSmooth
from dpstream.mechanisms.honaker import Honaker
from dpstream.mechanisms.log_matrix import LogMatrix
from dpstream.mechanisms.optimal import Certificate, Optimal
from dpstream.mechanisms.signed_digits import SignedDigits
from dpstream.mechanisms.smooth import SmoothBinary
from dpstream.mechanisms.square_root import SquareRoot
from dpstream.mechanisms.unbounded import Unbounded
from dpstream.mechanisms.weighted import WeightedTree

__all__ = [
    "AnytimeToeplitz",
    "BalancedToeplitz",
    "Binary",
    "BufferedToeplitz",
    "Certificate",
    "GrowingSmooth",
    "Honaker",
    "LogMatrix",
    "Optimal",
    "SignedDigits",
    "SmoothBinary",
    "SquareRoot",
    "Unbounded",
    "WeightedTree",
]
