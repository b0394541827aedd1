"""Data in, releases out: counters, running sums, and the plan that chooses their mechanism."""

from dpstream.release.contribution_clipping import clip_contribution
from dpstream.release.contribution_limit import ContributionLimit
from dpstream.release.counter import Counter
from dpstream.release.error_bars import Estimate
from dpstream.release.name_limit import NameLimit
from dpstream.release.open_counter import OpenCounter
from dpstream.release.open_settings import OpenSettings
from dpstream.release.plan import Plan, PlanRow, plan
from dpstream.release.running_sum import RunningSum
from dpstream.release.settings import StreamSettings

__all__ = [
    "ContributionLimit",
    "Counter",
    "Estimate",
    "NameLimit",
    "OpenCounter",
    "OpenSettings",
    "Plan",
    "PlanRow",
    "RunningSum",
    "StreamSettings",
    "clip_contribution",
    "plan",
]
