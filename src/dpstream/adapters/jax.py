"""Private training in JAX: correlated noise as an optax gradient transformation.

    scale = dp.noise_scale(mechanism, budget, per_person=max_grad_norm, participation=dp.Participation(epochs, batches))
    optimizer = optax.chain(private_noise(mechanism, scale), optax.scale(1 / batch_size), optax.sgd(0.1))

`update` takes the *sum* of the clipped gradients of a batch. Noise is made on the host by `dpstream.NoiseStream` and
reaches the device through an ordered callback: faster than normals on a CPU device, with keys of 256 bits. For noise on
the device there is `streaming_matrix`, our mechanisms inside jax_privacy; see docs/training-jax.md.
"""

from __future__ import annotations

import logging
import os
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from dpstream.adapters.training_noise import GivenScale, Part, TrainingNoise, Which
from dpstream.errors import (
    DpstreamError,
    GradientMismatch,
    GradientNotFinite,
    InvalidArgument,
    MissingExtra,
    NoiseLawError,
    ParametersChanged,
    StepsReleased,
)
from dpstream.mechanisms.base import Mechanism

try:
    import jax
    import jax.numpy as jnp
    import optax
    from jax.experimental import io_callback
except ImportError as error:
    raise MissingExtra(extra="jax", needs="JAX and optax") from error

if TYPE_CHECKING:
    from dpstream.adapters.jax_matrix import streaming_matrix

__all__ = ["PrivateNoiseState", "private_noise", "streaming_matrix"]

_log = logging.getLogger("dpstream")


def __getattr__(name: str) -> Any:
    """`streaming_matrix` needs jax_privacy, which is imported when it is asked for."""
    if name == "streaming_matrix":
        from dpstream.adapters import jax_matrix

        return jax_matrix.streaming_matrix
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


class PrivateNoiseState(NamedTuple):
    """How many steps were made; all else follows from it and the key."""

    step: Any


def private_noise(
    mechanism: Mechanism,
    scale: float,
    *,
    key: bytes | str | os.PathLike[str] | None = None,
    which: Which = "increments",
    threads: int | None = None,
    discard_later_steps: bool = False,
) -> Any:
    """Return an optax transformation that adds a mechanism's noise to sums of clipped gradients.

    Its state is the number of steps made, so it is saved and restored with the optimizer's. A step is made once: an
    older state after more steps were made is refused. Refused steps raise outside jit; inside, where nothing can be
    raised, every update becomes NaN and the reason is logged to "dpstream".

    Parameters
    ----------
    mechanism
        How noise is shared over time.
    scale
        The scale of the draws, from `dpstream.noise_scale`.
    key
        None: 32 bytes from the operating system, for this process only. A path: a key file of mode 0600, made if
        missing, with a count of the released steps beside it, to resume from a checkpoint. Or 32 bytes.
    which
        "increments": for gradients. "prefix": for running sums of gradients.
    threads
        Threads for arrays of 2^18 and more coordinates; None for all processors.
    discard_later_steps
        Allow the first step to be an older one than was released under this key: say True only if nothing that depends
        on the later ones was or will be shown to anybody.

    Guarantee
    ---------
    The noisy sums of all steps together keep the budget that `scale` was computed for, up to the mechanism's horizon,
    adaptively. Assumed: gradients are clipped per example to what `scale` was computed for, examples come back no
    sooner than that, the key is secret and uniformly random, AES-256 is a pseudorandom function. The promise is that of
    real-valued noise.

    Examples
    --------
    >>> import dpstream as dp
    >>> from dpstream.testing import fixed_key
    >>> noise = private_noise(dp.mechanisms.SmoothBinary(10), 2.0, key=fixed_key("docs"))
    >>> state = noise.init({"w": jnp.zeros(3)})
    >>> update, state = noise.update({"w": jnp.zeros(3)}, state)
    >>> int(state.step), update["w"].shape
    (1, (3,))
    """
    if not isinstance(mechanism, Mechanism):
        raise InvalidArgument("mechanism", mechanism, "a mechanism from dpstream.mechanisms")
    if mechanism.noise != "gaussian":
        raise NoiseLawError(f"training adds Gaussian noise, but {mechanism!r} has {mechanism.noise} noise")
    host = _Host(
        lambda parts: TrainingNoise(GivenScale(mechanism, scale), parts, key=key, which=which, threads=threads)
    )
    host.discard_later_steps = discard_later_steps

    def init(params: Any) -> PrivateNoiseState:
        if jax.process_count() != 1:  # each would make noise of its own for what they share
            raise InvalidArgument(
                "jax.process_count()", jax.process_count(), "1; across processes use streaming_matrix"
            )
        host.start(params)
        return PrivateNoiseState(jnp.zeros((), jnp.int32))

    def update(updates: Any, state: PrivateNoiseState, params: Any = None) -> tuple[Any, PrivateNoiseState]:
        del params
        gradients, structure = host.checked(updates)
        finite = jnp.stack([jnp.isfinite(g).all() for g in gradients]).all()
        shapes = tuple(jax.ShapeDtypeStruct(g.shape, g.dtype) for g in gradients)
        if any(isinstance(value, jax.core.Tracer) for value in (*gradients, state.step)):
            noise = io_callback(host.noise_or_nan, shapes, state.step, finite, ordered=True)
        else:
            if not bool(finite):
                name = next(n for n, g in zip(host.names, gradients, strict=True) if not bool(jnp.isfinite(g).all()))
                raise GradientNotFinite(name=_shown(name))
            noise = host.noise(int(state.step))
        noisy = [g + n for g, n in zip(gradients, noise, strict=True)]
        return jax.tree.unflatten(structure, noisy), PrivateNoiseState(state.step + 1)

    return optax.GradientTransformation(init, update)


