"""The ways into dpstream, each as a function from a history of batches, closes and restarts to what became of it.

The budget is so large that there is no noise: releases are the true totals. So nothing here looks inside.
"""

import contextlib
import csv
import datetime as dt
import io
import json
import os
import shutil
import tempfile
import warnings
from collections import Counter
from pathlib import Path
from typing import ClassVar
from unittest import mock

import polars as pl
from typer.testing import CliRunner

import dpstream as dp
from dpstream.distance import Append, Close, Outcome, WayIn
from dpstream.errors import CountWarning, DpstreamError
from dpstream.events.ingest import Batch, StreamIngest
from dpstream.events.successor import extend_stream
from tests.cli.test_count import only_count

#: σ is below 10^-6 of a row: what is released is the truth.
EXACT = dp.zcdp(rho=1e13)
NAMES_EXACT = dp.approx_dp(epsilon=1e7, delta=1e-3)
#: The first step. Clocks go back on the third day, 28 October.
START = dt.date(2035, 10, 26)
ZONE = "Europe/Berlin"
WARDS = ("north", "south")
COLUMNS = ("when", "who", "ward", "amount", "note", "id")
RAM = Path("/dev/shm")  # noqa: S108
#: Rows of these kinds make a batch unreadable: its owner takes them out and gives it again.
REFUSED = ("no date", "too far ahead")
#: An amount that is clipped is so many times the most.
BEYOND = 10


def day(step):
    return START + dt.timedelta(days=step - 1)


def cells(row, most=1):
    """What is written of a row, as texts."""
    when = f"{day(row.step)}T{8 + row.number % 8:02}:00:00"
    if row.kind == "no date":
        when = "soon"
    elif row.kind == "too far ahead":
        when = "2090-01-01T08:00:00"
    elif row.kind == "ambiguous":
        when = f"{day(row.step)}T02:30:00"
    ward = {"no ward": "", "elsewhere": "harbour"}.get(row.kind, row.category)
    amount = row.amount * BEYOND if row.kind == "clipped" else row.amount
    note = "no" if row.kind == "filtered" else "yes"
    return when, row.person, ward, str(amount), note, f"r{row.number}"


def frame_of(rows):
    return pl.DataFrame([cells(row) for row in rows], schema=dict.fromkeys(COLUMNS, pl.String), orient="row")


def python(settings):
    """Settings by the names of `dpstream.count`."""
    return {{"categories": "values"}.get(name, name): value for name, value in settings.items()}


def readable(rows):
    return tuple(row for row in rows if row.kind not in REFUSED)


@contextlib.contextmanager
def folder():
    """A folder in memory if possible, where synchronising takes no time; the key is fixed."""
    made = Path(tempfile.mkdtemp(dir=RAM if os.access(RAM, os.W_OK) else None))
    try:
        with mock.patch.dict(os.environ, {"DPSTREAM_MASTER_KEY": "11" * 32}):
            yield made
    finally:
        shutil.rmtree(made)


def changes(rows):
    """What each step adds, from running totals by step and category."""
    totals, before = {}, Counter()
    for row in sorted(rows, key=lambda row: int(row["step"])):
        category, value = row.get("category") or "", int(row["value"])
        totals[int(row["step"]), category] = value - before[category]
        before[category] = value
    return {cell: total for cell, total in totals.items() if total}


def public(rows):
    """Everything about releases but their values."""
    return tuple((int(row["step"]), str(row["start"]), row.get("category"), str(row["stddev"])) for row in rows)


