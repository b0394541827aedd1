"""Shards without Spark: the values of one machine, bytes and back, late rows, and what is refused."""

import functools
import json
import pickle

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import dpstream as dp
from dpstream.adapters.spark.discovered import DiscoveredShard, PeopleShard
from dpstream.adapters.spark.job import Job, Workplace
from dpstream.adapters.spark.secret import SecretSource
from dpstream.adapters.spark.shard import DeclaredShard
from dpstream.adapters.spark.step_clock import StepClock
from dpstream.errors import CheckpointMismatch, InvalidArgument, KeyFileExposed, StateError
from dpstream.release.named_counter import NamedCounter, digest_of_names, named_settings
from dpstream.release.open_settings import OpenSettings
from dpstream.store.master_key import write_key_file
from dpstream.testing import fixed_key

KEY = fixed_key("spark shards")
DAYS = ("1d", "2026-01-01", "UTC", 12, ("3d",))
NAMES = [f"page {i}" for i in range(40)] + ["é", "日本", "x" * 300]
#: Stand for what Spark's xxhash64 says.
HASHES = np.random.default_rng(1).permutation(np.arange(len(NAMES)) * 7919 - 10**15)


def job(clock=DAYS, counts=None, **changed):
    lengths = StepClock(*clock).lengths
    mechanism = dp.mechanisms.BalancedToeplitz(clock[3])
    counts = counts or named_settings(clock[3], dp.zcdp(0.5), windows=lengths, mechanism=mechanism)
    given = {"columns": "", "rows": "stream", "shards": 1, "confidence": 0.9}
    given |= {"names": digest_of_names(NAMES)} | changed
    return Job(
        settings=json.dumps(counts.as_json()), clock=clock, secret=SecretSource.of("env:DPSTREAM_SPARK_TEST"), **given
    )


@pytest.fixture(autouse=True)
def secret(monkeypatch):
    from dpstream.adapters.spark import secret

    monkeypatch.setenv("DPSTREAM_SPARK_TEST", KEY.hex())
    monkeypatch.setattr(secret, "_fetched", {})


def moments(clock, step, count):
    return clock.edges[step] + np.arange(count) * 1000


def opened_again(shard):
    return type(shard).unseal(shard.work, shard.shard, shard.seal_names(), shard.seal())


def events_of(seed, horizon, names):
    rng = np.random.default_rng(seed)
    return [rng.integers(0, names, rng.integers(0, 200)) for _ in range(horizon)]


@pytest.mark.parametrize("mechanism", ["auto", "SmoothBinary"])
def test_declared_names_have_the_values_of_one_machine(mechanism):
    """Two shards, written and read again after every step, against one counter."""
    mechanism = mechanism if mechanism == "auto" else dp.mechanisms.SmoothBinary(12)
    counts = named_settings(12, dp.zcdp(0.5), windows=(3,), mechanism=mechanism)
    work = Workplace(job(counts=counts))
    single = NamedCounter(NAMES, 12, dp.zcdp(0.5), windows=(3,), mechanism=mechanism, key=work.noise_key)
    parts = [np.arange(0, len(NAMES), 2), np.arange(1, len(NAMES), 2)]
    shards = [DeclaredShard.begin(work, i, [NAMES[j] for j in p], HASHES[p]) for i, p in enumerate(parts)]
    history = []
    for step, rows in enumerate(events_of(2, 12, len(NAMES))):
        expected = single.add({name: int((rows == i).sum()) for i, name in enumerate(NAMES)})
        history.append(expected)
        got = {}
        for i, part in enumerate(parts):
            mine = rows[np.isin(rows, part)]
            shards[i].add(HASHES[mine], moments(work.clock, step, len(mine)))
            shards[i] = opened_again(shards[i])
            (released,) = shards[i].close(int(work.clock.ends_ms[step]))
            assert released.t == step + 1
            shards[i] = opened_again(shards[i])
            got |= dict(zip(released.names, released.value.tolist(), strict=True))
            for name, change in zip(released.names, released.windows[0].value.tolist(), strict=True):
                assert change == expected[name] - (history[step - 3][name] if step >= 3 else 0)
            assert released.stddev == pytest.approx(
                dp.Counter(12, dp.zcdp(0.5), mechanism=work.noise.mechanism).stddev(step + 1)
            )
        assert got == expected


