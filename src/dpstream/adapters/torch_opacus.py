"""Correlated noise inside Opacus: its per-sample gradients, clipping and virtual steps, our noise, order and budget."""

from __future__ import annotations

import os
import warnings
from collections.abc import Callable, Mapping
from typing import Any, Literal

from dpstream.adapters.batch_order import BatchOrder
from dpstream.adapters.opacus_accountant import Accountant
from dpstream.adapters.torch import HALF, PrivateGradients, plain_name, workers
from dpstream.adapters.torch_loader import order_of, private_loader
from dpstream.arguments import check_whole
from dpstream.budget import ApproxDP, Budget
from dpstream.errors import BatchUnexpected, InvalidArgument, MissingExtra, ParametersChanged, StateError
from dpstream.mechanisms.base import Mechanism
from dpstream.participation import Participation

try:
    import opacus
    from opacus import optimizers
    from opacus.distributed import DifferentiallyPrivateDistributedDataParallel
    from opacus.grad_sample import GradSampleHooksFastGradientClipping
    from opacus.optimizers.optimizer import _check_processed_flag, _mark_as_processed
except ImportError as error:
    raise MissingExtra(extra="torch", needs="Opacus") from error

import torch
from torch import Tensor
from torch.distributed.fsdp import FSDPModule
from torch.nn.parallel import DistributedDataParallel
from torch.utils.data import DataLoader

__all__ = ["DPOptimizer", "make_private"]

#: What Opacus trains over several workers.
TRAINED_TOGETHER = (DifferentiallyPrivateDistributedDataParallel, DistributedDataParallel, FSDPModule)

GradSampleMode = Literal["hooks", "functorch", "ew", "ghost", "ghost_fsdp"]


