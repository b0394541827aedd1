"""Attacks on `OpenCounter`: looks for one person in everything that is published.

The promise is (ε, δ) for names and counts together, which no Gaussian mechanism describes: whether a name appears is
an event of probability 0 without its person. So every attack looks for an event Z, "the score is above a threshold",
and certifies a lower bound on δ at the promised ε: P(Z | with) - e^ε P(Z | without) ≤ δ, and the same with the two
changed round. The threshold is chosen on other trials than those that are counted.

Settings are inflated, so that a chance of δ can be seen, and nearly all of δ is given to what an attack looks at: to
the threshold (δ = 0.1) or to the noise (δ = 0.5). Every name is a trial of its own, or every few names of one person:
their noise is independent. Numbers of steps, names and trials were computed from the exact laws of the scores
(tests/audit/name_laws.py) such that a threshold, or a noise, that is a tenth too small is missed with a chance of 1e-6
at most, at a risk of a false alarm of 1e-6.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dpstream.audit.certificate import error_rate_bound
from dpstream.audit.search import thresholds_between
from dpstream.budget import ApproxDP
from dpstream.noise.keystream import fresh_key
from dpstream.release.open_counter import OpenCounter

__all__ = ["ATTACKS", "NameAttack", "NameCheck", "certified_delta", "check_names"]

Scores = NDArray[np.float64]

#: Trials of each side of an attack, and as many again to choose its threshold.
TRIALS = 20_000
#: The score of a trial in which the name was not published.
ABSENT = -math.inf
#: Budgets of attacks on the threshold, on the noise, and on how noise begins; and the parts of δ they give to the rest.
FOR_THRESHOLD, FOR_NOISE, FOR_BEGINNING = ApproxDP(0.1, 0.1), ApproxDP(0.1, 0.5), ApproxDP(0.01, 0.1)
REST = 0.02


@dataclass(frozen=True)
class NameAttack:
    """A way to look for one person.

    Attributes
    ----------
    title
        What the person does.
    settings
        Those of the OpenCounter.
    play
        Given a counter, whether the person is there, and a number of trials: one score a trial.
    times
        How many times as many trials as others it needs.
    above
        The event is a score above this. None: it is chosen on trials of its own.
    """

    title: str
    settings: dict[str, Any]
    play: Callable[[OpenCounter, bool, int], Scores]
    times: int = 1
    above: float | None = None

    def scores(self, trials: int, key: bytes | None, *, there: bool) -> Scores:
        """Run so many trials with or without the person, under keys that follow from `key`."""
        counter = OpenCounter(**self.settings, key=fresh_key() if key is None else key)
        return self.play(counter, there, self.times * trials)


@dataclass(frozen=True)
class NameCheck:
    """What an attack found: δ at the promised ε is at least `measured`, of which `promised` is allowed."""

    title: str
    trials: int
    promised: float
    measured: float

    @property
    def violated(self) -> bool:
        """Whether more leaks than was promised."""
        return self.measured > self.promised

    def __str__(self) -> str:
        verdict = "VIOLATED, more than" if self.violated else "of"
        return (
            f"Names, {self.title}: δ = {self.measured:.3g} is certified in {self.trials:,} trials, {verdict} the"
            f" {self.promised:.3g} promised."
        )


def check_names(
    trials: int = TRIALS,
    confidence: float = 1 - 1e-6,
    attacks: Iterable[NameAttack] | None = None,
    keys: Iterable[bytes] | None = None,
) -> list[NameCheck]:
    """Try every attack, and certify how much each of them tells.

    Guarantee: of a counter that keeps its promise each check is `violated` with a chance of at most 1 - confidence.
    """
    supply = iter(keys) if keys is not None else iter(fresh_key, None)
    found = []
    for attack in ATTACKS if attacks is None else attacks:
        budget: ApproxDP = attack.settings["budget"]
        threshold = attack.above
        if threshold is None:
            without, present = _both(attack, trials, supply)
            threshold = _best_threshold(without, present, budget.epsilon)
        counted = _both(attack, trials, supply)
        events = [int((scores > threshold).sum()) for scores in counted]
        sizes = [len(scores) for scores in counted]
        measured = certified_delta(events, sizes, budget.epsilon, 1 - confidence)
        found.append(NameCheck(attack.title, sum(sizes), budget.delta, measured))
    return found


def _both(attack: NameAttack, trials: int, keys: Iterator[bytes]) -> list[Scores]:
    return [attack.scores(trials, next(keys), there=there) for there in (False, True)]


def certified_delta(events: list[int], trials: list[int], epsilon: float, risk: float) -> float:
    """Return a lower bound on δ at ε from how often an event happened on either side, wrong with chance `risk` at most.

    >>> round(certified_delta([0, 500], [10_000, 10_000], 1.0, 1e-6), 3)  # 5 % against never
    0.035
    """
    bounds = []
    for one, other in ((0, 1), (1, 0)):
        for complement in (False, True):
            (a, n), (b, m) = (
                (trials[side] - events[side] if complement else events[side], trials[side]) for side in (one, other)
            )
            # Four rates are looked at from above and four from below.
            most = error_rate_bound(a, n, risk / 8)
            least = 1 - error_rate_bound(m - b, m, risk / 8)
            bounds.append(least - math.exp(epsilon) * most)
    return max(0.0, *bounds)


def _best_threshold(first: Scores, second: Scores, epsilon: float) -> float:
    """Return the threshold that shows most on these trials."""
    finite = [np.where(np.isfinite(scores), scores, -1e18) for scores in (first, second)]
    candidates = thresholds_between(*finite)
    if not candidates.size:
        return 0.0
    rates = [1 - np.searchsorted(np.sort(scores), candidates, side="right") / len(scores) for scores in finite]
    e = math.exp(epsilon)
    gains = [
        rates[1] - e * rates[0],
        rates[0] - e * rates[1],
        (1 - rates[1]) - e * (1 - rates[0]),
        (1 - rates[0]) - e * (1 - rates[1]),
    ]
    return float(candidates[int(np.max(gains, axis=0).argmax())])


# -- the attacks ------------------------------------------------------------------------------------------------------


def _own_term(counter: OpenCounter, there: bool, trials: int) -> Scores:
    """Look whether a term that nobody else has, brought in the first step, is ever published."""
    return _own_terms(counter, there, trials, per_person=1)


def _own_terms(counter: OpenCounter, there: bool, trials: int, per_person: int | None = None) -> Scores:
    """Count how many terms that nobody else has, as many as are allowed, are ever published."""
    each = counter.settings.names_per_person if per_person is None else per_person
    names = [f"{trial} {i}" for trial in range(trials) for i in range(each)]
    released = counter.add(dict.fromkeys(names, 1) if there else {})
    for _ in range(counter.remaining):
        released = counter.add({})
    shown = np.array([name in released for name in names], dtype=np.float64)
    return np.asarray(shown.reshape(trials, each).sum(axis=1))


def _too_many_terms(counter: OpenCounter, there: bool, trials: int) -> Scores:
    """Count how many of three times as many terms as are allowed, brought as events, are ever published."""
    each = 3 * counter.settings.names_per_person
    names = [f"{trial} {i}" for trial in range(trials) for i in range(each)]
    people = np.repeat(np.arange(trials), each).tolist()
    released = counter.add_events(people, names) if there else counter.add_events([], [])
    for _ in range(counter.remaining):
        released = counter.add_events([], [])
    shown = np.array([name in released for name in names], dtype=np.float64)
    return np.asarray(shown.reshape(trials, each).sum(axis=1))


def _brought_later(counter: OpenCounter, there: bool, trials: int) -> Scores:
    """Bring a term in the first step and let a crowd bring it in the last: how far is it from the crowd's count."""
    crowd = 10 * counter.threshold
    names = [str(trial) for trial in range(trials)]
    counter.add(dict.fromkeys(names, 1) if there else {})
    for _ in range(counter.remaining - 1):
        counter.add({})
    released = counter.add(dict.fromkeys(names, crowd))
    return np.array([released[name] - crowd if name in released else ABSENT for name in names], dtype=np.float64)


