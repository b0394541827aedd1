"""Names in a store: the values of an OpenCounter, whatever was interrupted; the file shows what is published only."""

import os
import shutil
import signal
import sqlite3
from functools import partial

import numpy as np
import pytest

import dpstream as dp
from dpstream.errors import (
    BudgetLimitExceeded,
    HorizonExceeded,
    InputTypeError,
    InvalidArgument,
    StepClosed,
    StoreBusy,
    StoreDamaged,
    StoreMismatch,
    StoreOutdated,
    TooManyNames,
    TooManyPairs,
)
from dpstream.release import OpenSettings
from dpstream.store import PublishedStore, durable_names, names_tables
from dpstream.store.composition import NamesPromise, compose

from .conftest import everything
from .test_what_files_show import fixed_urandom, visible

BUDGET = dp.approx_dp(6, 1e-6)
KEY = bytes(range(32))


def names_of(store, horizon=12, **given):
    settings = {"names_per_person": 2, "pairs": 2000} | given
    return store.open_names("terms", horizon, BUDGET, **settings)


def events(day, size=250, people=300, kinds=6):
    """A day's events: who brought what; few people have more than two names at first."""
    chance = np.random.default_rng(day)
    return chance.integers(0, people, size).tolist(), [f"n{i}" for i in chance.integers(0, min(kinds, day + 2), size)]


def in_memory(path, days, **given):
    """What an OpenCounter with the stream's key publishes of these days' events."""
    with dp.Store(path, master_key=KEY) as store:
        row = store._row("terms")
        key = store._files.seals.noise_key(row.name, row.tag, row.configuration)
        settings = {"names_per_person": 2, "name": "terms"} | given
        counter = dp.OpenCounter(12, BUDGET, **settings, key=key)
    return [counter.add_events(*day) for day in days]


def as_dicts(releases):
    return [dict(zip(one.names, one.values.tolist(), strict=True)) for one in releases]


@pytest.mark.parametrize(
    "given", [{}, {"per_name": 3, "declared": ["n1", "never"]}, {"windows": (1, 3)}], ids=["plain", "events", "windows"]
)
def test_the_values_of_an_open_counter_over_many_processes(path, given):
    days = [events(day) for day in range(5)] + [([], [])] * 7
    released = []
    for day, (people, names) in enumerate(days[:6], start=1):  # a process each
        with dp.Store(path, master_key=KEY) as store:
            terms = names_of(store, **given)
            terms.ingest([day] * len(people), people, names, batch=b"%d" % day)
            released += terms.release_through(day)
            assert as_dicts(released[-1:]) == [{name: one.value for name, one in terms.published.items()}]
    with dp.Store(path, master_key=KEY) as store:
        released += names_of(store, **given).release_through(12)
    expected = in_memory(path, days, **given)
    assert as_dicts(released) == expected
    assert [list(one) for one in as_dicts(released)] == [list(one) for one in expected]
    assert len(expected[-1]) > 3
    with dp.Store(path, master_key=KEY) as store:
        terms = names_of(store, **given)
        assert as_dicts(terms.releases()) == expected
        assert terms.releases(3, 3)[0].step == 3
        if given.get("windows"):
            window = terms.window(3)
            assert {n: w.value for n, w in window.items()} == {
                n: expected[-1][n] - expected[-4][n] for n in expected[-4]
            }
        assert terms.remaining == 0
        with pytest.raises(HorizonExceeded):
            terms.release_through(13)
        store.check_seals()
        assert store.verify("terms").ok
        assert terms.dropped > 100
    found = PublishedStore(path).published_names("terms")
    assert [dict(zip(found.names, values.tolist(), strict=False)) for values in found.values] == expected
    assert found.of("n0").tolist() == [one["n0"] for one in expected if "n0" in one]
    assert [name for name, since in zip(found.names, found.since, strict=True) if since <= 2] == list(expected[1])
    (info,) = PublishedStore(path).names_streams()
    assert (info.name, info.kind, info.t, PublishedStore(path).streams()) == ("terms", "names", 12, [])


