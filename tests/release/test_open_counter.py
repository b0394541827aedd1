"""OpenCounter: exact sums plus named noise, published from the threshold on; bad input changes nothing."""

import copy
import json
import math
import os
import pickle

import numpy as np
import polars as pl
import pytest
from scipy import stats

import dpstream as dp
from dpstream.errors import (
    BudgetError,
    ForkedStream,
    HorizonExceeded,
    InputOutOfBound,
    InputShapeError,
    InputTypeError,
    InvalidArgument,
    MechanismTooShort,
    NameCountOutOfBound,
    NoReleaseYet,
    ReleaseNotKept,
    StreamInUse,
    TooManyPairs,
)
from dpstream.gaussian_curve import gaussian_delta
from dpstream.noise.named import NamedNoise, NamedRows
from dpstream.release import NameLimit, OpenSettings
from dpstream.release.open_sums import NameSums, OpenSums
from dpstream.release.step_of_names import step_of_names
from dpstream.testing import fixed_key

from .test_threads import at_once

BUDGET = dp.approx_dp(6, 1e-6)


def counter(horizon=20, budget=BUDGET, label="open", **settings):
    return dp.OpenCounter(horizon, budget, **{"names_per_person": 2, "key": fixed_key(label)} | settings)


def steps_of(horizon, names=30, seed=1):
    """Random counts by name; some names come up late, some only once."""
    generator = np.random.default_rng(seed)
    for t in range(horizon):
        chosen = generator.choice(names * (t + 1) // horizon + 3, size=4)
        yield {f"name {i}": int(generator.integers(0, 12)) for i in chosen}


def by_hand(settings, key, steps, people_steps=None):
    """What must be published, from the definition: every name's noise for every step by itself."""
    noise, people_noise = settings.noise(key)
    counts, people, shown, published = {}, {}, list(settings.declared), []
    for t, step in enumerate(steps, start=1):
        for name, count in step.items():
            counts[name] = counts.get(name, 0) + count
        for name, count in (step if people_steps is None else people_steps[t - 1]).items():
            people[name] = people.get(name, 0) + count
        chosen_by = people_noise or noise
        for name, brought in sorted(people.items()):
            noisy = brought + int(chosen_by.values(chosen_by.tags([name]), t)[0])
            if brought and noisy >= settings.threshold and name not in shown:
                shown.append(name)
        published.append({name: counts.get(name, 0) + int(noise.values(noise.tags([name]), t)[0]) for name in shown})
    return published


# -- what is released -------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "given",
    [{}, {"declared": ["name 3", "never"]}, {"mechanism": dp.mechanisms.SmoothBinary(20)}, {"windows": (1, 7)}],
    ids=["plain", "declared", "tree", "windows"],
)
def test_releases_are_those_of_the_definition(given):
    made, steps = counter(**given), list(steps_of(20))
    expected = by_hand(made.settings, fixed_key("open"), steps)
    released = [made.add(step) for step in steps]
    assert released == expected
    assert [list(one) for one in released] == [list(one) for one in expected]
    assert 3 < len(expected[-1]) < 34
    if "mechanism" not in given:
        chosen = dp.mechanisms.FittedToeplitz if "windows" in given else dp.mechanisms.BalancedToeplitz
        assert isinstance(made.mechanism, chosen)


def test_events_and_people_have_noise_of_their_own():
    made, generator = counter(per_name=5), np.random.default_rng(2)
    people = [{name: count for name, count in step.items() if count} for step in steps_of(20)]
    steps = [{name: int(generator.integers(n, 5 * n + 1)) for name, n in step.items()} for step in people]
    expected = by_hand(made.settings, fixed_key("open"), steps, people)
    assert [made.add(step, people=new) for step, new in zip(steps, people, strict=True)] == expected
    assert len(expected[-1]) > 3


def test_a_name_has_the_same_noise_whenever_it_comes_up():
    early, late = counter(), counter()
    for t in range(1, 20):
        one = early.add({"rose": 1000 if t == 1 else 0, "filler": 1000})
        other = late.add({"rose": 1000} if t == 17 else {})
        if t >= 17:
            assert one["rose"] == other["rose"]


