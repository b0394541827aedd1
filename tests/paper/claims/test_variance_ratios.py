import pytest

from dpstream.mechanisms import SmoothBinary
from dpstream.paper.claims.height_and_variance import prescribed_height
from dpstream.paper.claims.variance_ratios import LIMITS, _figure_4, _least, _table_1


@pytest.mark.parametrize(("name", "wrong"), [("SmoothBinary.paper", 0.24), ("Honaker", 0.52), ("SquareRoot", 0.05)])
def test_another_limit_differs(name, wrong):
    assert _table_1(True, LIMITS | {name: wrong}).verdict == "differs"


def test_the_lower_bound_of_every_factorisation():
    """Its square root is the mean singular value of A, and the certified optimum lies above it."""
    import numpy as np

    from dpstream.mechanisms import Optimal

    singular = np.linalg.svd(np.tri(64), compute_uv=False)
    assert _least(6) == pytest.approx(singular.mean() ** 2, rel=1e-12)
    assert _least(6) < Optimal(64).max_variance()


def test_the_factor_at_ten_million(claims):
    row = next(row for row in claims["figure-4"].rows if row["T"] == 10**7)
    assert (row["binary"], row["smooth"]) == (552, 169)
    assert round(row["factor"], 2) == 3.27


def test_the_prescribed_height_does_not_give_the_figure():
    def prescribed(horizon):
        half = prescribed_height(horizon) // 2
        return SmoothBinary(horizon, padded=True, sensitivity_of="nodes", zeros=half, ones=half)

    assert _figure_4(True, prescribed).verdict == "differs"
