import numpy as np
import pytest

import dpstream as dp
from dpstream.errors import (
    DpstreamError,
    InputOutOfBound,
    InvalidArgument,
    PositionConflict,
    PositionGap,
    PositionMissing,
    PositionUnexpected,
)
from dpstream.mechanisms import SmoothBinary

from .conftest import BUDGET, visits


def test_a_retry_gives_the_recorded_release_and_counts_nothing(path):
    with dp.Store(path) as store:
        counter = visits(store)
        first = [counter.add(x, position=100 + i) for i, x in enumerate((1, 2, 3, -3))]
    with dp.Store(path) as store:
        counter = visits(store)
        assert [counter.add(x, position=100 + i) for i, x in enumerate((1, 2, 3, -3))] == first
        assert (counter.t, counter.position) == (4, 103)
        more = counter.extend([3, -3, 1, 1], first_position=102)
        assert more[:2].tolist() == first[2:]
        assert counter.t == 6
        again = counter.extend([2, 3, -3, 1, 1], first_position=101)
        assert again.tolist() == [*first[1:], *more[2:].tolist()]
        assert [(r.step, r.position) for r in store.releases("visits")] == [(i + 1, 100 + i) for i in range(6)]


@pytest.mark.parametrize("sizes", [(1, 1, 1, 1, 1, 1), (6,), (2, 4), (4, 2)])
def test_any_overlap_of_batches(path, sizes):
    data = np.array([1, 0, 2, -1, 3, 1])
    with dp.Store(path) as store:
        counter, at = visits(store), 0
        for size in sizes:
            counter.extend(data[at : at + size], first_position=at)
            at += size
        whole = counter.extend(data, first_position=0).tolist()
        for low in range(6):
            for high in range(low + 1, 7):
                assert counter.extend(data[low:high], first_position=low).tolist() == whole[low:high]
                changed = data[low:high].copy()
                changed[-1] = -2
                with pytest.raises(PositionConflict) as caught:
                    counter.extend(changed, first_position=low)
                assert (caught.value.position, caught.value.step) == (high - 1, high)
        assert counter.t == 6


def test_what_does_not_fit_is_refused_and_changes_nothing(path):
    with dp.Store(path) as store, dp.Store(path) as other:
        counter = visits(store)
        counter.extend([1, 1, 1], first_position=10)
        for refused, error in (
            (lambda: counter.add(1, position=14), PositionGap),
            (lambda: counter.add(1, position=9), PositionGap),
            (lambda: counter.extend([1] * 9, first_position=8), PositionGap),
            (lambda: counter.add(2, position=11), PositionConflict),
            (lambda: counter.extend([1, 1, 2, 1], first_position=10), PositionConflict),
            (lambda: counter.add(1), PositionMissing),
            (lambda: counter.extend([1]), PositionMissing),
            (lambda: counter.add(1, position=-1), InvalidArgument),
            (lambda: counter.add(1, position=1.5), InvalidArgument),
            (lambda: counter.add(1, position=True), InvalidArgument),
            (lambda: counter.add(1, position=2**63), InvalidArgument),
            (lambda: counter.add(9, position=13), InputOutOfBound),
            (lambda: counter.add(9, position=12), InputOutOfBound),
            (lambda: counter.extend([1, 9], first_position=13), InputOutOfBound),
        ):
            with pytest.raises(error) as caught:
                refused()
            assert isinstance(caught.value, DpstreamError)
            assert counter.t == 3
            assert len(other.releases("visits")) == 3
        expected = dp.Counter(
            1000, BUDGET, mechanism=counter.mechanism, per_person=3, per_step=3, key=counter._key
        ).extend([1] * 4)
        assert counter.add(1, position=13) == expected[3]


def test_positions_are_for_the_whole_stream_or_not_at_all(path):
    with dp.Store(path) as store:
        counter = visits(store)
        counter.add(1)
        with pytest.raises(PositionUnexpected, match="1 steps without"):
            counter.add(1, position=1)
        assert counter.t == 1
        assert counter.position is None


def test_histograms_and_vectors(path):
    with dp.Store(path) as store:
        histogram = visits(store, "h", shape=(2,))
        first = histogram.add([1, 2], position=0)
        assert np.array_equal(histogram.add(np.array([1, 2]), position=0), first)
        with pytest.raises(PositionConflict):
            histogram.add([2, 1], position=0)
        total = store.running_sum("s", 10, BUDGET, shape=(2,), mechanism=SmoothBinary(10))
        release = total.add([0.5, 0.25], position=3)
        assert np.array_equal(total.extend([[0.5, 0.25]], first_position=3)[0], release)
        with pytest.raises(PositionConflict):
            total.add([0.5, 0.5], position=3)
        assert total.t == 1