def test_late_events_and_steps_to_come_wait_in_open_steps(path):
    """Ingested in one order, counted by their steps; all of the year can be released at once."""
    days = [events(day) for day in range(12)]
    order = [5, 2, 11, 0, 1, 3, 4, 6, 10, 9, 8, 7]
    with dp.Store(path, master_key=KEY) as store:
        terms = names_of(store, names_per_person=100)
        for day in order:
            people, names = days[day]
            terms.ingest([day + 1] * len(people), people, names)
        released = terms.release_through(7)
        with pytest.raises(StepClosed):
            terms.ingest([7], ["ann"], ["n1"])
        released += terms.release_through(12)
        assert terms.release_through(12) == []
    # A name counts in the step of the event that was ingested first.
    first = {}
    for day in order:
        for pair in zip(*days[day], strict=True):
            first.setdefault(pair, day)
    left = [[pair for pair, when in first.items() if when == day] for day in range(12)]
    expected = in_memory(path, [([p for p, _ in day], [n for _, n in day]) for day in left], names_per_person=100)
    assert as_dicts(released) == expected


def test_a_batch_counts_once_and_people_are_limited_over_all_processes(path):
    for _ in range(3):
        with dp.Store(path) as store:
            terms = names_of(store)
            new = terms.ingest([1, 1, 1], ["ann", "ann ", b"ann"], ["a", "b", "c"], batch=b"monday").new
            assert terms.knows_batch(b"monday")
            assert not terms.knows_batch(b"tuesday")
            assert new is (_ == 0)
    with dp.Store(path) as store:
        terms = names_of(store)
        terms.ingest([2] * 3, ["ann", "ann", "bob"], ["d", "a", "d"])
        assert terms.dropped == 1 + 2
        kept = names_tables.read_names(store._files.database, terms._seals, terms._lease.row)
        assert kept.texts == ("a", "b", "d")
        assert kept.cells.steps.tolist() == [1, 1, 2]
        assert kept.cells.counts.tolist() == [1, 1, 1]


# -- what the file shows ----------------------------------------------------------------------------------------------


def shown_of(path, monkeypatch, days):
    with monkeypatch.context() as patched:
        fixed_urandom(patched)
        shown = []
        for day, (people, names) in enumerate(days, start=1):
            with dp.Store(path, master_key=KEY) as store:
                terms = names_of(store)
                terms.ingest([day] * len(people), people, names, batch=b"%d" % day)
                shown.append(visible(path))
                terms.release_through(day)
                shown.append(visible(path))
            shown.append(visible(path))
        return shown


@pytest.mark.parametrize(
    "other",
    [
        pytest.param([([], [])] * 4, id="nobody"),
        pytest.param([(["ann"], ["a name that nobody else has " * 20]), *[([], [])] * 3], id="one long name"),
        pytest.param([(range(300), [f"name {i}" for i in range(250)] + ["a"] * 50), *[([], [])] * 3], id="many names"),
    ],
)
def test_the_file_shows_nothing_of_names_that_are_not_published(path, monkeypatch, other, tmp_path):
    """Sizes of files, pages, rows and blobs, after every act and every process."""
    (tmp_path / "other").mkdir()
    monkeypatch.setattr(names_tables, "PART_BYTES", 5000)
    other = [(list(people), [name.strip() for name in names]) for people, names in other]
    first = shown_of(path, monkeypatch, [(["x", "y"], ["rose", "tulip"])] * 4)
    second = shown_of(tmp_path / "other" / path.name, monkeypatch, other)
    if any("a" in names for _, names in other):  # which enough people brought: it is published
        assert first[0] == second[0]
        return
    assert first == second
    assert len(first[0]["names"]) > 20
    assert b"rose" not in b"".join(everything(path).values())


def test_every_ingest_writes_all_tables_and_a_release_none(path):
    with dp.Store(path) as store:
        terms = names_of(store)

        def parts():
            return [sealed for (sealed,) in store._files.database.rows("SELECT sealed FROM names ORDER BY kind, part")]

        before = parts()
        for day in range(3):
            terms.ingest([1] * day, ["ann"] * day, ["a"] * day)
            assert not set(parts()) & set(before)
            before = parts()
        terms.release_through(3)
        assert parts() == before


