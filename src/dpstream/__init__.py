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

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from dpstream import mechanisms
    from dpstream.budget import Budget, approx_dp, pure_dp, zcdp
    from dpstream.noise import NoiseStream
    from dpstream.participation import Participation
    from dpstream.release import ContributionLimit, Counter, RunningSum
    from dpstream.release.plan import plan
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

#: Where each public name is: imported when it is first used, since NumPy, SciPy and SQLite take a second to load and
#: `dpstream --version` needs none of them.
_HOMES = {
    "Budget": "budget",
    "ContributionLimit": "release",
    "Counter": "release",
    "NoiseStream": "noise",
    "Participation": "participation",
    "RunningSum": "release",
    "Store": "store",
    "approx_dp": "budget",
    "plan": "release",
    "pure_dp": "budget",
    "zcdp": "budget",
}


def __getattr__(name: str) -> Any:
    if name == "mechanisms":
        return importlib.import_module("dpstream.mechanisms")
    if name not in _HOMES:
        raise AttributeError(f"module 'dpstream' has no attribute {name!r}")
    value = getattr(importlib.import_module(f"dpstream.{_HOMES[name]}"), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return [*__all__, "__version__"]
