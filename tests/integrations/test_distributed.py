"""Two processes on loopback give exactly the result of one, and make noise only for what they hold."""

import subprocess
import sys

import pytest
import torch
from opacus.utils.batch_memory_manager import BatchMemoryManager
from torch import nn

import dpstream as dp
from dpstream.adapters.torch import PrivateGradients

from .training import loader, private, train
from .worker import KEY

#: Importing PyTorch twice on a busy machine takes a while.
PATIENCE = 240


def two_workers(mode, folder):
    command = [sys.executable, "-m", "tests.integrations.worker", mode]
    workers = [
        subprocess.Popen([*command, str(rank), str(folder)], stderr=subprocess.PIPE)  # noqa: S603
        for rank in (0, 1)
    ]
    try:
        for worker in workers:
            _, errors = worker.communicate(timeout=PATIENCE)
            assert worker.returncode == 0, errors.decode()[-3000:]
    finally:
        for worker in workers:
            worker.kill()
    return [torch.load(folder / f"{mode}.{rank}", weights_only=True) for rank in (0, 1)]


def test_shards_have_the_noise_of_the_whole(tmp_path):
    first, second = two_workers("shards", tmp_path)
    parameters = {
        name: nn.Parameter(torch.zeros(shape))
        for name, shape in {"big": (1001, 37), "odd": (1, 130), "narrow": (5, 3)}.items()
    }
    run = PrivateGradients(
        parameters,
        horizon=8,
        budget=dp.zcdp(0.5),
        max_grad_norm=1.0,
        mechanism=dp.mechanisms.BufferedToeplitz(8),
        key=KEY,
    )
    for step in range(3):
        expected = run.privatize({name: torch.full_like(p, 0.5).detach() for name, p in parameters.items()})
        for name, noisy in expected.items():
            assert torch.equal(first["made"][step][name], noisy)
            assert torch.equal(second["made"][step][name], noisy)
    whole = sum(p.numel() for p in parameters.values())
    # Each makes its own share, a few values to reach a multiple of 64, and small parameters as a whole.
    assert whole <= first["held"] + second["held"] <= whole + 3 * 64


@pytest.mark.parametrize("mode", ["replicated", "sharded"])
def test_two_workers_train_the_model_of_one(mode, tmp_path):
    """One process takes the halves of each batch one after the other, as virtual steps: the same sums, bit for bit."""
    first, second = two_workers(mode, tmp_path)
    assert first.keys() == second.keys()
    assert all(torch.equal(first[name], second[name]) for name in first)
    ghost = {"grad_sample_mode": "ghost", "criterion": nn.CrossEntropyLoss()} if mode == "sharded" else {}
    made = private(batches=loader(), key=KEY, **ghost)
    net, optimizer, batches = made[0], made[1], made[-1]
    for _ in range(2):
        with BatchMemoryManager(data_loader=batches, max_physical_batch_size=5, optimizer=optimizer) as halves:
            train(net, optimizer, halves, criterion=made[2] if ghost else None)
    optimizer.close()
    for name, p in net.named_parameters():
        assert torch.equal(first[name.removeprefix("_module.")], p), name


def test_workers_share_one_key(tmp_path):
    """With keys of their own, each would add its own noise to the sum of all, and train a model of its own."""
    first, second = two_workers("keys", tmp_path)
    assert torch.equal(first["without"], second["without"])
    assert torch.equal(first["file"], second["file"])
    assert not torch.equal(first["without"], first["file"])
    assert first["again"] == second["again"]
    assert (tmp_path / "run.key").exists()
    assert not (tmp_path / "not mine").exists()


def test_an_example_is_in_no_more_steps_than_is_promised(tmp_path):
    """The histories of tests/distance, a few of them, by two processes."""
    two_workers("distance", tmp_path)


def test_what_several_workers_cannot_do(tmp_path):
    """Each watches its own share: an example that comes back on another worker would not be noticed."""
    for made in two_workers("refused", tmp_path):
        for name in ("own order", "padding"):
            assert "participation must be left out with 2 workers" in made[name]
        assert "model must be one that 2 workers train together" in made["apart"]
