"""Draws have the law they claim: each test's false-alarm rate is at most 1e-6, and each is seen to fail.

Sample sizes: 10^6 in `make test`, 10^7 with DPSTREAM_HEAVY=1. The keys are fixed, so a test that passes keeps passing;
the rate is the chance that a *right* sampler would fail for an unlucky choice of key.
"""

import os

import numpy as np
import pytest
from scipy import stats

from dpstream.noise.draws import Draws
from dpstream.noise.keystream import Keystream
from dpstream.testing import fixed_key

COUNT = 10**7 if os.environ.get("DPSTREAM_HEAVY") else 10**6
ALARM = 1e-6


def sample(law: str, dtype: str, label: str = "distribution", coordinates: int = 1000, slot: int = 0) -> np.ndarray:
    draws = Draws(Keystream(fixed_key(label)), law, coordinates, np.dtype(dtype), exact=dtype == "float64")
    return draws.rows(1, COUNT // coordinates, slot).astype(np.float64)


LAWS = [("gaussian", "float32"), ("gaussian", "float64"), ("laplace", "float64")]


def cdf(law: str):
    return stats.norm.cdf if law == "gaussian" else stats.laplace.cdf


def ks_rejects(values: np.ndarray, law: str) -> bool:
    return stats.kstest(values.ravel(), cdf(law)).pvalue < ALARM


def chi_square_rejects(values: np.ndarray, law: str, cells: int = 1000) -> bool:
    """Equally likely cells: sensitive to local defects that the KS distance averages away."""
    counts = np.bincount(np.minimum((cdf(law)(values.ravel()) * cells).astype(int), cells - 1), minlength=cells)
    return stats.chisquare(counts).pvalue < ALARM


def moments_reject(values: np.ndarray, law: str) -> bool:
    """The first four moments, each within its own standard error; four tests share the rate."""
    x = values.ravel()
    exact = [0.0, 1.0, 0.0, 3.0, 0.0, 15.0, 0.0, 105.0] if law == "gaussian" else [0.0, 2, 0, 24, 0, 720, 0, 40320]
    limit = stats.norm.isf(ALARM / 8)
    for k in (1, 2, 3, 4):
        error = np.sqrt((exact[2 * k - 1] - exact[k - 1] ** 2) / x.size)
        if abs((x**k).mean() - exact[k - 1]) > limit * error:
            return True
    return False


def tails_reject(values: np.ndarray, law: str) -> bool:
    """Counts beyond 2, 3, 4 (and for large samples 5) scales, each binomial; both tails; the rate is shared."""
    x = values.ravel()
    survival = stats.norm.sf if law == "gaussian" else stats.laplace.sf
    for bound in (2.0, 3.0, 4.0, 4.5):
        for beyond in (int((x > bound).sum()), int((x < -bound).sum())):
            if stats.binomtest(beyond, x.size, survival(bound)).pvalue < ALARM / 8:
                return True
    return False


TESTS = [ks_rejects, chi_square_rejects, moments_reject, tails_reject]


@pytest.mark.parametrize("rejects", TESTS)
@pytest.mark.parametrize(("law", "dtype"), LAWS)
def test_law(law, dtype, rejects):
    assert not rejects(sample(law, dtype), law)


@pytest.mark.parametrize(("law", "dtype"), LAWS)
@pytest.mark.parametrize("factor", [0.99, 1.01])
def test_a_scale_off_by_one_percent_is_noticed(law, dtype, factor):
    broken = sample(law, dtype) * factor
    assert any(rejects(broken, law) for rejects in TESTS)


@pytest.mark.parametrize(("law", "dtype"), LAWS)
def test_truncated_tails_are_noticed(law, dtype):
    values = sample(law, dtype)
    limit = 4.0 if law == "gaussian" else 9.0
    assert tails_reject(np.clip(values, -limit, limit), law) or tails_reject(values[np.abs(values) < 4.0], law)


def independence_rejects(values: np.ndarray) -> bool:
    """Correlations of neighbouring coordinates and steps, of the draws and of their squares; eight tests."""
    limit = stats.norm.isf(ALARM / 16)
    for x in (values, values**2 - (values**2).mean()):
        spread = x.var()
        for a, b in ((x[1:], x[:-1]), (x[:, 1:], x[:, :-1]), (x[:, 16:], x[:, :-16]), (x[:, 32:], x[:, :-32])):
            correlation = (a * b).mean() / spread
            if abs(correlation) * np.sqrt(a.size) > limit * 1.01:
                return True
    return False


def repeats(values: np.ndarray) -> bool:
    """A repeated block repeats a whole run of values; two equal runs of 4 have a chance below 10^14 / 2^80."""
    runs = np.ascontiguousarray(values.ravel()[: values.size // 4 * 4]).reshape(-1, 4)
    return len(np.unique(runs, axis=0)) < len(runs)


@pytest.mark.parametrize(("law", "dtype"), LAWS)
def test_draws_are_independent(law, dtype):
    values = sample(law, dtype)
    assert not independence_rejects(values)
    assert not repeats(values)


def test_a_repeated_block_is_noticed():
    values = sample("gaussian", "float64")
    values[7, 100:116] = values[3, 20:36]
    assert repeats(values)
    shifted = values.copy()
    shifted[1::2] = shifted[::2]
    assert independence_rejects(shifted)


@pytest.mark.parametrize(("law", "dtype"), LAWS)
def test_streams_and_slots_are_independent(law, dtype):
    limit = stats.norm.isf(ALARM / 4)
    one = sample(law, dtype)
    for other in (sample(law, dtype, label="another"), sample(law, dtype, slot=1)):
        assert abs(np.corrcoef(one.ravel(), other.ravel())[0, 1]) * np.sqrt(one.size) < limit


def test_tails_reach_far_enough():
    """With all-zero leading words the radius is √(2·ln 2^33) in float32 and √(2·ln 2^65) in float64."""
    from dpstream import kernel

    words32, words64 = np.zeros(256, dtype=np.uint8), np.zeros(256, dtype=np.uint8)
    out32, out64 = np.empty(64, dtype=np.float32), np.empty(32)
    kernel.normal_f32(words32, out32)
    kernel.normal_f64(words64, out64)
    assert out32.max() >= 6.6
    assert out64.max() >= 8.0
