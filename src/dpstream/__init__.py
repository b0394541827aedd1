"""Private running totals: differential privacy under continual observation.

Quick start: count each day's visits, publish the total so far, and nobody who came is exposed.

>>> import dpstream as dp
>>> from dpstream.testing import fixed_key                       # leave the key out for real data
>>> visits = dp.Counter(horizon=365, budget=dp.approx_dp(epsilon=1, delta=1e-6), key=fixed_key("visits"))
>>> visits.add(132)                                              # today's visits -> the released total
121
>>> visits.extend([97, 120, 141, 88, 95, 160, 121, 133])         # the same for many days at once
array([ 227,  343,  477,  588,  685,  837,  964, 1103])
>>> visits.estimate()                                            # the last release and its error bars (95 %)
Estimate(value=1103, stddev=11.18..., low=1081, high=1125)
>>> visits.window(7)                                             # the last seven days, from the same releases
Estimate(value=876, stddev=14.07..., low=848, high=904)
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any, NoReturn

if TYPE_CHECKING:
    from dpstream import errors, mechanisms
    from dpstream.budget import ZCDP, ApproxDP, Budget, PureDP, approx_dp, noise_scale, pure_dp, zcdp
    from dpstream.events.count import count
    from dpstream.mechanisms.base import Mechanism
    from dpstream.noise import NoiseStream
    from dpstream.participation import Participation
    from dpstream.release import ContributionLimit, Counter, Estimate, OpenCounter, RunningSum, clip_contribution
    from dpstream.release.plan import plan
    from dpstream.store import Store

__all__ = [
    "ZCDP",
    "ApproxDP",
    "Budget",
    "ContributionLimit",
    "Counter",
    "Estimate",
    "Mechanism",
    "NoiseStream",
    "OpenCounter",
    "Participation",
    "PureDP",
    "RunningSum",
    "Store",
    "approx_dp",
    "clip_contribution",
    "count",
    "errors",
    "mechanisms",
    "noise_scale",
    "plan",
    "pure_dp",
    "zcdp",
]
__version__ = "0.2.0"

#: Where each public name is: imported when it is first used, since NumPy, SciPy and SQLite take a second to load and
#: `dpstream --version` needs none of them.
_HOMES = {
    "ZCDP": "budget",
    "ApproxDP": "budget",
    "Budget": "budget",
    "ContributionLimit": "release",
    "Counter": "release",
    "Estimate": "release",
    "Mechanism": "mechanisms.base",
    "NoiseStream": "noise",
    "OpenCounter": "release",
    "Participation": "participation",
    "PureDP": "budget",
    "RunningSum": "release",
    "Store": "store",
    "approx_dp": "budget",
    "clip_contribution": "release",
    "count": "events.count",
    "noise_scale": "budget",
    "plan": "release",
    "pure_dp": "budget",
    "zcdp": "budget",
}


def __getattr__(name: str) -> Any:
    if name in ("errors", "mechanisms"):
        return importlib.import_module(f"dpstream.{name}")
    if name not in _HOMES:
        raise AttributeError(f"module 'dpstream' has no attribute {name!r}")
    try:
        value = getattr(importlib.import_module(f"dpstream.{_HOMES[name]}"), name)
    except ModuleNotFoundError as error:
        if error.name != "polars":
            raise
        return _without_polars
    globals()[name] = value
    return value


def _without_polars(*_: Any, **__: Any) -> NoReturn:
    """Say how to install what data frames need; `from dpstream import *` works without it."""
    from dpstream.errors import MissingExtra

    raise MissingExtra(extra="cli", needs="Polars")


def __dir__() -> list[str]:
    return [*__all__, "__version__"]
