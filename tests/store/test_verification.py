"""What is verified: good stores pass, and every way to change one that its seals do not show is found."""

import math
import subprocess
import sys
import textwrap

import numpy as np
import pytest

import dpstream as dp
from dpstream import mechanisms as m
from dpstream.errors import InvalidArgument, StreamUnknown
from dpstream.store import recovered_inputs, tables
from dpstream.store.published import Publisher, is_published

from .conftest import BUDGET, copy_of, everything, visits

MECHANISMS = [
    m.Binary(1000),
    m.Honaker(1000),
    m.SmoothBinary(1000),
    m.SmoothBinary.paper(1000),
    m.WeightedTree(1000),
    m.SignedDigits(1000, noise="gaussian"),
    m.SquareRoot(1000, normalized=True),
    m.BufferedToeplitz(1000),
    m.BalancedToeplitz(1000),
    m.AnytimeToeplitz(),
    m.Unbounded(),
    m.Unbounded(m.SquareRoot),
    m.GrowingSmooth(),
    pytest.param(m.LogMatrix(), marks=pytest.mark.heavy),
]
INPUTS = np.random.default_rng(1).integers(-3, 4, 60)


@pytest.mark.parametrize("mechanism", MECHANISMS, ids=repr)
@pytest.mark.parametrize("position", [None, pytest.param(0, marks=pytest.mark.heavy)], ids=["", "positions"])
def test_a_good_counter_passes(path, mechanism, position):
    horizon = None if mechanism.horizon != 1000 else 1000
    for at in range(0, 60, 20):  # three processes, one after the other
        with dp.Store(path) as store, visits(store, mechanism=mechanism, horizon=horizon) as counter:
            counter.add(INPUTS[at], position)
            counter.extend(INPUTS[at + 1 : at + 20], None if position is None else position + 1)
        position = None if position is None else position + 20
    with dp.Store(path) as store:
        before = everything(path)
        found = store.verify("visits")
        assert (found.steps, found.every_input, found.outdated, found.findings) == (60, position is not None, None, ())
        assert found.ok
        assert store.true_data.inputs("visits", 1, 60).tolist() == INPUTS.tolist()
        for first, last in ((1, 1), (2, 2), (3, 30), (41, 60), (60, 60), (61, 60)):
            assert store.true_data.inputs("visits", first, last).tolist() == INPUTS[first - 1 : last].tolist()
        assert everything(path) == before


def test_a_pure_counter(path):
    with dp.Store(path) as store:
        store.counter("pure", 1000, dp.pure_dp(0.5)).extend([1, 0, 1])
        assert store.verify("pure").ok
        assert store.true_data.inputs("pure", 2, 3).tolist() == [0, 1]


@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("mechanism", [m.SmoothBinary(1000), m.BalancedToeplitz(1000)], ids=repr)
def test_a_good_running_sum_passes(path, dtype, mechanism):
    rows = np.random.default_rng(2).normal(size=(90, 50)).astype(dtype)
    rows /= np.linalg.norm(rows, axis=1, keepdims=True)
    rows *= 1000
    for half in (rows[:45], rows[45:]):
        with dp.Store(path) as store:
            store.running_sum("sum", 1000, BUDGET, shape=50, per_person=1000, dtype=dtype, mechanism=mechanism).extend(
                half
            )
    with dp.Store(path) as store:
        found = store.verify("sum")
        assert (found.steps, found.every_input, found.findings) == (90, False, ())
        with pytest.raises(InvalidArgument, match="name must be that of a counter"):
            store.true_data.inputs("sum", 1, 2)


def test_a_stream_in_many_pieces(path, monkeypatch):
    """Batches larger and smaller than a piece, and pieces that end inside a batch."""
    monkeypatch.setattr(recovered_inputs, "PIECE_VALUES", 7)
    told = []
    with dp.Store(path) as store:
        counter = visits(store)
        at = 0
        for size in (1, 1, 20, 3, 1, 7, 7, 20):
            counter.extend(INPUTS[at : at + size], first_position=at)
            at += size
        assert store.verify("visits", told.append).ok
        assert told == sorted(told)
        assert told[-1] == 1
        assert len(told) >= 8
        assert store.true_data.inputs("visits", 1, 60).tolist() == INPUTS.tolist()
        assert store.true_data.inputs("visits", 23, 41).tolist() == INPUTS[22:41].tolist()


def test_a_stream_without_steps(path):
    with dp.Store(path) as store:
        visits(store)
        assert store.verify("visits").ok
        assert store.true_data.inputs("visits", 1, 0).tolist() == []