def test_many_steps_closed_at_once_are_those_closed_one_by_one():
    work = Workplace(job())
    one, other = (DeclaredShard.begin(work, 0, NAMES, HASHES) for _ in range(2))
    rows = np.arange(len(NAMES))
    for shard in (one, other):
        for step in (4, 0, 2):
            shard.add(HASHES[rows], moments(work.clock, step, len(rows)))
    together = list(one.close_steps(12))
    apart = []
    for step in range(12):
        other = opened_again(other)
        apart += other.close_steps(step + 1)
    assert [r.value.tolist() for r in together] == [r.value.tolist() for r in apart]
    assert list(one.close_steps(12)) == []
    assert one.next_end_ms is None


def test_a_late_row_never_changes_a_closed_step():
    work = Workplace(job())
    shard = DeclaredShard.begin(work, 0, NAMES, HASHES)
    list(shard.close_steps(3))
    taken = shard.add(HASHES[:5], moments(work.clock, 1, 5))
    assert taken.late == 5
    (next_step,) = shard.close_steps(4)
    plain = DeclaredShard.begin(work, 0, NAMES, HASHES)
    without = list(plain.close_steps(4))[-1]
    assert int((next_step.value - without.value).sum()) == 5


def test_rows_that_do_not_count_are_counted_apart():
    work = Workplace(job())
    shard = DeclaredShard.begin(work, 0, NAMES, HASHES)
    edges = work.clock.edges
    when = np.array([edges[0] - 1, edges[12], edges[12] - 1, edges[3]])
    assert shard.add(np.append(HASHES[:3], 1), when) == (0, 1, 1, 1)
    list(shard.close_steps(12))
    assert shard.add(HASHES[:1], edges[:1]).late == 1  # nothing is open: it is not moved anywhere
    empty = DeclaredShard.begin(work, 1, [], np.zeros(0, dtype=np.int64))
    assert empty.add(HASHES[:2], edges[:2]).undeclared == 2
    assert [len(r.value) for r in opened_again(empty).close_steps(2)] == [0, 0]


def test_names_that_cannot_be_told_apart_are_refused():
    work = Workplace(job())
    with pytest.raises(InvalidArgument, match="each name once"):
        DeclaredShard.begin(work, 0, ["é", "é"], np.array([1, 2]))
    with pytest.raises(InvalidArgument, match="NFC"):
        DeclaredShard.begin(work, 0, ["e\u0301"], np.array([1]))
    with pytest.raises(InvalidArgument, match="xxhash64 differ"):
        DeclaredShard.begin(work, 0, ["a", "b"], np.array([1, 1]))


def test_true_sums_are_not_in_the_bytes_and_nothing_is_pickled():
    work = Workplace(job())
    shard = DeclaredShard.begin(work, 0, NAMES, HASHES)
    shard.add(np.repeat(HASHES[:1], 123_456), np.full(123_456, work.clock.edges[0]))
    list(shard.close_steps(1))
    names, numbers = shard.seal_names(), shard.seal()
    assert numbers[:8] == b"dpshard\0"
    for secret in ((123_456).to_bytes(8, "little"), KEY, KEY.hex().encode(), b"page 1"):
        assert secret not in numbers
        assert secret not in names
    with pytest.raises(TypeError, match="exact sums"):
        pickle.dumps(shard)
    assert shard.seal() != numbers  # a fresh nonce every time


def test_bytes_of_another_place_do_not_open():
    work = Workplace(job())
    shard = DeclaredShard.begin(work, 0, NAMES, HASHES)
    names, numbers = shard.seal_names(), shard.seal()
    damaged = numbers[:-1] + bytes([numbers[-1] ^ 1])
    later = numbers[:16] + (5).to_bytes(8, "little") + numbers[24:]
    newer = numbers[:8] + b"\2\0" + numbers[10:]
    for blob in (damaged, later, newer, b"", numbers[:30], names):
        with pytest.raises(StateError):
            DeclaredShard.unseal(work, 0, names, blob)
    with pytest.raises(StateError):
        DeclaredShard.unseal(work, 1, names, numbers)
    with pytest.raises(StateError):
        DeclaredShard.unseal(Workplace(job(shards=2)), 0, names, numbers)


