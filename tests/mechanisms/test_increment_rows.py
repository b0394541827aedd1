"""Recurrences that stand in the library, since importing scipy.signal takes a second that every command would pay."""

import numpy as np
import pytest
import scipy.signal

from dpstream.mechanisms.increment_rows import _decaying_sums


@pytest.mark.parametrize("zeta", [0.97, 0.9 + 0.3j, -0.5 + 0.0j])
def test_decaying_sums_are_those_of_scipy_to_the_last_bit(zeta):
    real, imaginary = np.random.default_rng(1).normal(size=(2, 500))
    x = real + 1j * imaginary
    expected = scipy.signal.lfilter([zeta], [1.0, -zeta], x)
    found = _decaying_sums([complex(zeta) * one for one in x.tolist()], complex(zeta))
    np.testing.assert_array_equal(found, expected)
