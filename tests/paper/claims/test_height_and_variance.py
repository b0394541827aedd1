from math import comb, floor, log2

import pytest

from dpstream.paper.claims.height_and_variance import (
    _height,
    _last_log,
    _lemma_3_4,
    prescribed_height,
    smallest_height,
)


def test_heights_by_hand():
    assert [prescribed_height(T) for T in (13, 16, 250, 2**16, 10**7)] == [6, 6, 12, 20, 30]
    assert [smallest_height(T) for T in (13, 19, 20, 250, 251, 252, 10**7)] == [6, 6, 8, 10, 10, 12, 26]


def test_the_last_t_of_a_height():
    """Where the rule steps from one height to the next, tried one by one."""
    for height in range(8, 18, 2):
        last = max(T for T in range(3, 2**15) if prescribed_height(T) <= height)
        assert floor(2 ** _last_log(height) + 1e-9) == last


def test_a_rule_that_gives_too_few_leaves_differs():
    assert _height(True).verdict == "sharpened"
    assert _height(True, lambda T: prescribed_height(T) - 2).verdict == "differs"


def test_lemma_3_4_fails_where_we_say_it_does():
    """T = 20 needs height 8, V = 16; log2(20)²/4 is 4.67, and the lemma allows 2.22 times as much."""
    assert comb(6, 3) < 21 <= comb(8, 4)
    log, loglog = log2(20), log2(log2(20))
    assert 16 / (log**2 / 4) - 1 > 2 * loglog / log + (loglog / log) ** 2 + 1
    assert _lemma_3_4(True).verdict == "differs"


def test_the_last_failure_of_lemma_3_4():
    def holds(T):
        return smallest_height(T) <= log2(T) + log2(log2(T))

    assert "T = 157,713,429 " in _lemma_3_4(True).sharper
    assert not holds(157_713_429)
    assert holds(157_713_430)
    firsts = [comb(2 * half, half) for half in range(16, 25)]
    assert all(holds(T) for T in firsts)
    assert not any(holds(comb(2 * half, half)) for half in range(3, 15))


def test_a_lower_tree_would_satisfy_lemma_3_4():
    """The check is not one that nothing can pass."""

    def too_low(T):
        return floor(log2(T) + log2(log2(T)))

    assert _lemma_3_4(True, too_low).verdict == "agrees"


@pytest.mark.parametrize("T", [16, 2**16])
def test_the_prescribed_height_meets_the_bound_where_nothing_is_rounded(T):
    assert prescribed_height(T) == log2(T) + log2(log2(T))
