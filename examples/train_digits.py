"""Private training on the digits inside scikit-learn: a small CNN with Opacus and correlated noise.

python examples/train_digits.py                # all mechanisms, a table and a plot in output/examples
"""

from __future__ import annotations

import warnings

import torch
from comparison import compare, options
from sklearn.datasets import load_digits
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

import dpstream as dp
from dpstream.adapters.torch import make_private

DELTA, BATCH, CLIP = 1e-5, 150, 1.0


def data() -> tuple[TensorDataset, TensorDataset]:
    """1,500 digits to train on and 297 to test on, in an order that was shuffled once."""
    digits = load_digits()
    order = torch.randperm(len(digits.target), generator=torch.Generator().manual_seed(0))
    x = (torch.tensor(digits.images, dtype=torch.float32)[order, None] - 4.9) / 6.0
    y = torch.tensor(digits.target)[order]
    return TensorDataset(x[:1500], y[:1500]), TensorDataset(x[1500:], y[1500:])


def network() -> nn.Module:
    """A CNN of 3,130 parameters; the same start for all."""
    torch.manual_seed(0)
    return nn.Sequential(
        nn.Conv2d(1, 16, 3, padding=1), nn.Tanh(), nn.MaxPool2d(2),
        nn.Conv2d(16, 16, 3, padding=1), nn.Tanh(), nn.MaxPool2d(2),
        nn.Flatten(), nn.Linear(64, 10),
    )  # fmt: skip


def train(mechanism: dp.mechanisms.Mechanism | None, rate: float, key: bytes, *, epochs: int, epsilon: float) -> float:
    """Train once; return the test accuracy."""
    training, test = data()
    model = network()
    optimizer = torch.optim.SGD(model.parameters(), lr=rate, momentum=0.9)
    loader = DataLoader(training, batch_size=BATCH)
    if mechanism is not None:
        model, optimizer, loader = make_private(
            model, optimizer, loader,
            budget=dp.approx_dp(epsilon, DELTA), max_grad_norm=CLIP, epochs=epochs, mechanism=mechanism, key=key,
        )  # fmt: skip
    for _ in range(epochs):
        for x, y in loader:
            optimizer.zero_grad()
            nn.functional.cross_entropy(model(x), y).backward()
            optimizer.step()
    if mechanism is not None:
        optimizer.close()
    with torch.no_grad():
        x, y = test.tensors
        return float((model(x).argmax(1) == y).float().mean())


def main() -> None:
    """Compare all mechanisms."""
    warnings.filterwarnings("ignore", message="Full backward hook")
    chosen = options(__doc__.splitlines()[0], epochs=16)
    batches = len(data()[0]) // BATCH
    compare(
        "digits: a CNN of 3,130 parameters",
        lambda mechanism, rate, key: train(mechanism, rate, key, epochs=chosen.epochs, epsilon=chosen.epsilon),
        steps=chosen.epochs * batches,
        participation=dp.Participation(times=chosen.epochs, separation=batches),
        budget=dp.approx_dp(chosen.epsilon, DELTA),
        rates=chosen.rates or [0.05, 0.1, 0.2, 0.4, 0.8],
        keys=chosen.keys,
        folder=chosen.output,
    )


if __name__ == "__main__":
    main()
