"""Attacks on OpenCounter: one person's terms, in what is published. Sound counters pass, each planted mistake is found.

What is asked of an attack follows from the exact law of its score (name_laws.py) before it is run: its event, the δ
that it certifies of a sound counter at least, and that so many trials notice a planted mistake. False alarms, over
fresh keys: a sound counter is called violated with a chance of RISK at most, whatever its law (Clopper and Pearson),
and certifies less, or more, than the law says with a chance of MISS, 1e-6 together. A planted mistake is missed with a
chance of MISS at most. The keys of these tests are fixed; none was chosen.
"""

from dataclasses import replace

import numpy as np
import pytest
from scipy.stats import binom

from dpstream.audit.discovery import ATTACKS, TRIALS, _best_threshold, certified_delta, check_names
from dpstream.noise import named
from dpstream.release import open_settings, open_sums
from dpstream.release.open_counter import OpenCounter
from dpstream.release.open_settings import OpenSettings

from .name_laws import any_of, certified, coin, law_of, reached, restarting
from .subjects import keys

RISK, MISS = 5e-7, 5e-7
BY_TITLE = {attack.title: attack for attack in ATTACKS}


def settings_of(title):
    """The settings of an attack, as this library makes them: with whatever was planted in it."""
    given = dict(BY_TITLE[title].settings)
    return OpenSettings.of(given.pop("horizon"), given.pop("budget"), **given)


def judge(title, law, trials, above=None):
    """Run an attack on the event that shows most of this law; return what it found, at least and at most."""
    attack = BY_TITLE[title]
    epsilon = attack.settings["budget"].epsilon
    event = law.best(epsilon) if above is None else above
    (found,) = check_names(trials, 1 - RISK, [replace(attack, above=event)], keys(f"names {title}"))
    return found, certified(law, event, epsilon, attack.times * trials, RISK, MISS)


@pytest.mark.parametrize("title", BY_TITLE)
def test_a_sound_counter_keeps_its_promise(title):
    """And the attack sees what it should: the more of it, the more trials."""
    found, (least, most) = judge(title, law_of(title, settings_of(title)), TRIALS_OF_SOUND.get(title, 5_000))
    assert not found.violated, str(found)
    assert 0 < least <= found.measured <= most, str(found)
    assert f"of the {BY_TITLE[title].settings['budget'].delta} promised" in str(found)


#: Others have enough to see something with 5,000 trials.
TRIALS_OF_SOUND = {
    "a term of one person": 2_500,
    "a term that others bring later": 10_000,
    "counts of all terms of one person": 800,
    "counts of events": 1_000,
}


def threshold_a_tenth_too_low(monkeypatch):
    honest = open_settings._least_threshold
    monkeypatch.setattr(
        open_settings, "_least_threshold", lambda sigma, most: round(1.5 + 0.9 * (honest(sigma, most) - 1.5))
    )


def noise_a_tenth_too_small(monkeypatch):
    honest = OpenSettings._scale
    monkeypatch.setattr(OpenSettings, "_scale", lambda self, *given: 0.9 * honest(self, *given))


TENTHS = [
    (threshold_a_tenth_too_low, "all terms of one person", 6_000),
    (threshold_a_tenth_too_low, "more terms than are allowed", 12_000),
    (threshold_a_tenth_too_low, "a term of one person", 17_000),
    (noise_a_tenth_too_small, "counts of all terms of one person", 18_000),
    (noise_a_tenth_too_small, "counts of events", 18_000),
]


@pytest.mark.parametrize(
    ("plant", "title", "trials"),
    [TENTHS[0], *(pytest.param(*given, marks=pytest.mark.heavy) for given in TENTHS[1:])],
)
def test_a_tenth_is_noticed(plant, title, trials, monkeypatch):
    """So many trials are enough, by the law; and no more than the audit has."""
    assert trials <= TRIALS
    sound = law_of(title, settings_of(title))
    event = sound.best(BY_TITLE[title].settings["budget"].epsilon)
    plant(monkeypatch)
    found, (least, most) = judge(title, law_of(title, settings_of(title)), trials, event)
    assert found.promised < least <= found.measured <= most
    assert found.violated, str(found)


@pytest.mark.heavy
@pytest.mark.parametrize("given", TENTHS, ids=lambda given: f"{given[0].__name__}, {given[1]}")
def test_a_tenth_is_noticed_by_an_audit_that_chooses_its_event(given, monkeypatch):
    """By the law alone: whatever event 100 audits choose on their pilot trials, it is enough, at their risk of 1e-6."""
    plant, title, _ = given
    attack, chance = BY_TITLE[title], np.random.default_rng(1)
    epsilon, trials = attack.settings["budget"].epsilon, attack.times * TRIALS
    plant(monkeypatch)
    law = law_of(title, settings_of(title))
    sides = [chance.multinomial(trials, side / side.sum(), 100) for side in (law.without, law.present)]
    events = {
        _best_threshold(*(np.repeat(law.scores, counts) for counts in pilot), epsilon)
        for pilot in zip(*sides, strict=True)
    }
    least = [certified(law, event, epsilon, trials, 1e-6, 1e-6)[0] for event in events]
    assert min(least) > attack.settings["budget"].delta


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
    ("plant", "title", "law"),
    [
        (without_the_union_over_steps, "a term of one person", None),
        (without_the_union_over_names, "all terms of one person", None),
        (without_the_root_of_the_names, "counts of all terms of one person", None),
        (without_the_events_of_a_person, "counts of events", None),
        (
            seen_through_dropped_contributions,
            "more terms than are allowed",
            lambda settings: any_of(reached(settings), 3 * settings.names_per_person),
        ),
        (noise_restarts_when_a_name_is_seen, "a term that others bring later", restarting),
        (
            names_in_the_order_in_which_they_were_brought,
            "a term's place among those of its step",
            lambda _: coin(0.0, 1.0),
        ),
    ],
    ids=lambda given: given if isinstance(given, str) else getattr(given, "__name__", ""),
)
def test_every_mistake_is_found(plant, title, law, monkeypatch):
    plant(monkeypatch)
    settings = settings_of(title)
    law = law_of(title, settings) if law is None else law(settings)
    found, (least, most) = judge(title, law, TRIALS_OF_MISTAKES.get(title, 1_000))
    assert found.promised < least <= found.measured <= most
    assert found.violated, str(found)
    assert "VIOLATED" in str(found)


TRIALS_OF_MISTAKES = {"a term of one person": 3_000, "a term that others bring later": 2_000}


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