def test_names_of_count_0_and_names_nobody_brought_are_never_published():
    """Also where noise alone would pass the threshold at once."""
    made = counter(horizon=3, budget=dp.approx_dp(0.1, 0.4), names_per_person=1, threshold_share=0.9)
    names = [f"name {i}" for i in range(500)]
    assert made.add(dict.fromkeys(names, 0)) == {}
    assert made.add({"one": 1, **dict.fromkeys(names, 0)}).keys() <= {"one"}
    some = made.add(dict.fromkeys(names[:250], 1))
    assert len(some) > 5
    assert some.keys() <= {"one", *names[:250]}


def test_names_of_a_refused_step_are_never_published():
    """The step was refused when its names had been looked at; noise alone would pass the threshold."""
    made = counter(horizon=4, budget=dp.approx_dp(0.1, 0.4), names_per_person=1, per_name=2, threshold_share=0.9)
    names = [f"name {i}" for i in range(500)]
    with pytest.raises(InputOutOfBound):
        made.add(dict.fromkeys(names, 5), people=dict.fromkeys(names, 1))
    for _ in range(3):
        assert made.add({}, people={}) == {}
    assert len(made.add(dict.fromkeys(names, 1), people=dict.fromkeys(names, 1))) > 5


def test_once_published_a_name_stays():
    made = counter()
    made.add({"rose": made.threshold + 60})
    for _ in range(19):
        assert made.add({}).keys() == {"rose"}


@pytest.mark.parametrize("per_name", [1, 3])
def test_events_are_limited_and_then_counted(per_name):
    generator = np.random.default_rng(3)
    made, plain = counter(per_name=per_name, capacity=4000), counter(per_name=per_name)
    limit = NameLimit(2, per_name)
    for _ in range(5):
        people, names = generator.integers(0, 150, 600).tolist(), [f"n{i}" for i in generator.integers(0, 4, 600)]
        kept, new = limit.take(people, names)
        counts, arrivals = ({}, {})
        for name, one, first in zip(names, kept.tolist(), new.tolist(), strict=True):
            counts[name] = counts.get(name, 0) + one
            arrivals[name] = arrivals.get(name, 0) + first
        assert made.add_events(people, names) == plain.add(counts, **({"people": arrivals} if per_name > 1 else {}))
    assert made.dropped == limit.dropped > 100
    assert "of each person in the whole stream are counted" in made.describe()


def test_counts_come_in_several_forms():
    names, counts = ["rose", "tulip", "rose"], [70, 60, 5]
    forms = [
        {"rose": 75, "tulip": 60},
        (names, counts),
        (np.array(names), np.array(counts)),
        pl.DataFrame({"name": names, "count": counts}),
        pl.DataFrame({"name": names, "count": counts}).to_pandas(),
        {"tulip": np.int64(60), "rose": np.uint8(75)},
    ]
    assert len({tuple(sorted(counter().add(form).items())) for form in forms}) == 1


def test_spellings_of_one_name_are_one():
    made = counter()
    released = made.add({"caf\u00e9": 60, "cafe\u0301": 50})
    assert list(released) == ["caf\u00e9"]
    assert made.add({"cafe\u0301": 10})["caf\u00e9"] > 100
    assert list(counter(declared=["cafe\u0301", "caf\u00e9"]).add({})) == ["caf\u00e9"]


def test_who_was_brought_first_does_not_show_in_the_order():
    """Names that are published together come by their spelling, declared ones first, as they were declared."""
    made = counter(declared=["zinnia", "aster"])
    made.add({"tulip": 1, "zinnia": 1})
    assert list(made.add({"rose": 1000, "tulip": 1000, "lily": 1000})) == ["zinnia", "aster", "lily", "rose", "tulip"]
    assert list(made.add({"anemone": 1000}))[-2:] == ["tulip", "anemone"]
    assert list(made.published) == ["zinnia", "aster", "lily", "rose", "tulip", "anemone"]


