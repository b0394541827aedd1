import numpy as np
import pytest

from dpstream.mechanisms import Binary
from dpstream.mechanisms.stack import Moves
from dpstream.paper.claims.binary_tree import _binary_costs, _proposition_3_1, _proposition_3_2, _theorem_3_3


class Understated(Binary):
    def _sensitivity(self, participation):
        stated, exact = super()._sensitivity(participation)
        return (stated**2 - 1) ** 0.5, exact


class RightChildrenToo(Binary):
    """Stores one sum more than the paper: of everything."""

    def _factors(self, steps):
        L, R = super()._factors(steps)
        return np.hstack([L, np.zeros((steps, 1))]), np.vstack([R, np.ones((1, steps))])


class OneNodeTwice(Binary):
    def _factors(self, steps):
        L, R = super()._factors(steps)
        L[2, 0] = 1 - L[2, 0]
        return L, R


class NeverForgets(Binary):
    def moves(self, first, count):
        moves = super().moves(first, count)
        return Moves(np.zeros_like(moves.pops), moves.push, moves.padding)


@pytest.mark.parametrize(
    ("compute", "broken"),
    [
        (_proposition_3_1, RightChildrenToo),
        (_proposition_3_2, OneNodeTwice),
        (_theorem_3_3, Understated),
        (_binary_costs, NeverForgets),
    ],
)
def test_a_broken_tree_differs(compute, broken):
    assert compute(True).verdict != "differs"
    assert compute(True, broken).verdict == "differs"


def test_proposition_3_1_by_hand(claims):
    """T = 5: x_5 lies under [5, 6] and [5, 5]; the first is never finished, so it costs 1, and bin(4) has two zeros."""
    row = next(row for row in claims["proposition-3.1"].rows if row["T"] == 5)
    assert (row["equal"], row["less"], row["more"]) == (4, 1, 0)


def test_theorem_3_3_by_hand(claims):
    row = next(row for row in claims["theorem-3.3"].rows if row["T"] == 250)
    assert (row["height"], row["max V"]) == (8, 56.0)
