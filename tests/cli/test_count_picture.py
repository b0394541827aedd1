"""The picture of `dpstream count --plot`: band, labels and legend, and never the truth unless asked."""

import base64
import datetime as dt
import re

import numpy as np
import polars as pl
import pytest
from matplotlib.backends.backend_agg import FigureCanvasAgg

from dpstream.cli.pictures import draw_releases, save_picture
from tests.cli.test_count import count, month, narrow_terminal, same_noise  # noqa: F401
from tests.events.event_logs import WARDS, write


def releases(categories=(), steps=40, falling=False):
    """Made-up releases, in order."""
    rows = []
    for step in range(1, steps + 1):
        for i, name in enumerate(categories or [None]):
            value = (i + 1) * step * (-7 if falling else 7)
            row = {"step": step, "start": dt.date(2026, 1, 1) + dt.timedelta(step), "category": name, "value": value}
            rows.append(row | {"stddev": 2.5, "low": value - 5, "high": value + 5})
    frame = pl.DataFrame(rows)
    return frame if categories else frame.drop("category")


def drawn(frame, truth=None):
    figure = draw_releases(frame, "A title", 0.95, truth)
    FigureCanvasAgg(figure).draw()
    (axes,), (legend,) = figure.axes, figure.legends
    return figure, axes, legend, [text.get_text() for text in legend.get_texts()]


@pytest.mark.parametrize("falling", [False, True])
@pytest.mark.parametrize("count_of_categories", [0, 1, 3, 8, 12, 40])
def test_band_labels_and_a_legend_that_hides_nothing(count_of_categories, falling):
    names = [f"ward {i}" for i in range(count_of_categories)]
    frame = releases(names, falling=falling)
    figure, axes, legend, labels = drawn(frame)
    assert labels == [*(names or ["released total"]), "95 % band"]
    assert (axes.get_title(), axes.get_xlabel(), axes.get_ylabel()) == ("A title", "start of the step", "running total")
    assert len(axes.collections) == len(axes.lines) == max(count_of_categories, 1)
    assert len({(line.get_color(), line.get_linestyle()) for line in axes.lines}) == min(len(axes.lines), 28)
    for i, (band, line) in enumerate(zip(axes.collections, axes.lines, strict=True)):
        part = frame.filter(category=names[i]) if names else frame
        np.testing.assert_array_equal(line.get_ydata(), part["value"])
        heights = band.get_paths()[0].vertices[:, 1]
        assert (heights.min(), heights.max()) == (part["low"].min(), part["high"].max())
    box, data = legend.get_window_extent(), axes.get_window_extent()
    assert not box.overlaps(data)
    for label in (axes.xaxis.label, axes.yaxis.label, axes.title, *axes.get_xticklabels(), *axes.get_yticklabels()):
        assert not box.overlaps(label.get_window_extent())
        assert figure.bbox.fully_containsx(label.get_window_extent().x0)
    assert figure.bbox.y0 <= box.y0 < box.y1 <= figure.bbox.y1
    assert figure.bbox.x0 <= box.x0 < box.x1 <= figure.bbox.x1
    for label in axes.get_xticklabels():
        assert not label.get_window_extent().overlaps(axes.xaxis.label.get_window_extent())


def test_the_truth_is_drawn_last_and_only_if_given():
    frame = releases(["a", "b"])
    truth = {"a": np.arange(40), "b": np.arange(40) * 2}
    _, axes, _, labels = drawn(frame, truth)
    assert labels == ["a", "b", "95 % band", "true total (not for publication)"]
    assert [line.get_ydata().tolist() for line in axes.lines[1::2]] == [truth["a"].tolist(), truth["b"].tolist()]
    assert len(drawn(frame)[1].lines) == 2


@pytest.mark.parametrize("steps", [1, 2, 5])
def test_few_releases_can_be_seen(steps):
    _, axes, _, _ = drawn(releases(steps=steps))
    assert axes.lines[0].get_marker() == "o"
    low, high = axes.get_ylim()
    assert low < 2 < 7 * steps + 5 < high
    assert drawn(releases(steps=100))[1].lines[0].get_marker() == "None"


