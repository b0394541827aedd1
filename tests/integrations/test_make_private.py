"""`make_private`: Opacus' clipping and virtual steps, our noise, order and budget."""

import io

import numpy as np
import opacus
import pytest
import torch
from opacus.schedulers import ExponentialGradClip
from opacus.utils.batch_memory_manager import BatchMemoryManager
from opacus.validators.errors import UnsupportedModuleError
from torch import nn
from torch.utils.data import DataLoader, IterableDataset, RandomSampler, TensorDataset, WeightedRandomSampler

import dpstream as dp
from dpstream.adapters.torch import DPOptimizer, make_private
from dpstream.errors import (
    BatchUnexpected,
    ExampleTooSoon,
    GradientNotFinite,
    HorizonExceeded,
    InvalidArgument,
    KeyInUse,
    ParametersChanged,
    StateError,
    StepsReleased,
)
from dpstream.testing import fixed_key

from .training import EXAMPLES, data, loader, model, private, train, weights

KEY = fixed_key("opacus")


def finished(**more):
    """The weights after three epochs."""
    made = private(key=KEY, **more)
    for _ in range(3):
        train(made[0], made[1], made[-1], criterion=made[2] if len(made) == 4 else None)
    made[1].close()
    return weights(made[0])


def test_the_noisy_sum_is_opacus_clipped_sum_plus_our_noise():
    """One step by hand: per-sample gradients by autograd, clipped, summed, noise added, then divided."""
    net = model()
    named = dict(net.named_parameters())
    dataset = data()
    total = {name: torch.zeros_like(p) for name, p in named.items()}
    for i in range(10):
        x, y = dataset[i]
        gradients = torch.autograd.grad(nn.functional.cross_entropy(net(x[None]), y[None]), list(named.values()))
        norm = torch.sqrt(sum((g**2).sum() for g in gradients))
        for name, g in zip(named, gradients, strict=True):
            total[name] += g * min(1.0, 1.0 / (norm.item() + 1e-6))
    start = weights(net)
    net, optimizer, batches = private(net, key=KEY)
    scale = optimizer.private.settings.scale
    train(net, optimizer, batches, steps=1)
    optimizer.close()
    reference = dp.adapters.torch.PrivateGradients(
        model(), horizon=18, budget=dp.approx_dp(8, 1e-5), max_grad_norm=1.0,
        participation=dp.Participation(3, 6), mechanism=dp.mechanisms.BufferedToeplitz(18), key=KEY,
    )  # fmt: skip
    assert reference.settings.scale == scale
    reference.privatize(total)
    expected = start - 0.1 * torch.cat([total[name].flatten().double() for name in named]) / 10
    torch.testing.assert_close(weights(net), expected, atol=1e-6, rtol=0)


def test_clipping_by_torch_func_trains_the_same_model():
    """Without Opacus: per-sample gradients by `vmap(grad)`, clipped and summed by hand, then `privatize`."""
    expected = finished(optimizer=lambda parameters, lr: torch.optim.SGD(parameters, lr=lr, momentum=0.9))
    net = model()
    run = dp.adapters.torch.PrivateGradients(
        net, horizon=18, budget=dp.approx_dp(8, 1e-5), max_grad_norm=1.0,
        participation=dp.Participation(3, 6), mechanism=dp.mechanisms.BufferedToeplitz(18), key=KEY,
    )  # fmt: skip
    optimizer = torch.optim.SGD(net.parameters(), lr=0.1, momentum=0.9)

    def loss(parameters, x, y):
        return nn.functional.cross_entropy(torch.func.functional_call(net, parameters, (x[None],)), y[None])

    per_sample = torch.func.vmap(torch.func.grad(loss), (None, 0, 0))
    for _ in range(3):
        for x, y in loader():
            gradients = per_sample({name: p.detach() for name, p in net.named_parameters()}, x, y)
            norms = torch.stack([g.flatten(1).norm(dim=1) for g in gradients.values()]).norm(dim=0)
            factors = (1.0 / (norms + 1e-6)).clamp(max=1.0)
            sums = {name: torch.einsum("i,i...->...", factors, g) for name, g in gradients.items()}
            run.privatize(sums)
            for name, p in net.named_parameters():
                p.grad = sums[name] / 10
            optimizer.step()
    torch.testing.assert_close(weights(net), expected, atol=1e-5, rtol=0)