def test_a_retired_stream_and_an_old_one(path, tmp_path):
    with dp.Store(path) as store, visits(store) as counter:
        counter.extend([1, 2, 3])
    old = path.read_bytes()
    with dp.Store(path) as store, visits(store) as counter:
        counter.extend([1])
    path.write_bytes(old)
    with dp.Store(path) as store:
        found = store.verify("visits")
        assert found.ok
        assert found.outdated == "the file stands at step 3, but step 4 was released before"
        store.retire("visits")
        assert store.verify("visits").ok
        assert store.true_data.inputs("visits", 1, 3).tolist() == [1, 2, 3]


def test_while_another_process_writes(path):
    """The writer never waits, and the stream is whole at every moment it is looked at."""
    script = f"""
        import dpstream as dp
        from dpstream.mechanisms import SmoothBinary
        with dp.Store({str(path)!r}) as store:
            counter = store.counter("visits", 1000, dp.zcdp(0.5), mechanism=SmoothBinary(1000), per_person=3)
            print("ready", flush=True)
            for i in range(300):
                counter.add(i % 4, position=i)
    """
    writer = subprocess.Popen([sys.executable, "-c", textwrap.dedent(script)], stdout=subprocess.PIPE, text=True)  # noqa: S603
    assert writer.stdout.readline() == "ready\n"
    seen = set()
    with dp.Store(path) as store:
        while writer.poll() is None:
            found = store.verify("visits")
            assert (found.findings, found.outdated) == ((), None)
            seen.add(found.steps)
        assert writer.returncode == 0
        assert store.verify("visits").steps == 300
        assert store.true_data.inputs("visits", 299, 300).tolist() == [2, 3]
    assert len(seen) > 1
    writer.stdout.close()


# -- what is found ----------------------------------------------------------------------------------------------------


def change_releases(store, change, name="visits"):
    """Change the releases of a stream's only batch, seal them as the store would, and publish them."""
    home = store._files
    row = tables.read_stream(home.database, home.seals, name)
    seals = home.seals.stream(row.tag)
    with home.database.atomic() as connection:
        (batch,) = connection.execute("SELECT first, count, sealed FROM batches").fetchall()
        first, count, sealed = batch
        dtype = np.dtype(row.settings["dtype"])
        size = count * math.prod(row.settings["shape"]) * dtype.itemsize
        releases, inputs = seals.open_batch(first, count, sealed, size)
        values = np.frombuffer(releases, dtype).reshape(count, *row.settings["shape"]).copy()
        inputs = change(values, inputs)
        made = seals.seal_batch(first, count, values.tobytes(), inputs)
        connection.execute("UPDATE batches SET sealed = ?", (made,))
        connection.execute("DELETE FROM published")
    if is_published(row):
        Publisher(home.database, seals).publish(row)
    store.check_seals()  # the seals show nothing


def change_sums(store, change, name="visits"):
    home = store._files
    row = tables.read_stream(home.database, home.seals, name)
    seals = home.seals.stream(row.tag)
    sealed = seals.seal_sums(change(row.sums(seals, home.database)), row.place)
    with home.database.atomic() as connection:
        connection.execute("UPDATE streams SET sealed = ?", (sealed,))
    store.check_seals()


def add_one(step):
    def change(values, inputs):
        values[step - 1] += 1
        return inputs

    return change


def test_a_changed_release_with_positions(path):
    with dp.Store(path) as store:
        visits(store).extend([0, 1, 1, 0, 1], first_position=0)
        change_releases(store, add_one(3))
        assert store.verify("visits").findings == (
            "a release implies another input than the one recorded under its position: steps 3, 4",
        )


def test_a_changed_release_without_positions(path):
    with dp.Store(path) as store:
        visits(store).extend([3, 3, 3, 3, 3])
        change_releases(store, add_one(3))
        assert store.verify("visits").findings == (
            "a release implies an input that the stream does not accept: step 3",
        )
        assert "4" not in store.verify("visits").findings[0]  # the input itself is never shown


def test_a_changed_last_release(path):
    with dp.Store(path) as store:
        visits(store).extend([1, 0, 1])
        change_releases(store, add_one(3))
        assert store.verify("visits").findings == ("a release implies another sum than the sealed one: step 3",)


def test_all_releases_moved_by_one_constant(path):
    """The inputs stay possible: only the sealed sum, or the digest of the first input, tells."""

    def change(values, inputs):
        values += 1
        return inputs

    with dp.Store(path) as store:
        visits(store).extend([1, 0, 1])
        change_releases(store, change)
        assert store.verify("visits").findings == ("a release implies another sum than the sealed one: step 3",)


def test_a_changed_histogram(path):
    with dp.Store(path) as store:
        visits(store, shape=(2,)).extend([[3, 0], [0, 3], [1, 1]])
        change_releases(store, add_one(2))
        (found,) = store.verify("visits").findings
        assert found == "a release implies an input that the stream does not accept: step 2"


