"""What a step of private training costs beside its gradients: our noise against that of Opacus and jax_privacy."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator

import measure
from dpstream import Participation, mechanisms, zcdp
from dpstream.mechanisms import Mechanism
from dpstream.testing import fixed_key
from measure import Row

STEPS, PARTICIPATION = 2048, Participation(times=8, separation=256)
SIZES = (10**5, 10**6, 10**7)


def fitted(buffers: int = 4) -> Mechanism:
    return mechanisms.FittedToeplitz.fit(STEPS, participation=PARTICIPATION, objective="mean", buffers=buffers)


def ours(mechanism: Mechanism, size: int) -> Callable[[], object]:
    """One step of `PrivateGradients` on one tensor, in its own memory, with all checks."""
    import torch

    from dpstream.adapters.torch import PrivateGradients

    run = PrivateGradients(
        {"w": torch.zeros(size, requires_grad=True)}, horizon=STEPS, budget=zcdp(0.5), max_grad_norm=1.0,
        participation=PARTICIPATION, mechanism=mechanism, key=fixed_key(f"{mechanism!r} {size}"), threads=1,
    )  # fmt: skip
    gradient = torch.zeros(size)
    return lambda: run.privatize({"w": gradient})


def opacus(size: int, *, secure: bool = False) -> Callable[[], object]:
    """One `add_noise` of Opacus' DPOptimizer.

    Its secure mode here draws from PyTorch's generator: torchcsprng, which is slower, can no longer be installed.
    """
    import torch
    from opacus.optimizers.optimizer import _generate_noise

    gradient = torch.zeros(size)
    return lambda: gradient + _generate_noise(1.0, gradient, secure_mode=secure)


def jax_privacy(matrix: object, size: int) -> Callable[[], object]:
    """One compiled update of jax_privacy's privatizer."""
    import jax
    import jax.numpy as jnp
    from jax_privacy.noise_addition import matrix_factorization_privatizer

    privatizer = matrix_factorization_privatizer(matrix, stddev=1.0, prng_key=jax.random.key(1))
    held = [jnp.zeros(size)]
    held.append(privatizer.init(held[0]))
    update = jax.jit(privatizer.update, donate_argnums=1)

    def work() -> None:
        noisy, held[1] = update(held[0], held[1])
        jax.block_until_ready((noisy, held[1]))  # its state too, or the next work would pay for it

    return work


def host_in_jax(mechanism: Mechanism, size: int) -> Callable[[], object]:
    """One compiled update of our optax transformation."""
    import jax
    import jax.numpy as jnp

    from dpstream.adapters.jax import private_noise

    noise = private_noise(mechanism, 1.0, key=fixed_key(f"jax {size}"), threads=1)
    held = [jnp.zeros(size)]
    held.append(noise.init(held[0]))
    update = jax.jit(noise.update)

    def work() -> None:
        noisy, held[1] = update(held[0], held[1])
        jax.block_until_ready((noisy, held[1]))  # its state too, or the next work would pay for it

    return work


def row(work: str, against: str, mine: float, peer: float, at_least: float) -> Row:
    return Row(work, against, mine * 1e3, peer * 1e3, "ms", peer / mine, f"≥ {at_least:.2g}×", peer / mine >= at_least)


def training() -> Iterator[Row]:
    """Processor time of a step's noise for 10^5, 10^6 and 10^7 parameters."""
    import torch
    from jax_privacy.matrix_factorization import toeplitz
    from jax_privacy.matrix_factorization.buffered_toeplitz import BufferedToeplitz

    torch.set_num_threads(1)
    # Buffers of float32, as ours; its own door would insist on float64, which is slower.
    blt = BufferedToeplitz.build([0.99, 0.9, 0.6, 0.2], [0.05, 0.1, 0.15, 0.1], dtype="float32")
    banded = toeplitz.inverse_as_streaming_matrix(toeplitz.optimal_max_error_strategy_coefs(16))
    for size in SIZES:
        times = {}
        # PyTorch and JAX apart: what XLA's threads still do after a step would be charged to whoever comes next.
        for works in (
            {
                "fitted": ours(fitted(), size),
                "tree": ours(mechanisms.SmoothBinary(STEPS), size),
                "opacus": opacus(size),
                "secure": opacus(size, secure=True),
            },
            {
                "jax": host_in_jax(fitted(), size),
                "blt": jax_privacy(blt._streaming_matrix_builder().build_inverse(), size),
                "banded": jax_privacy(banded, size),
            },
        ):
            for work in works.values():
                for _ in range(16 if work is works.get("tree") else 2):  # no vector is touched for the first time
                    work()
            # Several steps in a row: a tree's steps differ, and so does the first one after another's work.
            repeats = (max(2, 4 * 10**6 // size),) * len(works)
            # Processor time of all threads: what else runs on the machine, and waiting for a callback, do not count.
            measured = measure.alternate(*works.values(), repeats=repeats, rounds=7, clock=time.process_time)
            times.update(zip(works, measured, strict=True))
        name = f"{size:,} parameters"
        yield row(f"fitted, 4 buffers, {name}", "Opacus, independent", times["fitted"], times["opacus"], 1 / 1.2)
        yield row(f"fitted, 4 buffers, {name}", "Opacus, secure mode", times["fitted"], times["secure"], 5)
        yield row(f"smooth tree, {name}", "Opacus, independent", times["tree"], times["opacus"], 1)
        yield row(f"fitted in optax, {name}", "jax_privacy, BLT of 4", times["jax"], times["blt"], 1)
        yield row(f"fitted in optax, {name}", "jax_privacy, 16 bands", times["jax"], times["banded"], 1)


def training_memory() -> Iterator[Row]:
    """Memory that noise for 10^7 float32 parameters adds: the mechanism's vectors and one more."""
    setup = (
        "import sys; sys.path.insert(0, 'benchmarks')\n"
        "import torch, training; from dpstream import mechanisms\n"
        "small = training.ours(training.fitted(), 1000); small()\n"
        "mechanism = {mechanism}"
    )
    for name, made in (
        ("fitted, 4 buffers", "training.fitted()"),
        ("smooth tree", f"mechanisms.SmoothBinary({STEPS})"),
    ):
        work = "step = training.ours(mechanism, 10**7)\nfor _ in range(40): step()"
        measured = measure.peak_bytes(
            "import sys; sys.path.insert(0, 'benchmarks')\n" + setup.format(mechanism=made), work
        )
        vectors = 4 if name.startswith("fitted") else mechanisms.SmoothBinary(STEPS).memory
        allowed = (vectors + 1 + 2) * 4e7  # and the parameter and its gradient, which are not noise
        yield Row(
            f"memory, {name}, 10^7", f"{vectors} vectors + 1", (measured - 8e7) / 1e6, (vectors + 1) * 40.0, "MB",
            measured / allowed, "≤ 1.05×", measured <= 1.05 * allowed,
        )  # fmt: skip


ALL = (training, training_memory)
