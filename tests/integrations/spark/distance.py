"""Ways into Spark for `check_distance`: a finished table, a stream of declared names, one of discovered names.

A query, and every micro-batch of it, takes seconds. So all histories of a check are drawn first, and then run
together, each with names and people of its own: in one query all histories with their unit, in another all without it.
What a unit does to the rows of others shows all the same: it is in the one query and not in the other.
"""

import json
import os

import pandas as pd
from pyspark.errors import StreamingQueryException

import dpstream as dp
from dpstream.adapters.spark import counts
from dpstream.adapters.spark.job import Workplace
from dpstream.adapters.spark.job_arguments import declared_job, discovered_job
from dpstream.distance import Append, Close, Outcome, Restart, WayIn, _History, _hold, check_distance
from dpstream.release.named_counter import digest_of_names
from tests.integrations.spark import streams

STEPS = 2
START = pd.Timestamp(streams.START, tz="UTC")
COMMON = {name: value for name, value in streams.COMMON.items() if name != "windows"} | {"horizon": STEPS, "shards": 2}
DEFAULTS = {"windows": (), "zone": "UTC", "confidence": 0.95, "mechanism": "auto", "stream": ""}
#: How often `check_distance` runs a history: with the unit, without it, the unit alone, and all plainly.
RUNS = 4


def hold(way, examples):
    """Draw all histories, run them together, and hold what became of each; a failure is not made smaller."""
    check_distance(way, examples=examples)  # nothing is counted yet, and so nothing is wrong
    way.run_drawn()
    for history in way.histories():
        _hold(way, history)


class Together(WayIn):
    """Draws first and runs later: `run` keeps the acts, and afterwards says what became of them, in the same order."""

    steps = STEPS
    people = 3
    categories = ("a", "b")
    rows, batches, closes = 9, 3, 2

    def __init__(self, spark, folder):
        self.spark, self.folder = spark, folder
        self._drawn, self._found = [], None

    def run(self, acts):
        if self._found is None:
            self._drawn.append(acts)
            return Outcome({})
        return self._found.pop(0)

    def run_drawn(self):
        complete, without, alone, plainly = (self._drawn[run::RUNS] for run in range(RUNS))
        found, count = self.together(complete + alone + plainly, self.folder / "with"), len(complete)
        without = self.together(without, self.folder / "without")
        each = zip(found[:count], without, found[count : 2 * count], found[2 * count :], strict=True)
        self._found = [outcome for history in each for outcome in history]

    def histories(self):
        for complete, without in zip(self._drawn[::RUNS], self._drawn[1::RUNS], strict=True):
            yield _History(complete, numbers(complete) - numbers(without))

    def together(self, histories, folder):
        """Return the outcome of each history; all are run at once."""
        raise NotImplementedError

    def write(self, path, rows):
        """Write rows of (which history, row) as a file that is there as a whole."""
        path.parent.mkdir(parents=True, exist_ok=True)
        draft = path.with_name(f".{path.name}")
        draft.write_text("".join(json.dumps(self.as_json(i, row)) + "\n" for i, row in rows))
        draft.rename(path)

    def as_json(self, i, row):
        """Return a row as it stands in a file: each history has names and people of its own."""
        days = 365 * 50 if row.kind == "future" else row.step - 1
        moment = START + pd.Timedelta(days=days, minutes=37 * row.number % 1440)
        name = "nobody declared this" if row.kind == "undeclared" else f"{i} {row.category}"
        return {
            "time": None if row.kind == "no time" else moment.isoformat(),
            "name": None if row.kind == "no name" else name,
            "person": None if row.kind == "no person" else f"{i} {row.person}",
        }

    def names(self, histories):
        return [f"{i} {category}" for i in range(len(histories)) for category in self.categories]

    def outcome(self, i, rows, noise, crowd=0):
        """Return the true totals of one history from its releases, and which steps were published when."""
        found = {}
        for when, row in rows:  # what a micro-batch publishes that runs again is the same
            assert found.setdefault((row.name, row.step), (row.value, when)) == (row.value, when)
        totals, seen = {}, {}
        for category in self.categories:
            name, before = f"{i} {category}", crowd
            for step in sorted(step for one, step in found if one == name):
                value, seen[f"step {step} of {category}"] = found[name, step]
                after = value - noise[name, step]
                totals[step, category], before = after - before, after
        return Outcome(totals, seen)


def numbers(acts):
    return frozenset(row.number for act in acts if isinstance(act, Append) for row in act.rows)


def noise_of(job, names):
    """Return the noise of every name and step, computed with the key."""
    os.environ[streams.SECRET.removeprefix("env:")] = streams.KEY.hex()
    work = Workplace(job)
    tags = work.noise.tags(names)
    made = [work.noise.values(tags, t).tolist() for t in range(1, STEPS + 1)]
    return {(name, t): values[i] for t, values in enumerate(made, 1) for i, name in enumerate(names)}


class Table(Together):
    """`running_counts_batch`: one row is protected. A table is finished, so it is closed once and read once."""

    kinds = ("undeclared", "no time", "no name", "future")
    closes, retries, restarts = 1, False, False

    def together(self, histories, folder):
        for i, acts in enumerate(histories):
            for act in acts:
                if isinstance(act, Append):
                    self.write(folder / f"{i}-{act.batch}.json", [(i, row) for row in act.rows])
        names = self.names(histories)
        events = self.spark.read.schema(streams.SCHEMA).json(str(folder))
        given = COMMON | {"budget": streams.ZCDP}
        found = counts.running_counts_batch(events, names=names, **given).collect()
        job = declared_job(
            "table", digest_of_names(names), **given | DEFAULTS | {"per_person": 1, "participation": None}
        )
        return by_history(self, histories, [(0, row) for row in found], noise_of(job, names))


