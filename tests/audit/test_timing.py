"""The time of a call tells nothing of its noise."""

import numpy as np

from dpstream import zcdp
from dpstream.audit.timing import rank_correlation, time_counter
from dpstream.testing import fixed_key


def test_time_and_noise_are_hardly_correlated():
    """By chance alone a correlation above 0.06 in 20,000 pairs of calls is one of 8 standard deviations.

    Reading bare noise, of which CPython keeps the small numbers ready, showed up to 0.11.
    """
    found = time_counter(zcdp(0.5), 40_000, key=fixed_key("timing"))
    assert max(abs(found.size), abs(found.sign)) < 0.06
    assert max(abs(found.size), abs(found.sign)) < found.bound < 0.12
    assert "40,000 calls" in str(found)


def test_a_correlation_would_be_seen():
    rng = np.random.default_rng(5)
    noise = np.abs(rng.normal(size=20_000))
    assert rank_correlation(noise, 100 + rng.exponential(5, 20_000) + 2 * noise) > 0.1
    assert rank_correlation(noise, np.ones(20_000)) == 0.0
