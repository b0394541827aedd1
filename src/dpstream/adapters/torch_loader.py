"""The data loader of a private training: batches in a fixed order, or an order of the caller's own that is watched."""

from __future__ import annotations

import os
from collections.abc import Iterator
from typing import Any

import torch
from torch.utils.data import BatchSampler, DataLoader, RandomSampler, SequentialSampler
from torch.utils.data.distributed import DistributedSampler

from dpstream.adapters.batch_order import BatchOrder, FixedBatches
from dpstream.adapters.torch import workers
from dpstream.errors import InvalidArgument
from dpstream.participation import Participation

__all__ = ["PrivateDataLoader", "order_of", "private_loader"]


class PrivateDataLoader(DataLoader[Any]):
    """A DataLoader that tells its `BatchOrder` which batch the training loop was given."""

    def __iter__(self) -> Iterator[Any]:
        return self.batch_sampler.count_handed(super().__iter__())


def order_of(loader: DataLoader[Any], participation: Participation | None, epochs: int) -> BatchOrder:
    """Return the order of the batches: fixed, or the loader's own under the participation given."""
    if not isinstance(loader, DataLoader) or loader.batch_sampler is None or not hasattr(loader.dataset, "__len__"):
        raise InvalidArgument(
            "data_loader",
            loader,
            "a DataLoader in batches over a dataset of known length; otherwise clip and sum"
            " yourself and use PrivateGradients",
        )
    examples = len(loader.dataset)
    world = workers()
    if participation is not None:
        if world > 1:  # each would see its own share only, and an example can come back on another worker
            raise InvalidArgument(
                "participation",
                participation,
                f"left out with {world} workers, so that all of them keep one order of batches; for another order,"
                " train with one worker, or clip and sum yourself and use PrivateGradients",
            )
        return BatchOrder(loader.batch_sampler, participation, examples, epochs * len(loader))
    sampler = loader.batch_sampler.sampler if type(loader.batch_sampler) is BatchSampler else None
    shuffled = isinstance(sampler, RandomSampler) and not sampler.replacement
    shuffled |= isinstance(sampler, DistributedSampler) and sampler.shuffle
    if not (shuffled or isinstance(sampler, (SequentialSampler, DistributedSampler))):
        raise InvalidArgument(
            "data_loader",
            sampler or loader.batch_sampler,
            "one that goes through the examples in order or shuffled;"
            " for another order say how soon examples come back, as in participation=dpstream.Participation(8, 256)",
        )
    batches = FixedBatches(
        examples,
        loader.batch_size * (world if isinstance(sampler, DistributedSampler) else 1),
        seed=_common_seed(world) if shuffled else None,
        drop_last=loader.drop_last,
        rank=torch.distributed.get_rank() if world > 1 else 0,
        world=world,
    )
    return BatchOrder(batches, batches.participation(epochs), examples, epochs * len(batches))


def _common_seed(world: int) -> int:
    """A seed for the order, the same for all workers. The order is no secret."""
    seed = [int.from_bytes(os.urandom(7))]
    if world > 1:
        torch.distributed.broadcast_object_list(seed)
    return seed[0]


def private_loader(loader: DataLoader[Any], order: BatchOrder) -> PrivateDataLoader:
    """Return a loader like the given one, with the batches of `order`."""
    return PrivateDataLoader(
        loader.dataset,
        batch_sampler=order,
        num_workers=loader.num_workers,
        collate_fn=loader.collate_fn,
        pin_memory=loader.pin_memory,
        timeout=loader.timeout,
        worker_init_fn=loader.worker_init_fn,
        multiprocessing_context=loader.multiprocessing_context,
        generator=loader.generator,
        prefetch_factor=loader.prefetch_factor,
        persistent_workers=loader.persistent_workers,
    )
