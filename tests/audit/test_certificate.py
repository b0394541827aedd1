"""Bounds hold as often as they say, and are as tight as they can be."""

import math

import numpy as np
import pytest
from scipy import stats

from dpstream import zcdp
from dpstream.audit import LossCertificate, audit, one_changed_step
from dpstream.audit.certificate import error_rate_bound
from dpstream.audit.laplace_likelihood import laplace_likelihood
from dpstream.audit.statistic import LowBits
from dpstream.errors import InvalidArgument
from dpstream.gaussian_curve import gaussian_epsilon
from dpstream.mechanisms import Binary, SmoothBinary, Unbounded

from . import subjects


@pytest.mark.parametrize("rate", [0.001, 0.1, 0.5, 0.97])
def test_clopper_pearson_covers(rate):
    """Exactly: the chance that the bound is below the truth, summed over all outcomes."""
    n, risk = 500, 1e-3
    chances = stats.binom.pmf(np.arange(n + 1), n, rate)
    missed = sum(p for k, p in enumerate(chances) if error_rate_bound(k, n, risk) < rate)
    assert missed <= risk * (1 + 1e-9)


def certificate_of(mu, threshold, n=10**9, confidence=0.99):
    """What a Gaussian mechanism's exact error rates give with endless trials."""
    return LossCertificate(
        round(n * stats.norm.sf(threshold)), n, round(n * stats.norm.cdf(threshold - mu)), n, confidence
    )


@pytest.mark.parametrize("mu", [0.2, 1.0, 3.0])
@pytest.mark.parametrize("threshold", [0.1, 0.5, 1.5])
def test_the_gaussian_bound_is_tight_at_every_threshold(mu, threshold):
    certificate = certificate_of(mu, threshold)
    assert certificate.mu == pytest.approx(mu, rel=2e-3)
    assert certificate.mu < mu
    assert certificate.rho == pytest.approx(mu**2 / 2, rel=4e-3)
    assert certificate.gaussian_epsilon(1e-6) == pytest.approx(gaussian_epsilon(mu, 1e-6), rel=2e-3)
    assert certificate.epsilon(1e-6) <= gaussian_epsilon(mu, 1e-6)
    assert 0.2 * mu**2 / 2 < certificate.rho_of_any < mu**2 / 2


def test_no_difference_proves_nothing():
    certificate = LossCertificate(500, 1000, 500, 1000, 0.99)
    assert (certificate.mu, certificate.epsilon(), certificate.rho_of_any, certificate.gaussian_epsilon(1e-6)) == (
        0,
        0,
        0,
        0,
    )


def test_low_bits():
    assert LowBits(0)(np.array([[8], [-12], [7], [0]])).tolist() == [3, 2, 0, 99]
    assert LowBits(0)(np.array([[0.5], [-0.75], [3.0], [0.0]])).tolist() == [-1, -2, 0, 99]


@pytest.mark.parametrize("mechanism", [SmoothBinary(3, noise="laplace"), Unbounded(noise="laplace")])
def test_the_laplace_likelihood_ratio_is_one(mechanism):
    """E[p₂/p₁] = 1 under the first stream: within 6 standard errors of 10^5 trials (false alarms: 2e-9)."""
    first, second = np.zeros(3), np.array([1.0, 0.0, 0.0])
    L, _ = mechanism.factors(3)
    scale = 2 * mechanism.sensitivity()
    noise = np.random.default_rng(7).laplace(size=(100_000, L.shape[1])) * scale @ L.T
    ratio = np.exp(laplace_likelihood(mechanism, scale, first, second)(noise))
    assert abs(ratio.mean() - 1) < 6 * ratio.std() / math.sqrt(len(ratio))
    assert ratio.std() > 0.1


def test_separate_objects_tell_no_more_than_coordinates_of_one():
    """Scalar counters, one trial each; false alarms: 1e-7."""
    budget = zcdp(4.5)
    supply = subjects.keys("separate")
    from dpstream import Counter

    def build():
        return Counter(3, budget, per_person=64, mechanism=Binary(3), key=next(supply))

    parts = []
    found = audit(build, one_changed_step(3, 64), budget, 1000, 1 - 1e-7, report=parts.append)
    assert found.verdict != "violated"
    assert found.ratio > 0.4
    assert parts == sorted(parts)
    assert parts[-1] == 1.0
    assert "promises ρ = 4.5" in str(found)


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"neighbours": []}, "neighbours"),
        ({"neighbours": [(np.zeros(3), np.zeros(4))]}, "neighbours"),
        ({"trials": 10}, "trials"),
        ({"confidence": 1.0}, "confidence"),
        ({"confidence": math.nan}, "confidence"),
        ({"budget": 0.5}, "budget"),
    ],
)
def test_bad_arguments_are_refused(settings, message):
    right = {"neighbours": one_changed_step(3), "budget": zcdp(0.5), "trials": 100, "confidence": 0.99}
    with pytest.raises(InvalidArgument, match=message):
        audit(subjects.counters("refused", horizon=3, budget=zcdp(0.5)), **(right | settings))
