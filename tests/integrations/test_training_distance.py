"""An example is in no more steps, and comes back no sooner, than the noise of a training is scaled to."""

import os
from unittest import mock

import pytest

import dpstream as dp
from dpstream.adapters import torch_loader
from dpstream.adapters.batch_order import BatchOrder, FixedBatches
from dpstream.testing import check_distance
from tests.distance.training import (
    LoaderOwnOrder,
    OwnOrder,
    Training,
    Workers,
    WorkersOwnOrder,
    WorkersPadding,
    WorkersWithSampler,
)

#: PyTorch warns about hooks of the first layer, whose inputs need no gradient.
pytestmark = pytest.mark.filterwarnings("ignore:Full backward hook")
HEAVY = bool(os.environ.get("DPSTREAM_HEAVY"))


@pytest.mark.parametrize("way", [Training(), OwnOrder()], ids=lambda way: type(way).__name__)
def test_training(way):
    check_distance(way, examples=2_000 if HEAVY else 30)


@pytest.mark.parametrize(
    "way",
    [LoaderOwnOrder(), Workers(), WorkersWithSampler(), WorkersPadding(), WorkersOwnOrder()],
    ids=lambda way: type(way).__name__,
)
def test_loaders(way):
    check_distance(way, examples=4_000 if HEAVY else 60)


# -- what the guard must find -----------------------------------------------------------------------------------------


def weaker(times=0, separation=0):
    """The account lets an example come more often, or sooner."""
    begin = BatchOrder.__init__

    def planted(self, batches, promised, *more):
        begin(self, batches, dp.Participation(promised.times + times, promised.separation - separation), *more)

    return mock.patch.object(BatchOrder, "__init__", planted)


def own_orders():
    """Each worker shuffles for itself."""
    shuffle = FixedBatches.shuffle

    def planted(self, seed):
        shuffle(self, seed + self._rank)
        self.seed = seed

    return mock.patch.object(FixedBatches, "shuffle", planted)


def whole_batches():
    """Each worker takes the whole batch."""
    batch = FixedBatches.batch

    def planted(self, number):
        self._world, self._rank = 1, 0
        return batch(self, number)

    return mock.patch.object(FixedBatches, "batch", planted)


def resumed_anew():
    """A resumed training keeps its number of steps, and shuffles and counts anew."""

    def planted(self, state):
        self._t = state["t"]

    return mock.patch.object(BatchOrder, "restore", planted)


def each_alone():
    """A worker that has an order of its own does not ask whether it is alone."""
    return mock.patch.object(torch_loader, "workers", return_value=1)


@pytest.mark.parametrize(
    ("plant", "way"),
    [
        (lambda: weaker(separation=1), LoaderOwnOrder()),
        (lambda: weaker(times=1), LoaderOwnOrder()),
        (own_orders, Workers()),
        (whole_batches, Workers()),
        (resumed_anew, Training()),
        (resumed_anew, LoaderOwnOrder()),
        (each_alone, WorkersOwnOrder()),
        (each_alone, WorkersPadding()),
    ],
    ids=[
        "separation off by one",
        "once too often",
        "each worker its own order",
        "each worker the whole batch",
        "a resumed order begins again",
        "a resumed account begins again",
        "an example on two workers",
        "a padded sampler",
    ],
)
def test_planted_mistakes_are_found(plant, way):
    with plant(), pytest.raises(AssertionError, match=r"One unit moves the totals|no restarts the totals are others"):
        check_distance(way, examples=300)
