from itertools import pairwise
from math import comb

import pytest

from dpstream.mechanisms import SmoothBinary
from dpstream.paper.claims.replaced_nodes import _average, _blocks, _lemma_3_5, _lemma_3_6, stated_count


class BringsOneBack(SmoothBinary):
    def nodes(self, t):
        return [*super().nodes(t)[:-1], (0, 0)] if t in (2, 4) else super().nodes(t)


@pytest.mark.parametrize("half", [1, 2, 3, 4, 5])
def test_replaced_nodes_by_sets(half):
    """The nodes that are new in release t, taken from the node sets themselves."""
    tree = SmoothBinary.paper(comb(2 * half, half) - 1)
    sets = [set(tree.nodes(t)) for t in range(1, tree.horizon + 1)]
    new = [half] + [len(after - before) for before, after in pairwise(sets)]
    assert _blocks(half).tolist() == new
    assert sum(new[1:]) == stated_count(half)
    assert _average(tree.horizon) == pytest.approx(sum(new) / tree.horizon)


@pytest.mark.parametrize(
    "wrong",
    [
        lambda k: comb(2 * k + 1, k + 1) - (k + 1),  # the first release counted too
        lambda k: 2 * comb(2 * k, k),
    ],
)
def test_another_count_differs(wrong):
    assert _lemma_3_5(True).verdict == "sharpened"
    assert _lemma_3_5(True, wrong).verdict == "differs"


def test_the_largest_average(claims):
    rows = claims["lemma-3.5"].rows
    worst = max(rows, key=lambda row: row["largest average at any T"])
    assert (worst["largest average at any T"], worst["at T"]) == (2.25, 20)
    tree = SmoothBinary.paper(20)
    sets = [set(tree.nodes(t)) for t in range(1, 21)]
    assert 4 + sum(len(after - before) for before, after in pairwise(sets)) == 45
    assert all(row["our most draws in one"] <= 2 for row in rows)


def test_a_node_that_comes_back_differs():
    assert _lemma_3_6(True).verdict == "sharpened"
    assert _lemma_3_6(True, BringsOneBack.paper).verdict == "differs"
