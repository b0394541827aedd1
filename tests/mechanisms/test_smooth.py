"""The smooth binary mechanism."""

from math import comb

import numpy as np
import pytest

from dpstream.errors import CapacityError, HorizonExceeded, InvalidArgument, NoiseLawError
from dpstream.mechanisms import SmoothBinary
from dpstream.mechanisms.labels import (
    label_at,
    least_ones_for,
    lowest_run_of_ones,
    next_label,
    sum_over_leaves,
    trailing_ones,
)
from dpstream.mechanisms.released_sensitivity import best_tree_shape, squared_sensitivity_of_releases
from dpstream.participation import Participation
from tests.mechanisms.tree_checks import check_participation, check_walk

VARIANTS = {
    "default": {},
    "unpadded": {"padded": False},
    "nodes": {"padded": True, "sensitivity_of": "nodes"},
    "laplace": {"noise": "laplace"},
    "laplace padded": {"noise": "laplace", "padded": True},
    "spare zeros": {"zeros": 9, "ones": 6},
    "spare ones": {"zeros": 3, "ones": 20, "padded": False},
}


@pytest.mark.parametrize("options", VARIANTS.values(), ids=VARIANTS)
@pytest.mark.parametrize("horizon", [1, 2, 5, 13, 60, 130])
def test_cursor_entries_moves_and_steps_agree(horizon, options):
    check_walk(SmoothBinary(horizon, **options), horizon)


@pytest.mark.parametrize("options", VARIANTS.values(), ids=VARIANTS)
@pytest.mark.parametrize("horizon", [1, 7, 14])
def test_repeated_participation(horizon, options):
    check_participation(SmoothBinary(horizon, **options), horizon)


@pytest.mark.parametrize("options", VARIANTS.values(), ids=VARIANTS)
def test_draws_per_step(options):
    for horizon in (1, 2, 9, 100, 250):
        m = SmoothBinary(horizon, **options)
        counts = [m.draws_at(t) for t in range(1, horizon + 1)]
        assert m.draws_per_step.worst == max(counts)
        assert m.draws_per_step.average == pytest.approx(np.mean(counts))


def test_what_is_left_out_is_resolved():
    assert SmoothBinary(1023) == SmoothBinary(1023, padded=True, sensitivity_of="releases", zeros=5, ones=8)
    assert SmoothBinary(1023, padded=False) == SmoothBinary(1023, padded=False, sensitivity_of="nodes", zeros=5, ones=8)
    assert SmoothBinary(1023, sensitivity_of="nodes") == SmoothBinary(1023, padded=False)
    laplace = SmoothBinary(1023, noise="laplace")
    assert (laplace.padded, laplace.sensitivity_of, laplace.zeros, laplace.ones) == (False, "nodes", 3, 17)
    assert SmoothBinary(1023, ones=8).zeros == 5
    assert SmoothBinary(1023, noise="laplace", zeros=4).ones == 11


@pytest.mark.parametrize(
    ("horizon", "shape"),
    [(250, (2, 21)), (1023, (3, 17)), (4096, (3, 28)), (2**16, (5, 21)), (2**20, (6, 27))],
)
def test_best_trees_for_laplace_noise(horizon, shape):
    m = SmoothBinary(horizon, noise="laplace")
    assert (m.zeros, m.ones) == shape
    assert m.max_variance() == pytest.approx(shape[0] ** 2 * shape[1])


def test_chosen_product_is_the_least_and_ties_go_to_fewer_zeros():
    for horizon in (*range(1, 80), 1000):
        for power, noise in ((1, "gaussian"), (2, "laplace")):
            m = SmoothBinary(horizon, noise=noise, padded=False)
            pairs = [(a**power * least_ones_for(a, horizon + 1), a) for a in range(1, 40)]
            assert (m.zeros**power * m.ones, m.zeros) == min(pairs)


def test_unpadded_sensitivities_are_the_same():
    nodes = SmoothBinary(100, padded=False, sensitivity_of="nodes")
    releases = SmoothBinary(100, padded=False, sensitivity_of="releases")
    assert nodes.sensitivity() == releases.sensitivity()
    assert nodes != releases


def test_spare_zeros_cost_nothing_by_releases_but_are_nodes():
    spare = {"zeros": 9, "ones": 6}
    needed = SmoothBinary(60, ones=6).zeros
    assert SmoothBinary(60, **spare).sensitivity() == pytest.approx(SmoothBinary(60, ones=6).sensitivity())
    by_nodes = SmoothBinary(60, padded=False, sensitivity_of="nodes", **spare)
    assert by_nodes.sensitivity() ** 2 == pytest.approx(9)
    assert SmoothBinary(60, padded=False, sensitivity_of="releases", **spare).sensitivity() ** 2 == pytest.approx(
        needed
    )


