"""Private running totals: differential privacy under continual observation."""

from dpstream import mechanisms
from dpstream.budget import approx_dp, pure_dp, zcdp
from dpstream.noise import NoiseStream
from dpstream.participation import Participation

__all__ = ["NoiseStream", "Participation", "approx_dp", "mechanisms", "pure_dp", "zcdp"]
__version__ = "0.1.0"
