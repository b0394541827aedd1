"""The examples run; their clipping by hand is that of autograd; their table and plot are made."""

import importlib
import sys
from pathlib import Path

import pytest
import torch
from torch import nn

import dpstream as dp
from dpstream.testing import fixed_key

EXAMPLES = Path(__file__).parents[2] / "examples"


@pytest.fixture
def examples(monkeypatch):
    monkeypatch.syspath_prepend(EXAMPLES)
    yield
    for name in ("comparison", "train_digits", "train_digits_jax", "train_text"):
        sys.modules.pop(name, None)


@pytest.mark.usefixtures("examples")
@pytest.mark.parametrize("name", ["train_digits", "train_digits_jax"])
def test_digits(name):
    example = importlib.import_module(name)
    mechanism = dp.mechanisms.BufferedToeplitz(10)
    found = [example.train(mechanism, 0.2, fixed_key("digits"), epochs=1, epsilon=8.0) for _ in range(2)]
    assert 0.05 < found[0] == found[1]
    assert example.train(None, 0.2, fixed_key("digits"), epochs=1, epsilon=8.0) > 0.15


@pytest.mark.usefixtures("examples")
@pytest.mark.parametrize(("factor", "clipped"), [(1, False), (30, True)])
def test_the_texts_are_clipped_as_autograd_would(factor, clipped):
    import train_text

    texts, topics = train_text.data()
    model = train_text.Classifier()
    with torch.no_grad():
        model.out.weight *= factor
    sums = train_text.clipped_sums(model, texts[:20], topics[:20])
    expected = {name: torch.zeros_like(p) for name, p in model.named_parameters()}
    for i in range(20):
        loss = nn.functional.cross_entropy(model(texts[i : i + 1]), topics[i : i + 1])
        gradients = torch.autograd.grad(loss, list(model.parameters()))
        norm = float(torch.sqrt(sum((g**2).sum() for g in gradients)))
        assert (norm > 1) == clipped
        for name, g in zip(expected, gradients, strict=True):
            expected[name] += g * min(1.0, 1.0 / (norm + 1e-6))
    for name, total in expected.items():
        torch.testing.assert_close(sums[name], total, atol=1e-5, rtol=0)


@pytest.mark.usefixtures("examples")
def test_the_table_and_the_plot(tmp_path, capsys, monkeypatch):
    import comparison

    monkeypatch.setattr(comparison, "contenders", lambda *_: [("none", None), ("tree", dp.mechanisms.Binary(8))])
    comparison.compare(
        "test: nothing",
        lambda mechanism, rate, key: rate + key[0] / 1000,
        steps=8,
        participation=dp.Participation(2, 4),
        budget=dp.approx_dp(8, 1e-5),
        rates=[0.1, 0.2],
        keys=3,
        folder=tmp_path,
    )
    assert " 0.2 " in capsys.readouterr().out
    assert (tmp_path / "test.png").stat().st_size > 10_000
