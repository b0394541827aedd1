import threading
from collections import Counter as Counted

import numpy as np
import pytest

import dpstream as dp
from dpstream.errors import (
    BudgetLimitExceeded,
    InvalidArgument,
    StoreBusy,
    StoreClosed,
    StoreDamaged,
    StoreMismatch,
    StreamRetired,
    StreamUnknown,
)
from dpstream.mechanisms import Binary, SmoothBinary, SquareRoot
from dpstream.noise.stream import NoiseStream
from dpstream.release.settings import StreamSettings, _complete

from .conftest import BUDGET, TREE, everything, visits


def test_a_stream_goes_on_where_it_stood(path):
    with dp.Store(path) as store:
        counter = visits(store)
        first = [counter.add(x) for x in (1, 2, -1)]
        interval = counter.estimate()
    with dp.Store(path) as store:
        counter = visits(store)
        assert counter.t == 3
        assert counter.estimate() == interval
        assert counter.remaining == 997
        first.append(counter.add(3))
        assert [release.value for release in store.releases("visits")] == first
        assert store.releases("visits", since=3) == [(4, None, first[3])]
        store.check_seals()


def test_files_are_private_and_show_no_secret(path):
    with dp.Store(path) as store:
        counter = visits(store)
        counter.add(1)
        digits = path.with_name("counts.db.key").read_text().split()[1]
        assert digits not in repr(store) + repr(counter) + repr(store._files.seals) + repr(counter._seals)
    for file in path.parent.iterdir():
        assert file.stat().st_mode & 0o077 == 0, file
    assert not any(bytes.fromhex(digits) in content for content in everything(path).values())


@pytest.mark.parametrize(
    ("setting", "value"),
    [
        ("horizon", 999),
        ("budget", dp.zcdp(0.6)),
        ("budget", dp.approx_dp(1, 1e-6)),
        ("per_person", 2),
        ("per_step", 5),
        ("shape", (2,)),
        ("mechanism", Binary(1000)),
        ("participation", dp.Participation(times=2)),
        ("neighbours", "replace"),
    ],
)
def test_another_setting_is_refused_by_name(path, setting, value):
    with dp.Store(path) as store:
        with visits(store) as counter:
            counter.add(1)
        before = everything(path)
        with pytest.raises(StoreMismatch, match=f"created with {setting}=") as caught:
            visits(store, **{setting: value})
        assert caught.value.setting == setting
        assert "another name" in str(caught.value)
        assert everything(path) == before
        assert visits(store).t == 1


def test_a_sum_is_not_a_counter(path):
    with dp.Store(path) as store:
        visits(store).close()
        with pytest.raises(StoreMismatch, match="kind='counter', but kind='running sum'"):
            store.running_sum("visits", 1000, BUDGET, shape=(3,), mechanism=TREE)


def test_one_writer_many_readers(path):
    with dp.Store(path) as store, dp.Store(path) as other:
        counter = visits(store)
        value = counter.add(1)
        for second in (store, other):
            with pytest.raises(StoreBusy, match="process") as caught:
                visits(second)
            assert caught.value.pid is not None
            assert caught.value.started.startswith("20")
        with store._files.database.atomic():  # in the middle of a commit
            assert other.releases("visits") == [(1, None, value)]
        visits(other, name="else").add(1)
        counter.close()
        assert visits(other).t == 1


def test_a_writer_that_is_forgotten_gives_its_stream_back(path):
    visits(dp.Store(path)).add(1)
    with dp.Store(path) as store:
        assert visits(store).t == 1


def test_closed_is_closed(path):
    store = dp.Store(path)
    counter = visits(store)
    store.close()
    store.close()
    for use in (lambda: counter.add(1), lambda: store.releases("visits"), lambda: visits(store), store.spent):
        with pytest.raises(StoreClosed):
            use()


def test_streams_and_spent(path):
    with dp.Store(path) as store:
        assert store.streams() == []
        visits(store).add(1, position=5)
        store.running_sum("sum", 100, dp.approx_dp(1, 1e-6), shape=(2,), mechanism=SmoothBinary(100))
        store.counter("pure", 100, dp.pure_dp(0.5))
        a, b, c = store.streams()
        assert (a.name, a.kind, a.t, a.horizon, a.position, a.retired) == ("visits", "counter", 1, 1000, 5, False)
        assert (b.kind, b.position, c.budget) == ("running sum", None, dp.pure_dp(0.5))
        spent = store.spent()
        assert spent.pure_epsilon == 0.5
        assert spent.gaussian_rho == pytest.approx(0.5 + dp.approx_dp(1, 1e-6).mu ** 2 / 2)
        assert spent.rho == pytest.approx(spent.gaussian_rho + 0.125)
        assert "3 streams" in str(spent)