# -- interruptions ----------------------------------------------------------------------------------------------------


class Killed(BaseException):
    """What ends a process, as far as its file is concerned."""


@pytest.mark.parametrize(
    ("mornings", "kill"),
    [
        (1, False),
        pytest.param(4, False, marks=pytest.mark.heavy),
        pytest.param(2, True, marks=pytest.mark.heavy),
    ],
    ids=["interrupted", "interrupted on four days", "killed on two days"],
)
def test_kills_lose_and_double_nothing(mornings, kill, tmp_path):
    """Stopped before and after every statement of an ingest and a release: the next process ends with the same values.

    By an exception, or by SIGKILL in a process of its own. The driver gives its batch and its step again, as `dpstream
    count` does.
    """
    days = [events(day, size=150, people=200, kinds=3) for day in range(mornings)]

    def work(place, day, stop=None):
        """Do a day's work; raise `Killed` at statement number `stop`; return how many there were, and the releases."""
        statements = 0

        def count(_):
            nonlocal statements
            statements += 1
            if statements == stop and kill:
                os.kill(os.getpid(), signal.SIGKILL)
            if statements == stop:
                raise Killed

        with dp.Store(place, master_key=KEY) as store:
            terms = names_of(store, names_per_person=3)
            real = store._files.database.connection
            store._files.database.connection = Traced(real, count)
            try:
                people, names = days[day]
                terms.ingest([day + 1] * len(people), people, names, batch=b"%d" % day)
                made = terms.release_through(day + 1)
            finally:
                store._files.database.connection = real
            return statements, made or terms.releases(day + 1)

    undisturbed = []
    for day in range(mornings):
        folder = tmp_path / f"day {day}"
        folder.mkdir()
        for stop in range(1, 40):
            place = folder / str(stop)
            place.mkdir()
            if day:
                for file in (tmp_path / "so far").iterdir():
                    shutil.copy(file, place / file.name)
            elif stop == 1:
                with dp.Store(place / "names.db", master_key=KEY) as store:
                    names_of(store, names_per_person=3).close()
                shutil.copytree(place, tmp_path / "begin")
            else:
                shutil.copytree(tmp_path / "begin", place, dirs_exist_ok=True)
            adopt(place / "names.db")
            finished = ended_alone(partial(work, place / "names.db", day, stop), kill=kill)
            _, made = work(place / "names.db", day)
            undisturbed.append((day, as_dicts(made)))
            if finished:
                break
        else:
            pytest.fail("there are more statements than were tried")
        shutil.rmtree(tmp_path / "so far", ignore_errors=True)
        shutil.copytree(place, tmp_path / "so far")
    adopt(tmp_path / "so far" / "names.db")
    expected = in_memory(tmp_path / "so far" / "names.db", days, names_per_person=3)
    assert len(undisturbed) > 10 * mornings
    assert all(made == [expected[day]] for day, made in undisturbed)
    assert expected[-1]


def ended_alone(work, *, kill):
    """Do some work, in a child if it is to be killed; return whether nothing stopped it."""
    if not kill:
        try:
            work()
        except Killed:
            return False
        return True
    child = os.fork()
    if not child:
        try:
            work()
        finally:
            os._exit(0)
    _, status = os.waitpid(child, 0)
    return not os.WIFSIGNALED(status)


class Traced:
    """A connection that calls `event` before each statement."""

    def __init__(self, connection, event):
        self._connection, self._event = connection, event

    def execute(self, statement, values=()):
        self._event(statement)
        return self._connection.execute(statement, values)

    def executemany(self, statement, values):
        self._event(statement)
        return self._connection.executemany(statement, values)

    @property
    def in_transaction(self):
        return self._connection.in_transaction


def adopt(path):
    """Go on with a copy of a store."""
    if path.exists():
        dp.Store(path, master_key=KEY, adopt=True).close()


