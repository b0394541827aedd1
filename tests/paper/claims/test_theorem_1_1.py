from dpstream.mechanisms import SmoothBinary
from dpstream.paper.claims.small_trees import node_matrices, squared_sensitivities_of_releases
from dpstream.paper.claims.theorem_1_1 import _spent, _theorem_1_1


class Understated(SmoothBinary):
    """States four fifths of √k."""

    def _sensitivity(self, participation):
        stated, exact = super()._sensitivity(participation)
        return 0.8 * stated, exact


def test_the_paper_is_confirmed_by_another_route():
    tree = SmoothBinary.paper(5)
    L, R = node_matrices(tree)
    assert (L @ R).tolist() == [[1] * (t + 1) + [0] * (4 - t) for t in range(5)]
    assert max(squared_sensitivities_of_releases(L @ L.T)) <= 2


def test_a_wrong_sensitivity_is_noticed():
    assert _spent(Understated.paper(5)) > 1
    assert _theorem_1_1(True, Understated.paper).verdict == "differs"


def test_uneven_noise_is_noticed():
    def unpadded(horizon):
        tree = SmoothBinary.paper(horizon)
        return SmoothBinary(horizon, padded=False, zeros=tree.zeros, ones=tree.ones)

    claim = _theorem_1_1(True, unpadded)
    assert claim.verdict == "differs"
    assert "1 or 2, 1 or 2 or 3 and 1 or 2 or 3 or 4 nodes" in claim.computed