def test_all_ways_to_clip_agree():
    plain = finished()
    for mode in ("functorch", "ew", "ghost"):
        more = {"criterion": nn.CrossEntropyLoss()} if mode == "ghost" else {}
        torch.testing.assert_close(finished(grad_sample_mode=mode, **more), plain, atol=1e-5, rtol=0)


@pytest.mark.parametrize("optimizer", [torch.optim.SGD, torch.optim.Adam])
def test_worker_processes_and_virtual_steps_change_nothing(optimizer):
    plain = finished(optimizer=optimizer, lr=0.01)
    # Spawned, not forked: JAX, which other tests load, has threads that do not survive a fork.
    workers = loader(num_workers=1, multiprocessing_context="spawn", persistent_workers=True)
    ahead = finished(optimizer=optimizer, lr=0.01, batches=workers)
    assert torch.equal(ahead, plain)
    net, made, batches = private(key=KEY, optimizer=optimizer, lr=0.01)
    for _ in range(3):
        with BatchMemoryManager(data_loader=batches, max_physical_batch_size=4, optimizer=made) as small:
            assert train(net, made, small) == 18
    made.close()
    torch.testing.assert_close(weights(net), plain, atol=1e-4, rtol=0)
    assert made.private.t == 18


def test_the_order_is_shuffled_once():
    net, optimizer, batches = private(batches=loader(shuffle=True))
    seen = []
    for _ in range(2):
        epoch = []
        for x, y in batches:
            optimizer.zero_grad()
            nn.functional.cross_entropy(net(x), y).backward()
            optimizer.step()
            epoch.append(x)
        seen.append(torch.cat(epoch))
    assert torch.equal(*seen)
    assert not torch.equal(seen[0], data().tensors[0])
    assert sorted(seen[0][:, 0].tolist()) == sorted(data().tensors[0][:, 0].tolist())
    assert optimizer.private.settings.participation == dp.Participation(3, 6)


def test_the_budget_covers_all_epochs_and_says_what_is_spent():
    with pytest.warns(UserWarning, match="Secure RNG"):
        engine = opacus.PrivacyEngine(accountant="dpstream")
    net, optimizer, batches = private(engine=engine)
    assert engine.get_epsilon(1e-5) == 0
    spent = []
    for _ in range(3):
        train(net, optimizer, batches)
        spent.append(engine.get_epsilon(1e-5))
        assert optimizer.get_epsilon(1e-5) == spent[-1] == pytest.approx(optimizer.spent().epsilon, rel=1e-9)
    assert spent[0] < spent[1] < spent[2] == pytest.approx(8, rel=1e-9)
    assert len(engine.accountant) == 18
    with pytest.raises(HorizonExceeded, match=r"for 18 steps.*make_private\(\.\.\., epochs="):
        train(net, optimizer, batches)
    other = private(engine=engine, batches=DataLoader(batches.dataset, batch_size=10))  # the same data once more
    train(*other)
    both = np.hypot(dp.approx_dp(8, 1e-5).mu, dp.approx_dp(spent[0], 1e-5).mu)
    assert engine.get_epsilon(1e-5) == pytest.approx(dp.zcdp(both**2 / 2).to_approx_dp(delta=1e-5).epsilon, rel=1e-6)


