"""What is released has the error that is promised. Each false-alarm rate is at most 1e-6, and each test is seen to
fail.

The coordinates of one wide counter are independent streams: the keystream gives every coordinate draws of its own. One
test takes separate counters instead, named apart under one key. Keys are fixed: what passes keeps passing.
"""

import math
import os

import numpy as np
import pytest
from scipy import stats

import dpstream as dp
from dpstream.mechanisms import BufferedToeplitz, SmoothBinary
from dpstream.testing import fixed_key

STREAMS = 10**6 if os.environ.get("DPSTREAM_HEAVY") else 10**5
#: Of one comparison. No test makes more than 36 of them, so each test's rate is below 1e-6.
ALARM = 2e-8
BUDGETS = {
    "zcdp": dp.zcdp(0.05),
    "much zcdp": dp.zcdp(20.0),
    "approx": dp.approx_dp(1.0, 1e-6),
    "pure": dp.pure_dp(0.5),
    "much pure": dp.pure_dp(8.0),
}
STEPS = (1, 2, 7, 12)


def noise_of(
    budget: dp.Budget, mechanism=None, steps=STEPS, streams=STREAMS
) -> tuple[dp.Counter, dict[int, np.ndarray]]:
    """Errors of the releases at the chosen steps, one value a stream; every stream counts something."""
    counter = dp.Counter(
        max(steps), budget, shape=(streams,), per_step=2**40, mechanism=mechanism or "auto", key=fixed_key("statistics")
    )
    truth = np.zeros(streams, dtype=np.int64)
    errors = {}
    for t in range(1, max(steps) + 1):
        x = np.arange(streams) % (t + 3)
        truth += x
        released = counter.add(x)
        if t in steps:
            errors[t] = released - truth
    return counter, errors


def mean_rejects(errors: np.ndarray, stddev: float) -> bool:
    return abs(errors.mean()) > stats.norm.isf(ALARM / 2) * stddev / math.sqrt(errors.size)


def variance_rejects(errors: np.ndarray, variance: float) -> bool:
    """The mean of the squares, within its own standard error; the fourth moment is at most 6 variances² (Laplace)."""
    spread = max(float((errors.astype(float) ** 4).mean()) - variance**2, variance**2)
    return abs((errors.astype(float) ** 2).mean() - variance) > stats.norm.isf(ALARM / 2) * math.sqrt(
        spread / errors.size
    )


def coverage_rejects(inside: int, streams: int, confidence: float) -> bool:
    """Too rarely inside. (Too often is no lie: with little noise the narrowest whole numbers are too wide.)"""
    return stats.binomtest(inside, streams, confidence, alternative="less").pvalue < ALARM


@pytest.mark.parametrize("budget", BUDGETS.values(), ids=BUDGETS)
def test_mean_and_variance(budget):
    counter, errors = noise_of(budget)
    unit = counter.budget.scale(1.0) ** 2 * (2 if budget.noise == "laplace" else 1)
    for t in STEPS:
        stated = counter.stddev(t) ** 2
        assert not mean_rejects(errors[t], math.sqrt(stated))
        assert not variance_rejects(errors[t], stated)
        # V_t·bound²/(2ρ), or 2·V_t·bound²/ε², and the rounding.
        if stated > 4:
            assert stated == pytest.approx(unit * counter.mechanism.variance(t) + 1 / 12, rel=1e-3)
        assert mean_rejects(errors[t] + 0.05 * math.sqrt(stated), math.sqrt(stated))
        for factor in (0.95, 1.05) if stated > 1 else (0.5, 2.0):
            assert variance_rejects(errors[t], factor * stated)


@pytest.mark.parametrize("confidence", [0.5, 0.95, 0.999])
@pytest.mark.parametrize("budget", BUDGETS.values(), ids=BUDGETS)
def test_coverage(budget, confidence):
    from dpstream.release.error_bars import half_width

    counter, errors = noise_of(budget)
    for t in STEPS:
        law = counter.settings.noise_at(t)
        h = half_width(law, confidence)
        inside = int((np.abs(errors[t]) <= h).sum())
        exact = 1 - float(law.beyond(h + 0.5))
        assert exact >= confidence
        assert not coverage_rejects(inside, STREAMS, confidence)
        # Two-sided against the exact chance: the law itself is right, not merely safe.
        assert stats.binomtest(inside, STREAMS, min(exact, 1.0)).pvalue > ALARM
        # One less on either side would not do.
        narrower = int((np.abs(errors[t]) <= h - 1).sum())
        less = 1 - float(law.beyond(h - 0.5)) if h else 0.0
        assert less < confidence
        if confidence - less > 0.02:
            assert coverage_rejects(narrower, STREAMS, confidence)


