"""Private running totals: differential privacy under continual observation.

Quick start: count visits, publish after each one, and nobody in the count is exposed.

>>> import dpstream as dp
>>> visits = dp.Counter(horizon=1_000, budget=dp.zcdp(rho=0.5))   # up to 1,000 releases under one budget
>>> release = visits.add(1)                                      # one visit, one release
>>> releases = visits.extend([1, 0, 1, 1])                       # the same for many steps at once
>>> low, high = visits.interval(confidence=0.999999)             # the true count, 4, is almost surely in here
>>> low <= 4 <= high
True
"""

from dpstream import mechanisms
from dpstream.budget import Budget, approx_dp, pure_dp, zcdp
from dpstream.noise import NoiseStream
from dpstream.participation import Participation
from dpstream.release import ContributionLimit, Counter, RunningSum, plan
from dpstream.store import Store

__all__ = [
    "Budget",
    "ContributionLimit",
    "Counter",
    "NoiseStream",
    "Participation",
    "RunningSum",
    "Store",
    "approx_dp",
    "mechanisms",
    "plan",
    "pure_dp",
    "zcdp",
]
__version__ = "0.1.0"
