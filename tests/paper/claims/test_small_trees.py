from fractions import Fraction

import numpy as np
import pytest

from dpstream.mechanisms import SmoothBinary
from dpstream.paper.claims.small_trees import node_matrices, squared_sensitivities_of_releases


@pytest.mark.parametrize("tree", [SmoothBinary.paper(5), SmoothBinary.paper(60), SmoothBinary(30, zeros=2, ones=7)])
def test_algorithm_2_makes_the_covariance_that_the_library_streams(tree):
    nodes, members = node_matrices(tree)
    L, _ = tree.factors()
    np.testing.assert_array_equal(nodes @ members, np.tri(tree.horizon))
    np.testing.assert_allclose(L @ L.T, nodes @ nodes.T, atol=1e-12)


def test_sensitivities_in_fractions():
    nodes, _ = node_matrices(SmoothBinary.paper(5))
    exact = squared_sensitivities_of_releases(nodes @ nodes.T)
    A = np.tri(5)
    dense = (A * np.linalg.solve(nodes @ nodes.T, A)).sum(axis=0)
    np.testing.assert_allclose([float(stated) for stated in exact], dense, rtol=1e-12)
    assert max(exact) == Fraction(17, 12)
    nodes, _ = node_matrices(SmoothBinary.paper(19))
    assert max(squared_sensitivities_of_releases(nodes @ nodes.T)) == Fraction(203282, 101465)