@pytest.mark.parametrize(
    ("setting", "changed"),
    [
        ("shards", {"shards": 2}),
        ("every", {"clock": ("2d", *DAYS[1:4], ())}),
        ("windows", {"clock": (*DAYS[:4], ("3d", "5d"))}),
        ("start", {"clock": ("1d", "2026-01-02", *DAYS[2:])}),
        ("horizon", {"clock": (*DAYS[:3], 13, DAYS[4])}),
        (
            "rho",
            {"counts": named_settings(12, dp.zcdp(0.4), windows=(3,), mechanism=dp.mechanisms.BalancedToeplitz(12))},
        ),
        ("names", {"names": "another digest"}),
        ("columns", {"columns": "time='paid', name='page'"}),
        ("rows", {"rows": "table"}),
    ],
)
def test_changed_settings_are_refused_by_name(setting, changed):
    kept, now = Workplace(job()), Workplace(job(**changed))
    with pytest.raises(CheckpointMismatch, match=f"with {setting} ") as caught:
        now.check_kept(kept.job.as_text, kept.secret_check)
    assert caught.value.setting == setting
    kept.check_kept(kept.job.as_text, kept.secret_check)


def test_a_checkpoint_of_an_older_format_is_refused():
    """Its noise was another one: a stream that went on would publish a step with two noises."""
    now = Workplace(job())
    older = json.loads(now.job.as_text) | {"format": 1}
    del older["columns"], older["rows"]
    with pytest.raises(CheckpointMismatch, match="with format 1"):
        now.check_kept(json.dumps(older, sort_keys=True), now.secret_check)


def test_another_secret_is_refused(monkeypatch):
    kept = Workplace(job())
    monkeypatch.setenv("DPSTREAM_SPARK_TEST", fixed_key("another").hex())
    monkeypatch.setattr("dpstream.adapters.spark.secret._fetched", {})
    now = Workplace(job())
    with pytest.raises(CheckpointMismatch, match="secret another one"):
        now.check_kept(kept.job.as_text, kept.secret_check)


# -- the secret -------------------------------------------------------------------------------------------------------


def fetch_key():
    """A function that workers can import."""
    return fixed_key("spark shards")


def test_the_way_to_the_secret_is_pickled_and_not_the_secret(tmp_path):
    path = tmp_path / "run.key"
    write_key_file(path, KEY)
    for source in (path, str(path), fetch_key, "env:DPSTREAM_SPARK_TEST"):
        found = SecretSource.of(source)
        assert found.key() == KEY
        data = pickle.dumps(job(names="x"))
        assert KEY not in data
        assert KEY.hex().encode() not in data
    path.chmod(0o644)
    with pytest.raises(KeyFileExposed):
        SecretSource.of(str(tmp_path / "." / "run.key"))._fetch()


CONSTANT = bytes(range(32))


class Holder:
    """An object that is called for the key that it holds."""

    def __init__(self, key):
        self.key = key

    def __call__(self):
        return self.key


CARRIERS = {
    "bytes": KEY,
    "hex": KEY.hex(),
    "global": lambda: CONSTANT,
    "default": lambda key=KEY: key,
    "constant": lambda: b"0123456789abcdef0123456789abcdef",
    "partial": functools.partial(bytes, KEY),
    "object": Holder(KEY),
    "number": 7,
}


@pytest.mark.parametrize("given", CARRIERS.values(), ids=CARRIERS)
def test_a_secret_that_would_stand_in_the_plan_is_refused(given):
    with pytest.raises(InvalidArgument, match="secret must be") as caught:
        SecretSource.of(given)
    assert KEY.hex() not in str(caught.value)
    assert repr(KEY) not in str(caught.value)


def test_a_secret_that_is_not_there(monkeypatch):
    monkeypatch.delenv("DPSTREAM_SPARK_TEST")
    with pytest.raises(InvalidArgument, match=r"spark\.executorEnv\.DPSTREAM_SPARK_TEST"):
        Workplace(job())


# -- names that nobody listed -----------------------------------------------------------------------------------------