def test_negative_counts_where_inputs_are_replaced(path):
    with dp.Store(path) as store:
        visits(store, neighbours="replace").extend([1, 0, 1])
        change_releases(store, add_one(1))
        assert store.verify("visits").findings == (
            "a release implies an input that the stream does not accept: step 2",
        )


def test_a_release_far_away_does_not_pass_by_overflow(path):
    def change(values, inputs):
        values[1] = -(2**63)
        return inputs

    with dp.Store(path) as store:
        visits(store).extend([1, 1, 1, 1])
        change_releases(store, change)
        assert "step" in store.verify("visits").findings[0]


def test_changed_sums(path):
    with dp.Store(path) as store:
        visits(store).extend([1, 0, 1], first_position=0)
        change_sums(store, lambda kept: (3).to_bytes(8, "little"))
        assert store.verify("visits").findings == ("a release implies another sum than the sealed one: step 3",)


def test_digests_that_are_missing_or_surplus(path):
    with dp.Store(path) as store:
        visits(store).extend([1, 0, 1], first_position=0)
        change_releases(store, lambda values, inputs: None)
        assert store.verify("visits").findings == (
            "an input was not recorded, although it had a position: steps 1, 2, 3",
        )
    other = path.with_name("other.db")
    with dp.Store(other) as store:
        visits(store).extend([1, 0, 1])
        change_releases(store, lambda values, inputs: bytes(24))
        assert "although it had no position" in store.verify("visits").findings[0]


def test_many_steps_are_counted(path):
    def change(values, inputs):
        values[::2] += 100
        return inputs

    with dp.Store(path) as store:
        visits(store).extend(np.zeros(1000, dtype=int))
        change_releases(store, change)
        assert store.verify("visits").findings == (
            "a release implies an input that the stream does not accept: steps 1, 2, 3, 4, 5 and 995 more",
        )


@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_a_changed_running_sum(path, dtype):
    rows = np.zeros((5, 4), dtype=dtype)
    rows[:, 0] = 1
    with dp.Store(path) as store:
        total = store.running_sum("sum", 1000, BUDGET, shape=4, per_step=1, dtype=dtype, mechanism=m.SmoothBinary(1000))
        total.extend(rows)
        grid = total.settings.grid

        def last(values, inputs):
            values[4, 2] += 2 * grid  # more than rounding can do
            return inputs

        change_releases(store, last, "sum")
        assert store.verify("sum").findings == ("a release implies another sum than the sealed one: step 5",)

        def third(values, inputs):
            values[4, 2] -= 2 * grid
            values[2, 0] += 0.5
            return inputs

        change_releases(store, third, "sum")
        assert store.verify("sum").findings == ("a release implies an input that the stream does not accept: step 3",)

        def nan(values, inputs):
            values[2, 0] = np.nan
            return inputs

        change_releases(store, nan, "sum")
        assert "steps 3, 4" in store.verify("sum").findings[0]


def test_what_the_seals_show_is_a_finding_too(path):
    with dp.Store(path) as store:
        visits(store).extend([1, 0, 1])
        with store._files.database.atomic() as connection:
            connection.execute("UPDATE batches SET count = 2")
        (found,) = store.verify("visits").findings
        assert "not as sealed" in found
        with store._files.database.atomic() as connection:
            connection.execute("UPDATE streams SET t = 2")
        assert "sums of stream 'visits' at step 2" in store.verify("visits").findings[0]


def test_releases_past_the_last_step(path):
    with dp.Store(path) as store:
        visits(store).extend([1, 0, 1])
        with store._files.database.atomic() as connection:
            connection.execute("INSERT INTO batches SELECT stream, 4, 1, sealed FROM batches")
        assert store.verify("visits").findings == ("there are releases past its last step 3",)


# -- what is refused --------------------------------------------------------------------------------------------------


def test_what_is_not_there_is_refused(path):
    with dp.Store(path) as store:
        visits(store).extend([1, 0, 1])
        for call in (lambda: store.verify("nobody"), lambda: store.true_data.inputs("nobody", 1, 1)):
            with pytest.raises(StreamUnknown):
                call()
        for first, last in ((0, 1), (1, 4), (3, 1), (1.0, 2)):
            with pytest.raises(InvalidArgument):
                store.true_data.inputs("visits", first, last)


def test_a_copy_that_was_adopted(path, tmp_path):
    with dp.Store(path) as store:
        visits(store).extend([1, 0, 1])
    with dp.Store(copy_of(path, tmp_path), adopt=True) as store:
        assert store.verify("visits").ok