class CorrelatedNoise:
    """What our optimizers add to those of Opacus: noise from a stream, and account of the batches.

    Parameters
    ----------
    optimizer
        The optimizer that is stepped with the noisy gradients.
    private
        The noise.
    order
        The batches.
    model
        The model as Opacus wrapped it; with ghost clipping it clips.
    arguments
        Those of the Opacus optimizer.
    """

    private: PrivateGradients
    order: BatchOrder

    def __init__(
        self, optimizer: Any, *, private: PrivateGradients, order: BatchOrder, model: Any, **arguments: Any
    ) -> None:
        self.private, self.order, self._model = private, order, model
        super().__init__(optimizer, **arguments)  # type: ignore[call-arg]
        self._names = {id(tensor): name for name, tensor in private.parameters.items()}
        self._examples: int | None = 0
        self._norms: Any = None
        order.on_start = self._drop

    @property
    def max_grad_norm(self) -> float:
        """The norm to which each example's gradient is clipped, and for which the noise was made."""
        return self.private.settings.max_grad_norm

    @max_grad_norm.setter
    def max_grad_norm(self, norm: float) -> None:
        if norm != self.max_grad_norm:
            raise InvalidArgument(
                "max_grad_norm",
                norm,
                f"{self.max_grad_norm!r} to the end, since the noise was made for it; for another norm begin again:"
                " make_private(..., max_grad_norm=...), with another key",
            )

    def spent(self) -> Any:
        """What is spent if training stops at this step, as fixed beforehand; None before the first step.

        A training that stops because of what was seen is covered by the whole budget, not by this.
        """
        return self.private.spent()

    def describe(self) -> str:
        """Return the promise of the whole training in words, for a model card."""
        return self.private.describe()

    def get_epsilon(self, delta: float) -> float:
        """The least ε for this δ if training stops now."""
        return self.private.get_epsilon(delta)

    def close(self) -> None:
        """Let go of the key file, for another process to go on with."""
        self.private.close()

    # -- a step -----------------------------------------------------------------------------------------------------

    def pre_step(self, closure: Callable[[], float] | None = None) -> Any:
        """Clip and accumulate; at the end of a batch also add noise and divide. Refused steps change nothing."""
        try:
            step = self._check_step()
            made = super().pre_step(closure)  # type: ignore[misc]
        except BaseException:
            self._drop()
            raise
        if made:
            self.order.used(step)
            self._examples = 0
        return made

    def _check_step(self) -> int:
        """Refuse a step past the horizon, of other parameters, of another batch or clipped to another norm."""
        if isinstance(self._model, GradSampleHooksFastGradientClipping):
            self._check_ghost()
        held = {id(p) for group in self.param_groups for p in group["params"] if p.requires_grad}  # type: ignore[attr-defined]
        if held - self._names.keys():
            raise ParametersChanged(what=f"{len(held - self._names.keys())} parameters were added to the optimizer")
        step = self.private.check_next_step()
        if self._names.keys() - held:
            gone = ", ".join(repr(name) for key, name in self._names.items() if key not in held)
            raise ParametersChanged(what=f"{gone} left the optimizer")
        at_hand = self._examples_at_hand()
        self._examples = None if at_hand is None or self._examples is None else self._examples + at_hand
        if not self._check_skip_next_step(pop_next=False):  # type: ignore[attr-defined]
            self.order.check_use(step, self._examples)
        return step

    def _check_ghost(self) -> None:
        """Refuse gradients that the model did not clip, or clipped to another norm.

        The wrapped criterion's `backward` clips, and leaves new norms in the model; that of any other loss does not.
        """
        self.max_grad_norm = self._model.max_grad_norm
        norms = getattr(self._model, "per_sample_gradient_norms", None)
        if norms is None or norms is self._norms:
            raise BatchUnexpected(
                step=self.private.t + 1,
                expected="clipped gradients",
                found="these are not clipped",
                advice="Compute the loss by the criterion that make_private returned, and call backward() of that",
            )
        self._norms = norms

    def _examples_at_hand(self) -> int | None:
        """How many examples' gradients wait to be clipped; None if Opacus does not tell."""
        held = getattr(self.params[0], "grad_sample", None)  # type: ignore[attr-defined]
        if held is None:
            held = getattr(self.params[0], "_norm_sample", None)  # type: ignore[attr-defined]
        if held is None:
            return None
        return sum(map(len, held)) if isinstance(held, list) else len(held)

    def _drop(self) -> None:
        """Forget what was accumulated of a step that will not be made."""
        self._examples = 0
        self._step_skip_queue: list[bool] = []
        for p in self.params:  # type: ignore[attr-defined]
            p.summed_grad = None

    def add_noise(self) -> None:
        """Add the stream's next noise to the sums of clipped gradients, in their own memory."""
        sums = self._sums()
        self.private.privatize({self._names[id(p)]: total for p, total in sums})
        for p, total in sums:
            p.grad = total.to(p.dtype)  # of 16 bits: rounded after the noise

    def _sums(self) -> list[tuple[Any, Tensor]]:
        """The parameters and the sums of their clipped gradients."""
        sums = []
        for p in self.params:  # type: ignore[attr-defined]
            _check_processed_flag(p.summed_grad)
            _mark_as_processed(p.summed_grad)
            sums.append((p, p.summed_grad.detach().view_as(p)))
        return sums

    # -- saving -----------------------------------------------------------------------------------------------------

    def state_dict(self) -> dict[str, Any]:
        """The optimizer's state, where the noise stands, and who was used when; the key is not in it."""
        order = {
            name: torch.from_numpy(value) if hasattr(value, "dtype") else value
            for name, value in self.order.state().items()
        }
        return {**super().state_dict(), "dpstream": {"noise": self.private.state_dict(), "order": order}}  # type: ignore[misc]

    def load_state_dict(self, state_dict: Mapping[str, Any], *, discard_later_steps: bool = False) -> None:
        """Go on where `state_dict` was called; see `PrivateGradients.load_state_dict` for `discard_later_steps`."""
        if "dpstream" not in state_dict:
            raise StateError(
                "this optimizer state was saved by another optimizer: it does not say where the noise stands"
            )
        ours = state_dict["dpstream"]
        self.order.check(ours["order"])
        self.private.load_state_dict(ours["noise"], discard_later_steps=discard_later_steps)
        self.order.restore(ours["order"])
        self._drop()
        super().load_state_dict({name: value for name, value in state_dict.items() if name != "dpstream"})  # type: ignore[misc]


class DPOptimizer(CorrelatedNoise, optimizers.DPOptimizer):
    """Opacus' `DPOptimizer` with correlated noise; made by `make_private`."""

    def clip_and_accumulate(self) -> None:
        """Clip per example and add up, in float32 if a parameter has 16 bits.

        A sum rounded to bfloat16 can move by far more than `max_grad_norm` when one example leaves.
        """
        if not any(p.dtype in HALF for p in self.params):
            super().clip_and_accumulate()
            return
        samples = [(p, self._get_flat_grad_sample(p).float()) for p in self.params]
        norms = torch.stack([g.reshape(len(g), -1).norm(2, dim=-1) for _, g in samples], dim=1).norm(2, dim=1)
        factors = (self.max_grad_norm / (norms + 1e-6)).clamp(max=1.0)
        for p, sample in samples:
            _check_processed_flag(p.grad_sample)
            total = torch.einsum("i,i...", factors, sample)
            p.summed_grad = total if p.summed_grad is None else p.summed_grad + total
            _mark_as_processed(p.grad_sample)