class Counted(WayIn):
    """What the ways of `count` have in common: what is counted, and how rows of a kind are treated."""

    #: Settings that name the parts of a count, and what they promise.
    VARIANTS: ClassVar = {
        "rows": ({}, {"most": 1}),
        "wards": (
            {"by": "ward", "categories": WARDS, "undeclared": "other", "where": ["note=yes"], "missing": "skip"},
            {"most": 1, "categories": WARDS, "kinds": ("filtered", "elsewhere", "no ward", *REFUSED)},
        ),
        "amounts": (
            {"value": "amount", "per_person": 5, "clip": True, "where": ["note=yes"]},
            {"most": 5, "amounts": (-5, 5), "kinds": ("filtered", "clipped", "no date")},
        ),
        "people": (
            {"user": "who", "max_contributions": 2, "where": ["note=yes"]},
            {"most": 2, "ordered": True, "kinds": ("filtered", "ambiguous", *REFUSED)},
        ),
        "people in wards": (
            {"user": "who", "max_contributions": 2, "by": "ward", "categories": WARDS, "undeclared": "other"},
            {"most": 2, "ordered": True, "categories": WARDS, "kinds": ("elsewhere",)},
        ),
        "amounts of people": (
            {"value": "amount", "per_person": 5, "clip": True, "user": "who", "max_contributions": 2},
            {"most": 10, "ordered": True, "amounts": (-5, 5), "kinds": ("clipped", "no date")},
        ),
        "names": (
            {"discover": True, "by": "ward", "user": "who", "names_per_person": 1, "per_name": 2},
            {"most": 2, "ordered": True, "categories": WARDS, "kinds": ("no date",)},
        ),
    }

    def __init__(self, variant, **more):
        settings, promise = self.VARIANTS[variant]
        self.variant = variant
        self.settings = settings | {
            "time": "when",
            "every": "1d",
            "time_zone": ZONE,
            "time_format": "%Y-%m-%dT%H:%M:%S",
        }
        vars(self).update(promise | more)

    def __repr__(self):
        return f"{type(self).__name__}({self.variant})"

    @property
    def stored(self):
        """The settings of a stream in a store, with room for few people: a store writes all of it in each commit."""
        room = {"max_pairs": 400} if self.variant == "names" else {"max_users": 100} if "user" in self.settings else {}
        return self.settings | room

    def unit(self, row):
        return row.person if "user" in self.settings else row.number

    @property
    def budget(self):
        return NAMES_EXACT if self.variant == "names" else EXACT

    @property
    def end(self):
        return str(day(self.steps))

    def shown_first(self):
        """Rows of people besides: enough for every name to be published from the first step on."""
        if self.variant != "names":
            return ()
        named = [(f"{ward}{i}", ward) for ward in WARDS for i in range(5)]
        return tuple((f"{day(1)}T01:00:00", person, ward, "1", "yes", f"x{person}") for person, ward in named)

    def outcome(self, rows, seen, answers=()):
        """Return what became of the rows of a history, from the releases of all rows."""
        totals = Counter(changes(rows))
        totals.subtract(Counter((1, cells[2]) for cells in self.shown_first()))
        return Outcome(totals, seen, dict(answers))


class Frames(Counted):
    """`dpstream.count` without a store: one frame, one run."""

    batches, closes = 3, 1
    retries = restarts = False
    pandas = False

    def run(self, acts):
        rows = [row for act in acts if isinstance(act, Append) for row in act.rows]
        for given in (rows, readable(rows)):
            frame = pl.concat(
                [frame_of(given), pl.DataFrame(self.shown_first(), schema=frame_of(()).schema, orient="row")]
            )
            try:
                with warnings.catch_warnings():
                    warnings.simplefilter("ignore", CountWarning)
                    table = dp.count(frame.to_pandas() if self.pandas else frame, **self.arguments())
            except DpstreamError as error:
                refused = error
                continue
            rows = (pl.from_pandas(table) if self.pandas else table).to_dicts()
            return self.outcome(rows, {"releases": public(rows)})
        raise refused

    def arguments(self):
        return python(self.settings) | {"start": START, "through": self.end, "budget": self.budget}


class PandasFrames(Frames):
    pandas = True


