"""The exact laws of what the attacks on names see, and what a number of trials certifies of them.

Noise is the integer nearest to Gaussian noise whose scale and covariance the settings say, so the chance of every score
is a normal integral. From it follow, before anything is run: the event that shows most, and the δ that so many trials
certify at least, but for a stated chance.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np
from scipy.special import ndtr
from scipy.stats import binom, multivariate_normal

from dpstream.audit.discovery import certified_delta
from dpstream.release.open_settings import OpenSettings


def law_of(title: str, settings: OpenSettings) -> Law:
    """Return the law of what an attack sees of a counter with these settings, which need not be sound ones."""
    names, last = settings.names_per_person, settings.horizon
    if title == "a term of one person":
        return ever_published(settings)
    if title in ("all terms of one person", "more terms than are allowed"):
        return any_of(reached(settings), names)
    if title == "a term that others bring later":
        return sum_of(stddev(settings, last), 1, 1)
    if title == "a term's place among those of its step":
        return coin(0.0, reached(settings, 1))
    return sum_of(stddev(settings, 1), names, names * settings.per_name)


class Law(NamedTuple):
    """The chances of scores, without the person and with them."""

    scores: np.ndarray
    without: np.ndarray
    present: np.ndarray

    def chances(self, above: float) -> tuple[float, float]:
        """Return the chances of a score above this, without and with the person."""
        event = self.scores > above
        return float(self.without[event].sum()), float(self.present[event].sum())

    def best(self, epsilon: float) -> float:
        """Return the threshold whose event, or its opposite, shows most on either side."""
        edges = self.scores[:-1] + 0.5
        e, found = math.exp(epsilon), []
        for above in edges:
            first, second = self.chances(above)
            found.append(
                max(second - e * first, first - e * second, e * (second - 1) + 1 - first, e * (first - 1) + 1 - second)
            )
        return float(edges[int(np.argmax(found))])


def coin(without: float, present: float) -> Law:
    """The law of an event that happens or does not."""
    return Law(np.array([0.0, 1.0]), np.array([1 - without, without]), np.array([1 - present, present]))


def stddev(settings: OpenSettings, t: int, *, of_people: bool = False) -> float:
    """Return the standard deviation of the noise of step t, before it is rounded."""
    scale = settings.people_scale if of_people else settings.scale
    return scale * math.sqrt(settings.mechanism.squared_row_norm(t))


def reached(settings: OpenSettings, t: int = 1) -> float:
    """Return the chance that a name which one person has brought reaches the threshold in step t."""
    return float(ndtr((1.5 - settings.threshold) / stddev(settings, t, of_people=True)))


def any_of(chance: float, names: int) -> Law:
    """The law of "at least one of so many names is published", each with this chance; without the person none is."""
    return coin(0.0, -math.expm1(names * math.log1p(-chance)))


def ever_published(settings: OpenSettings) -> Law:
    """The law of "a name of one person is published in any step", to 1e-5."""
    left, _ = settings.mechanism.factors(settings.horizon)
    covariance = settings.people_scale**2 * left @ left.T
    limits = np.full(settings.horizon, settings.threshold - 1.5)
    never = multivariate_normal.cdf(limits, cov=covariance, abseps=1e-5, releps=0, maxpts=400_000)
    return coin(0.0, 1 - float(never))


def restarting(settings: OpenSettings) -> Law:
    """The law of a count in the last step if noise began when a name is first seen: that of a crowd's term then."""
    left, _ = settings.mechanism.factors(settings.horizon)
    most, whole = rounded(stddev(settings, settings.horizon))
    few, own = rounded(settings.scale * float(left[-1, -1]))
    return shifted(most, np.pad(own, most - few), whole, 1)


def rounded(sigma: float) -> tuple[int, np.ndarray]:
    """Return the chances of -K, ..., K of the integer nearest to Gaussian noise, and K."""
    most = math.ceil(9 * sigma) + 1
    edges = ndtr((np.arange(-most, most + 2) - 0.5) / sigma)
    return most, np.diff(edges)


def sum_of(sigma: float, names: int, moved: int) -> Law:
    """The law of a sum of so many rounded noises, and of one that a person moves by `moved`."""
    most, one = rounded(sigma)
    total = np.ones(1)
    for _ in range(names):
        total = np.convolve(total, one)
    return shifted(names * most, total, total, moved)


def shifted(most: int, without: np.ndarray, present: np.ndarray, moved: int) -> Law:
    """The law of two noises on -most, ..., most, the second of which is moved."""
    scores = np.arange(-most, most + moved + 1, dtype=np.float64)
    return Law(scores, np.append(without, np.zeros(moved)), np.append(np.zeros(moved), present))


def certified(law: Law, above: float, epsilon: float, trials: int, risk: float, miss: float) -> list[float]:
    """Return the δ that so many trials certify at least, and at most, at this risk, but for a chance of `miss`.

    The numbers of events are in a box but for that chance, and a bound on δ is monotone in both of them, so that it is
    least, and largest, in a corner.
    """
    ranges = [
        [int(binom.ppf(side, trials, chance)) for side in (miss / 4, 1 - miss / 4)] for chance in law.chances(above)
    ]
    found = [
        certified_delta([first, second], [trials, trials], epsilon, risk) for first in ranges[0] for second in ranges[1]
    ]
    return [min(found), max(found)]