def _place_in_order(counter: OpenCounter, there: bool, trials: int) -> Scores:
    """Bring the second of two terms first and let a crowd bring both later: which of them is published first."""
    crowd = 10 * counter.threshold
    counter.add({f"{trial} b": 1 for trial in range(trials)} if there else {})
    released = counter.add({f"{trial} {which}": crowd for trial in range(trials) for which in "ab"})
    places = {name: place for place, name in enumerate(released)}
    return np.array([places[f"{trial} b"] < places[f"{trial} a"] for trial in range(trials)], dtype=np.float64)


def _crowded_terms(counter: OpenCounter, there: bool, trials: int) -> Scores:
    """Add to terms that everybody brings: how far their counts, all together, are from the crowd's."""
    each, per_name = counter.settings.names_per_person, counter.settings.per_name
    crowd = 10 * counter.threshold
    names = [f"{trial} {i}" for trial in range(trials) for i in range(each)]
    more = {"people": dict.fromkeys(names, crowd + there)} if per_name > 1 else {}
    released = counter.add(dict.fromkeys(names, crowd + per_name * there), **more)
    values = np.array([released.get(name, math.nan) for name in names], dtype=np.float64) - crowd
    return np.asarray(np.nan_to_num(values.reshape(trials, each).sum(axis=1), nan=-1e6))


def _threshold(horizon: int, names: int) -> dict[str, Any]:
    """Settings in which the threshold takes nearly all of δ."""
    return {"horizon": horizon, "names_per_person": names, "budget": FOR_THRESHOLD, "threshold_share": 1 - REST}


def _noise(horizon: int, names: int, budget: ApproxDP = FOR_NOISE, **more: Any) -> dict[str, Any]:
    """Settings in which the noise takes nearly all of δ."""
    return {"horizon": horizon, "names_per_person": names, "budget": budget, "threshold_share": REST} | more


ATTACKS: tuple[NameAttack, ...] = (
    NameAttack("a term of one person", _threshold(6, 1), _own_term, times=2),
    NameAttack("all terms of one person", _threshold(1, 6), _own_terms),
    NameAttack("more terms than are allowed", _threshold(1, 2), _too_many_terms),
    NameAttack("a term that others bring later", _noise(40, 1, FOR_BEGINNING), _brought_later, times=6),
    NameAttack("a term's place among those of its step", _threshold(2, 1), _place_in_order),
    NameAttack("counts of all terms of one person", _noise(1, 6), _crowded_terms, times=5),
    NameAttack("counts of events", _noise(1, 2, per_name=10, people_share=0.01), _crowded_terms, times=4),
)
