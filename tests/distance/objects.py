"""Counters in Python, with the limits that callers put before them: a run takes milliseconds."""

from collections import Counter, defaultdict

import numpy as np

import dpstream as dp
from dpstream.distance import Append, Close, Outcome, WayIn
from dpstream.mechanisms import SmoothBinary
from dpstream.testing import fixed_key
from tests.distance.ways import EXACT, NAMES_EXACT, WARDS

KEY = fixed_key("distance")
TREE = SmoothBinary(5)


def steps_of(acts):
    """The rows that wait when each step closes: in their own step, late ones in the first that is open."""
    done, waiting = 0, defaultdict(list)
    for act in acts:
        if isinstance(act, Append):
            for row in act.rows:
                if row.step > 0:
                    waiting[max(row.step, done + 1)].append(row)
        elif isinstance(act, Close):
            for step in range(done + 1, act.through + 1):
                yield step, waiting.pop(step, [])
            done = max(done, act.through)


class Objects(WayIn):
    """What the ways below have in common: batches are the caller's own affair."""

    ordered, retries, restarts = True, False, False
    rows, batches = 12, 3

    def unit(self, row):
        return row.person


class LimitedCounter(Objects):
    """`ContributionLimit` before a `Counter`."""

    most = 2

    def run(self, acts):
        limit = dp.ContributionLimit(self.most)
        counter = dp.Counter(self.steps, EXACT, mechanism=TREE, participation=limit.participation, key=KEY)
        released = [counter.add(sum(limit.keep(row.person) for row in rows)) for _, rows in steps_of(acts)]
        each = np.diff(released, prepend=0)
        return Outcome({(i + 1, ""): int(x) for i, x in enumerate(each)}, {"steps": len(released)})


class LimitedAtOnce(LimitedCounter):
    """The same limit for all people of a step at once."""

    def run(self, acts):
        limit = dp.ContributionLimit(self.most)
        counter = dp.Counter(self.steps, EXACT, mechanism=TREE, participation=limit.participation, key=KEY)
        released = []
        for _, rows in steps_of(acts):
            people = Counter(row.person for row in rows)
            released.append(counter.add(int(limit.take_all(limit.fingerprints(people), list(people.values())).sum())))
        return Outcome({(i + 1, ""): int(x) for i, x in enumerate(np.diff(released, prepend=0))})


class ClippedSum(Objects):
    """`clip_contribution` before a `RunningSum` of vectors: what a person adds to a step is clipped to a norm of 8."""

    categories, amounts, most = WARDS, (-40, 40), 0

    def run(self, acts):
        total = dp.RunningSum(
            self.steps, EXACT, shape=2, per_person=8.0, key=KEY, mechanism=TREE, participation=dp.Participation(5)
        )
        totals, before = {}, np.zeros(2)
        for step, rows in steps_of(acts):
            people = defaultdict(lambda: np.zeros(2, np.float32))
            for row in rows:
                people[row.person][WARDS.index(row.category)] += row.amount
            sums = [dp.clip_contribution(vector, 8.0) for vector in people.values()]
            now = np.array(total.add(np.sum(sums, axis=0, dtype=np.float32) if sums else np.zeros(2, np.float32)))
            for ward, change in zip(WARDS, np.round((now - before) * 16), strict=True):
                totals[step, ward] = int(change)
            before = now
        return Outcome(totals)

    def norm(self, difference):
        """0 if no step moves by more than a vector of norm 8, in sixteenths, rounded by one at most."""
        steps = defaultdict(float)
        for (step, _), by in difference.items():
            steps[step] += max(abs(by) - 2, 0) ** 2
        return sum(total > (8 * 16) ** 2 for total in steps.values())


class Names(Objects):
    """`OpenCounter.add_events`: of each person the first name counts, and two events of it."""

    categories, most = WARDS, 2

    def run(self, acts):
        names = dp.OpenCounter(self.steps, NAMES_EXACT, names_per_person=1, per_name=2, declared=WARDS, key=KEY)
        totals, before = {}, Counter()
        for step, rows in steps_of(acts):
            released = names.add_events([row.person for row in rows], [row.category for row in rows])
            for ward in WARDS:
                totals[step, ward] = released[ward] - before[ward]
            before = Counter(released)
        return Outcome(totals)