# -- threshold and noise ----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("share", [0.1, 0.5, 0.9])
@pytest.mark.parametrize(("names", "per_name"), [(1, 1), (32, 1), (4, 3)])
def test_the_two_parts_of_delta_are_spent_and_not_more(names, per_name, share):
    budget = dp.approx_dp(1.5, 1e-7)
    s = OpenSettings.of(100, budget, names_per_person=names, per_name=per_name, threshold_share=share)
    assert s.delta_noise + s.delta_threshold == pytest.approx(budget.delta)
    # One person moves C names by m each; people and counts add up in squares.
    sensitivity = s.mechanism.sensitivity()
    moved = (sensitivity * per_name * math.sqrt(names) / s.scale) ** 2
    moved += (sensitivity * math.sqrt(names) / s.people_scale) ** 2 if per_name > 1 else 0.0
    assert gaussian_delta(math.sqrt(moved), budget.epsilon) == pytest.approx(s.delta_noise, rel=1e-6)
    assert gaussian_delta(math.sqrt(moved), budget.epsilon) <= s.delta_noise
    sigma = s.people_scale * np.sqrt(s.mechanism.squared_row_norms(100))

    def early(threshold):
        return names * stats.norm.sf((threshold - 1.5) / sigma).sum()

    assert early(s.threshold) <= s.delta_threshold < early(s.threshold - 1)


def test_the_threshold_counts_what_rounded_noise_does():
    """P(1 + noise ≥ τ) of 10^6 names, a binomial number; false alarms 1e-6; without the half it is refused."""
    s = OpenSettings.of(1, dp.approx_dp(0.5, 0.05), names_per_person=1)
    noise, _ = s.noise(fixed_key("threshold"))
    reached = int((1 + noise.values(noise.tags(f"n{i}" for i in range(200_000)), 1) >= s.threshold).sum())
    sigma = s.people_scale * s.mechanism.squared_row_norm(1) ** 0.5
    chances = [stats.norm.sf((s.threshold - 1 - half) / sigma) for half in (0.5, 0.0)]
    alarms = [stats.binomtest(reached, 200_000, chance).pvalue < 1e-6 for chance in chances]
    assert alarms == [False, True]


def test_from_how_many_people_on_a_name_appears():
    """Of 4,000 names with so many people 95 % or more are published at once; false alarms 1e-6."""
    made = counter(horizon=1, names_per_person=32)
    people = made.settings.appears_from(0.95)
    found = len(made.add({f"n{i}": people for i in range(4000)}))
    assert stats.binomtest(found, 4000, 0.95, alternative="less").pvalue > 1e-6
    fewer = counter(horizon=1, names_per_person=32, label="fewer").add({f"n{i}": people - 5 for i in range(4000)})
    assert stats.binomtest(len(fewer), 4000, 0.95, alternative="less").pvalue < 1e-6


def test_other_settings_have_other_noise():
    others = [{}, {"names_per_person": 3}, {"name": "b"}, {"threshold_share": 0.4}, {"declared": ["x"]}, {"label": "k"}]
    wide = dp.approx_dp(0.001, 1e-6)
    released = [
        counter(budget=wide, **{"declared": ["rose"]} | other).add({"rose": 10**9})["rose"] for other in others[:4]
    ]
    released.append(counter(budget=wide, declared=["rose", "x"]).add({"rose": 10**9})["rose"])
    released.append(counter(budget=wide, declared=["rose"], label="k").add({"rose": 10**9})["rose"])
    assert len(set(released)) == 6


def test_settings_survive_json():
    mechanism = dp.mechanisms.SmoothBinary(30)
    s = OpenSettings.of(
        30,
        BUDGET,
        names_per_person=4,
        per_name=2,
        windows=(1, 7),
        declared=["a"],
        name="x",
        mechanism=mechanism,
    )
    written = json.loads(json.dumps(s.as_json()))
    assert OpenSettings.from_json(written) == s
    for name, value in (("threshold", 5), ("scale", 1.0), ("identity", "other"), ("lane", "exact")):
        with pytest.raises(InvalidArgument, match=name):
            OpenSettings.from_json(written | {name: value})
    with pytest.raises(InvalidArgument, match="as_json"):
        OpenSettings.from_json({key: value for key, value in written.items() if key != "windows"} | {"wins": []})


# -- estimates --------------------------------------------------------------------------------------------------------


