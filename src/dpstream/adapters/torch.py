"""Private training in PyTorch with correlated noise.

With Opacus (per-sample gradients, clipping, virtual steps), three objects in and three out:

    model, optimizer, loader = make_private(
        model, optimizer, loader, budget=dp.approx_dp(8, 1e-5), max_grad_norm=1.0, epochs=10
    )

Without Opacus, for those who clip themselves:

    private = PrivateGradients(model, horizon=2048, budget=…, max_grad_norm=1.0, participation=…)
    private.privatize(sums)      # a dict of the sums of clipped gradients, noise added in place; then divide and step

The noise of every parameter tensor is made by a `dpstream.NoiseStream` on the host; see docs/training-pytorch.md.
"""

from __future__ import annotations

import math
import os
from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Any, Literal

import numpy as np

from dpstream.adapters.run_key import RunKey
from dpstream.adapters.training_noise import Part, PartNoise, TrainingNoise, Which
from dpstream.adapters.training_settings import GaussianBudget, TrainingSettings
from dpstream.budget import Budget
from dpstream.errors import GradientMismatch, GradientNotFinite, MissingExtra, ParametersChanged
from dpstream.mechanisms.base import Mechanism
from dpstream.participation import Participation

try:
    import torch
    from torch import Tensor
    from torch.distributed.tensor import DTensor
except ImportError as error:
    raise MissingExtra(extra="torch", needs="PyTorch") from error

if TYPE_CHECKING:
    from dpstream.adapters.torch_opacus import DPOptimizer, make_private

__all__ = ["DPOptimizer", "PrivateGradients", "make_private"]

#: Parameters of these dtypes have gradient sums, and noise, of float32; the noisy sum is rounded last.
HALF = (torch.float16, torch.bfloat16)


