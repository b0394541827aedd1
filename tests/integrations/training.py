"""A small training that the tests make private in one way or another."""

import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

import dpstream as dp
from dpstream.adapters.torch import make_private

EXAMPLES, FEATURES = 60, 8


def data(examples=EXAMPLES):
    generator = torch.Generator().manual_seed(7)
    x = torch.randn(examples, FEATURES, generator=generator)
    return TensorDataset(x, (x[:, 0] + 0.3 * x[:, 1] > 0).long())


def model(dtype=torch.float32):
    torch.manual_seed(3)
    return nn.Sequential(nn.Linear(FEATURES, 16), nn.Tanh(), nn.Linear(16, 2)).to(dtype)


def loader(batch_size=10, shuffle=False, **more):
    return DataLoader(data(), batch_size=batch_size, shuffle=shuffle, **more)


def private(net=None, batches=None, optimizer=torch.optim.SGD, lr=0.1, **more):
    net = model() if net is None else net
    batches = loader() if batches is None else batches
    settings = {"budget": dp.approx_dp(8, 1e-5), "max_grad_norm": 1.0, "epochs": 3, **more}
    if "mechanism" not in settings:
        settings["mechanism"] = dp.mechanisms.BufferedToeplitz(settings["epochs"] * len(batches))
    return make_private(net, optimizer(net.parameters(), lr=lr), batches, **settings)


def train(net, optimizer, batches, *, steps=None, criterion=None):
    """Train for an epoch, or for `steps` steps; return how many were made."""
    criterion = nn.CrossEntropyLoss() if criterion is None else criterion
    made = 0
    for x, y in batches:
        optimizer.zero_grad()
        criterion(net(x.to(next(net.parameters()).dtype)), y).backward()
        optimizer.step()
        made += 1
        if made == steps:
            break
    return made


def weights(net):
    return torch.cat([p.detach().flatten().double() for p in net.parameters()])