class StoredFrames(Frames):
    """`dpstream.count` with a store: a frame for each batch, days between closes."""

    batches, closes = 4, 3
    restarts = False  # every call opens the store and gives it back
    retries = True

    def run(self, acts):
        with folder() as home:
            released, closes = [], []
            self.give(home, pl.DataFrame(self.shown_first(), schema=frame_of(()).schema, orient="row"), first=True)
            for act in acts:
                if isinstance(act, Append):
                    made = self.append(home, act)
                    assert not made, "an append released something"
                elif isinstance(act, Close):
                    rows = self.give(home, frame_of(()), through=day(act.through))
                    closes.append(public(rows))
                    released += rows
            return self.outcome(released, {"releases": tuple(closes), "files": tuple(sorted(os.listdir(home)))})

    def append(self, home, act):
        for rows in (act.rows, readable(act.rows)):
            with contextlib.suppress(DpstreamError):
                return self.give(home, frame_of(rows), batch=act.batch)
        return []  # refused for another reason than its rows: that others' rows do not count will show

    def give(self, home, frame, *, first=False, through=None, **more):
        settings = self.arguments() | python(self.stored) | {"until": self.end} if first else {}
        settings |= {"through": through} | more
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", CountWarning)
            return dp.count(frame, **settings, store=home / "counts.db").to_dicts()


class Successor(StoredFrames):
    """A stream that ends after its third step, and goes on in a successor with a budget and a limit of its own."""

    LAST = 3

    def run(self, acts):
        with folder() as home:
            released, closes, later = [], [], []
            self.give(home, frame_of(()), first=True)
            for act in acts:
                if isinstance(act, Append):
                    # Before the stream goes on, its owner keeps rows of later steps back.
                    ahead = [row for row in act.rows if row.step > self.LAST] if later is not None else []
                    if ahead:
                        later.append(Append(f"{act.batch}-later", tuple(ahead)))
                    self.append(home, Append(act.batch, tuple(row for row in act.rows if row not in ahead)))
                    continue
                if later is not None and act.through > self.LAST:
                    released += self.give(home, frame_of(()), through=day(self.LAST))
                    with dp.Store(home / "counts.db") as store:
                        extend_stream(store, "count", until=self.end)
                    for append in {append.batch: append for append in later}.values():
                        self.append(home, append)
                    later = None
                rows = self.give(home, frame_of(()), through=day(act.through))
                closes.append(public(rows))
                released += rows
            dated = [row | {"step": (row["start"] - START).days + 1} for row in released]
            return self.outcome(dated, {"releases": tuple(closes)})

    def give(self, home, frame, *, first=False, **more):
        settings = {"until": str(day(self.LAST))} if first else {}
        return super().give(home, frame, first=first, **settings, **more)

    def norm(self, difference):
        """Return the larger of the distances of both streams: each has noise of its own."""
        parts = Counter()
        for (step, _), by in difference.items():
            parts[step > self.LAST] += abs(by)
        return max(parts.values(), default=0)


class Ingest(Counted):
    """Batches as the server's writer takes them: all that wait in one commit, then the clock closes steps."""

    batches, closes = 5, 3

    def run(self, acts):
        with folder() as home:
            begin(home, self)
            answers, closes, waiting = {}, [], []
            now = moment(1)
            store = dp.Store(home / "counts.db")
            ingest = StreamIngest(store, "count")

            def take():
                for one, taken in zip(waiting, ingest.take([batch_of(act) for act in waiting], now=now), strict=True):
                    if taken.error is not None and one.batch not in answers:
                        mended = Append(one.batch + "-mended", readable(one.rows))
                        ingest.take([batch_of(mended)], now=now)
                    answers.setdefault(
                        one.batch, (taken.rows, taken.late, taken.before, taken.left_out, str(taken.error))
                    )
                waiting.clear()

            for act in acts:
                if isinstance(act, Append):
                    waiting.append(act)
                    continue
                take()
                if isinstance(act, Close):
                    now = moment(act.through + 1)
                    closes.append(ingest.close_steps(now))
                else:
                    ingest.close()
                    store.close()
                    store = dp.Store(home / "counts.db")
                    ingest = StreamIngest(store, "count")
            ingest.close()
            released = released_rows(store)
            store.close()
            return self.outcome(released, {"closes": tuple(closes), "releases": public(released)}, answers)


def moment(step):
    """When a step begins, in UTC; an hour later, for the clocks."""
    return dt.datetime.combine(day(step), dt.time(1), dt.UTC)


def batch_of(act):
    frame = frame_of(act.rows)
    return Batch(frame, act.batch.encode(), repr(frame.rows()).encode())


