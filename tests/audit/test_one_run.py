"""One run with many canaries: sound releases pass, broken ones are caught. False alarms: 1e-7 a test."""

import numpy as np
import pytest
from scipy import optimize, stats

from dpstream import Counter, NoiseStream, pure_dp, zcdp
from dpstream.audit.one_run import _chance, _gaussian_refuted, canary_scores, one_run_audit, plant
from dpstream.errors import InvalidArgument
from dpstream.mechanisms import Binary
from dpstream.testing import fixed_key

CONFIDENCE = 1 - 1e-7


def run_once(budget, factor=1.0, guesses=None, width=4000, steps=4):
    """A histogram with a canary in the first step of every category, and traffic of its own."""
    mechanism = Binary(steps, noise=budget.noise)
    canaries = plant(steps, width=width, every=steps, bound=8, rng=np.random.default_rng(1))
    traffic = np.random.default_rng(2).integers(0, 3, (steps, width))
    counter = Counter(
        steps, budget, shape=(width,), per_person=8, per_step=10**6, mechanism=mechanism, key=fixed_key("one run")
    )
    scale = counter.settings.scale
    if factor != 1.0:
        counter._stream = NoiseStream(mechanism, scale * factor, (width,), dtype="int64", key=fixed_key("broken run"))
    releases = counter.extend(traffic + canaries.inputs)
    scores = canary_scores(releases, canaries, mechanism, scale, traffic)
    return one_run_audit(scores, canaries, budget, guesses, CONFIDENCE)


@pytest.mark.parametrize("budget", [zcdp(0.5), zcdp(4.0), pure_dp(1.0)])
def test_a_sound_counter_passes_and_something_is_seen(budget):
    found = run_once(budget)
    assert not found.violated
    assert found.measured > 0.02  # one run sees little; the key decides how little
    assert str(found).startswith("Not violated")
    assert found.needed is None or found.right < found.needed <= found.guesses


def test_its_weakness_is_said():
    found = run_once(pure_dp(1.0), guesses=1000)
    assert f"up to {found.needed - 1} right guesses of 1000 pass" in str(found)
    found = run_once(zcdp(4.0), guesses=10)
    assert found.needed is None
    assert "even 10 right guesses of 10 would have passed" in str(found)


@pytest.mark.parametrize(("budget", "factor", "guesses"), [(zcdp(0.5), 0.2, 2000), (pure_dp(1.0), 0.25, 400)])
def test_too_little_noise_is_caught(budget, factor, guesses):
    found = run_once(budget, factor, guesses)
    assert found.violated
    assert found.right >= found.needed
    assert str(found).startswith("VIOLATED")


def test_canaries_in_one_stream_of_numbers():
    canaries = plant(600, every=3, bound=8, rng=np.random.default_rng(1))
    mechanism, budget = Binary(600), zcdp(8.0)
    counter = Counter(600, budget, per_person=8, mechanism=mechanism, key=fixed_key("one stream"))
    scores = canary_scores(counter.extend(canaries.inputs), canaries, mechanism, counter.settings.scale)
    found = one_run_audit(scores, canaries, budget, 60, CONFIDENCE)
    assert not found.violated
    assert stats.binomtest(found.right, found.guesses, 0.5, "greater").pvalue < 1e-3


def exact_mu_refuted(mu, m, r, right, risk):
    """The same by linear programming: the largest chance of `right` or more right guesses that all inequalities allow.

    F is replaced by tangents, which only allow more.
    """
    at = stats.norm.cdf(np.linspace(-9, 3, 200))
    x = stats.norm.ppf(at)
    slope, value = np.exp(-mu * x - mu**2 / 2), stats.norm.cdf(x + mu)
    rows, limits = [], []
    for k in range(1, r + 1):
        hit = np.array([i / m if i >= k else 0.0 for i in range(r + 1)])
        missed = np.array([(r - i) / m if i >= k - 1 else 0.0 for i in range(r + 1)])
        for s, v, a in zip(slope, value, at, strict=True):
            rows.append(hit - s * missed)
            limits.append(v - s * a)
    objective = np.array([-1.0 if i >= right else 0.0 for i in range(r + 1)])
    solved = optimize.linprog(objective, A_ub=rows, b_ub=limits, A_eq=[[1.0] * (r + 1)], b_eq=[1.0])
    return -solved.fun < risk


@pytest.mark.parametrize(("m", "r", "right"), [(12, 8, 8), (12, 12, 11), (20, 10, 9)])
def test_the_gaussian_bound_is_the_best_that_its_inequalities_give(m, r, right):
    for mu in (0.2, 0.5, 1.0, 2.0):
        for risk in (0.3, 0.05, 0.01):
            if exact_mu_refuted(mu, m, r, right, 0.97 * risk):
                assert _gaussian_refuted(mu, m, r, right, risk)
            if not exact_mu_refuted(mu, m, r, right, 1.03 * risk):
                assert not _gaussian_refuted(mu, m, r, right, risk)


def test_the_chance_is_that_of_coins_without_privacy_loss():
    assert _chance(100, 50, 40, 0.0, 0.0) == pytest.approx(stats.binom.sf(39, 50, 0.5))
    assert _chance(100, 50, 40, 0.0, 1e-6) > _chance(100, 50, 40, 0.0, 0.0)


def test_more_guesses_than_canaries_are_refused():
    with pytest.raises(InvalidArgument, match="guesses"):
        one_run_audit(np.zeros(4), plant(4, rng=np.random.default_rng(1)), zcdp(0.5), 5)