def test_a_limit_refuses_what_would_exceed_it(path):
    with dp.Store(path, limit=dp.zcdp(1.0)) as store:
        visits(store, "a")
        visits(store, "b")
        before = everything(path)
        figures = r"would promise rho = 1\.5, and the store's limit is rho = 1; rho = 1 is promised already"
        with pytest.raises(BudgetLimitExceeded, match=figures):
            visits(store, "c")
        assert everything(path) == before


def test_a_limit_is_kept_in_the_file(path):
    with dp.Store(path, limit=dp.zcdp(1.0)) as store:
        visits(store, "a")
        visits(store, "b")
    with dp.Store(path) as store:  # another day; nobody says the limit
        assert store.limit == dp.zcdp(1.0)
        with pytest.raises(BudgetLimitExceeded):
            visits(store, "c")
        visits(store, "a").add(1)
    dp.Store(path, limit=dp.zcdp(1.0)).close()
    before = everything(path)
    with pytest.raises(InvalidArgument, match=r"limit must be ZCDP\(rho=1.0\), which this store keeps.*set_limit"):
        dp.Store(path, limit=dp.zcdp(9.0))
    assert everything(path) == before


def test_changing_the_limit_is_an_act_of_its_own(path):
    with dp.Store(path) as store, dp.Store(path) as other:
        assert store.limit is None
        visits(store, "a")
        store.set_limit(dp.zcdp(0.5))
        assert other.limit == dp.zcdp(0.5)
        with pytest.raises(BudgetLimitExceeded):
            visits(other, "b")
        for less in (dp.zcdp(0.4), dp.pure_dp(9)):
            with pytest.raises(InvalidArgument, match=r"limit must be at least what is promised already: rho = 0\.5"):
                store.set_limit(less)
        for bad in (0.5, "zcdp"):
            with pytest.raises(InvalidArgument):
                store.set_limit(bad)
        assert store.limit == dp.zcdp(0.5)
        store.set_limit(dp.approx_dp(10, 1e-6))
        visits(other, "b")
        store.set_limit(None)
        assert other.limit is None


@pytest.mark.parametrize(
    "edit",
    [
        "DELETE FROM about WHERE name = 'limit'",
        "UPDATE about SET value = CAST(replace(value, '0.5', '5.0') AS BLOB) WHERE name = 'limit'",
        "UPDATE about SET value = x'' WHERE name = 'limit'",
    ],
)
def test_a_limit_that_was_touched_shows(path, edit):
    with dp.Store(path, limit=dp.zcdp(0.5)) as store:
        with store._files.database.atomic() as connection:
            connection.execute(edit)
        for use in (lambda: store.limit, lambda: visits(store), lambda: store.set_limit(None)):
            with pytest.raises(StoreDamaged, match="the store's limit"):
                use()


def test_composition_is_exact_for_gaussians():
    from dpstream.store.composition import compose

    two = compose([dp.zcdp(0.2), dp.approx_dp(1, 1e-5)])
    whole = dp.zcdp(two.rho)
    assert two.epsilon(1e-7) == pytest.approx(whole.to_approx_dp(delta=1e-7).epsilon)
    assert two.within(whole)
    assert not two.within(dp.zcdp(two.rho * 0.999))
    assert two.within(whole.to_approx_dp(delta=1e-7))
    pure = compose([dp.pure_dp(1), dp.pure_dp(2)])
    assert pure.within(dp.pure_dp(3))
    assert pure.epsilon(1e-9) == 3
    mixed = compose([dp.pure_dp(1), dp.zcdp(0.2)])
    assert mixed.epsilon(1e-6) <= 1 + dp.zcdp(0.2).to_approx_dp(delta=1e-6).epsilon
    assert not mixed.within(dp.pure_dp(100))
    assert compose([]).epsilon(0.5) == 0


def test_a_retired_stream_keeps_its_releases_and_takes_no_more(path):
    with dp.Store(path) as store:
        counter = visits(store)
        value = counter.add(1)
        with pytest.raises(StoreBusy):
            store.retire("visits")
        counter.close()
        store.retire("visits")
        store.retire("visits")
        with pytest.raises(StreamRetired):
            visits(store)
        assert store.releases("visits") == [(1, None, value)]
        assert store.streams()[0].retired
        assert store.spent().rho == 0.5
        with pytest.raises(StreamUnknown):
            store.retire("nobody")


