"""Private training as a way in: what is protected is an example, in at most so many steps, so many steps apart.

Example i has the gradient e_i, of norm 1, and the budget is so large that there is no noise: what a step adds to the
weights says how often each example was in its sum. So nothing here looks inside, but where workers are only imitated.
"""

import contextlib
import tempfile
import warnings
from collections import Counter
from itertools import pairwise
from pathlib import Path
from unittest import mock

import torch
from opacus.distributed import DifferentiallyPrivateDistributedDataParallel
from torch import nn
from torch.utils.data import DataLoader, TensorDataset
from torch.utils.data.distributed import DistributedSampler

import dpstream as dp
from dpstream.adapters import torch_loader
from dpstream.adapters.torch import make_private
from dpstream.distance import Append, Close, Outcome, Restart, WayIn
from dpstream.errors import ExampleTooSoon, InvalidArgument

#: σ is below 10^-6 of a gradient: what is released is the truth.
EXACT = dp.zcdp(rho=1e13)
RAM = Path("/dev/shm")  # noqa: S108
EXAMPLES, BATCH_SIZE, EPOCHS = 8, 3, 3
BATCHES = -(-EXAMPLES // BATCH_SIZE)
#: The seeds of the order, one for each start of a process; a state that is loaded brings back its own.
SEEDS = (5, 6, 7, 8)


class Training(WayIn):
    """Three epochs through `make_private`, in an order that is shuffled once; a close trains up to its step.

    A data set has a place for every example; one that is taken out leaves an empty place (no gradient), since all
    others stay in their batches. A restart goes on from the checkpoint of the last close, with the key file.
    """

    most = 0
    people, steps = EXAMPLES, BATCHES * EPOCHS
    participation = dp.Participation(EPOCHS, BATCHES)

    def unit(self, row):
        return row.person

    def norm(self, difference):
        """Return 0 inside the promise; otherwise by how many uses or steps it is broken."""
        used = sorted({step for step, _ in difference})
        often = sum(max(abs(count) - 1, 0) for count in difference.values())
        soon = sum(max(self.participation.separation - (b - a), 0) for a, b in pairwise(used))
        return often + soon + max(len(used) - self.participation.times, 0)

    def run(self, acts):
        present = {index(row) for act in acts if isinstance(act, Append) for row in act.rows}
        with tempfile.TemporaryDirectory(dir=RAM if RAM.exists() else None) as folder:
            return self.trained(acts, present, Path(folder))

    def trained(self, acts, present, folder):
        totals, starts = Counter(), iter(SEEDS)
        net, optimizer, batches = self.start(present, folder, next(starts))
        saved = optimizer.state_dict()
        for act in acts:
            if isinstance(act, Close):
                for step, counts in self.train(net, optimizer, batches, act.through):
                    totals[step, ""] += sum(counts)
                saved = optimizer.state_dict()
            elif isinstance(act, Restart):
                with contextlib.suppress(ExampleTooSoon):
                    next(iter(batches), None)  # a batch that was asked for and never used
                optimizer.close()
                net, optimizer, batches = self.start(present, folder, next(starts))
                optimizer.load_state_dict(saved)
        optimizer.close()
        return Outcome(totals, {"steps": optimizer.private.t, "spent": optimizer.spent()})

    def start(self, present, folder, seed):
        x = torch.diag(torch.tensor([float(i in present) for i in range(EXAMPLES)]))
        loader = DataLoader(TensorDataset(x), batch_size=BATCH_SIZE, shuffle=True)
        with mock.patch.object(torch_loader, "_common_seed", return_value=seed):
            return self.make(nn.Linear(EXAMPLES, 1, bias=False), loader, folder, epochs=EPOCHS)

    def make(self, net, loader, folder, **more):
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            return make_private(
                net, torch.optim.SGD(net.parameters(), lr=1.0), loader, budget=EXACT, max_grad_norm=1.0,
                loss_reduction="sum", mechanism=dp.mechanisms.Independent(self.steps), key=folder / "run.key", **more,
            )  # fmt: skip

    def train(self, net, optimizer, batches, through):
        """Train up to step `through`; yield each step and how often each example was in its sum."""
        while optimizer.private.t < through:
            for (x,) in batches:
                before = weights(net)
                optimizer.zero_grad()
                net(x).sum().backward()
                optimizer.step()
                yield optimizer.private.t, (before - weights(net)).round().long().tolist()
                if optimizer.private.t == through:
                    break


class Together(Training):
    """The same by two processes: the first one runs histories, and the other one what it is told."""

    def run(self, acts):
        torch.distributed.broadcast_object_list([acts])
        return super().run(acts)

    def follow(self):
        """Run what the first process runs, until it has no more."""
        while True:
            told = [None]
            torch.distributed.broadcast_object_list(told)
            if told[0] is None:
                return
            super().run(told[0])

    def end(self):
        torch.distributed.broadcast_object_list([None])

    def make(self, net, *more, **options):
        return super().make(DifferentiallyPrivateDistributedDataParallel(net), *more, **options)


class OwnOrder(Training):
    """An order of one's own: a row puts an example into the batch of its step; after that step it is too late.

    An example that is refused is taken out of that batch, and training goes on.
    """

    participation = dp.Participation(2, 2)
    people, steps, rows, batches = 2, 6, 24, 3  # examples come back

    def run(self, acts):
        self.places = [[] for _ in range(self.steps + 1)]
        self.done = 0
        self.known = set()
        with tempfile.TemporaryDirectory(dir=RAM if RAM.exists() else None) as folder:
            return self.trained(self.given(acts), range(EXAMPLES), Path(folder))

    def given(self, acts):
        """Yield the acts, after their rows have been put into batches."""
        for act in acts:
            if isinstance(act, Append):
                for row in act.rows:
                    if row.number not in self.known and row.step > self.done:
                        self.places[row.step].append(index(row))
                self.known |= {row.number for row in act.rows}
            yield act

    def __iter__(self):
        return iter(self.places[self.done + 1 :])

    def __len__(self):
        return self.steps

    def start(self, present, folder, seed):
        x = torch.eye(EXAMPLES)
        loader = DataLoader(TensorDataset(x), batch_sampler=self, collate_fn=stacked)
        return self.make(nn.Linear(EXAMPLES, 1, bias=False), loader, folder, epochs=1, participation=self.participation)

    def train(self, net, optimizer, batches, through):
        while self.done < through:
            try:
                for step, counts in super().train(net, optimizer, batches, through):
                    self.done = step
                    yield step, counts
            except ExampleTooSoon as error:
                self.places[error.step].remove(error.example)


class Workers(Training):
    """Two workers with their real loaders, in turns in this process; each takes its share of every batch."""

    world = 2

    def run(self, acts):
        starts, self.t, totals = iter(SEEDS), 0, Counter()
        try:
            loaders = self.begin(next(starts))
        except InvalidArgument as error:
            return Outcome({}, {"refused": error.argument})
        present = {index(row) for act in acts if isinstance(act, Append) for row in act.rows}
        saved = [loader.batch_sampler.state() for loader in loaders]
        for act in acts:
            if isinstance(act, Append):
                self.take(act)
            elif isinstance(act, Close):
                while self.t < act.through:
                    self.train_together(loaders, act.through, present, totals)
                saved = [loader.batch_sampler.state() for loader in loaders]
            else:
                loaders = self.begin(next(starts))
                for loader, state in zip(loaders, saved, strict=True):
                    loader.batch_sampler.restore(state)
        return Outcome(totals, {"steps": self.t})

    def train_together(self, loaders, through, present, totals):
        """Make steps up to `through`, or to the end of the loaders; add up who was in them."""
        for shares in zip(*loaders, strict=True):
            self.t += 1
            for loader, (share,) in zip(loaders, shares, strict=True):
                loader.batch_sampler.check_use(self.t, len(share))
                loader.batch_sampler.used(self.t)
                totals[self.t, ""] += sum(i in present for i in share.tolist())
            if self.t == through:
                return

    def take(self, act):
        """Nothing: who is in which batch follows from the order."""

    def begin(self, seed):
        """Return the loaders of both workers, as `make_private` makes them."""
        loaders = []
        for rank in range(self.world):
            with worker(rank, self.world), mock.patch.object(torch_loader, "_common_seed", return_value=seed):
                loader = self.loader(rank)
                loaders.append(torch_loader.private_loader(loader, torch_loader.order_of(loader, *self.promise())))
        return loaders

    def promise(self):
        """Return `participation` and `epochs` of make_private."""
        return None, EPOCHS

    def loader(self, rank):
        return DataLoader(TensorDataset(torch.arange(EXAMPLES)), batch_size=BATCH_SIZE, shuffle=True)


class WorkersWithSampler(Workers):
    """PyTorch's own sampler for several workers, which repeats one of seven examples; two a worker and step."""

    people, steps = 7, 2 * EPOCHS
    participation = dp.Participation(EPOCHS, 2)

    def loader(self, rank):
        dataset = TensorDataset(torch.arange(self.people))
        sampler = DistributedSampler(dataset, num_replicas=2, rank=rank, shuffle=False)
        return DataLoader(dataset, batch_size=2, sampler=sampler)


class WorkersPadding(WorkersWithSampler):
    """The same in the sampler's own order."""

    def promise(self):
        return self.participation, EPOCHS


class WorkersOwnOrder(Workers):
    """An order of one's own on each worker: a row's category says on which one, its step in which batch.

    An example that a worker refuses is taken out of that batch.
    """

    participation = dp.Participation(2, 2)
    people, steps, rows, batches, categories = 2, 6, 24, 3, ("0", "1")

    def run(self, acts):
        self.places = [[[] for _ in range(self.steps)] for _ in range(self.world)]
        self.known = set()
        return super().run(acts)

    def take(self, act):
        for row in act.rows:
            if row.number not in self.known and row.step > self.t:
                self.places[int(row.category)][row.step - 1].append(index(row))
        self.known |= {row.number for row in act.rows}

    def train_together(self, loaders, through, present, totals):
        try:
            super().train_together(loaders, through, present, totals)
        except ExampleTooSoon as error:
            refusing = next(i for i, loader in enumerate(loaders) if error.example in self.places[i][error.step - 1])
            self.places[refusing][error.step - 1].remove(error.example)

    def loader(self, rank):
        dataset = TensorDataset(torch.arange(EXAMPLES))
        return DataLoader(dataset, batch_sampler=Rest(self, rank), collate_fn=stacked)

    def promise(self):
        return self.participation, 1


class LoaderOwnOrder(WorkersOwnOrder):
    """The same with one worker."""

    world, categories = 1, ("0",)


class Rest:
    """A sampler of the batches of one worker that are not yet done."""

    def __init__(self, way, rank):
        self.way, self.rank = way, rank

    def __iter__(self):
        return iter(self.way.places[self.rank][self.way.t :])

    def __len__(self):
        return self.way.steps


@contextlib.contextmanager
def worker(rank, world):
    """Be one of several workers, as far as PyTorch is asked."""
    with mock.patch.multiple(
        torch.distributed,
        is_initialized=lambda: True,
        get_world_size=lambda *_: world,
        get_rank=lambda *_: rank,
    ):
        yield


def index(row):
    return int(row.person.removeprefix("p"))


def stacked(items):
    """Return a batch, also of no examples."""
    return [torch.stack([x for (x,) in items]) if items else torch.zeros(0, EXAMPLES)]


def weights(net):
    return next(net.parameters()).detach().clone().flatten()