def test_mean_of_the_unpadded_tree():
    m = SmoothBinary(4096, padded=False)
    assert (m.max_variance(), m.mean_variance()) == (pytest.approx(54), pytest.approx(45.6812, rel=1e-5))
    assert m.mean_variance(1000) == pytest.approx(m.variance()[:1000].mean())
    assert m.max_variance(4) == pytest.approx(m.variance()[:4].max())


def test_a_trillion_steps_at_once():
    best_tree_shape.cache_clear()
    squared_sensitivity_of_releases.cache_clear()
    m = SmoothBinary(10**12)
    variance = m.max_variance()
    assert (m.zeros, m.ones) == (18, 26)
    assert variance == pytest.approx(371.496, abs=1e-3)
    unpadded = SmoothBinary(10**12, padded=False)
    assert unpadded.max_variance() == pytest.approx(462)
    assert 0.9 * 462 < unpadded.mean_variance() < 462
    assert len(m.entries(10**12)) == m._depths(10**12, 1)[0]


def test_moves_of_a_million_steps():
    m = SmoothBinary(2**20)
    moves = m.moves(1, 2**20)
    assert int(moves.pops.sum()) == 2**20 - len(m.entries(2**20))  # one push a step
    assert np.count_nonzero(moves.padding) == round((m.draws_per_step.average - 1) * 2**20)


def test_more_ones_than_a_byte_can_count_have_no_moves():
    m = SmoothBinary(400, zeros=1, ones=400, padded=False)
    assert m.moves(1, 400).pops.max() == 0
    wide = SmoothBinary(45_000, zeros=2, ones=300, padded=False)
    assert wide.moves(1, 45_000) is None
    assert wide.variance(301) == pytest.approx(wide.variance()[300])


def test_laplace_with_padding_streams_by_the_pure_step_only():
    assert SmoothBinary(20, noise="laplace", padded=True).moves(1, 20) is None


def test_labels_against_enumeration():
    labels = [x for x in range(2**9) if x.bit_count() == 5]
    assert [label_at(4, 5, i) for i in range(len(labels))] == labels
    assert [next_label(x) for x in labels[:-1]] == labels[1:]
    trailing = [(~x & (x + 1)).bit_length() - 1 for x in labels]
    assert trailing_ones(4, 5, 0, len(labels)).tolist() == trailing
    assert [lowest_run_of_ones(x) - 1 for x in labels[:-1]] == trailing[1:]
    for leaves in range(1, len(labels) + 1):
        assert sum_over_leaves(4, 5, leaves, lambda z, o: comb(z + o, z + 1)) == sum(trailing[:leaves])


def test_trailing_ones_of_a_long_range_agree_with_the_labels():
    first, count = 123_456, 20_000
    expected = []
    for i in range(first, first + count):
        label = label_at(8, 17, i)
        expected.append((~label & (label + 1)).bit_length() - 1)
    assert trailing_ones(8, 17, first, count).tolist() == expected


def test_participation_far_apart_is_nearly_free_of_overlap():
    m = SmoothBinary(2**20)
    near, far = Participation(4, 1), Participation(4, 2**18)
    assert m.sensitivity(far) < 0.7 * m.sensitivity(near)
    assert m.sensitivity(near) <= 4 * m.sensitivity()


@pytest.mark.parametrize("horizon", [0, -1, 2.5, True, float("nan"), "10"])
def test_bad_horizon(horizon):
    for make in (SmoothBinary, SmoothBinary.paper):
        with pytest.raises(InvalidArgument, match=r"horizon must be a whole number of at least 1, got"):
            make(horizon)


def test_too_little_capacity():
    with pytest.raises(CapacityError, match="zeros=2 and ones=2 holds 5 steps, but horizon=6 was asked for") as caught:
        SmoothBinary(6, zeros=2, ones=2)
    assert (caught.value.holds, caught.value.horizon) == (5, 6)


def test_laplace_has_no_sensitivity_of_releases():
    with pytest.raises(NoiseLawError, match=r"sensitivity_of='releases' needs Gaussian noise"):
        SmoothBinary(10, noise="laplace", sensitivity_of="releases")


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"zeros": 0}, "zeros must be a whole number of at least 1, got 0"),
        ({"ones": 1.5}, "ones must be a whole number of at least 1, got 1.5"),
        ({"padded": 1}, "padded must be True, False or None, got 1"),
        ({"sensitivity_of": "free"}, "sensitivity_of must be 'nodes', 'releases' or None, got 'free'"),
        ({"noise": "uniform"}, "noise must be 'gaussian' or 'laplace', got 'uniform'"),
    ],
)
def test_bad_options(options, message):
    with pytest.raises(InvalidArgument, match=message):
        SmoothBinary(10, **options)


def test_labels_and_nodes_end_with_the_horizon():
    m = SmoothBinary(5)
    assert m.label(6).bit_count() == m.ones
    with pytest.raises(InvalidArgument, match="t must be at most 6, one more than the horizon, got 7"):
        m.label(7)
    with pytest.raises(HorizonExceeded):
        m.nodes(6)