class GhostOptimizer(CorrelatedNoise, optimizers.DPOptimizerFastGradientClipping):
    """Opacus' optimizer for ghost clipping, with correlated noise."""


class _SummedOverWorkers(CorrelatedNoise):
    """Every worker adds the same noise to the sum over all workers, so that noise needs no communication."""

    def _sums(self) -> list[tuple[Any, Tensor]]:
        sums = super()._sums()
        for _, total in sums:
            torch.distributed.all_reduce(total)
        return sums

    def reduce_gradients(self) -> None:
        """Nothing: the sums were reduced before noise was added."""


class DistributedOptimizer(_SummedOverWorkers, DPOptimizer, optimizers.DistributedDPOptimizer):
    """Opacus' optimizer for DistributedDataParallel, with correlated noise."""


class DistributedGhostOptimizer(_SummedOverWorkers, optimizers.DistributedDPOptimizerFastGradientClipping):
    """Opacus' optimizer for DistributedDataParallel and ghost clipping, with correlated noise."""


class ShardedGhostOptimizer(CorrelatedNoise, optimizers.FSDPOptimizerFastGradientClipping):
    """Opacus' optimizer for `fully_shard` and ghost clipping; noise is made for the local shards only."""

    def _sums(self) -> list[tuple[Any, Tensor]]:
        # `fully_shard` averages over the workers; times their number it is the sum.
        return [(p, self.grad_state[p]["summed_grad"].mul_(self.world_size)) for p in self.params]

    def _drop(self) -> None:
        super()._drop()
        for p in self.params:
            self.grad_state[p]["summed_grad"] = None


def make_private(
    model: torch.nn.Module,
    optimizer: torch.optim.Optimizer,
    data_loader: DataLoader[Any],
    *,
    budget: Budget,
    max_grad_norm: float,
    epochs: int,
    mechanism: Mechanism | Literal["auto"] = "auto",
    participation: Participation | None = None,
    key: bytes | str | os.PathLike[str] | None = None,
    criterion: Any = None,
    grad_sample_mode: GradSampleMode = "hooks",
    loss_reduction: Literal["mean", "sum"] = "mean",
    batch_first: bool = True,
    engine: Any = None,
    threads: int | None = None,
) -> tuple[Any, ...]:
    """Make a training private: return model, optimizer and data loader to use instead of those given.

    Parameters
    ----------
    model, optimizer, data_loader
        As for Opacus. A loader that shuffles is shuffled once: every epoch repeats the same batches.
    budget
        `dpstream.approx_dp` or `dpstream.zcdp`, for all epochs together; warned of if delta is more than one over the
        number of examples.
    max_grad_norm
        Each example's gradient is clipped to this ℓ2 norm, which stays the same in all steps.
    epochs
        How many passes over the data the budget must cover.
    mechanism
        "auto" for the one of least mean error, or a mechanism.
    participation
        None: it follows from the order of the batches. Otherwise the loader keeps its own order, and an example that
        comes back sooner or more often than this is refused when it does; with one worker only.
    key
        As for `PrivateGradients`; a path is needed for checkpoints.
    criterion
        The loss, with ghost clipping only; it is returned, wrapped, between optimizer and loader.
    grad_sample_mode, loss_reduction, batch_first
        As for Opacus; "ghost" clips without keeping per-sample gradients, "ghost_fsdp" on sharded models.
    engine
        An ``opacus.PrivacyEngine(accountant="dpstream")``, whose `get_epsilon` and checkpoints then work as usual.
    threads
        As for `PrivateGradients`.

    Guarantee
    ---------
    The trained model, and all its checkpoints together, keep `budget` for training sets that differ in one example, all
    others staying in their batches. Batch sizes and the number of steps are public. Figures such as the training loss
    are computed without noise and are not covered. Assumed of the key: secret, uniformly random.
    """
    epochs = check_whole("epochs", epochs)
    engine = _checked_engine(engine)
    half = [p.dtype for p in model.parameters() if p.requires_grad and p.dtype in HALF]
    if half and "ghost" in grad_sample_mode:
        raise InvalidArgument(
            "grad_sample_mode",
            grad_sample_mode,
            f"'hooks' for parameters of {half[0]}: ghost clipping adds up in 16 bits",
        )
    if workers() > 1 and not isinstance(model, TRAINED_TOGETHER):
        # Each would put the noise that all share on gradients of its own, and their difference would have none.
        raise InvalidArgument(
            "model",
            type(model).__name__,
            f"one that {workers()} workers train together: wrap it in"
            " opacus.distributed.DifferentiallyPrivateDistributedDataParallel, or shard it by fully_shard with"
            " grad_sample_mode='ghost_fsdp'",
        )
    order = order_of(data_loader, participation, epochs)
    if isinstance(budget, ApproxDP) and budget.delta * len(data_loader.dataset) > 1:
        warnings.warn(
            f"delta = {budget.delta:g} is more than 1 / {len(data_loader.dataset)}, one over the number of examples:"
            " a training that gives away one example as it is would keep this budget, too. Take a far smaller delta",
            stacklevel=2,
        )
    loader = private_loader(data_loader, order)
    _check_parameters(model, optimizer)
    # Opacus prepares the model (its own validator refuses what cannot be private) and its optimizer, whose noise is 0.
    made = engine.make_private(
        module=model,
        optimizer=optimizer,
        data_loader=loader,
        noise_multiplier=0.0,
        max_grad_norm=max_grad_norm,
        poisson_sampling=False,
        grad_sample_mode=grad_sample_mode,
        loss_reduction=loss_reduction,
        batch_first=batch_first,
        **({} if criterion is None else {"criterion": criterion}),
    )
    theirs = made[1]
    private = PrivateGradients(
        {plain_name(name): p for name, p in made[0].named_parameters()},
        horizon=epochs * len(loader),
        budget=budget,
        max_grad_norm=max_grad_norm,
        participation=order.participation,
        mechanism=mechanism,
        key=key,
        threads=threads,
    )
    batch_size = order.batch_size
    ours = _OPTIMIZERS[type(theirs)](
        optimizer,
        private=private,
        order=order,
        model=made[0],
        noise_multiplier=private.settings.scale / max_grad_norm,
        max_grad_norm=max_grad_norm,
        expected_batch_size=theirs.expected_batch_size if batch_size is None else batch_size,
        loss_reduction=loss_reduction,
    )
    engine.accountant.watch(private)
    ours.attach_step_hook(engine.accountant.get_optimizer_hook_fn(sample_rate=1 / len(loader)))
    if len(made) == 3:
        return made[0], ours, loader
    made[2].optimizer = ours
    return made[0], ours, made[2], loader


