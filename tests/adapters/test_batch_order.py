"""Batches in a fixed order, and the account of who was used when."""

from itertools import chain, pairwise

import numpy as np
import pytest

from dpstream import Participation
from dpstream.adapters.batch_order import BatchOrder, FixedBatches
from dpstream.errors import BatchUnexpected, ExampleTooSoon, InvalidArgument, StateError


def train(order, steps, examples=None):
    """Take `steps` steps over as many epochs as that takes; return the batches used."""
    used = []
    step = order._t
    while len(used) < steps:
        for batch in order:
            order.check_use(step + 1, len(batch) if examples is None else examples)
            order.used(step + 1)
            step += 1
            used.append(batch)
            if len(used) == steps:
                break
    return used


def test_epochs_repeat_the_same_batches():
    batches = FixedBatches(10, 3, seed=5)
    order = BatchOrder(batches, batches.participation(3), 10)
    used = train(order, 12)
    assert used[:4] == used[4:8] == used[8:]
    assert sorted(chain(*used[:4])) == list(range(10))
    with pytest.raises(ExampleTooSoon, match="once too often") as caught:
        next(iter(order))
    assert (caught.value.step, caught.value.times, caught.value.separation) == (13, 3, 4)


def test_a_loop_that_was_left_goes_on_where_training_stands():
    batches = FixedBatches(10, 2, seed=1)
    whole = train(BatchOrder(batches, batches.participation(2), 10), 10)
    order = BatchOrder(batches, batches.participation(2), 10)
    parts = [train(order, n) for n in (2, 4, 3, 1)]
    assert list(chain(*parts)) == whole
    for _, batch in zip(range(3), order.batches, strict=False):
        assert batch in whole


def test_batches_that_were_asked_for_and_not_used_are_taken_back():
    batches = FixedBatches(6, 2)
    order = BatchOrder(batches, batches.participation(1), 6)
    for _ in order:  # an evaluation, say
        pass
    assert train(order, 3) == [[0, 1], [2, 3], [4, 5]]


def test_shares_of_workers_make_up_the_batch():
    whole = FixedBatches(23, 5, seed=3)
    shares = [FixedBatches(23, 5, seed=3, rank=rank, world=2) for rank in (0, 1)]
    for number, batch in enumerate(whole):
        assert shares[0].batch(number) + shares[1].batch(number) == batch
    assert len(shares[0]) == len(whole) == 5
    assert len(FixedBatches(23, 5, drop_last=True)) == 4


@pytest.mark.parametrize(
    ("epochs", "found"),
    [
        ([[[0, 1], [2, 3]], [[2, 3], [0, 1]]], "too soon after step 2"),
        ([[[0, 1], [0, 3]]], "too soon after step 1"),
        ([[[0, 0]]], "twice in one batch"),
        ([[[0], [1]], [[0], [1]], [[0]]], "once too often, last at step 3"),
    ],
)
def test_an_order_of_ones_own_is_watched(epochs, found):
    order = BatchOrder([], Participation(times=2, separation=2), 4)
    step = 0
    with pytest.raises(ExampleTooSoon, match=found):
        for epoch in epochs:
            order.batches = epoch
            for batch in order:
                step += 1
                order.check_use(step, len(batch))
                order.used(step)


def test_every_order_that_keeps_its_promise_is_accepted_and_no_other():
    """Random orders against a check that looks at all pairs of uses."""
    rng = np.random.default_rng(8)
    outcomes = []
    for _ in range(300):
        times, separation = int(rng.integers(1, 4)), int(rng.integers(1, 4))
        batches = [rng.permutation(5)[: rng.integers(1, 3)].tolist() for _ in range(6)]
        uses = [[t for t, batch in enumerate(batches) if i in batch] for i in range(5)]
        kept = all(len(u) <= times and all(b - a >= separation for a, b in pairwise(u)) for u in uses)
        order = BatchOrder(batches, Participation(times, separation), 5)
        try:
            train(order, 6)
            accepted = True
        except ExampleTooSoon:
            accepted = False
        assert accepted == kept
        outcomes.append(kept)
    assert 20 < sum(outcomes) < 280


def test_a_step_without_its_batch_is_refused():
    order = BatchOrder(FixedBatches(6, 2), Participation(1, 3), 6)
    with pytest.raises(BatchUnexpected, match="no batch was taken from the private data loader"):
        order.check_use(1, 2)
    loop = iter(order)
    next(loop)
    with pytest.raises(BatchUnexpected, match="the 2 examples of its batch, but 3 gradients came"):
        order.check_use(1, 3)
    order.check_use(1, 2)
    order.check_use(1, None)
    next(loop)
    with pytest.raises(BatchUnexpected, match="that of step 2 is"):
        order.check_use(1, 2)


def test_a_loader_that_asks_ahead_is_not_ahead():
    order = BatchOrder(FixedBatches(6, 2), Participation(1, 3), 6)
    ahead = list(order)
    loop = order.count_handed(ahead)
    for step in (1, 2, 3):
        next(loop)
        order.check_use(step, 2)
        order.used(step)


def test_the_account_survives_a_checkpoint():
    batches = FixedBatches(10, 3, seed=11)
    order = BatchOrder(batches, batches.participation(2), 10)
    used = train(order, 6)
    state = order.state()
    other = FixedBatches(10, 3, seed=12)
    again = BatchOrder(other, other.participation(2), 10)
    again.restore(state)
    assert used[:4] == list(again.batches)
    assert train(again, 2) == used[2:4]
    with pytest.raises(ExampleTooSoon):
        train(again, 1)


def test_states_of_other_data_are_refused():
    order = BatchOrder(FixedBatches(6, 2), Participation(1, 3), 6)
    with pytest.raises(StateError, match="on 5 examples, not 6"):
        order.restore(BatchOrder(FixedBatches(5, 2), Participation(1, 3), 5).state())
    with pytest.raises(StateError, match="'last' is missing"):
        order.restore({})


def test_bad_arguments():
    for wrong in (0, -1, 2.0, True):
        with pytest.raises(InvalidArgument):
            FixedBatches(10, wrong)
    with pytest.raises(InvalidArgument, match="at most the number of examples"):
        FixedBatches(3, 4, drop_last=True)
    with pytest.raises(InvalidArgument, match="each of the 2 workers in every batch, but the smallest has 1"):
        FixedBatches(7, 3, world=2)
    assert len(FixedBatches(7, 3, world=2, drop_last=True)) == 2
    with pytest.raises(InvalidArgument, match="indices from 0 to 2"):
        next(iter(BatchOrder([[3]], Participation(), 3)))