def test_releases_that_were_closed_but_not_published_are_computed_again(path, monkeypatch):
    with dp.Store(path, master_key=KEY) as store:
        terms = names_of(store)
        people, names = events(1)
        terms.ingest([1] * len(people), people, names)
        with monkeypatch.context() as patched:
            patched.setattr(durable_names, "write_named_releases", fail)
            made = terms.release_through(3)
        assert len(made) == 3
        assert PublishedStore(path).published_names("terms").values == ()
    with dp.Store(path, master_key=KEY) as store:
        again = names_of(store).releases()
        assert as_dicts(again) == as_dicts(made)
        assert len(again[0].names) > 1


def test_nothing_is_ingested_while_releases_cannot_be_published(path, monkeypatch):
    """Else their cells would be given up, and with them the releases."""
    with dp.Store(path, master_key=KEY) as store:
        terms = names_of(store)
        with monkeypatch.context() as patched:
            patched.setattr(durable_names, "write_named_releases", fail)
            terms.release_through(2)
            with pytest.raises(StoreDamaged, match="no room"):
                terms.ingest([3], ["ann"], ["a"])
        terms.ingest([3], ["ann"], ["a"])
        assert len(terms.releases()) == 2


def fail(*_):
    raise StoreDamaged(path="", what="no room")


def test_a_commit_that_fails_leaves_no_trace(path, monkeypatch):
    with dp.Store(path, master_key=KEY) as store:
        terms = names_of(store)
        with monkeypatch.context() as patched:
            patched.setattr(durable_names, "write_names", fail)
            with pytest.raises(StoreDamaged, match="no room"):
                terms.ingest([1, 1], ["ann", "ann"], ["a", "b"], batch=b"1")
        assert (terms.dropped, terms.knows_batch(b"1")) == (0, False)
        terms.ingest([1, 1], ["ann", "ann"], ["a", "b"], batch=b"1")
        assert terms.dropped == 0
        terms.ingest([1], ["ann"], ["c"])
        assert terms.dropped == 1


# -- refusals ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("given", "error", "match"),
    [
        (([0], ["ann"], ["a"]), InvalidArgument, "from 1 on, one for each event, got 0"),
        (([1.5], ["ann"], ["a"]), InvalidArgument, "from 1 on"),
        (([13], ["ann"], ["a"]), HorizonExceeded, "12"),
        (([1, 1], ["ann"], ["a"]), InvalidArgument, "as many"),
        (([1], ["ann"], [""]), InputTypeError, "empty"),
        (([1], ["ann"], ["x" * 100_000]), InputTypeError, "100,000 characters"),
        (([1], ["ann"], [7]), InputTypeError, "text"),
        (([1], [""], ["a"]), InvalidArgument, "person"),
        (([1], [None], ["a"]), InvalidArgument, "person"),
        (([1], "ann", ["a"]), InvalidArgument, "lists"),
        (([1] * 300, range(300), [f"name {i}" for i in range(300)]), TooManyNames, "256 names"),
        (([1] * 250, range(250), [f"{i} " + "x" * 100 for i in range(250)]), TooManyNames, "8192 bytes of names"),
        (([1] * 2001, range(2001), ["a"] * 2001), TooManyPairs, "2000"),
    ],
)
def test_bad_input_changes_nothing(path, given, error, match):
    with dp.Store(path) as store:
        terms = names_of(store)
        terms.ingest([1, 2], ["ann", "bob"], ["a", "b"])
        before = store._files.database.rows("SELECT * FROM names")
        with pytest.raises(error, match=match):
            terms.ingest(*given)
        assert store._files.database.rows("SELECT * FROM names") == before
        assert terms.dropped == 0
        terms.ingest([1], ["ann"], ["c"])
        assert terms.dropped == 0


def test_more_room_is_made_when_it_is_asked_for(path):
    many = [1] * 600, range(600), [f"name {i}" for i in range(300)] * 2
    with dp.Store(path) as store:
        terms = names_of(store)
        with pytest.raises(TooManyNames, match="larger number of pairs than 2000"):
            terms.ingest(*many)
    with dp.Store(path) as store:
        terms = names_of(store, pairs=8000)
        terms.ingest(*many)
        assert terms.room.pairs == 8000
    with dp.Store(path) as store:
        assert names_of(store, pairs=10).room.pairs == 8000


