"""Private training of a text classifier with a million parameters, clipped by hand: no Opacus needed.

    python examples/train_text.py                  # all mechanisms, a table and a plot in output/examples

The texts are made: 8 topics, each with its own words among 50,000, common words shared (Zipf). The model averages the
embeddings of a text's words. A text's gradient touches only its own words' rows, so its norm follows from few numbers,
and the sum of clipped gradients is computed without any gradient per text.
"""

from __future__ import annotations

import torch
from comparison import compare, options
from torch import Tensor, nn

import dpstream as dp
from dpstream.adapters.torch import PrivateGradients

WORDS, WIDTH, TOPICS, LENGTH = 50_000, 20, 8, 40
TEXTS, TESTS, BATCH = 20_000, 2_000, 1_000
DELTA, CLIP = 1e-6, 1.0


def data() -> tuple[Tensor, Tensor]:
    """Texts as rows of word numbers, and their topics."""
    generator = torch.Generator().manual_seed(0)
    topics = torch.randint(TOPICS, (TEXTS + TESTS,), generator=generator)
    common = 1.0 / torch.arange(10, WORDS + 10, dtype=torch.float64)
    favoured = torch.rand(TOPICS, WORDS, generator=generator) < 1 / TOPICS
    texts = torch.empty(TEXTS + TESTS, LENGTH, dtype=torch.int64)
    for topic in range(TOPICS):
        mine = topics == topic
        chances = torch.cumsum(common * (1 + 1.5 * favoured[topic]), 0)
        draws = torch.rand(int(mine.sum()), LENGTH, generator=generator, dtype=torch.float64)
        texts[mine] = torch.searchsorted(chances / chances[-1], draws)
    return texts, topics


class Classifier(nn.Module):
    """The mean of the words' embeddings, and a linear layer."""

    def __init__(self) -> None:
        super().__init__()
        torch.manual_seed(0)
        self.words = nn.Parameter(0.1 * torch.randn(WORDS, WIDTH))
        self.out = nn.Linear(WIDTH, TOPICS)

    def forward(self, texts: Tensor) -> Tensor:
        """The scores of the topics."""
        return self.out(self.words[texts].mean(1))


def clipped_sums(model: Classifier, texts: Tensor, topics: Tensor) -> dict[str, Tensor]:
    """The sum over the texts of their gradients, each clipped to norm CLIP."""
    with torch.no_grad():
        mean = model.words[texts].mean(1)
        wrong = torch.softmax(model.out(mean), 1) - nn.functional.one_hot(topics, TOPICS)
        back = wrong @ model.out.weight / LENGTH  # the gradient of each of the text's words
        equal = (texts[:, :, None] == texts[:, None, :]).sum((1, 2))  # Σ over its words of (how often)²
        squared = equal * (back**2).sum(1) + (wrong**2).sum(1) * (1 + (mean**2).sum(1))
        factor = (CLIP / (squared.sqrt() + 1e-6)).clamp(max=1.0)[:, None]
        rows = (back * factor).repeat_interleave(LENGTH, 0)
        return {
            "words": torch.zeros(WORDS, WIDTH).index_add_(0, texts.ravel(), rows),
            "out.weight": (wrong * factor).T @ mean,
            "out.bias": (wrong * factor).sum(0),
        }


def train(
    texts: Tensor, topics: Tensor, mechanism: dp.mechanisms.Mechanism | None, rate: float, key: bytes, *, epochs: int,
    epsilon: float,
) -> float:  # fmt: skip
    """Train once; return the test accuracy."""
    model = Classifier()
    batches = TEXTS // BATCH
    optimizer = torch.optim.SGD(model.parameters(), lr=rate, momentum=0.9)
    private = None
    if mechanism is not None:
        private = PrivateGradients(
            model, horizon=epochs * batches, budget=dp.approx_dp(epsilon, DELTA), max_grad_norm=CLIP,
            participation=dp.Participation(times=epochs, separation=batches), mechanism=mechanism, key=key,
        )  # fmt: skip
    for step in range(epochs * batches):
        low = step % batches * BATCH
        sums = clipped_sums(model, texts[low : low + BATCH], topics[low : low + BATCH])
        if private is not None:
            private.privatize(sums)
        for name, p in model.named_parameters():
            p.grad = sums[name] / BATCH
        optimizer.step()
    if private is not None:
        private.close()
    with torch.no_grad():
        return float((model(texts[TEXTS:]).argmax(1) == topics[TEXTS:]).float().mean())


def main() -> None:
    """Compare all mechanisms."""
    chosen = options(__doc__.splitlines()[0], epochs=8)
    texts, topics = data()
    batches = TEXTS // BATCH
    compare(
        "text: embeddings of 1,000,000 parameters",
        lambda mechanism, rate, key: train(
            texts, topics, mechanism, rate, key, epochs=chosen.epochs, epsilon=chosen.epsilon
        ),
        steps=chosen.epochs * batches,
        participation=dp.Participation(times=chosen.epochs, separation=batches),
        budget=dp.approx_dp(chosen.epsilon, DELTA),
        rates=chosen.rates or [1.0, 2.0, 4.0, 8.0, 16.0, 32.0],
        keys=chosen.keys,
        folder=chosen.output,
    )


if __name__ == "__main__":
    main()