class Stream(Together):
    """`running_counts` over files: several micro-batches, files written again, restarts from the checkpoint."""

    kinds = ("undeclared", "no time", "no name", "future")
    crowd = 0

    def together(self, histories, folder):
        names = self.names(histories)
        job = self.job(names)
        running = Running(self, folder, names)
        levels = [by_level(acts) for acts in histories]
        crowd = self.crowd_of(names)
        running.give("crowd", crowd)
        for level in range(STEPS):
            for slot in range(max(len(acts[level]) for acts in levels)):
                at = [(i, acts[level][slot]) for i, acts in enumerate(levels) if slot < len(acts[level])]
                running.act(f"{level}-{slot}", at)
            running.close(level + 1)
        running.stop()
        return by_history(self, histories, running.released, noise_of(job, names), self.crowd)

    def crowd_of(self, names):
        return []

    def job(self, names):
        given = COMMON | DEFAULTS | {"budget": streams.ZCDP, "per_person": 1, "participation": None}
        return declared_job("stream", digest_of_names(names), **given)

    def query(self, events, clock, names):
        return counts.running_counts(events, names=names, clock=clock, **COMMON, budget=streams.ZCDP)


class Discovered(Stream):
    """`discovered_counts` over files: a person is protected, whose first name counts, once.

    Names are published only if many people bring them. So a crowd, which is the same in all histories, brings every
    name before anything else happens.
    """

    LIMIT = 1
    most, ordered = LIMIT, True
    kinds = ("no person", "no time", "no name", "future")
    crowd = 60
    BUDGET = dp.approx_dp(20, 1e-3)

    def unit(self, row):
        return row.person if row.kind != "no person" else row.number

    def crowd_of(self, names):
        moment = START.isoformat()
        return [
            {"time": moment, "name": name, "person": f"crowd {name} {i}"} for name in names for i in range(self.crowd)
        ]

    def job(self, names):
        own = {"person": "person", "budget": self.BUDGET, "names_per_person": self.LIMIT, "per_name": 1}
        return discovered_job(**COMMON | DEFAULTS | own)

    def query(self, events, clock, names):
        own = {"person": "person", "budget": self.BUDGET, "names_per_person": self.LIMIT}
        return counts.discovered_counts(events, clock=clock, **COMMON, **own)


def by_level(acts):
    """Return what happens while so many steps are closed: a list for each number of them."""
    levels, closed = [[] for _ in range(STEPS + 1)], 0
    for act in acts:
        if isinstance(act, Close):
            closed = act.through
        else:
            levels[closed].append(act)
    return levels


def by_history(way, histories, released, noise, crowd=0):
    own = [[] for _ in histories]
    for when, row in released:
        own[int(row.name.split()[0])].append((when, row))
    return [way.outcome(i, rows, noise, crowd) for i, rows in enumerate(own)]


class Running:
    """A query over a folder of files and a folder of a clock, moved on act by act."""

    def __init__(self, way, folder, names):
        self.way, self.folder, self.names = way, folder, names
        self.released, self.closed = [], 0
        self.files, self.query = {}, None
        (folder / "in").mkdir(parents=True)
        self.start()

    def start(self):
        spark = self.way.spark
        events = spark.readStream.schema(streams.SCHEMA).json(str(self.folder / "in"))
        counted = self.way.query(events, streams.clock(spark, self.folder / "clock", 9), self.names)
        write = counted.writeStream.foreachBatch(self.collect)
        self.query = write.option("checkpointLocation", str(self.folder / "checkpoint")).start()

    def collect(self, batch, _):
        self.released += [(self.closed, row) for row in batch.collect()]

    def give(self, name, lines):
        """Write a file of lines that are ready."""
        if lines:
            (self.folder / "in" / f"{name}.json").write_text("".join(json.dumps(line) + "\n" for line in lines))
            self.settle()

    def act(self, name, acts):
        """Write the batches of this moment as one file, the files of batches that come again once more; restart."""
        new = [(i, act) for i, act in acts if isinstance(act, Append) and (i, act.batch) not in self.files]
        again = [(i, act) for i, act in acts if isinstance(act, Append) and (i, act.batch) in self.files]
        if new:
            path = self.folder / "in" / f"{name}.json"
            self.way.write(path, [(i, row) for i, act in new for row in act.rows])
            self.files |= {(i, act.batch): path for i, act in new}
        for path in {self.files[i, act.batch] for i, act in again}:
            content = path.read_text()
            path.unlink()
            path.write_text(content)
        self.settle()
        if any(isinstance(act, Restart) for _, act in acts):
            self.query.stop()
            self.start()

    def close(self, through):
        self.closed = through
        streams.tick(self.folder / "clock", through - 1)
        self.settle()

    def settle(self):
        """Wait until all was read. A worker that a busy machine does not start in time is one more restart."""
        for _ in range(9):
            try:
                return self.query.processAllAvailable()
            except StreamingQueryException as error:
                if "failed to connect back" not in str(error):
                    raise
                self.start()
        raise TimeoutError("Python workers do not start")

    def stop(self):
        self.query.stop()
