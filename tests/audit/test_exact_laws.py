"""Proofs by computation: at tiny horizons the law of rounded releases is known, and the promise is checked on it."""

import math

import numpy as np
import pytest

from dpstream import pure_dp, zcdp
from dpstream.audit.exact_laws import largest_ratio, renyi_divergence, rounded_law
from dpstream.budget import noise_scale
from dpstream.errors import InvalidArgument
from dpstream.mechanisms import Binary, GrowingSmooth, SignedDigits, SmoothBinary, Unbounded
from tests.noise.catalogue import GAUSSIAN

ORDERS = [1.001, 1.1, 1.5, 2.0, 3.0, 5.0, 8.0, 16.0]


def shifts(steps, bound):
    return [tuple(size * (t >= j) for t in range(steps)) for j in range(steps) for size in range(1, bound + 1)]


def reach(mechanism, scale, steps, bound, order):
    """Far enough for the tilted law of this order: order · bound from the mean, and eight standard deviations."""
    L, _ = mechanism.factors(steps)
    return tuple(math.ceil(order * bound + 8 * scale * s) for s in np.linalg.norm(L, axis=1))


def excess(mechanism, rho, steps, bound, orders):
    """The largest D_a / (ρ a) over orders, changed steps and sizes of the change."""
    scale = noise_scale(mechanism, zcdp(rho), per_person=bound)
    law = rounded_law(mechanism, scale, steps, reach(mechanism, scale, steps, bound, max(orders)))
    assert abs(np.exp(law.log_chance).sum() - 1) < 1e-10
    return max(renyi_divergence(law, shift, a) / (rho * a) for shift in shifts(steps, bound) for a in orders)


@pytest.mark.parametrize("name", GAUSSIAN)
@pytest.mark.parametrize(("rho", "bound"), [(0.5, 1), (2.0, 2), (0.05, 1)])
def test_two_gaussian_releases(name, rho, bound):
    orders = ORDERS if rho > 0.1 else ORDERS[:6]
    assert excess(GAUSSIAN[name](2), rho, 2, bound, orders) <= 1 + 1e-9


@pytest.mark.parametrize("name", ["Binary", "SmoothBinary", "SquareRoot", "Honaker"])
def test_three_gaussian_releases(name):
    assert excess(GAUSSIAN[name](3), 0.5, 3, 1, [1.1, 2.0, 3.0]) <= 1 + 1e-9


def test_the_price_is_spent_and_a_lower_one_is_caught():
    """Rounding hides little of a change by 3: nearly all of ρ is spent, and with a tenth less noise it is exceeded."""
    assert 0.95 < excess(Binary(2), 2.0, 2, 3, [2.0]) <= 1 + 1e-9

    class Cheap(Binary):
        def _sensitivity(self, participation):
            return 0.9 * super()._sensitivity(participation)[0], True

    assert excess(Cheap(2), 2.0, 2, 3, [2.0]) > 1.1


@pytest.mark.parametrize(
    ("mechanism", "steps"),
    [
        (Binary(1, noise="laplace"), 1),
        (Binary(2, noise="laplace"), 2),
        (SmoothBinary(2, noise="laplace"), 2),
        (SignedDigits(2), 2),
        (GrowingSmooth(noise="laplace"), 2),
        (Unbounded(noise="laplace"), 1),
    ],
    ids=lambda value: type(value).__name__ if not isinstance(value, int) else str(value),
)
@pytest.mark.parametrize("epsilon", [0.3, 1.0, 4.0])
def test_laplace_releases(mechanism, steps, epsilon):
    """No outcome within 20 draws' scales is more than e^ε times as likely."""
    for bound in (1, 2):
        scale = noise_scale(mechanism, pure_dp(epsilon), per_person=bound)
        law = rounded_law(mechanism, scale, steps, (min(math.ceil(20 * scale), 120),) * steps)
        assert abs(np.exp(law.log_chance).sum() - 1) < (1e-6 if 20 * scale < 120 else 0.2)
        assert max(largest_ratio(law, shift) for shift in shifts(steps, bound)) <= epsilon * (1 + 1e-9)


def test_pure_epsilon_is_spent_to_the_last_bit():
    scale = noise_scale(Binary(2, noise="laplace"), pure_dp(1.0))
    law = rounded_law(Binary(2, noise="laplace"), scale, 2, (60, 60))
    assert largest_ratio(law, (1, 1)) == pytest.approx(1.0, rel=1e-9)
    cheap = rounded_law(Binary(2, noise="laplace"), 0.9 * scale, 2, (60, 60))
    assert largest_ratio(cheap, (1, 1)) > 1.1


def test_laws_that_are_not_computed_are_refused():
    with pytest.raises(InvalidArgument, match="lower triangular"):
        rounded_law(Binary(3, noise="laplace"), 1.0, 3, (5, 5, 5))