@pytest.mark.parametrize("per_name", [1, 3])
def test_discovered_names_have_the_values_of_one_machine(per_name):
    """Three shards of people, two of names, written and read again after every step, against one OpenCounter."""
    budget, horizon = dp.approx_dp(6, 1e-6), 12
    counts = OpenSettings.of(horizon, budget, names_per_person=4, per_name=per_name, windows=(3,))
    work = Workplace(job(counts=counts))
    single = dp.OpenCounter(horizon, budget, names_per_person=4, per_name=per_name, windows=(3,), key=work.noise_key)
    people = [PeopleShard(work, i) for i in range(3)]
    names = [DiscoveredShard.begin(work, i) for i in range(2)]
    rng, seen, dropped = np.random.default_rng(3), 0, 0
    for step in range(horizon):
        who = rng.integers(0, 150, 300)
        what = [f"n{min(int(x), 60)}" for x in rng.zipf(1.3, 300)]
        when = work.clock.edges[step] + np.arange(300)
        expected = single.add_events([f"p{i}" for i in who], what)
        got = {}
        brought = []
        for i in range(3):
            mine = np.flatnonzero(who % 3 == i)
            shuffled = rng.permutation(mine)  # rows of a micro-batch come in any order
            brought.append(
                people[i].take([f"p{who[j]}" for j in shuffled], [what[j] for j in shuffled], when[shuffled])
            )
            people[i] = PeopleShard.unseal(work, i, people[i].seal())
            dropped += brought[-1].dropped
        for i in range(2):
            for part in brought:
                chosen = [j for j, name in enumerate(part.names) if int(name[1:]) % 2 == i]
                names[i].add(
                    [part.names[j] for j in chosen], part.steps[chosen], part.events[chosen], part.people[chosen]
                )
            names[i] = opened_again(names[i])
            (released,) = names[i].close_steps(step + 1)
            names[i] = opened_again(names[i])
            got |= dict(zip(released.names, released.value.tolist(), strict=True))
            window = released.windows[0]
            told = {
                n: (v, v - window.off)
                for n, v, k in zip(released.names, window.value.tolist(), window.known, strict=True)
                if k
            }
            mine = {n: (e.value, e.low) for n, e in single.window(3, 0.9).items() if int(n[1:]) % 2 == i}
            assert told == mine
        assert got == expected
        seen = max(seen, len(got))
    assert seen > 3
    assert dropped == single.dropped > 0


def test_a_late_row_of_a_discovered_name_moves_and_is_counted():
    counts = OpenSettings.of(12, dp.approx_dp(6, 1e-6), names_per_person=4)
    work = Workplace(job(counts=counts, clock=(*DAYS[:4], ())))
    shard = DiscoveredShard.begin(work, 0)
    list(shard.close_steps(5))
    many = np.array([10_000])
    assert shard.add(["a"], np.array([2]), many, many).late == 10_000
    assert shard.add(["b"], np.array([-1]), many, many).before_start == 10_000
    assert [len(r.names) for r in shard.close_steps(6)] == [1]


def test_ids_and_names_that_cannot_be_read_are_counted_and_use_nothing_up():
    counts = OpenSettings.of(12, dp.approx_dp(6, 1e-6), names_per_person=1)
    work = Workplace(job(counts=counts, clock=(*DAYS[:4], ())))
    shard = PeopleShard(work, 0)
    edges = work.clock.edges
    first = shard.take(["", "ann", None, "ann", "ann"], ["a", "", "a", "late", "early"], edges[[0, 0, 0, 12, 0]])
    assert (first.names, first.unusable, first.outside.beyond_horizon) == (["early"], 3, 1)
    again = PeopleShard.unseal(work, 0, shard.seal()).take(["ann "], ["other"], edges[:1])
    assert (again.names, again.dropped) == ([], 1)


@settings(max_examples=30, deadline=None)
@given(st.data())
def test_batches_of_any_size_in_any_order_give_the_same_releases(data):
    """Rows of open steps, cut into micro-batches anywhere and written and read in between."""
    work = _plain_work()
    rows = data.draw(st.lists(st.tuples(st.integers(0, len(NAMES) - 1), st.integers(0, 11)), max_size=60))
    whole = DeclaredShard.begin(work, 0, NAMES, HASHES)
    cut = DeclaredShard.begin(work, 0, NAMES, HASHES)
    which = np.array([row for row, _ in rows], dtype=np.int64)
    when = work.clock.edges[np.array([step for _, step in rows], dtype=np.int64)]
    whole.add(HASHES[which], when)
    order = np.array(data.draw(st.permutations(range(len(rows)))), dtype=np.int64)
    for part in np.array_split(order, data.draw(st.integers(1, 5))):
        cut.add(HASHES[which[part]], when[part])
        cut = opened_again(cut)
    assert [r.value.tolist() for r in whole.close_steps(12)] == [r.value.tolist() for r in cut.close_steps(12)]


_works = []


def _plain_work():
    if not _works:
        _works.append(Workplace(job()))
    return _works[0]