def test_the_normal_approximation_would_be_noticed():
    """For sums of few Laplace draws it covers too little at 0.999."""
    budget = BUDGETS["pure"]
    counter, errors = noise_of(budget, steps=(1,), mechanism=SmoothBinary(1, noise="laplace"))
    h = round(stats.norm.isf(0.0005) * counter.stddev(1))
    assert coverage_rejects(int((np.abs(errors[1]) <= h).sum()), STREAMS, 0.999)


@pytest.mark.parametrize("budget", [BUDGETS["zcdp"], BUDGETS["pure"]], ids=["zcdp", "pure"])
def test_a_padded_smooth_tree_has_the_same_law_at_every_step(budget):
    """Two-sample tests between steps; from different halves of the streams, since steps of one stream are dependent."""
    steps = (1, 2, 5, 11, 19)
    half = STREAMS // 2
    _, errors = noise_of(budget, SmoothBinary(19, noise=budget.noise, padded=True), steps)
    for t in steps[1:]:
        assert same_law(errors[1][:half], errors[t][half:])
    _, unpadded = noise_of(budget, SmoothBinary(19, noise=budget.noise, padded=False), steps)
    assert not all(same_law(unpadded[1][:half], unpadded[t][half:]) for t in steps[1:])


def same_law(one: np.ndarray, other: np.ndarray) -> bool:
    """Chi-square on cells that hold a twentieth each, of integers: a KS test is not exact for them."""
    edges = np.unique(np.quantile(np.concatenate([one, other]), np.linspace(0, 1, 21)[1:-1]))
    table = [np.bincount(np.searchsorted(edges, sample), minlength=len(edges) + 1) for sample in (one, other)]
    table = np.array(table)[:, np.sum(table, axis=0) > 0]
    return stats.chi2_contingency(table).pvalue > ALARM


@pytest.mark.parametrize("budget", [BUDGETS["zcdp"], BUDGETS["pure"]], ids=["zcdp", "pure"])
def test_separate_counters(budget):
    """Two thousand counters with names of their own: as independent as the coordinates of one."""
    mechanism = SmoothBinary(9, noise=budget.noise)
    counters = [dp.Counter(9, budget, name=str(i), mechanism=mechanism, key=fixed_key("one key")) for i in range(2000)]
    errors = np.array([counter.extend([1] * 9) - np.arange(1, 10) for counter in counters])
    for t in (1, 5, 9):
        assert not mean_rejects(errors[:, t - 1], counters[0].stddev(t))
        assert not variance_rejects(errors[:, t - 1], counters[0].stddev(t) ** 2)
    neighbours = np.corrcoef(errors[1:, 8], errors[:-1, 8])[0, 1]
    assert abs(neighbours) * math.sqrt(2000) < stats.norm.isf(ALARM / 2)
    assert len(np.unique(errors, axis=0)) > 1900
    inside = sum(low <= 9 <= high for _, _, low, high in (counter.estimate(0.95) for counter in counters))
    assert not coverage_rejects(inside, 2000, 0.95)


@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_running_sums(dtype):
    total = dp.RunningSum(
        12, dp.zcdp(0.05), shape=STREAMS, dtype=dtype, mechanism=BufferedToeplitz(12), key=fixed_key("float")
    )
    x = np.zeros(STREAMS, dtype=dtype)
    x[3] = 1
    for t in range(1, 13):
        errors = total.add(x) - t * x
        assert not mean_rejects(errors, total.stddev(t))
        assert not variance_rejects(errors, total.stddev(t) ** 2)
        assert variance_rejects(errors, 1.05 * total.stddev(t) ** 2)
        assert stats.kstest(errors / total.stddev(t), "norm").pvalue > ALARM
