"""Data in, releases out: counters, running sums, and the plan that chooses their mechanism."""

from dpstream.release.contribution_limit import ContributionLimit
from dpstream.release.counter import Counter
from dpstream.release.plan import Plan, PlanRow, plan
from dpstream.release.running_sum import RunningSum

__all__ = ["ContributionLimit", "Counter", "Plan", "PlanRow", "RunningSum", "plan"]