def test_an_engine_of_another_accountant():
    with pytest.warns(UserWarning, match="Secure RNG"):
        engine = opacus.PrivacyEngine()
    with pytest.raises(InvalidArgument, match="accountant='dpstream'"):
        private(engine=engine)
    with pytest.warns(UserWarning, match="Secure RNG"):
        engine = opacus.PrivacyEngine(accountant="dpstream")
    net = model()
    made = engine.make_private(
        module=net, optimizer=torch.optim.SGD(net.parameters(), lr=0.1), data_loader=loader(),
        noise_multiplier=1.0, max_grad_norm=1.0, poisson_sampling=False,
    )  # fmt: skip
    with pytest.raises(InvalidArgument, match=r"used with dpstream.adapters.torch.make_private"):
        train(*made)


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16])
def test_models_of_16_bits_are_summed_in_32(dtype):
    net, optimizer, batches = private(model(dtype), key=KEY)
    train(net, optimizer, batches, steps=1)
    assert all(p.grad.dtype == dtype for p in net.parameters())
    assert all(p.summed_grad.dtype == torch.float32 for p in net.parameters())
    optimizer.close()
    with pytest.raises(InvalidArgument, match="ghost clipping adds up in 16 bits"):
        private(model(dtype), grad_sample_mode="ghost", criterion=nn.CrossEntropyLoss())


def test_resuming_in_the_middle_of_an_epoch(tmp_path):
    def start():
        return private(batches=loader(shuffle=True), key=tmp_path / "run.key", optimizer=torch.optim.Adam, lr=0.01)

    net, optimizer, batches = start()
    train(net, optimizer, batches)
    train(net, optimizer, batches, steps=2)
    file = io.BytesIO()
    torch.save({"model": net.state_dict(), "optimizer": optimizer.state_dict()}, file)
    train(net, optimizer, batches)
    expected = weights(net)
    optimizer.close()
    file.seek(0)
    kept = torch.load(file, weights_only=True)
    net, optimizer, batches = start()  # with another shuffle, which the checkpoint replaces
    net.load_state_dict(kept["model"])
    with pytest.raises(StepsReleased):
        optimizer.load_state_dict(kept["optimizer"])
    optimizer.load_state_dict(kept["optimizer"], discard_later_steps=True)
    assert train(net, optimizer, batches) == 4
    assert torch.equal(weights(net), expected)
    with pytest.raises(StateError, match="saved by another optimizer"):
        optimizer.load_state_dict(optimizer.original_optimizer.state_dict())


def test_opacus_own_checkpoints(tmp_path):
    def start():
        with pytest.warns(UserWarning, match="Secure RNG"):
            engine = opacus.PrivacyEngine(accountant="dpstream")
        return engine, *private(key=tmp_path / "run.key", engine=engine)

    engine, net, optimizer, batches = start()
    train(net, optimizer, batches)
    engine.save_checkpoint(path=tmp_path / "checkpoint", module=net, optimizer=optimizer)
    epsilon = engine.get_epsilon(1e-5)
    optimizer.close()
    engine, net, optimizer, batches = start()
    engine.load_checkpoint(path=tmp_path / "checkpoint", module=net, optimizer=optimizer)
    assert engine.get_epsilon(1e-5) == epsilon
    assert train(net, optimizer, batches) == 6


# -- bad input: a named error, and nothing is stepped --------------------------------------------------------------


def refused(error, match, net, optimizer, act):
    """`act` is refused; model, optimizer and noise are what they were, and training goes on with the same noise."""
    before, t = weights(net), optimizer.private.t
    with pytest.raises(error, match=match):
        act()
    assert torch.equal(weights(net), before)
    assert optimizer.private.t == t


def test_batch_norm():
    net = nn.Sequential(nn.Linear(8, 4), nn.BatchNorm1d(4), nn.Linear(4, 2))
    with pytest.raises(UnsupportedModuleError, match="BatchNorm cannot support training with differential privacy"):
        private(net)