def test_threads_share_a_counter(path):
    with dp.Store(path) as store:
        counter = visits(store)
        threads = [threading.Thread(target=lambda: [counter.add(1) for _ in range(20)]) for _ in range(4)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert counter.t == 80
        store.check_seals()


def test_releases_as_a_frame(path):
    with dp.Store(path) as store:
        assert visits(store, "empty").t == 0
        values = visits(store).extend([1, 2], first_position=7).tolist()
        frame = store.releases("visits", frame=True)
        assert frame.to_dict(as_series=False) == {"step": [1, 2], "position": [7, 8], "value": values}
        assert store.releases("empty", frame=True).schema == frame.schema


def test_no_two_streams_share_noise(path):
    """Same settings, same data: other names, other stores, even the same master key; the noise differs."""
    key = bytes(range(32))
    runs = []
    for file in (path, path.with_name("other.db")):
        with dp.Store(file, master_key=key) as store:
            for name in ("a", "b"):
                runs.append(visits(store, name).extend(np.zeros(40, dtype=int)).tolist())
    assert len({tuple(run) for run in runs}) == 4


def test_an_empty_batch_changes_nothing(path):
    with dp.Store(path) as store:
        counter = visits(store)
        assert counter.extend([]).tolist() == []
        assert counter.extend([], first_position=4).tolist() == []
        assert counter.t == 0
        assert store.releases("visits") == []


# -- what is promised to whom -----------------------------------------------------------------------------------------


def test_what_a_store_enforces_is_what_is_promised(path):
    """Up to three rows of a person, in whatever steps: not "in one step only", which would leave most people out."""
    with dp.Store(path) as store:
        limited = visits(store, "limited", rows_per_person=3, people=10)
        free = visits(store, "free", participation=dp.Participation(times=2))
        info, other = store.streams()
        assert (info.rows_per_person, info.people, info.per_person, info.opened) == (3, 10, 3, 1)
        assert (other.rows_per_person, other.people, other.participation.times) == (None, None, 2)
        for text in (limited.describe(), store.describe("limited")):
            assert "everyone, because the counted rows of one person add at most 3, in whatever steps" in text
            assert "The store refuses to count more" in text
            assert "one step only" not in text
        assert store.describe("free") == free.describe()
        assert "everyone who is in at most 2 steps" in store.describe("free")
        assert store.settings("free") == free.settings
        with pytest.raises(StreamUnknown):
            store.describe("nobody")


def test_true_data_stands_behind_a_door_that_says_so(path):
    with dp.Store(path) as store:
        visits(store).extend([1, 2, 3])
        assert store.true_data.inputs("visits", 1, 3).tolist() == [1, 2, 3]
        assert "2" not in repr(store.true_data)
        names = {name for name in dir(store) if not name.startswith("_")}
        assert names == {
            "check_seals", "close", "counter", "describe", "estimate", "limit", "open_counter", "open_names",
            "open_settings", "path", "published_names", "release_values",
            "releases", "retire", "running_sum", "series", "series_values", "set_limit", "settings",
            "spent", "start_successor", "streams", "tokens", "true_data", "verify", "window",
        }  # fmt: skip


def test_a_stream_is_built_once(path, monkeypatch):
    """One counter, one stream of noise and one check of the inputs for a commit."""
    made = Counted()
    noise, resume, check = NoiseStream.__init__, dp.Counter.resume.__func__, StreamSettings.check_rows

    def noise_init(self, *given, **more):
        made["noise"] += 1
        noise(self, *given, **more)

    def counter_resume(cls, *given, **more):
        made["counter"] += 1
        return resume(cls, *given, **more)

    def check_rows(self, xs):
        made["check"] += 1
        return check(self, xs)

    monkeypatch.setattr(NoiseStream, "__init__", noise_init)
    monkeypatch.setattr(dp.Counter, "resume", classmethod(counter_resume))
    monkeypatch.setattr(StreamSettings, "check_rows", check_rows)
    with dp.Store(path) as store:
        visits(store).extend([1, 2, 3], first_position=0)
    assert made == {"noise": 1, "counter": 1, "check": 1}


@pytest.mark.parametrize("reopen", [True, False])
def test_a_stream_whose_numbers_are_computed_differently_is_not_gone_on_with(path, monkeypatch, reopen):
    """Another version or library finds another last digit: other noise for the same settings."""
    with dp.Store(path) as store:
        store.counter("visits", 9, BUDGET, mechanism=SquareRoot(9)).extend([1, 2])
    before = path.read_bytes()
    _complete.cache_clear()
    monkeypatch.setattr(SquareRoot, "computed_numbers", lambda self: iter([self.coefficients(9) * (1 + 2**-52)]))
    with dp.Store(path) as store, pytest.raises(StoreMismatch, match="created with identity=") as caught:
        store.counter("visits", 9, BUDGET, mechanism=SquareRoot(9)) if reopen else store.settings("visits")
    _complete.cache_clear()
    assert caught.value.setting == "identity"
    assert path.read_bytes() == before
