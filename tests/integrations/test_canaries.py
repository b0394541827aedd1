"""The audit on the training path: canaries in real Opacus trainings, and bugs planted to see that it would notice.

A training has many canaries, each an example whose clipped gradient touches one coordinate of each of two parameters,
with opposite signs; a fair coin says whether it is there. From the noisy gradients of all steps a linear test guesses
the coins; for planted bugs it is learned on one half of the trainings and used on the other. What its errors prove must
be at most the promise, and at least 85 % of it: more noise than needed is a bug as well. Confidence 1 - 1e-7: false
alarms below 1e-6 in all.
"""

import numpy as np
import pytest
import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

import dpstream as dp
from dpstream.adapters import torch_opacus, training_noise
from dpstream.adapters.torch import PrivateGradients, make_private
from dpstream.audit.certificate import LossCertificate
from dpstream.testing import fixed_key

CANARIES, BATCHES = 500, 3
BUDGET = dp.approx_dp(8, 1e-5)


class Probe(nn.Module):
    """The gradient of example (i, value) is value/√2 at coordinate i of `a` and minus that at coordinate i of `b`."""

    def __init__(self):
        super().__init__()
        self.a, self.b = nn.Linear(CANARIES, 1, bias=False), nn.Linear(CANARIES, 1, bias=False)

    def forward(self, index, value):
        probe = nn.functional.one_hot(index, CANARIES) * value[:, None] / 2**0.5
        return self.a(probe) - self.b(probe)


def observe(number, epochs):
    """One training: its coins, and for each canary what was seen of its two coordinates at all steps."""
    rng = np.random.default_rng(number)
    coins = rng.integers(0, 2, CANARIES)
    values = torch.zeros(BATCHES * CANARIES)
    values[:CANARIES] = torch.from_numpy(coins) * 7.0  # far above the norm that it is clipped to
    index = torch.arange(CANARIES).repeat(BATCHES)
    net = Probe()
    net, optimizer, loader = make_private(
        net,
        torch.optim.SGD(net.parameters(), lr=1e-3),
        DataLoader(TensorDataset(index, values), batch_size=CANARIES),
        budget=BUDGET,
        max_grad_norm=1.0,
        epochs=epochs,
        mechanism=dp.mechanisms.BufferedToeplitz(epochs * BATCHES),
        key=fixed_key(f"canaries {number}"),
    )
    seen = []
    for _ in range(epochs):
        for i, value in loader:
            optimizer.zero_grad()
            net(i, value).mean().backward()
            optimizer.step()
            seen += [p.grad.numpy().ravel().astype(float) * CANARIES for p in net.parameters()]
    optimizer.close()
    return coins, np.array(seen).T


def certified(epochs, trainings, *, learned):
    """The μ that so many trainings prove, by the best linear test for our noise or by one learned on the first half."""
    observed = [observe(number, epochs) for number in range(trainings)]
    coins = np.concatenate([coins for coins, _ in observed])
    seen = np.concatenate([seen for _, seen in observed])
    shift = np.zeros((epochs, BATCHES, 2))
    shift[:, 0] = np.array([1, -1]) / 2**0.5
    shift = shift.ravel()
    if learned:
        half = coins.size // 2
        residuals = seen[:half] - coins[:half, None] * shift
        covariance = residuals.T @ residuals / half + 1e-9 * np.eye(shift.size)
        coins, seen = coins[half:], seen[half:]
    else:
        L = np.diff(dp.mechanisms.BufferedToeplitz(epochs * BATCHES).factors()[0], axis=0, prepend=0.0)
        covariance = np.kron(L @ L.T, np.eye(2))
    weights = np.linalg.solve(covariance, shift)
    guesses = seen @ weights > shift @ weights / 2
    return LossCertificate(
        false_positives=int((guesses & (coins == 0)).sum()),
        first_trials=int((coins == 0).sum()),
        false_negatives=int((~guesses & (coins == 1)).sum()),
        second_trials=int((coins == 1).sum()),
        confidence=1 - 1e-7,
    ).mu


@pytest.mark.parametrize("epochs", [1, 4], ids=["one step", "every epoch"])
def test_canaries_reveal_what_is_promised_and_no_more(epochs):
    found = certified(epochs, trainings=24, learned=False)
    assert 0.85 * BUDGET.mu <= found <= BUDGET.mu, found / BUDGET.mu


def test_participation_ignored(monkeypatch):
    def once(*parameters, participation, **more):
        return PrivateGradients(*parameters, participation=dp.Participation(), **more)

    monkeypatch.setattr(torch_opacus, "PrivateGradients", once)
    assert certified(4, trainings=6, learned=True) > BUDGET.mu


def test_one_parameter_forgotten(monkeypatch):
    real = training_noise.PartNoise.add_to

    def forgetful(self, values):
        real(self, values.copy() if self._arguments[0].startswith("b") else values)

    monkeypatch.setattr(training_noise.PartNoise, "add_to", forgetful)
    assert certified(1, trainings=6, learned=True) > BUDGET.mu


def test_the_same_noise_on_two_shards(monkeypatch):
    monkeypatch.setattr(training_noise, "derive_key", lambda key, **_: key)
    assert certified(1, trainings=6, learned=True) > BUDGET.mu


def test_noise_after_division(monkeypatch):
    """Noise meant for the sum, added to the mean: far too much, so that hardly anything is learned."""

    def late(self):
        for p in self.params:
            p.summed_grad = p.summed_grad / self.expected_batch_size
        real(self)
        for p in self.params:
            p.grad *= self.expected_batch_size

    real = torch_opacus.CorrelatedNoise.add_noise
    monkeypatch.setattr(torch_opacus.DPOptimizer, "add_noise", late)
    assert certified(1, trainings=6, learned=True) < 0.85 * BUDGET.mu


def test_a_sum_that_is_divided_before_noise_of_the_mean(monkeypatch):
    """Noise meant for the mean, added to the sum."""
    real = training_noise.PartNoise.add_to

    def weak(self, values):
        noise = np.zeros_like(values)
        real(self, noise)
        values += noise / CANARIES

    monkeypatch.setattr(training_noise.PartNoise, "add_to", weak)
    assert certified(1, trainings=6, learned=True) > BUDGET.mu


def test_increments_that_are_independent(monkeypatch):
    """Each step gets its noise without what it shares with the others: it no longer cancels, and the test sees less."""
    monkeypatch.setattr(dp.NoiseStream, "add_increment", lambda self, to: np.add(to, self.step(), out=to))
    assert certified(4, trainings=6, learned=True) < 0.85 * BUDGET.mu