def test_nan_in_the_data():
    net, optimizer, batches = private()
    train(net, optimizer, batches, steps=2)
    kept = data().tensors[0][23].clone()
    batches.dataset.tensors[0][23] = float("nan")
    refused(GradientNotFinite, "NaN", net, optimizer, lambda: train(net, optimizer, batches))
    batches.dataset.tensors[0][23] = kept
    assert train(net, optimizer, batches) == 4  # goes on with the batch that was refused
    assert optimizer.private.t == 6


def test_an_order_that_repeats_too_soon():
    net, optimizer, batches = private(
        batches=loader(shuffle=True), participation=dp.Participation(3, 6), mechanism=dp.mechanisms.BufferedToeplitz(18)
    )
    train(net, optimizer, batches)
    refused(ExampleTooSoon, "too soon after step", net, optimizer, lambda: train(net, optimizer, batches))


def test_an_order_of_ones_own_that_keeps_its_word():
    net, optimizer, batches = private(participation=dp.Participation(3, 6))
    for _ in range(3):
        train(net, optimizer, batches)
    assert optimizer.private.t == 18


def test_orders_that_say_nothing():
    for sampler in (RandomSampler(data(), replacement=True), WeightedRandomSampler(torch.ones(EXAMPLES), EXAMPLES)):
        with pytest.raises(InvalidArgument, match=r"participation=dpstream.Participation"):
            private(batches=DataLoader(data(), batch_size=10, sampler=sampler))

    class Endless(IterableDataset):
        def __iter__(self):
            return iter(())

    mechanism = dp.mechanisms.SmoothBinary(9)
    net = model()
    for wrong in (DataLoader(Endless(), batch_size=10), DataLoader(data(), batch_size=None), [1, 2]):
        with pytest.raises(InvalidArgument, match="use PrivateGradients"):
            make_private(
                net, torch.optim.SGD(net.parameters(), lr=0.1), wrong,
                budget=dp.zcdp(1), max_grad_norm=1.0, epochs=1, mechanism=mechanism,
            )  # fmt: skip


def test_a_parameter_added_frozen_or_left_out():
    net, optimizer, batches = private()
    optimizer.add_param_group({"params": [nn.Parameter(torch.zeros(2))]})
    refused(ParametersChanged, "1 parameters were added", net, optimizer, lambda: train(net, optimizer, batches))
    net, optimizer, batches = private()
    next(net.parameters()).requires_grad_(False)
    refused(ParametersChanged, "no longer requires", net, optimizer, lambda: train(net, optimizer, batches))
    net = model()
    for held, wrong in (
        (net[0].parameters(), r"it has not '2.weight', '2.bias': .*requires_grad_\(False\), got 'SGD'$"),
        ([*net.parameters(), nn.Parameter(torch.zeros(2))], "1 of its parameters are not the model's"),
    ):
        with pytest.raises(InvalidArgument, match=wrong):
            make_private(
                net, torch.optim.SGD(held, lr=0.1), loader(), budget=dp.zcdp(1), max_grad_norm=1.0, epochs=1
            )  # fmt: skip


def test_another_clipping_norm():
    """The noise was made for the first one: with a larger one an example's share is larger than the budget covers."""
    for more in ({}, {"grad_sample_mode": "ghost", "criterion": nn.CrossEntropyLoss()}):
        made = private(**more)
        net, optimizer, batches = made[0], made[1], made[-1]
        criterion = made[2] if more else None
        train(net, optimizer, batches, steps=2, criterion=criterion)
        schedule = ExponentialGradClip(optimizer, gamma=3.0)
        wrong = "max_grad_norm must be 1.0 to the end"
        refused(InvalidArgument, wrong, net, optimizer, schedule.step)
        refused(InvalidArgument, wrong, net, optimizer, lambda opt=optimizer: setattr(opt, "max_grad_norm", 0.5))
        optimizer.max_grad_norm = 1.0
        assert train(net, optimizer, batches, criterion=criterion) == 4
    net.max_grad_norm = 100.0  # ghost clipping: the model clips
    refused(InvalidArgument, wrong, net, optimizer, lambda: train(net, optimizer, batches, criterion=criterion))
    net.max_grad_norm = 1.0
    assert train(net, optimizer, batches, criterion=criterion) == 6


