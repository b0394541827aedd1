"""The order of the batches, from which it follows how often and how soon an example comes back.

Correlated noise needs no random batches; it needs to know when an example comes back. With the same batches in the same
order in every epoch, an example is used once an epoch, exactly one epoch's batches apart: times = epochs, separation =
batches an epoch. `BatchOrder` hands out such batches, or watches an order of the caller's own; either way it keeps
account of what was used at which step and refuses an example that comes back too soon.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dpstream.arguments import check_whole
from dpstream.errors import BatchUnexpected, ExampleTooSoon, InvalidArgument, StateError, TrainingEnded
from dpstream.participation import Participation

__all__ = ["BatchOrder", "FixedBatches"]


_ONE_STEP_A_BATCH = (
    "Make one optimizer step for every batch; instead of adding up gradients of several, give make_private a loader of"
    " a larger batch_size, and split its batches by Opacus' BatchMemoryManager, without worker processes. After a"
    " refused step start the loop over the loader anew; evaluate on another loader"
)


class FixedBatches:
    """The same batches in the same order in every epoch.

    Parameters
    ----------
    examples
        How many examples there are.
    batch_size
        How many go into a batch; the last batch of an epoch may be smaller, unless `drop_last`.
    seed
        A whole number: examples are shuffled once, by this seed. None: they stay in order.
    rank, world
        Which share of every batch this worker takes, of how many.

    Examples
    --------
    >>> list(FixedBatches(5, 2))
    [[0, 1], [2, 3], [4]]
    >>> FixedBatches(5, 2).participation(epochs=4)
    Participation(times=4, separation=3)
    """

    def __init__(
        self,
        examples: int,
        batch_size: int,
        *,
        seed: int | None = None,
        drop_last: bool = False,
        rank: int = 0,
        world: int = 1,
    ) -> None:
        self.examples = check_whole("examples", examples)
        self.batch_size = check_whole("batch_size", batch_size)
        self._rank, self._world = rank, world
        full, rest = divmod(self.examples, self.batch_size)
        self._batches = full if drop_last or not rest else full + 1
        if self._batches == 0:
            raise InvalidArgument("batch_size", batch_size, f"at most the number of examples, {examples}")
        smallest = rest if rest and not drop_last else self.batch_size
        if smallest < world:
            raise InvalidArgument(
                "batch_size",
                batch_size,
                f"one with an example for each of the {world} workers in every batch, but the smallest has {smallest};"
                " choose another, or drop_last=True",
            )
        self.shuffle(seed)

    def shuffle(self, seed: int | None) -> None:
        """Put the examples into the order of this seed (None: their own)."""
        self.seed = None if seed is None else check_whole("seed", seed, least=0)
        order = np.arange(self.examples) if seed is None else np.random.default_rng(seed).permutation(self.examples)
        self._order: NDArray[np.int64] = order

    def __len__(self) -> int:
        return self._batches

    def __iter__(self) -> Iterator[list[int]]:
        return (self.batch(i) for i in range(self._batches))

    def batch(self, number: int) -> list[int]:
        """Return the share of this worker in batch `number`, counted from 0."""
        whole = self._order[number * self.batch_size : (number + 1) * self.batch_size]
        share: list[int] = np.array_split(whole, self._world)[self._rank].tolist()
        return share

    def participation(self, epochs: int) -> Participation:
        """How often, and how many steps apart, an example is used in so many epochs."""
        return Participation(times=check_whole("epochs", epochs), separation=self._batches)


class BatchOrder:
    """A batch sampler that knows at which step each of its batches is used.

    Iterating starts at the batch of the next step: after a loop that was left early, and after a resumed checkpoint,
    the next loop goes on where training stands.

    Parameters
    ----------
    batches
        `FixedBatches`, or a batch sampler of the caller's own: anything whose iteration gives lists of indices.
    participation
        What the guarantee covers.
    examples
        How many examples there are.
    horizon
        The most steps; no batch is handed out for a step past it. None: as many as `participation` allows.
    """

    def __init__(
        self,
        batches: FixedBatches | Iterable[Sequence[int]],
        participation: Participation,
        examples: int,
        horizon: int | None = None,
    ) -> None:
        self.batches = batches
        self.horizon = horizon
        self.participation = participation
        self._last = np.zeros(examples, dtype=np.int64)
        self._times = np.zeros(examples, dtype=np.int64)
        self._t = 0
        self._pending: list[tuple[int, NDArray[np.int64], NDArray[np.int64]]] = []
        self._handed: int | None = None
        self._counting = False
        #: Called when a loop over the batches starts: what was accumulated of an unfinished step is to be dropped.
        self.on_start: Callable[[], None] | None = None

    @property
    def batch_size(self) -> int | None:
        """What a DataLoader's batch size is, where it is known."""
        return getattr(self.batches, "batch_size", None)

    def __len__(self) -> int:
        return len(self.batches)  # type: ignore[arg-type]

    def __iter__(self) -> Iterator[list[int]]:
        self._take_back()
        if self.on_start is not None:
            self.on_start()
        step = self._t
        if isinstance(self.batches, FixedBatches):
            rest: Iterable[Sequence[int]] = (
                self.batches.batch(i) for i in range(step % len(self.batches), len(self.batches))
            )
        else:
            rest = self.batches
        for batch in rest:
            step += 1
            if self.horizon is not None and step > self.horizon:
                raise TrainingEnded(horizon=self.horizon, step=step)
            chosen = [int(i) for i in batch]
            self._charge(step, np.array(chosen, dtype=np.int64))
            yield chosen

    def count_handed(self, batches: Iterable[Any]) -> Iterator[Any]:
        """Yield what a loader yields, and note how many batches the training loop was given.

        A loader with worker processes asks for batches ahead of time; without this, the batches asked for count.
        """
        self._handed, self._counting = self._t, True
        try:
            for batch in batches:
                self._handed += 1
                yield batch
        finally:
            self._counting = False

    def check_use(self, step: int, examples: int | None) -> None:
        """Refuse `step` unless the batch at hand is that of this step, with so many examples (None: not known)."""
        asked = self._pending[-1][0] if self._pending else self._t
        at_hand = asked if self._handed is None else self._handed
        if at_hand != step:
            found = (
                "no batch was taken from the private data loader" if at_hand < step else f"that of step {at_hand} is"
            )
            advice = "Use the loader that make_private returned" if at_hand < step else _ONE_STEP_A_BATCH
            raise BatchUnexpected(step=step, expected="its own batch", found=found, advice=advice)
        charged = next(chosen for number, chosen, _ in self._pending if number == step)
        if examples is not None and examples != charged.size:
            raise BatchUnexpected(
                step=step,
                expected=f"the {charged.size} examples of its batch",
                found=f"{examples} gradients came",
                advice="The batch size is that of the loader given to make_private; it cannot be changed later",
            )

    def used(self, step: int) -> None:
        """Note that the batch of `step` was used."""
        self._t = step
        self._pending = [entry for entry in self._pending if entry[0] > step]

    def _charge(self, step: int, chosen: NDArray[np.int64]) -> None:
        times, separation = self.participation.times, self.participation.separation
        if chosen.size and not (chosen.min() >= 0 and chosen.max() < self._last.size):
            raise InvalidArgument("batch", int(chosen.max()), f"indices from 0 to {self._last.size - 1}")
        before = self._last[chosen]
        values, counts = np.unique(chosen, return_counts=True)
        for refused, found in (
            (values[counts > 1], "twice in one batch"),
            (chosen[(before > 0) & (step - before < separation)], "too soon after step {}"),
            (chosen[self._times[chosen] >= times], "once too often, last at step {}"),
        ):
            if refused.size:
                example = int(refused[0])
                raise ExampleTooSoon(
                    example=example,
                    step=step,
                    found=found.format(int(self._last[example])),
                    times=times,
                    separation=separation,
                )
        self._last[chosen] = step
        self._times[chosen] += 1
        self._pending.append((step, chosen, before))

    def _take_back(self) -> None:
        """Undo the account of batches that were asked for and never used."""
        for _, chosen, before in reversed(self._pending):
            self._last[chosen] = before
            self._times[chosen] -= 1
        self._pending.clear()
        if not self._counting:
            self._handed = None

    # -- saving ---------------------------------------------------------------------------------------------------

    def state(self) -> dict[str, Any]:
        """Who was used when, and the seed of the order."""
        last, times = self._last.copy(), self._times.copy()
        for _, chosen, before in reversed(self._pending):
            last[chosen] = before
            times[chosen] -= 1
        seed = self.batches.seed if isinstance(self.batches, FixedBatches) else None
        return {"t": self._t, "seed": seed, "last": last, "times": times}

    def check(self, state: Any) -> None:
        """Refuse what is not a state of batches of as many examples."""
        try:
            size = len(state["last"])
            _ = state["t"], state["seed"], state["times"]
        except (KeyError, TypeError) as error:
            raise StateError(f"this is not the state of a training's batches: {error} is missing") from None
        if size != self._last.size:
            raise StateError(f"this state belongs to a training on {size} examples, not {self._last.size}")

    def restore(self, state: Any) -> None:
        """Go on where `state` was saved; nothing changes if it is refused."""
        self.check(state)
        if isinstance(self.batches, FixedBatches):
            self.batches.shuffle(state["seed"])
        self._pending.clear()
        self._handed = None
        self._t = int(state["t"])
        self._last[...] = np.asarray(state["last"])
        self._times[...] = np.asarray(state["times"])