def __getattr__(name: str) -> Any:
    """`make_private` and `DPOptimizer` need Opacus, which is imported when they are asked for."""
    if name in ("DPOptimizer", "make_private"):
        from dpstream.adapters import torch_opacus

        return getattr(torch_opacus, name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


class PrivateGradients:
    """Adds correlated noise to the sums of clipped gradients, step after step.

    Parameters
    ----------
    parameters
        A module, or names and tensors; those that require a gradient get noise. Sharded ones (`DTensor`) get the noise
        of the local shard.
    horizon
        The most steps that will be made.
    budget
        `dpstream.approx_dp` or `dpstream.zcdp`, for all steps together.
    max_grad_norm
        The largest ℓ2 norm of one example's gradient, over all parameters together. You clip.
    participation
        How often an example is used, and how many steps apart at least; None: once.
    mechanism
        "auto" for the one of least mean error under this participation, or a mechanism.
    key
        None: a key from the operating system, for this process only. A path: a key file of mode 0600, made if missing,
        with a count of the released steps beside it; needed for checkpoints. Or 32 bytes. Of several workers the first
        one's is taken, and told to the others, so that all of them make this object together.
    which
        "increments": for gradients. "prefix": for running sums of gradients (FTRL).
    threads
        Threads for tensors of 2^18 and more coordinates; None for all processors.

    Guarantee
    ---------
    The noisy sums of all steps together keep `budget` for training sets that differ in one example, all others staying
    in their batches, if that example adds a gradient of norm at most `max_grad_norm` to the sums of at most
    ``participation.times`` steps, ``participation.separation`` or more apart; adaptive, up to `horizon` steps.
    Assumed: the key is secret and uniformly random, AES-256 is a pseudorandom function. The promise is that of
    real-valued noise: sums are rounded to float32 (or float64) before noise is added.

    Examples
    --------
    >>> import dpstream as dp
    >>> from dpstream.testing import fixed_key
    >>> layer = torch.nn.Linear(2, 1)
    >>> private = PrivateGradients(
    ...     layer, horizon=10, budget=dp.zcdp(0.5), max_grad_norm=1.0, key=fixed_key("docs"),
    ...     mechanism=dp.mechanisms.SmoothBinary(10),
    ... )
    >>> sums = {"weight": torch.zeros(1, 2), "bias": torch.zeros(1)}
    >>> noisy = private.privatize(sums)
    >>> private.t, noisy["weight"].shape
    (1, torch.Size([1, 2]))
    """

    def __init__(
        self,
        parameters: torch.nn.Module | Mapping[str, Tensor] | Iterable[tuple[str, Tensor]],
        *,
        horizon: int,
        budget: Budget,
        max_grad_norm: float,
        participation: Participation | None = None,
        mechanism: Mechanism | Literal["auto"] = "auto",
        key: bytes | str | os.PathLike[str] | None = None,
        which: Which = "increments",
        threads: int | None = None,
    ) -> None:
        self._parameters = trainable(parameters)
        parts = {name: part_of(tensor) for name, tensor in self._parameters.items()}
        self._settings = TrainingSettings.for_training(
            horizon=horizon,
            budget=budget,
            max_grad_norm=max_grad_norm,
            participation=participation,
            mechanism=mechanism,
            coordinates=max(1, sum(part.coordinates for part in parts.values())),
        )
        self._which = which
        self._noise = TrainingNoise(
            self._settings, parts, key=key, which=which, threads=threads, open_key=open_together
        )

    def __repr__(self) -> str:
        return f"PrivateGradients({self._noise!r})"

    @property
    def t(self) -> int:
        """How many steps have been made."""
        return self._noise.t

    @property
    def settings(self) -> TrainingSettings:
        """Horizon, budget, participation, mechanism and noise scale."""
        return self._settings

    @property
    def parameters(self) -> dict[str, Tensor]:
        """The parameters that get noise, by name."""
        return dict(self._parameters)

    def spent(self) -> GaussianBudget | None:
        """What is spent if training stops at this step, as fixed beforehand; None before the first step.

        A training that stops because of what was seen is covered by the whole budget, not by this.
        """
        return self.settings.spent_after(self.t)

    def describe(self) -> str:
        """Return the promise of the whole training in words, for a model card."""
        return self.settings.describe()

    def get_epsilon(self, delta: float) -> float:
        """The least ε for this δ if training stops now."""
        return self.settings.epsilon_after(self.t, delta)

    def check_next_step(self) -> int:
        """Return the number of the next step; refuse it if it, or a change of the parameters, is not covered."""
        for name, tensor in self._parameters.items():
            part = self._noise.parts[name]
            if not tensor.requires_grad:
                raise ParametersChanged(what=f"{name!r} no longer requires a gradient")
            if tuple(tensor.shape) != part.shape:
                raise ParametersChanged(what=f"{name!r} had shape {part.shape}, now {tuple(tensor.shape)}")
        return self._noise.check_next_step()

    def privatize(self, gradient_sums: Mapping[str, Tensor]) -> Mapping[str, Tensor]:
        """Add the next step's noise, in place, to the sums of the clipped gradients, and return them.

        For running sums (``which="prefix"``) the noisy sums are copies: those given go on to the next step without
        noise. They are true data, to be kept as secret as the examples.

        Give the *sum* over the examples, before it is divided by the batch size: float64 for parameters of float64,
        otherwise float32, also for parameters of 16 bits (a sum rounded to 16 bits is not within `max_grad_norm` of the
        sum without one example).

        Raises
        ------
        GradientMismatch, GradientNotFinite, ParametersChanged, TrainingEnded, StepsReleased
            Before anything is changed.
        """
        self.check_next_step()
        if gradient_sums.keys() != self._parameters.keys():
            missing = self._parameters.keys() - gradient_sums.keys()
            for name in missing:
                raise GradientMismatch(name=name, given="none", allowed="given at every step")
            unknown = ", ".join(repr(name) for name in gradient_sums.keys() - self._parameters.keys())
            raise ParametersChanged(what=f"{unknown} came later")
        local = {name: self._checked(name, gradient) for name, gradient in gradient_sums.items()}
        if self._which == "prefix":
            gradient_sums = {name: gradient.clone() for name, gradient in gradient_sums.items()}
            local = {name: _local(gradient) for name, gradient in gradient_sums.items()}

        def use(name: str, noise: PartNoise) -> None:
            add_noise(local[name], noise)

        try:
            self._noise.step(use)
        except BaseException:
            for gradient in local.values():  # some have noise and some not: make sure that nobody uses them
                gradient.fill_(float("nan"))
            raise
        return gradient_sums

    def _checked(self, name: str, gradient: Tensor) -> Tensor:
        part, parameter = self._noise.parts[name], self._parameters[name]
        if not isinstance(gradient, Tensor):
            raise GradientMismatch(name=name, given=type(gradient).__name__, allowed="a tensor")
        local = _local(gradient)
        wanted = getattr(torch, part.dtype)
        if tuple(gradient.shape) != part.shape or local.shape != _local(parameter).shape or gradient.dtype != wanted:
            raise GradientMismatch(
                name=name,
                given=f"{gradient.dtype} of shape {tuple(gradient.shape)}",
                allowed=f"{wanted} of shape {part.shape}",
            )
        if local.requires_grad:
            raise GradientMismatch(name=name, given="one that requires a gradient itself", allowed="detached")
        if local.numel():
            low, high = torch.aminmax(local)  # NaN if there is one
            if not (math.isfinite(low.item()) and math.isfinite(high.item())):
                raise GradientNotFinite(name=name)
        return local

    # -- saving ---------------------------------------------------------------------------------------------------

    def state_dict(self) -> dict[str, Any]:
        """Where the noise stands, for `torch.save`; the key is not in it, and the noise in it is encrypted."""
        state = self._noise.state()
        state["streams"] = {name: as_tensor(sealed) for name, sealed in state["streams"].items()}
        return state

    def load_state_dict(self, state: Mapping[str, Any], *, discard_later_steps: bool = False) -> None:
        """Go on where `state_dict` was called, with the same key and settings.

        Parameters
        ----------
        state
            From ``torch.load(path, weights_only=True)``.
        discard_later_steps
            Say True if steps were made after this checkpoint and nothing that depends on them (model, checkpoint,
            figure) was or will be shown to anybody; see docs/training-pytorch.md.
        """
        if isinstance(state, Mapping) and isinstance(state.get("streams"), Mapping):
            opened = {name: sealed.numpy().tobytes() for name, sealed in state["streams"].items()}
            state = {**state, "streams": opened}
        self._noise.restore(state, discard_later_steps=discard_later_steps)

    def close(self) -> None:
        """Let go of the key file, for another process to go on with."""
        self._noise.close()


def trainable(parameters: torch.nn.Module | Mapping[str, Tensor] | Iterable[tuple[str, Tensor]]) -> dict[str, Tensor]:
    """Return the tensors that require a gradient, by the name that they have in the innermost module."""
    if isinstance(parameters, torch.nn.Module):
        named: Iterable[tuple[str, Tensor]] = parameters.named_parameters()
    else:
        named = parameters.items() if isinstance(parameters, Mapping) else parameters
    return {plain_name(name): tensor for name, tensor in named if tensor.requires_grad}


def plain_name(name: str) -> str:
    """Return a parameter's name without what Opacus ("_module.") and DistributedDataParallel ("module.") prepend."""
    while name.startswith(("_module.", "module.")):
        name = name.partition(".")[2]
    return name


def part_of(tensor: Tensor) -> Part:
    """Return the shape of a parameter, the coordinates of it that live here, and the dtype of its noise."""
    dtype = "float64" if tensor.dtype == torch.float64 else "float32"
    shape = tuple(tensor.shape)
    if not isinstance(tensor, DTensor):
        return Part(shape, dtype=dtype)
    from dpstream.adapters.torch_shards import local_range

    low, high = local_range(tensor)
    return Part(shape, low, high, dtype)


def add_noise(gradient: Tensor, noise: PartNoise) -> None:
    """Add noise to a gradient, in its own memory; on another device, or in another layout, by way of a copy."""
    if gradient.device.type == "cpu" and gradient.is_contiguous():
        noise.add_to(gradient.view(-1).numpy())
        return
    made = torch.empty(gradient.shape, dtype=gradient.dtype, pin_memory=gradient.device.type == "cuda")
    noise.write_to(made.view(-1).numpy())
    gradient.add_(made.to(gradient.device, non_blocking=True))  # memory of its own: nothing overwrites it meanwhile


def as_tensor(sealed: bytes) -> Tensor:
    """Return bytes as a tensor, which `torch.load(weights_only=True)` reads."""
    return torch.from_numpy(np.frombuffer(sealed, dtype=np.uint8).copy())


def _local(tensor: Tensor) -> Tensor:
    return tensor.to_local() if isinstance(tensor, DTensor) else tensor


def open_together(source: bytes | str | os.PathLike[str] | None, settings: str) -> RunKey:
    """Open a run's key; of several workers the first opens it, and tells the others the key or why it cannot.

    It goes where the sums of true gradients go, which are as secret.
    """
    if workers() == 1:
        return RunKey(source, settings)
    told: list[Any] = [None]
    own = None
    if torch.distributed.get_rank() == 0:
        try:
            own = RunKey(source, settings)
            told = [own.for_worker()]
        except Exception as error:  # the others would wait for ever
            told = [error]
    torch.distributed.broadcast_object_list(told)
    if isinstance(told[0], Exception):
        raise told[0]
    return RunKey.of_worker(told[0], settings) if own is None else own


def workers() -> int:
    """How many processes train together."""
    distributed = torch.distributed
    return distributed.get_world_size() if distributed.is_available() and distributed.is_initialized() else 1