def test_estimates_and_windows_are_the_releases():
    made, released = counter(windows=(1, 3), mechanism=dp.mechanisms.BalancedToeplitz(20)), []
    with pytest.raises(NoReleaseYet):
        made.window(1)
    assert made.published == {}
    for step in steps_of(20):
        released.append(made.add(step))
        last, t = released[-1], len(released)
        bars = made.settings.half_width(t, 0.9)
        for name, estimate in made.estimates(0.9).items():
            assert estimate == (last[name], made.stddev(), last[name] - bars, last[name] + bars)
        assert made.published.keys() == last.keys()
        for window in (1, 3):
            changes = made.window(window, 0.9)
            if t <= window:
                assert changes == made.estimates(0.9)
                continue
            stddev, off = made.settings.change(t, t - window, 0.9)
            earlier = released[-1 - window]
            assert changes.keys() == earlier.keys()
            for name, change in changes.items():
                value = last[name] - earlier[name]
                assert change == (value, stddev, value - off, value + off)
    with pytest.raises(ReleaseNotKept, match=r"windows=\(1, 2, 3\)|windows=\(1, 3, 4\)"):
        made.window(4)
    assert made.window(20) == made.estimates()


def test_intervals_hold_the_truth():
    """Of 2,000 declared names, 90 % intervals of total and window hold at least so often; false alarms 1e-6."""
    names = [f"n{i}" for i in range(2000)]
    mechanism = dp.mechanisms.BalancedToeplitz(20)
    made = counter(declared=names, windows=(2,), names_per_person=32, mechanism=mechanism)
    for _ in range(5):
        made.add(dict.fromkeys(names, 7))
    for estimates, truth in ((made.estimates(0.9), 35), (made.window(2, 0.9), 14)):
        held = sum(estimate.low <= truth <= estimate.high for estimate in estimates.values())
        assert stats.binomtest(held, 2000, 0.9, alternative="less").pvalue > 1e-6
        assert held < 1950


# -- bad input --------------------------------------------------------------------------------------------------------


def snapshot(made):
    counts = made._sums._state.counts.tolist()
    return made.t, dict(zip(made._sums.index, counts, strict=False)), made.estimates(), made.dropped


@pytest.mark.parametrize(
    ("counts", "error"),
    [
        ({"": 1}, InputTypeError),
        ({"x" * 10**5: 1}, InputTypeError),
        ({7: 1}, InputTypeError),
        ({b"x": 1}, InputTypeError),
        ({None: 1}, InputTypeError),
        ({"\ud800": 1}, InputTypeError),
        ({"x": -1}, InputOutOfBound),
        ({"x": 2**63}, InputOutOfBound),
        ({"x": 1.0}, InputTypeError),
        ({"x": float("nan")}, InputTypeError),
        ({"x": "1"}, InputTypeError),
        ({"x": None}, InputTypeError),
        ({"x": [1]}, InputShapeError),
        (7, InputTypeError),
        ("x", InputTypeError),
        (["x"], InputTypeError),
        ((["x", "y"], [1]), InputShapeError),
        (("xy", [1, 2]), InputTypeError),
        ((["x", "x"], [2**58, 2**58]), InputOutOfBound),
    ],
    ids=str,
)
def test_bad_counts_are_refused_and_change_nothing(counts, error):
    made, twin = counter(), counter()
    for one in (made, twin):
        one.add({"rose": 100})
    before = snapshot(made)
    given = counts if not isinstance(counts, dict) else {"good": 50, **counts}
    with pytest.raises(error, match="nothing was added"):
        made.add(given)
    assert snapshot(made) == before
    assert made.add({"tulip": 90}) == twin.add({"tulip": 90})


@pytest.mark.parametrize(
    ("people", "names", "error"),
    [
        ([None], ["x"], InvalidArgument),
        ([""], ["x"], InvalidArgument),
        (["a"], [""], InputTypeError),
        (["a"], [3], InputTypeError),
        (["a", "b"], ["x"], InvalidArgument),
        ("ab", ["x", "y"], InvalidArgument),
        (["a", "b"], "xy", InvalidArgument),
        ([f"p{i}" for i in range(60)], ["x"] * 60, TooManyPairs),
    ],
)
def test_bad_events_are_refused_and_change_nothing(people, names, error):
    made, twin = counter(capacity=150), counter(capacity=150)
    for one in (made, twin):
        one.add_events(range(100), ["rose"] * 100)
    before = snapshot(made)
    with pytest.raises(error):
        made.add_events(people, names)
    assert snapshot(made) == before
    assert made.add_events(range(9), ["tulip"] * 9) == twin.add_events(range(9), ["tulip"] * 9)


