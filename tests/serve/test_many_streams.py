"""A store of many streams: what is read grows with their number, and not with its square."""

import dpstream as dp
from dpstream.mechanisms import SmoothBinary
from dpstream.serve.figures import Figures
from dpstream.serve.pages import overview_page
from dpstream.store import published

from .conftest import Served


def fill(path, streams):
    with dp.Store(path) as store:
        for i in range(streams):
            with store.counter(f"s{i}", 20, dp.zcdp(0.5), mechanism=SmoothBinary(20)) as stream:
                stream.extend([3, 4, 5])


def rows_read(monkeypatch, ask):
    """Return how many rows of the table of streams are read."""
    read = []
    really = published.unchecked_streams

    def counted(*arguments):
        rows = really(*arguments)
        read.append(len(rows))
        return rows

    monkeypatch.setattr(published, "unchecked_streams", counted)
    ask()
    monkeypatch.setattr(published, "unchecked_streams", really)
    return sum(read)


def test_the_overview_reads_each_stream_a_few_times(tmp_path, monkeypatch):
    fill(tmp_path / "counts.db", 30)
    figures = Figures(tmp_path / "counts.db")
    assert rows_read(monkeypatch, lambda: overview_page(figures.streams())) <= 10 * 30


def test_a_release_of_one_stream_leaves_the_others_as_they_are(tmp_path):
    path = tmp_path / "counts.db"
    fill(path, 5)
    figures = Figures(path)
    before = figures.streams()
    with dp.Store(path) as store, store.counter("s3", 20, dp.zcdp(0.5), mechanism=SmoothBinary(20)) as stream:
        stream.add(7)
    after = figures.streams()
    assert [old is new for old, new in zip(before, after, strict=True)] == [True, True, True, False, True]
    assert (before[3].t, after[3].t) == (3, 4)


def test_health_reads_no_stream(tmp_path, monkeypatch):
    """A liveness probe has little time, and a server that is restarted because of it has even less."""
    path = tmp_path / "counts.db"
    fill(path, 3)
    with Served(path) as server:
        answers = []
        assert rows_read(monkeypatch, lambda: answers.append(server.get("/healthz").status_code)) == 0
        assert answers == [200]
        path.write_bytes(b"no store")
        assert server.get("/healthz").status_code == 503
