"""Attacks on OpenCounter: one person's terms, in what is published. Sound counters pass, each planted mistake is found.

False alarms: each check calls a sound counter violated with a chance of at most 1e-7 over the choice of its fixed keys.
"""

import numpy as np
import pytest
from scipy.stats import binom

from dpstream.audit.discovery import ATTACKS, certified_delta, check_names
from dpstream.noise import named
from dpstream.release import open_settings, open_sums
from dpstream.release.open_counter import OpenCounter
from dpstream.release.open_settings import OpenSettings

from .subjects import keys

RISK = 1e-7
BY_TITLE = {attack.title: attack for attack in ATTACKS}


def check(title, trials=6_000):
    (found,) = check_names(trials, 1 - RISK, [BY_TITLE[title]], keys(f"names {title}"))
    return found


#: What each attack certifies at least of a sound counter. Of that δ is promised the certificate has lost what 6,000
#: trials leave open, and what attacks on a single moment do not see of the whole (a term that others bring later, and
#: its place, look at one release).
SHOWN = {
    "a term of one person": 0.03,
    "all terms of one person": 0.06,
    "more terms than are allowed": 0.06,
    "a term that others bring later": 0.005,
    "a term's place among those of its step": 0.02,
    "counts of all terms of one person": 0.4,
    "counts of events": 0.4,
}


@pytest.mark.parametrize("title", BY_TITLE)
def test_a_sound_counter_keeps_its_promise(title):
    found = check(title)
    assert not found.violated, str(found)
    assert found.measured >= SHOWN[title], str(found)
    assert f"of the {BY_TITLE[title].settings['budget'].delta} promised" in str(found)


def threshold_a_tenth_too_low(monkeypatch):
    honest = open_settings._least_threshold
    monkeypatch.setattr(
        open_settings, "_least_threshold", lambda sigma, most: round(1.5 + 0.9 * (honest(sigma, most) - 1.5))
    )


def noise_a_tenth_too_small(monkeypatch):
    honest = OpenSettings._scale
    monkeypatch.setattr(OpenSettings, "_scale", lambda self, *given: 0.9 * honest(self, *given))


@pytest.mark.parametrize(
    ("plant", "title", "trials"),
    [
        (threshold_a_tenth_too_low, "all terms of one person", 12_000),
        pytest.param(threshold_a_tenth_too_low, "more terms than are allowed", 16_000, marks=pytest.mark.heavy),
        pytest.param(threshold_a_tenth_too_low, "a term of one person", 60_000, marks=pytest.mark.heavy),
        pytest.param(noise_a_tenth_too_small, "counts of all terms of one person", 20_000, marks=pytest.mark.heavy),
        pytest.param(noise_a_tenth_too_small, "counts of events", 16_000, marks=pytest.mark.heavy),
    ],
)
def test_a_tenth_is_noticed(plant, title, trials, monkeypatch):
    """A sound counter passes with as many trials."""
    assert not check(title, trials).violated
    plant(monkeypatch)
    found = check(title, trials)
    assert found.violated, str(found)


def without_the_union_over_steps(monkeypatch):
    honest = open_settings._least_threshold
    monkeypatch.setattr(open_settings, "_least_threshold", lambda sigma, most: honest(sigma[-1:], most))


def without_the_union_over_names(monkeypatch):
    honest = open_settings._least_threshold
    monkeypatch.setattr(open_settings, "_least_threshold", lambda sigma, most: honest(sigma, 6 * most))


def without_the_root_of_the_names(monkeypatch):
    honest = OpenSettings._scale
    monkeypatch.setattr(OpenSettings, "_scale", lambda self, *given: honest(self, *given) / self.names_per_person**0.5)


def without_the_events_of_a_person(monkeypatch):
    honest = OpenSettings._scale
    monkeypatch.setattr(OpenSettings, "_scale", lambda self, per_name, share: honest(self, 1, share))


def seen_through_dropped_contributions(monkeypatch):
    honest = OpenCounter._tally
    monkeypatch.setattr(OpenCounter, "_tally", lambda self, names, chosen: honest(self, names, np.ones_like(chosen)))


def noise_restarts_when_a_name_is_seen(monkeypatch):
    monkeypatch.setattr(named._Chunk, "_walk", lambda self, where, t: None)


def names_in_the_order_in_which_they_were_brought(monkeypatch):
    monkeypatch.setattr(open_sums, "sorted", lambda found: sorted(found, key=lambda one: one[1]), raising=False)


@pytest.mark.parametrize(
    ("plant", "title"),
    [
        (without_the_union_over_steps, "a term of one person"),
        (without_the_union_over_names, "all terms of one person"),
        (without_the_root_of_the_names, "counts of all terms of one person"),
        (without_the_events_of_a_person, "counts of events"),
        (seen_through_dropped_contributions, "more terms than are allowed"),
        (noise_restarts_when_a_name_is_seen, "a term that others bring later"),
        (names_in_the_order_in_which_they_were_brought, "a term's place among those of its step"),
    ],
    ids=lambda given: given if isinstance(given, str) else given.__name__,
)
def test_every_mistake_is_found(plant, title, monkeypatch):
    plant(monkeypatch)
    found = check(title)
    assert found.violated, str(found)
    assert "VIOLATED" in str(found)


def test_a_bound_on_delta_is_wrong_no_more_often_than_it_says():
    """Exactly: over all outcomes of two binomial numbers whose true δ at ε = 1 is 0.05, at a risk of 5 %."""
    n, first, epsilon = 200, 0.02, 1.0
    second = np.e * first + 0.05
    chances = [binom.pmf(np.arange(n + 1), n, p) for p in (first, second)]
    wrong = sum(
        chances[0][i] * chances[1][j]
        for i in range(20)
        for j in range(n + 1)
        if chances[0][i] * chances[1][j] > 1e-9 and certified_delta([i, j], [n, n], epsilon, 0.05) > 0.05
    )
    assert wrong < 0.05
    assert certified_delta([0, n], [n, n], epsilon, 0.05) > 0.85
    assert certified_delta([n, 0], [n, n], epsilon, 0.05) > 0.85
    assert certified_delta([7, 7], [n, n], epsilon, 0.05) == 0.0