def test_people_must_fit_the_counts():
    made = counter(per_name=2)
    with pytest.raises(InvalidArgument, match="people must be given"):
        made.add({"x": 1})
    with pytest.raises(InputOutOfBound, match="nothing was added"):
        made.add({"x": 5}, people={"x": 2})
    with pytest.raises(InputOutOfBound):
        made.add({"x": 1}, people={"x": 2})
    with pytest.raises(InputOutOfBound):
        made.add({"x": 1}, people={})
    assert made.t == 0
    made.add({"x": 3}, people={"x": 2})
    made.add({"x": 1}, people={})
    with pytest.raises(InputOutOfBound):
        made.add({"x": 1}, people={})
    with pytest.raises(InvalidArgument, match="left out with per_name=1"):
        counter().add({"x": 1}, people={"x": 1})


def test_past_the_horizon():
    made = counter(horizon=2)
    made.add({"rose": 100}), made.add({})
    before = snapshot(made)
    for step in (lambda: made.add({"x": 1}), lambda: made.add_events(["a"], ["x"])):
        with pytest.raises(HorizonExceeded):
            step()
    assert snapshot(made) == before
    assert (made.remaining, made.horizon) == (0, 2)
    for asked in (0, 3):
        with pytest.raises((InvalidArgument, HorizonExceeded)):
            made.stddev(asked)


def test_counts_and_events_are_not_mixed():
    made = counter()
    made.add({"x": 1})
    with pytest.raises(InvalidArgument, match="add as before"):
        made.add_events(["a"], ["x"])
    other = counter()
    other.add_events(["a"], ["x"])
    with pytest.raises(InvalidArgument, match="add_events as before"):
        other.add({"x": 1})
    assert other.t == 1


@pytest.mark.parametrize(
    ("given", "error", "match"),
    [
        ({"budget": dp.zcdp(0.5)}, BudgetError, "zCDP and pure epsilon do not allow"),
        ({"budget": dp.pure_dp(1)}, BudgetError, "approx_dp"),
        ({"budget": 1.0}, InvalidArgument, "budget"),
        ({"horizon": None}, InvalidArgument, "a number of steps"),
        ({"horizon": 0}, InvalidArgument, "horizon"),
        ({"horizon": 2**21}, InvalidArgument, "horizon"),
        ({"names_per_person": 0}, InvalidArgument, "names_per_person"),
        ({"names_per_person": 1.5}, InvalidArgument, "names_per_person"),
        ({"per_name": 0}, InvalidArgument, "per_name"),
        ({"per_name": True}, InvalidArgument, "per_name"),
        ({"windows": (7, 1)}, InvalidArgument, "windows"),
        ({"windows": (21,)}, InvalidArgument, "windows"),
        ({"threshold_share": 0.0}, InvalidArgument, "threshold_share"),
        ({"threshold_share": 1.0}, InvalidArgument, "threshold_share"),
        ({"people_share": 2}, InvalidArgument, "people_share"),
        ({"declared": "name"}, InvalidArgument, "declared"),
        ({"declared": [""]}, InvalidArgument, "declared must be names of at least one character"),
        ({"capacity": 0}, InvalidArgument, "capacity"),
        ({"name": 7}, InvalidArgument, "name"),
        ({"mechanism": "best"}, InvalidArgument, "mechanism"),
        ({"mechanism": dp.mechanisms.Honaker(20)}, InvalidArgument, "comes up late"),
        ({"mechanism": dp.mechanisms.SquareRoot(20)}, InvalidArgument, "comes up late"),
        ({"mechanism": dp.mechanisms.Binary(10)}, MechanismTooShort, "10 steps"),
    ],
)
def test_bad_settings_are_refused(given, error, match):
    with pytest.raises(error, match=match):
        counter(**given)


def test_refusals_say_what_was_given():
    made = counter()
    with pytest.raises(
        NameCountOutOfBound, match=r"the count of a name must be from 0 to [\d,]+, got 1,000,000,000,000,"
    ):
        made.add({"rose": 10**30})
    with pytest.raises(InvalidArgument, match="declared must be names of at least one character, got 'an empty name'"):
        counter(declared=[""])


# -- threads, forks, copies, interruptions ----------------------------------------------------------------------------


