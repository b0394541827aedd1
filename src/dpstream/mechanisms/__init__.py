"""How noise is shared over time. Pure mathematics: no randomness, no data."""

from dpstream.mechanisms.anytime_toeplitz import AnytimeToeplitz
from dpstream.mechanisms.as_json import mechanism_from_json, mechanism_to_json
from dpstream.mechanisms.balanced_toeplitz import BalancedToeplitz
from dpstream.mechanisms.banded import Banded
from dpstream.mechanisms.banded_inverse import BandedInverse
from dpstream.mechanisms.base import Mechanism
from dpstream.mechanisms.binary import Binary
from dpstream.mechanisms.buffered_toeplitz import BufferedToeplitz
from dpstream.mechanisms.fitted_toeplitz import FittedToeplitz
from dpstream.mechanisms.from_coefficients import FromCoefficients
from dpstream.mechanisms.from_matrix import FromMatrix
from dpstream.mechanisms.growing_smooth import GrowingSmooth
from dpstream.mechanisms.honaker import Honaker
from dpstream.mechanisms.independent import Independent
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
    "Banded",
    "BandedInverse",
    "Binary",
    "BufferedToeplitz",
    "Certificate",
    "FittedToeplitz",
    "FromCoefficients",
    "FromMatrix",
    "GrowingSmooth",
    "Honaker",
    "Independent",
    "LogMatrix",
    "Mechanism",
    "Optimal",
    "SignedDigits",
    "SmoothBinary",
    "SquareRoot",
    "Unbounded",
    "WeightedTree",
    "mechanism_from_json",
    "mechanism_to_json",
]
