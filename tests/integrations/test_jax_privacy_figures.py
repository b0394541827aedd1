"""Our sensitivities and errors against jax_privacy's own functions, on our matrices, in double precision."""

import itertools

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax_privacy.matrix_factorization import dense, sensitivity

import dpstream as dp
from dpstream.mechanisms import Banded, BandedInverse, BufferedToeplitz, FittedToeplitz, SquareRoot

EPOCHS = dp.Participation(times=4, separation=64)
STEPS = 256

#: The roundings of ours, upwards: a billionth for coefficients that are doubles.
ROUNDED_UP = 2e-9

PAIRS = {"poles": (0.98 + 0.03j, 0.98 - 0.03j, 0.9, 0.4), "zeros": (0.96 + 0.02j, 0.96 - 0.02j, 0.7, 0.2)}
SIGNS = {"poles": (0.2 + 0.9j, 0.2 - 0.9j, -0.9), "zeros": (0.5, -0.4, 0.1)}

MADE = {
    "pairs": lambda n, epochs: FittedToeplitz.fit(n, participation=epochs, complex_pairs=True, normalized=False),
    "pairs, normalised": lambda n, epochs: FittedToeplitz.fit(n, participation=epochs, complex_pairs=True),
    "real, normalised": lambda n, epochs: FittedToeplitz.fit(n, participation=epochs, buffers=2),
    "given pairs": lambda n, epochs: FittedToeplitz(n, **PAIRS),
    "signs": lambda n, epochs: FittedToeplitz(n, **SIGNS),
    "banded": lambda n, epochs: Banded.fit(n, participation=epochs),
    "more bands than steps between": lambda n, epochs: Banded(n, tuple(Banded.fit(n, bands=n // 2).coefficients)),
    "banded inverse": lambda n, epochs: BandedInverse.fit(n, participation=epochs),
    "banded inverse, signs": lambda n, epochs: BandedInverse(n, (1.0, -0.9, 0.5)),
    "square root": lambda n, epochs: SquareRoot(n),
    "buffered": lambda n, epochs: BufferedToeplitz(n),
}


@pytest.fixture(autouse=True)
def in_double_precision():
    with jax.enable_x64(True):
        yield


@pytest.mark.parametrize("epochs", [EPOCHS, dp.Participation(2, 100), dp.Participation(9, 20)], ids=str)
@pytest.mark.parametrize("name", MADE)
def test_sensitivities_agree_to_a_millionth_or_ours_is_less(name, epochs):
    """Theirs is an upper bound by a walk over patterns; ours walks with one freedom less, or is exact."""
    mechanism = MADE[name](STEPS, epochs)
    R = jnp.asarray(mechanism.factors()[1])
    theirs = sensitivity.get_min_sep_sensitivity_upper_bound(R, epochs.separation, epochs.times)
    assert mechanism.sensitivity(epochs) <= theirs * (1 + ROUNDED_UP)


@pytest.mark.parametrize("name", MADE)
def test_ours_is_valid_where_it_is_less(name):
    """Every pattern at 30 steps, with the directions that are worst for it: what ours may never be below."""
    epochs = dp.Participation(times=3, separation=8)
    mechanism = MADE[name](30, epochs)
    R = mechanism.factors()[1]
    G = np.abs(R.T @ R)
    apart = (p for p in itertools.combinations(range(30), 3) if p[1] - p[0] >= 8 and p[2] - p[1] >= 8)
    worst = max(float(G[np.ix_(p, p)].sum()) for p in apart) ** 0.5
    ours = mechanism.sensitivity(epochs)
    theirs = sensitivity.get_min_sep_sensitivity_upper_bound(jnp.asarray(R), 8, 3)
    assert worst <= ours <= theirs * (1 + ROUNDED_UP)


@pytest.mark.parametrize("name", MADE)
def test_errors_per_query_agree(name):
    mechanism = MADE[name](STEPS, EPOCHS)
    noising = np.diff(mechanism.factors()[0], axis=0, prepend=0.0)
    theirs = np.asarray(dense.per_query_error(noising_matrix=jnp.asarray(noising)))
    ours = mechanism.variance() / mechanism.sensitivity() ** 2
    np.testing.assert_allclose(ours, theirs, rtol=1e-9)