def test_threads_take_turns():
    """Each step is released once: the totals of all threads' releases are those of the steps in some order."""
    made = counter(horizon=80, declared=["rose"])
    noise, _ = made.settings.noise(fixed_key("open"))
    released = at_once(lambda i: [made.add({"rose": 10**6}) for _ in range(20)], 4)
    values = sorted(step["rose"] for part in released for step in part)
    tags = noise.tags(["rose"])
    assert values == [t * 10**6 + int(noise.values(tags, t)[0]) for t in range(1, 81)]


def test_a_forked_child_is_refused():
    made = counter()
    made.add({"rose": 100})
    reader, writer = os.pipe()
    child = os.fork()
    if child == 0:
        try:
            made.add({"rose": 1})
        except ForkedStream:
            os.write(writer, b"refused")
        finally:
            os._exit(0)
    os.close(writer)
    os.waitpid(child, 0)
    assert os.read(reader, 20) == b"refused"
    os.close(reader)
    assert made.t == 1


def test_no_copies():
    made = counter()
    for copied in (copy.copy, copy.deepcopy, pickle.dumps):
        with pytest.raises(TypeError, match="fresh"):
            copied(made)
    assert "hidden" in repr(made)
    assert counter().fresh(fixed_key("open")).add({"rose": 100}) == made.add({"rose": 100})


@pytest.mark.parametrize("owner", [NamedRows, NamedNoise], ids=["at", "tags"])
def test_an_interruption_changes_nothing(owner, monkeypatch):
    made, twin = counter(), counter()
    for one in (made, twin):
        one.add({"rose": 100})
    before = snapshot(made)
    where = "at" if owner is NamedRows else "tags"
    honest = getattr(owner, where)

    def interrupted(*arguments, **given):
        honest(*arguments, **given)
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr(owner, where, interrupted)
        with pytest.raises(KeyboardInterrupt):
            made.add({"tulip": 90, "rose": 5})
    assert snapshot(made) == before
    for step in ({"lily": 80}, {"tulip": 90}):
        assert made.add(step) == twin.add(step)


def test_a_call_from_within_a_call_is_refused(monkeypatch):
    made = counter()
    honest, refused = NamedRows.at, []

    def at(rows, t):
        with pytest.raises(StreamInUse):
            made.add({"x": 1})
        refused.append(t)
        return honest(rows, t)

    monkeypatch.setattr(NamedRows, "at", at)
    made.add({"rose": 100})
    assert (made.t, refused) == (1, [1])


def test_memory_grows_with_the_names():
    made = counter()
    made.add({f"n{i}": 1 for i in range(30_000)})
    assert made.nbytes / 30_000 < 130


# -- going on ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("given", [{}, {"declared": ["name 3", "never"], "windows": (1, 4)}], ids=["plain", "declared"])
def test_sums_go_on_where_they_stood(given):
    """From names, true sums and the releases that windows need, and from nothing else: the same releases follow."""
    made, steps = counter(**given), list(steps_of(20))
    for step in steps[:13]:
        made.add(step)
    before = made._sums
    kept = before._state.releases[:-1]
    again = OpenSums.resume(made.settings, fixed_key("open"), 13, list(before.index), before.reveal(), kept)
    assert (again.names, again.since.tolist()) == (before.names, before.since.tolist())
    assert again.estimates(0.95) == made.estimates()
    if made.settings.windows:
        assert again.window(4, 0.9) == made.window(4, 0.9)
    for step in steps[13:]:
        taken = step_of_names(step, again.index, made.settings.most)
        assert list(again.release(taken, taken).items()) == list(made.add(step).items())
    assert len(made.published) > 4


def test_sums_before_the_first_step_go_on_too():
    settings = counter(declared=["rose"]).settings
    nothing = np.zeros(2, dtype=np.int64)
    again = OpenSums.resume(settings, fixed_key("open"), 0, ["rose", "tulip"], NameSums(nothing, nothing, nothing - 1))
    step = step_of_names({"tulip": 1000}, again.index, settings.most)
    assert again.release(step, step) == counter(declared=["rose"]).add({"tulip": 1000})
    with pytest.raises(InvalidArgument, match="declared first"):
        OpenSums.resume(settings, fixed_key("open"), 0, ["tulip", "rose"], NameSums(nothing, nothing, nothing))
