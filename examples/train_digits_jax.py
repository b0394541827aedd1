"""The digits and the CNN of train_digits.py in JAX, with optax.

python examples/train_digits_jax.py            # all mechanisms, a table and a plot in output/examples
"""

from __future__ import annotations

from functools import partial
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import optax
from comparison import compare, options
from sklearn.datasets import load_digits

import dpstream as dp
from dpstream.adapters.jax import private_noise

DELTA, BATCH, CLIP = 1e-5, 150, 1.0


def data() -> tuple[Any, Any, Any, Any]:
    """1,500 digits to train on, in batches, and 297 to test on."""
    digits = load_digits()
    order = np.random.default_rng(0).permutation(len(digits.target))
    x, y = (digits.images[order, None].astype(np.float32) - 4.9) / 6.0, digits.target[order]
    return x[:1500].reshape(-1, BATCH, 1, 8, 8), y[:1500].reshape(-1, BATCH), x[1500:], y[1500:]


def start() -> dict[str, Any]:
    """The parameters of the CNN, 3,130 in all; the same start for all."""
    keys = jax.random.split(jax.random.key(0), 3)
    shapes = {"first": (16, 1, 3, 3), "second": (16, 16, 3, 3), "out": (64, 10)}
    params: dict[str, Any] = {}
    for key, (name, shape) in zip(keys, shapes.items(), strict=True):
        inputs = shape[0] if name == "out" else np.prod(shape[1:])
        params[name] = jax.random.normal(key, shape) / np.sqrt(inputs)
        params[f"{name} bias"] = jnp.zeros(10 if name == "out" else 16)
    return params


def scores(params: dict[str, Any], x: Any) -> Any:
    """The scores of the ten digits, for a batch of images."""
    for name in ("first", "second"):
        x = jax.lax.conv(x, params[name], (1, 1), "SAME") + params[f"{name} bias"][:, None, None]
        x = jax.lax.reduce_window(jnp.tanh(x), -jnp.inf, jax.lax.max, (1, 1, 2, 2), (1, 1, 2, 2), "VALID")
    return x.reshape(len(x), -1) @ params["out"] + params["out bias"]


def clipped(params: dict[str, Any], x: Any, y: Any) -> Any:
    """One example's gradient, of norm at most CLIP."""

    def loss(params: dict[str, Any]) -> Any:
        return optax.softmax_cross_entropy_with_integer_labels(scores(params, x[None])[0], y)

    gradient = jax.grad(loss)(params)
    factor = jnp.minimum(1.0, CLIP / (optax.global_norm(gradient) + 1e-6))
    return jax.tree.map(lambda g: g * factor, gradient)


def train(mechanism: dp.mechanisms.Mechanism | None, rate: float, key: bytes, *, epochs: int, epsilon: float) -> float:
    """Train once; return the test accuracy."""
    x, y, test, labels = data()
    rule = [optax.scale(1 / BATCH), optax.sgd(rate, momentum=0.9)]
    if mechanism is not None:
        participation = dp.Participation(times=epochs, separation=len(x))
        budget = dp.approx_dp(epsilon, DELTA)
        scale = dp.noise_scale(mechanism, budget, per_person=CLIP, participation=participation)
        rule = [private_noise(mechanism, scale, key=key), *rule]
    optimizer = optax.chain(*rule)

    @jax.jit
    def step(params: Any, state: Any, x: Any, y: Any) -> Any:
        total = jax.tree.map(partial(jnp.sum, axis=0), jax.vmap(clipped, (None, 0, 0))(params, x, y))
        updates, state = optimizer.update(total, state)
        return optax.apply_updates(params, updates), state

    params = start()
    state = optimizer.init(params)
    for t in range(epochs * len(x)):
        params, state = step(params, state, x[t % len(x)], y[t % len(x)])
    return float((scores(params, test).argmax(1) == labels).mean())


def main() -> None:
    """Compare all mechanisms."""
    chosen = options(__doc__.splitlines()[0], epochs=16)
    batches = len(data()[0])
    compare(
        "digits in JAX: a CNN of 3,130 parameters",
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