class _Host:
    """The streams on the host, and what they were started for."""

    def __init__(self, make: Callable[[dict[str, Part]], TrainingNoise]) -> None:
        self._make = make
        self._noise: TrainingNoise | None = None
        self.names: list[str] = []
        self.discard_later_steps = False

    def start(self, params: Any) -> None:
        """Make the streams for these parameters; once more for the same ones changes nothing."""
        parts = {}
        for path, leaf in jax.tree_util.tree_leaves_with_path(params):
            dtype = "float64" if leaf.dtype == jnp.float64 else "float32"
            parts[jax.tree_util.keystr(path)] = Part(tuple(leaf.shape), dtype=dtype)
        if self._noise is None:
            self._noise = self._make(parts)
            self.names = list(parts)
        elif parts != self._noise.parts:
            raise ParametersChanged(what="init was called again with other parameters")

    def checked(self, updates: Any) -> tuple[list[Any], Any]:
        """Return the gradients and their structure; refuse other parameters, shapes and dtypes than at the start."""
        if self._noise is None:
            raise ParametersChanged(what="update was called before init")
        leaves = {jax.tree_util.keystr(path): leaf for path, leaf in jax.tree_util.tree_leaves_with_path(updates)}
        if list(leaves) != self.names:
            were, now = (", ".join(map(_shown, names)) for names in (self.names, leaves))
            raise ParametersChanged(what=f"they were {were}, now {now}")
        for name, leaf in leaves.items():
            part = self._noise.parts[name]
            if tuple(leaf.shape) != part.shape or leaf.dtype != part.dtype:
                raise GradientMismatch(
                    name=_shown(name),
                    given=f"{leaf.dtype} of shape {tuple(leaf.shape)}",
                    allowed=f"{part.dtype} of shape {part.shape}",
                )
        return list(leaves.values()), jax.tree.structure(updates)

    def noise(self, t: int) -> tuple[NDArray[Any], ...]:
        """Return the noise of the step after `t`, an array for each parameter."""
        noise = self._noise
        assert noise is not None  # noqa: S101
        if t != noise.t:
            if noise.t and t < noise.t:
                raise StepsReleased(step=t, released=noise.t)
            noise.seek(t, discard_later_steps=self.discard_later_steps)
        self.discard_later_steps = False
        made = {name: np.empty(part.shape, part.dtype) for name, part in noise.parts.items()}
        noise.step(lambda name, values: values.write_to(made[name].reshape(-1)))
        return tuple(made[name] for name in self.names)

    def noise_or_nan(self, t: Any, finite: Any) -> tuple[NDArray[Any], ...]:
        """Return what `noise` returns, or NaN where it raises or a gradient is not finite."""
        try:
            if not bool(finite):
                raise GradientNotFinite(name="this step")
            return self.noise(int(t))
        except DpstreamError as error:
            _log.error("step %d is refused, and its update is NaN: %s", int(t) + 1, error)
            assert self._noise is not None  # noqa: S101
            parts = (self._noise.parts[name] for name in self.names)
            return tuple(np.full(part.shape, np.nan, part.dtype) for part in parts)


def _shown(name: str) -> str:
    """Return a parameter's name for messages; parameters that are one array have the path ''."""
    return name or "params"