_OPTIMIZERS: dict[type, Any] = {
    optimizers.DPOptimizer: DPOptimizer,
    optimizers.DPOptimizerFastGradientClipping: GhostOptimizer,
    optimizers.DistributedDPOptimizer: DistributedOptimizer,
    optimizers.DistributedDPOptimizerFastGradientClipping: DistributedGhostOptimizer,
    optimizers.FSDPOptimizerFastGradientClipping: ShardedGhostOptimizer,
}


def _check_parameters(model: torch.nn.Module, optimizer: torch.optim.Optimizer) -> None:
    """Refuse an optimizer of other parameters than those of the model that require a gradient."""
    held = {id(p) for group in optimizer.param_groups for p in group["params"] if p.requires_grad}
    named = {id(p): name for name, p in model.named_parameters() if p.requires_grad}
    if missing := [repr(name) for key, name in named.items() if key not in held]:
        shown = ", ".join(missing[:3]) + (f" and {len(missing) - 3} more" if len(missing) > 3 else "")
        raise InvalidArgument(
            "optimizer",
            type(optimizer).__name__,
            f"one of all parameters of the model that require a gradient, but it has not {shown}: give it those, too,"
            " or freeze them before, as in parameter.requires_grad_(False)",
        )
    if held - named.keys():
        raise InvalidArgument(
            "optimizer",
            type(optimizer).__name__,
            f"one of the model's parameters only, but {len(held - named.keys())} of its parameters are not the model's",
        )


def _checked_engine(engine: Any) -> Any:
    if engine is None:
        with warnings.catch_warnings():  # "Secure RNG turned off": none of Opacus' noise is used
            warnings.simplefilter("ignore")
            return opacus.PrivacyEngine(accountant=Accountant.mechanism())
    if not isinstance(getattr(engine, "accountant", None), Accountant):
        raise InvalidArgument("engine", engine, "opacus.PrivacyEngine(accountant='dpstream')")
    return engine