def test_one_writer_and_the_same_settings(path):
    with dp.Store(path) as store:
        terms = names_of(store)
        with pytest.raises(StoreBusy), dp.Store(path) as other:
            names_of(other)
        terms.close()
        with pytest.raises(StoreMismatch, match="names_per_person"):
            names_of(store, names_per_person=3)
        with pytest.raises(StoreMismatch, match="counter"):
            store.counter("terms", 12, BUDGET)
        for refused in (store.releases, store.release_values, store.settings, store.estimate):
            with pytest.raises(InvalidArgument, match="name"):
                refused("terms")
        with pytest.raises(InvalidArgument, match="name"):
            store.start_successor("terms", 100)
        assert "at most 2 names" in store.describe("terms")
        assert store.open_settings("terms").names_per_person == 2
        store.counter("visits", 12, BUDGET)
        with pytest.raises(InvalidArgument, match="discovered names"):
            store.published_names("visits")


def test_an_old_file_is_refused(path, tmp_path):
    with dp.Store(path) as store:
        names_of(store).close()
    shutil.copy(path, tmp_path / "old")
    with dp.Store(path) as store:
        names_of(store).release_through(2)
    shutil.copy(tmp_path / "old", path)
    with dp.Store(path) as store, pytest.raises(StoreOutdated):
        names_of(store)


@pytest.mark.parametrize(
    "edit",
    [
        "UPDATE published_names SET released = zeroblob(length(released)) WHERE step = 2",
        "UPDATE published_names SET names = '[]' WHERE step = 1",
        "DELETE FROM published_names WHERE step = 1",
        "DELETE FROM published_names",
        "UPDATE names SET sealed = zeroblob(length(sealed)) WHERE kind = 'pairs'",
        "DELETE FROM names WHERE kind = 'cells'",
        "INSERT INTO names SELECT stream, kind, part + 1, sealed FROM names WHERE kind = 'sums'",
    ],
)
def test_edited_tables_are_noticed(path, edit):
    with dp.Store(path, master_key=KEY) as store:
        terms = names_of(store)
        people, names = events(1)
        terms.ingest([1] * len(people), people, names)
        terms.release_through(2)
        terms.ingest([3], ["ann"], ["zinnia"])
    connection = sqlite3.connect(path)
    connection.execute(edit)
    connection.commit()
    connection.close()
    with dp.Store(path, master_key=KEY) as store:
        with pytest.raises(StoreDamaged):
            store.check_seals()
        assert not store.verify("terms").ok


def test_what_streams_promise_together_counts_the_chance_for_names(path):
    settings = OpenSettings.of(12, BUDGET, names_per_person=2)
    total = compose([NamesPromise.of(BUDGET, 0.5), dp.zcdp(0.1)])
    assert total.rho == pytest.approx(settings.rho + 0.1)
    assert total.name_delta == settings.delta_threshold
    assert total.epsilon(1e-6) > compose([dp.zcdp(settings.rho + 0.1)]).epsilon(1e-6)
    assert total.epsilon(4e-7) == float("inf")
    assert compose([NamesPromise.of(BUDGET, 0.5)]).epsilon(1e-6) == pytest.approx(6)
    assert not total.within(dp.zcdp(100))
    assert "needs a delta" in total.in_terms_of(dp.zcdp(100))
    with dp.Store(path, limit=dp.approx_dp(8, 1e-6)) as store:
        names_of(store)
        assert str(store.spent()).endswith("a chance of 5e-07 that a name appears too early")
        with pytest.raises(BudgetLimitExceeded):
            store.counter("visits", 12, dp.zcdp(1.0))
        store.counter("visits", 12, dp.zcdp(0.01))


def test_a_forked_child_and_a_second_thread_are_kept_out(path):
    with dp.Store(path) as store:
        terms = names_of(store)
        child = os.fork()
        if not child:
            try:
                terms.ingest([1], ["ann"], ["a"])
            except dp.errors.DpstreamError:
                os._exit(0)
            os._exit(1)
        assert os.waitpid(child, 0)[1] == 0
        terms.ingest([1], ["ann"], ["a"])
