"""One of two processes of a distributed training on loopback; started by test_distributed.py.

usage: python -m tests.integrations.worker MODE RANK FOLDER
"""

import os
import sys
import warnings
from pathlib import Path

import pytest
import torch
from opacus.distributed import DifferentiallyPrivateDistributedDataParallel
from torch import distributed, nn
from torch.distributed.fsdp import fully_shard
from torch.distributed.tensor import DTensor, Shard, distribute_tensor, init_device_mesh
from torch.utils.data import DataLoader
from torch.utils.data.distributed import DistributedSampler

import dpstream as dp
from dpstream.adapters.torch import PrivateGradients
from dpstream.errors import InvalidArgument, KeyOfAnotherRun, StepsReleased
from dpstream.testing import check_distance, fixed_key
from tests.distance.training import Together

from .training import data, loader, model, private, train, weights

KEY = fixed_key("workers")


def full(tensor):
    return (tensor.full_tensor() if isinstance(tensor, DTensor) else tensor).detach().clone()


def shards(*_):
    """`privatize` on tensors that are sharded, one of them unevenly, so that the last rank of `odd` has nothing."""
    mesh = init_device_mesh("cpu", (2,))
    shapes = {"big": (1001, 37), "odd": (1, 130), "narrow": (5, 3)}
    parameters = {
        name: nn.Parameter(distribute_tensor(torch.zeros(shape), mesh, [Shard(0)])) for name, shape in shapes.items()
    }
    run = PrivateGradients(
        parameters,
        horizon=8,
        budget=dp.zcdp(0.5),
        max_grad_norm=1.0,
        mechanism=dp.mechanisms.BufferedToeplitz(8),
        key=KEY,
    )
    made = []
    for _ in range(3):
        given = {n: distribute_tensor(torch.full(s, 0.5), mesh, [Shard(0)]) for n, s in shapes.items()}
        made.append({name: full(g) for name, g in run.privatize(given).items()})
    held = sum(noise._stream._engine.draws.coordinates for noise in run._noise._streams.values() if noise._stream)
    return {"made": made, "held": held}


def replicated(*_):
    """DistributedDataParallel through Opacus: every worker adds the same noise to the sum over both."""
    net = DifferentiallyPrivateDistributedDataParallel(model())
    net, optimizer, batches = private(net, loader(), key=KEY)
    for _ in range(2):
        train(net, optimizer, batches)
    return {name.removeprefix("_module.").removeprefix("module."): full(p) for name, p in net.named_parameters()}


def sharded(*_):
    """FSDP2 (`fully_shard`) with Opacus' ghost clipping."""
    net = model()
    for layer in net:
        fully_shard(layer)
    fully_shard(net)
    net, optimizer, criterion, batches = private(
        net, loader(), key=KEY, grad_sample_mode="ghost_fsdp", criterion=nn.CrossEntropyLoss()
    )
    for _ in range(2):
        train(net, optimizer, batches, criterion=criterion)
    return {name.removeprefix("_module."): full(p) for name, p in net.named_parameters()}


def replica(**more):
    """A training of both workers, for an epoch; return the weights."""
    net, optimizer, batches = private(DifferentiallyPrivateDistributedDataParallel(model()), loader(), **more)
    train(net, optimizer, batches)
    optimizer.close()
    return weights(net)


def keys(rank, folder):
    """Without a key; and with a key file that only the first worker has a folder for."""
    mine = folder / "run.key" if rank == 0 else folder / "not mine" / "run.key"
    made = {"without": replica(key=None), "file": replica(key=mine)}
    with pytest.raises(KeyOfAnotherRun):  # what the first worker finds, all are told
        replica(key=mine, epochs=2)
    return {**made, "again": refusal(StepsReleased, lambda: replica(key=mine))}


def refused(*_):
    """What several workers cannot do: an order of one's own, and models that each trains for itself."""
    padded = DataLoader(data(), batch_size=5, sampler=DistributedSampler(data()))
    made = {}
    for name, batches in (("own order", loader(shuffle=True)), ("padding", padded)):
        net = DifferentiallyPrivateDistributedDataParallel(model())
        made[name] = refusal(
            InvalidArgument, lambda n=net, b=batches: private(n, b, participation=dp.Participation(3, 6))
        )
    return {**made, "apart": refusal(InvalidArgument, lambda: private(key=KEY))}


def distance(rank, _):
    """One example more or less, for a few histories."""
    way = Together()
    if rank == 0:
        check_distance(way, examples=6)
        way.end()
    else:
        way.follow()
    return {}


def refusal(kind, act):
    with pytest.raises(kind) as caught:
        act()
    return str(caught.value)


if __name__ == "__main__":
    mode, rank, folder = sys.argv[1], int(sys.argv[2]), Path(sys.argv[3])
    warnings.simplefilter("ignore")
    os.environ["GLOO_SOCKET_IFNAME"] = "lo"
    torch.set_num_threads(1)
    distributed.init_process_group("gloo", init_method=f"file://{folder}/meeting", rank=rank, world_size=2)
    modes = (shards, replicated, sharded, keys, refused, distance)
    made = next(act for act in modes if act.__name__ == mode)(rank, folder)
    torch.save(made, folder / f"{mode}.{rank}")
    distributed.barrier()  # what the other still waits for from here is done
    distributed.destroy_process_group()
    # What is to be compared is on the disk. PyTorch's own threads sometimes abort the interpreter's end ("terminate
    # called without an active exception"), which would hide it.
    sys.stderr.flush()
    os._exit(0)