def test_steps_without_dates():
    _, axes, _, _ = drawn(releases().drop("start"))
    assert axes.get_xlabel() == "step"
    assert axes.lines[0].get_xdata().tolist() == list(range(1, 41))


def test_moments_are_those_of_the_wall():
    start = pl.Series([dt.datetime(2026, 6, 1, 22, tzinfo=dt.UTC)]).dt.convert_time_zone("Europe/Vienna")
    _, axes, _, _ = drawn(releases(steps=1).with_columns(start=start))
    assert axes.lines[0].get_xdata()[0] == np.datetime64("2026-06-02T00:00")


def test_no_releases_is_an_empty_picture(tmp_path):
    for frame in (releases().clear(), releases(["a"]).clear()):
        save_picture(draw_releases(frame, "A title", 0.95), tmp_path / "out.png", "A title")
        assert (tmp_path / "out.png").read_bytes().startswith(b"\x89PNG")


def svg_of(page):
    (picture,) = re.findall(r'<img alt="[^"]*" style="[^"]*" src="data:image/svg\+xml;base64,([^"]*)">', page)
    return base64.b64decode(picture).decode()


def test_pictures_of_a_run(same_noise, tmp_path):  # noqa: F811
    log = write(month(), tmp_path, "csv")
    arguments = (log, "--time", "when", "--rho", 0.5, "--horizon", 40, "--by", "ward", "--values", ",".join(WARDS))
    arguments += ("--from", "2026-01-30", "--through", "2026-02-18")
    for name in ("out.png", "out.svg", "out.pdf", "out.html"):
        result = count(*arguments, "--plot", tmp_path / name, "--output", tmp_path / "out.csv")
        assert result.exit_code == 0, result.output
        assert "warning" not in result.stderr
    assert (tmp_path / "out.png").read_bytes().startswith(b"\x89PNG")
    assert (tmp_path / "out.pdf").read_bytes().startswith(b"%PDF")
    page = (tmp_path / "out.html").read_text()
    assert page.count("<img") == 1
    assert "<title>Running total, ρ = 0.5</title>" in page
    for svg in (svg_of(page), (tmp_path / "out.svg").read_text()):
        for words in ("start of the step", "running total", "Running total, ρ = 0.5", "95 % band", *WARDS):
            assert words in svg
        assert "true total" not in svg


def test_the_truth_warns(same_noise, tmp_path):  # noqa: F811
    log = write(month(), tmp_path, "csv")
    arguments = (log, "--time", "when", "--rho", 0.5, "--horizon", 40, "--quiet", "--compare-with-truth")
    arguments += ("--from", "2026-01-30", "--through", "2026-02-18")
    result = count(*arguments, "--plot", tmp_path / "out.svg", "--output", tmp_path / "out.csv")
    assert result.exit_code == 0, result.output
    said = " ".join(result.stderr.split())
    assert said.startswith("warning: the picture shows the true totals (--compare-with-truth)")
    assert "true total (not for publication)" in (tmp_path / "out.svg").read_text()
    assert "true" not in (tmp_path / "out.csv").read_text()


def test_the_truth_of_earlier_runs_too(tmp_path, monkeypatch):
    log = tmp_path / "log.csv"
    found = []
    monkeypatch.setattr(
        "dpstream.cli.count_run.draw_releases", lambda *given: found.append(given[3]) or draw_releases(*given)
    )
    for last, rows in (("2026-01-02", "2026-01-01\n2026-01-02\n2026-01-02\n"), ("2026-01-04", "2026-01-04\n")):
        log.write_text("when\n" + rows)
        result = count(log, "--time", "when", "--rho", 0.5, "--unbounded", "--store", tmp_path / "s.db", "--plot",
                       tmp_path / "out.png", "--compare-with-truth", "--through", last)  # fmt: skip
        assert result.exit_code == 0, result.output
    assert [truth[""].tolist() for truth in found] == [[1, 3], [1, 3, 3, 4]]