def begin(home, way):
    """Make the stream, with nothing in it."""
    settings = {"start": START, "until": way.end, "budget": way.budget, "store": home / "counts.db"}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", CountWarning)
        dp.count(frame_of(()), **python(way.stored), **settings)


def released_rows(store):
    """All releases of the store's only stream."""
    (info,) = store.streams()
    values = store.release_values(info.name)
    names = json.loads(info.source).get("categories") if info.source else None
    wide = values.reshape(len(values), -1)
    columns = list(names or [""]) + (["other"] if wide.shape[1] > len(names or [""]) else [])
    return [
        {"step": step, "start": day(step), "category": name, "value": value, "stddev": ""}
        for step, row in enumerate(wide.tolist(), start=1)
        for name, value in zip(columns, row, strict=True)
    ]


class CommandLine(Counted):
    """`dpstream count FILE... --store`: a file for each batch, those between two closes in one command."""

    batches, closes = 4, 3
    restarts = False  # every command is a process of its own, but for its start-up
    form = "csv"

    def run(self, acts):
        with folder() as home:
            first = self.written(home, "first", ())
            said = [self.command(first, *self.options(), "--from", START, "--until", self.end, home=home)]
            released, waiting = [], []
            for act in acts:
                if isinstance(act, Append):
                    waiting.append(act)
                    continue
                if waiting:
                    said.append(self.append(home, waiting))
                    waiting = []
                done = self.command("--through", day(act.through), home=home, stdin=frame_of(()).write_csv())
                said.append(done)
                released += csv.DictReader(io.StringIO(done.stdout))
            # What waits is said on standard error, to the owner; standard output is what people publish.
            outputs = tuple(public(csv.DictReader(io.StringIO(one.stdout))) for one in said if one.stdout.strip())
            seen = {"outputs": tuple(filter(None, outputs)), "files": self.files(home)}
            return self.outcome(released, seen | {"exit status": max(one.exit_code for one in said)})

    def files(self, home):
        return tuple(sorted(name for name in os.listdir(home) if name.startswith("counts.db")))

    def append(self, home, acts):
        """Give all files in one command; if it is refused, those that can be read, without the rows that cannot."""
        done = self.command(*(self.written(home, act.batch, act.rows) for act in acts), home=home)
        if done.exit_code:
            files = [self.written(home, f"{act.batch}-mended", readable(act.rows)) for act in acts]
            done = self.command(*files, home=home)
        return done

    def written(self, home, name, rows):
        path = home / f"{name}.{self.form}"
        frame = frame_of(rows)
        if name == "first":
            frame = frame.vstack(pl.DataFrame(self.shown_first(), schema=frame.schema, orient="row"))
        if self.form == "csv":
            frame.write_csv(path)
        elif self.form == "parquet":
            frame.write_parquet(path)
        else:
            frame.write_excel(path)
        return path

    def options(self):
        budget = ("--epsilon", 1e7, "--delta", 1e-3) if self.variant == "names" else ("--rho", 1e13)
        given = []
        for name, value in self.stored.items():
            option = "--" + {"categories": "values"}.get(name, name).replace("_", "-")
            if value is True:
                given.append(option)
            elif name == "where":
                given += [part for one in value for part in (option, one)]
            else:
                given += [option, ",".join(value) if isinstance(value, tuple) else value]
        return [*budget, *given]

    def command(self, *arguments, home, stdin=None):
        arguments = [*map(str, arguments), "--store", str(home / "counts.db"), "--as", "csv"]
        return CliRunner().invoke(only_count, ["count", *arguments], input=stdin)


class ParquetFiles(CommandLine):
    form = "parquet"


class Workbooks(CommandLine):
    form = "xlsx"


class StandardInput(CommandLine):
    """`dpstream count - --batch NAME --store`: every batch by a pipe."""

    def append(self, home, acts):
        for act in acts:
            for rows in (act.rows, readable(act.rows)):
                done = self.command("-", "--batch", act.batch, home=home, stdin=frame_of(rows).write_csv())
                if not done.exit_code:
                    break
        return done
