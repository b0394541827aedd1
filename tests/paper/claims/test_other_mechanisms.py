"""Honaker's tree, vectors, streams without end and factorisations in general."""

import numpy as np
import pytest

from dpstream.mechanisms import Binary, Honaker, SmoothBinary, Unbounded
from dpstream.paper.claims.factorisation import _factorisation
from dpstream.paper.claims.honaker_time import _honaker, all_nodes_law
from dpstream.paper.claims.many_dimensions import _appendix_b, kronecker
from dpstream.paper.claims.unbounded_streams import _unbounded


class NoiseTooSmall(Honaker):
    def _factors(self, steps):
        L, R = super()._factors(steps)
        return 0.99 * L, R / 0.99


class ForgetsAnElement(Binary):
    def _factors(self, steps):
        L, R = super()._factors(steps)
        R[0, 0] = 0
        return L, R


class Understated(SmoothBinary):
    def _sensitivity(self, participation):
        stated, exact = super()._sensitivity(participation)
        return 0.99 * stated, exact


class TooLoud(Unbounded):
    """Spends as if the totals were free."""

    def scales(self, j):
        total, inner = super().scales(j)
        return total / 3, inner / 3


def test_honakers_law_by_hand():
    """Node [1, 2] is estimated from itself, 2/3, and from its children, 1/3; release 3 adds x_3's node."""
    expected = np.array([[1, 1 / 3, 1 / 3], [1 / 3, 2 / 3, 2 / 3], [1 / 3, 2 / 3, 5 / 3]])
    np.testing.assert_allclose(all_nodes_law(3), expected, atol=1e-15)


def test_other_noise_than_honakers_differs():
    assert _honaker(True).verdict == "sharpened"
    claim = _honaker(True, NoiseTooSmall)
    assert claim.verdict == "differs"
    assert claim.sharper == ""


@pytest.mark.parametrize(
    "wrong",
    [
        lambda matrix, d: np.kron(matrix, np.eye(d) + 0.5),  # coordinates that leak into each other
        lambda matrix, d: np.kron(np.eye(d), matrix),  # coordinates in another order than the stream's
    ],
)
def test_another_way_to_vectors_differs(wrong):
    assert kronecker(np.tri(2), 2).tolist() == [[1, 0, 0, 0], [0, 1, 0, 0], [1, 0, 1, 0], [0, 1, 0, 1]]
    assert _appendix_b(True).verdict == "sharpened"
    assert _appendix_b(True, wrong).verdict == "differs"


def test_an_unbounded_stream_that_overspends_differs():
    assert _unbounded(True, lambda: TooLoud(SmoothBinary)).verdict == "differs"


@pytest.mark.parametrize("broken", [ForgetsAnElement, Understated])
def test_a_broken_factorisation_differs(broken):
    assert _factorisation(True, {"right": Binary}).verdict == "agrees"
    assert _factorisation(True, {"right": Binary, "broken": broken}).verdict == "differs"
