"""The paper's algorithms in plain NumPy have the law of the mechanisms they stand for."""

import numpy as np
import pytest

from dpstream.mechanisms import SmoothBinary, SquareRoot
from dpstream.paper.as_published import PlainSmooth, square_root_at_once


class Traced(PlainSmooth):
    """Draw number i is the i-th unit vector, so that a release shows which draws it is a sum of."""

    def _draw(self):
        self.drawn = getattr(self, "drawn", -1) + 1
        return np.eye(1, self._coordinates, self.drawn)[0] * self._deviation


def rows_of(kind, horizon):
    noise = kind(horizon, 4 * horizon + 20)
    return np.array([noise.step().copy() for _ in range(horizon)])


@pytest.mark.parametrize("horizon", [1, 5, 19, 100, 250])
def test_plain_smooth_has_the_covariance_of_the_paper_s_tree(horizon):
    rows = rows_of(Traced, horizon)
    mechanism = SmoothBinary.paper(horizon)
    L, _ = mechanism.factors()
    np.testing.assert_allclose(rows @ rows.T, mechanism.zeros * (L @ L.T), atol=1e-9)


def test_a_node_that_is_kept_too_long_is_noticed():
    class Stale(Traced):
        def step(self):
            kept = dict(self.nodes)
            super().step()
            for bit in kept.keys() & self.nodes.keys():
                self.total += 0.01 * kept[bit]
            return self.total

    rows = rows_of(Stale, 19)
    L, _ = SmoothBinary.paper(19).factors()
    assert np.abs(rows @ rows.T - 3 * (L @ L.T)).max() > 0.01


def test_the_toeplitz_product_is_that_of_the_square_root():
    np.random.seed(5)  # noqa: NPY002
    noise = square_root_at_once(33, 4)
    np.random.seed(5)  # noqa: NPY002
    draws = np.random.normal(0.0, 1.0, (33, 4))  # noqa: NPY002
    np.testing.assert_allclose(noise, SquareRoot(33).factors()[0] @ draws, atol=1e-12)