def test_a_loss_that_ghost_clipping_does_not_know():
    """Its gradients are not clipped: here ten examples' sum has the norm of hundreds."""
    net, optimizer, criterion, batches = private(grad_sample_mode="ghost", criterion=nn.CrossEntropyLoss())

    def unclipped():
        train(net, optimizer, batches, criterion=lambda made, y: 1000 * nn.functional.cross_entropy(made, y))

    refused(BatchUnexpected, "the criterion that make_private returned", net, optimizer, unclipped)
    train(net, optimizer, batches, steps=2, criterion=criterion)
    refused(BatchUnexpected, "step 3 expects clipped gradients", net, optimizer, unclipped)
    assert train(net, optimizer, batches, criterion=criterion) == 4


def test_another_loader_or_batch_size():
    net, optimizer, batches = private()
    refused(BatchUnexpected, "no batch was taken", net, optimizer, lambda: train(net, optimizer, loader(shuffle=True)))
    train(net, optimizer, batches, steps=1)

    def smaller():
        for x, y in batches:
            optimizer.zero_grad()
            nn.functional.cross_entropy(net(x[:7]), y[:7]).backward()
            optimizer.step()

    refused(BatchUnexpected, "the 10 examples of its batch, but 7", net, optimizer, smaller)

    def two_at_once():
        loop = iter(batches)
        optimizer.zero_grad()
        for x, y in (next(loop), next(loop)):
            nn.functional.cross_entropy(net(x), y).backward()
        optimizer.step()

    refused(BatchUnexpected, "that of step 3 is.*larger batch_size.*BatchMemoryManager", net, optimizer, two_at_once)

    def evaluated_in_between():
        for x, y in batches:
            optimizer.zero_grad()
            nn.functional.cross_entropy(net(x), y).backward()
            for _ in batches:
                pass
            optimizer.step()

    refused(BatchUnexpected, "evaluate on another loader", net, optimizer, evaluated_in_between)
    assert train(net, optimizer, batches) == 5


def test_the_same_gradients_twice():
    net, optimizer, batches = private()
    loop = iter(batches)
    x, y = next(loop)
    nn.functional.cross_entropy(net(x), y).backward()
    optimizer.step()
    refused(BatchUnexpected, "step 2", net, optimizer, optimizer.step)
    next(loop)
    with pytest.raises((BatchUnexpected, ValueError)):
        optimizer.step()
    assert optimizer.private.t == 1


def test_a_second_optimizer_on_the_same_stream(tmp_path):
    first = private(key=tmp_path / "run.key")
    with pytest.raises(KeyInUse):
        private(key=tmp_path / "run.key")
    train(*first)
    first[1].close()
    _, optimizer, _ = again = private(key=tmp_path / "run.key")
    assert isinstance(optimizer, DPOptimizer)
    with pytest.raises(StepsReleased):
        train(*again)


@pytest.mark.parametrize(
    ("name", "value"),
    [("epochs", 0), ("epochs", 2.5), ("max_grad_norm", 0.0), ("max_grad_norm", float("nan")), ("budget", 3)],
)
def test_bad_arguments(name, value):
    with pytest.raises(ValueError, match="must be"):
        private(mechanism="auto", **{name: value})


def test_a_delta_that_promises_nothing():
    with pytest.warns(UserWarning, match="delta = 0.02 is more than 1 / 60"):
        private(budget=dp.approx_dp(8, 0.02))


def test_a_dataset_smaller_than_a_batch():
    tiny = DataLoader(TensorDataset(*(t[:3] for t in data().tensors)), batch_size=10, drop_last=True)
    with pytest.raises(InvalidArgument, match="at most the number of examples"):
        private(batches=tiny, mechanism="auto")
