"""Pictures of releases: windows with error bars above the running total, words that say what is shown, pages."""

import base64
import datetime as dt
import html.parser
import io
import json
import re
from decimal import Decimal

import numpy as np
import polars as pl
import pytest
from matplotlib.backends.backend_agg import FigureCanvasAgg

import dpstream as dp
from dpstream.cli.pictures import save_releases
from dpstream.cli.release_picture import BARS, ReleasePicture, draw_picture, suggested_window, window_to_draw
from dpstream.errors import MissingExtra
from dpstream.events.calendar import Calendar
from dpstream.events.released import Released
from dpstream.events.windows import windows_of
from dpstream.release.error_bars import change_error
from tests.cli.test_count import count, month, narrow_terminal, same_noise  # noqa: F401
from tests.events.event_logs import WARDS, write


def released(steps=40, names=(), every="1d", start=dt.datetime(2026, 1, 1), unit=1, falling=False):
    shape = (len(names),) if names else ()
    counter = dp.Counter(2000, dp.zcdp(0.05), shape=shape, mechanism=dp.mechanisms.SmoothBinary(2000), key=bytes(32))
    x = np.full((steps, *shape), -900 if falling else 900) + np.arange(len(names) or 1) * 200
    values = counter.extend(x.reshape(steps, *shape))
    calendar = None if every is None else Calendar(every, pl.Series([start]))
    return Released(counter.settings, values, calendar, tuple(names), Decimal(unit))


def drawn(picture):
    figure = draw_picture(picture)
    FigureCanvasAgg(figure).draw()
    above, below = figure.axes
    labels = [text.get_text() for legend in figure.legends for text in legend.get_texts()]
    return figure, above, below, labels


def test_bars_with_error_bars_above_the_total():
    picture = ReleasePicture(released(38), "1w", label="visits")
    figure, above, below, labels = drawn(picture)
    assert labels == ["released", "released, not a whole window", "95 % error bar"]
    figures = picture.figures
    assert sorted(bar.get_height() for bar in above.patches) == sorted(figures["value"].to_list())
    hatched = [bar for bar in above.patches if bar.get_hatch()]
    assert [bar.get_height() for bar in hatched] == figures.filter(~pl.col("complete"))["value"].to_list()
    (segments,) = [lines.get_segments() for lines in above.collections]
    assert [(low, high) for (_, low), (_, high) in segments] == figures.select("low", "high").rows()
    (line,) = below.lines
    assert line.get_ydata().tolist() == [0, *picture.totals["value"].to_list()]
    last = picture.totals.row(-1, named=True)
    assert [text.get_text() for text in below.texts] == [f"{last['value']:,} ± {last['high'] - last['value']:,}"]
    assert (above.get_ylabel(), below.get_ylabel()) == ("visits per week", "visits in total")
    assert figure.get_suptitle() == "Visits per week, and in total"
    subtitle = " ".join(above.get_title(loc="left").split())
    assert subtitle == (
        "1 January 2026 to 7 February 2026. The figures carry noise for privacy (ρ = 0.05): each true figure is within"
        " its error bar with 95 % confidence."
    )


def test_error_bars_are_those_of_the_windows():
    """Not those of the totals, which are much wider for a mechanism that shares noise."""
    picture = ReleasePicture(released(28), "7d", confidence=0.8)
    _, above, _, _ = drawn(picture)
    (segments,) = [lines.get_segments() for lines in above.collections]
    for week, ((_, low), (_, high)) in enumerate(segments[1:], start=2):
        _, h = change_error(picture.released.settings, 7 * week, 7 * week - 7, 0.8)
        assert high - low == 2 * h


def test_dates_that_read_well():
    """No date in the corner, no offset; the year once; nothing said of hours where steps are days."""
    for steps, expected in ((365, "Jan\n2026"), (40, "1 Jan\n2026"), (3, "1 Jan\n2026")):
        _, _, below, _ = drawn(ReleasePicture(released(steps)))
        labels = [text.get_text() for text in below.get_xticklabels()]
        assert labels[0] == expected
        assert not any(":" in label for label in labels)
        assert sum("2026" in label for label in labels) == 1
        assert below.xaxis.get_offset_text().get_text() == below.yaxis.get_offset_text().get_text() == ""
    _, _, below, _ = drawn(ReleasePicture(released(400, falling=True), "1mo"))
    assert "−" not in "".join(text.get_text() for text in below.get_yticklabels())
    assert any("," in text.get_text() for text in below.get_yticklabels())
    _, _, hours, _ = drawn(ReleasePicture(released(60, every="1h")))
    labels = [text.get_text() for text in hours.get_xticklabels()]
    assert "00:00\n1 Jan 2026" in labels


@pytest.mark.parametrize("count_of_categories", [1, 6, 40])
def test_categories_are_lines_with_bands_and_a_legend_that_hides_nothing(count_of_categories):
    names = [f"ward {i}" for i in range(count_of_categories)]
    picture = ReleasePicture(released(100, names), "1w")
    figure, above, below, labels = drawn(picture)
    assert labels == [*names, "95 % band"]
    assert len(above.lines) >= count_of_categories
    assert len({(line.get_color(), line.get_linestyle()) for line in below.lines}) == min(count_of_categories, 28)
    (legend,) = figure.legends
    box = legend.get_window_extent()
    for axes in (above, below):
        assert not box.overlaps(axes.get_window_extent())
    assert figure.bbox.x0 <= box.x0 < box.x1 <= figure.bbox.x1
    assert figure.bbox.y0 <= box.y0 < box.y1 <= figure.bbox.y1
    ends = [text.get_window_extent() for text in below.texts]
    assert len(ends) == (count_of_categories if count_of_categories <= 6 else 0)
    assert not any(one.overlaps(other) for i, one in enumerate(ends) for other in ends[:i])
    # Weeks that are not whole would look like a fall.
    value = picture.values(picture.figures, names[0])["value"]
    assert above.lines[0].get_ydata().tolist() == value[picture.spans.complete].tolist()


def test_few_windows_of_few_categories_stand_side_by_side():
    """Error bars in one place would hide each other; the heading keeps the capitals of a label."""
    picture = ReleasePicture(released(7, ["north", "south"]), "1d", label="sales (EUR)")
    figure, above, _, labels = drawn(picture)
    assert labels == ["north", "south", "95 % error bar"]
    at = {line.get_label(): line.get_xdata() for line in above.lines}
    assert (at["north"] < at["south"]).all()
    assert figure.get_suptitle() == "Sales (EUR) per day, and in total"
    assert "within its error bar" in picture.subtitle


def test_rolling_windows_are_a_line_at_their_ends():
    picture = ReleasePicture(released(100), "7d", rolling=True, label="visits")
    figure, above, _, labels = drawn(picture)
    assert labels == ["released", "95 % band"]
    assert len(above.lines[0].get_ydata()) == 94
    assert figure.get_suptitle() == "Visits in the 7 days up to each date, and in total"


def test_the_truth_is_drawn_only_if_given():
    one = released(30)
    truth = np.cumsum(np.full(30, 900))
    picture = ReleasePicture(one, "1w", truth=truth)
    _, above, below, labels = drawn(picture)
    assert "true (not for publication)" in labels
    true = [line for line in above.lines if line.get_marker() == "x"]
    assert true[0].get_ydata().tolist() == [900 * steps for steps in picture.figures["steps"]]
    assert below.lines[-1].get_ydata().tolist() == truth.tolist()
    assert "true (not for publication)" not in drawn(ReleasePicture(one, "1w"))[3]


@pytest.mark.parametrize(
    ("steps", "every", "over"),
    [(30, "1d", "1d"), (62, "1d", "1d"), (63, "1d", "1w"), (365, "1d", "1w"), (1000, "1d", "1mo"), (1999, "1d", "1q"),
     (48, "1h", "1h"), (200, "1h", "6h"), (1500, "1h", "1w"), (60, "1w", "1w"), (100, "1w", "4"), (24, "1mo", "1mo"),
     (500, None, "10"), (50, None, "1")],
)  # fmt: skip
def test_there_are_never_too_many_bars(steps, every, over):
    one = released(steps, every=every)
    assert suggested_window(one) == over
    assert len(ReleasePicture(one).spans.t) <= BARS + 1


def test_which_of_the_windows_is_drawn():
    assert window_to_draw(released(40), windows_of("7d,1d")) == "1d"
    assert window_to_draw(released(300), windows_of("1mo,1d,7d")) == "7d"
    assert window_to_draw(released(300), windows_of("1d")) == "1d"
    assert window_to_draw(released(300), ()) is None


def test_steps_without_dates_and_amounts():
    picture = ReleasePicture(released(50, every=None, unit="0.01"), "10", label="sales")
    figure, above, below, _ = drawn(picture)
    assert below.get_xlabel() == "step"
    assert figure.get_suptitle() == "Sales per 10 steps, and in total"
    assert above.patches[0].get_height() == pytest.approx(float(picture.figures["value"][0]))
    assert "steps 1 to 50" in picture.description


def test_moments_are_those_of_the_wall():
    start = dt.datetime(2026, 6, 1, 22, tzinfo=dt.UTC)
    moments = pl.Series([start]).dt.convert_time_zone("Europe/Vienna")
    one = released(5, every=None)
    calendar = Calendar("1h", moments)
    picture = ReleasePicture(Released(one.settings, one.values, calendar), "1h")
    assert picture.edges[0] == np.datetime64("2026-06-02T00:00")


@pytest.mark.parametrize("suffix", [".png", ".svg", ".html"])
def test_no_releases_are_said(tmp_path, suffix):
    save_releases(ReleasePicture(released(0)), tmp_path / f"out{suffix}")
    content = (tmp_path / f"out{suffix}").read_bytes()
    assert content.startswith(b"\x89PNG") or b"Nothing was released yet." in content


# -- pages ------------------------------------------------------------------------------------------------------------


class Page(html.parser.HTMLParser):
    """What a page holds: tags with their attributes, the text of cells, the scripts."""

    def __init__(self, text):
        super().__init__()
        self.tags, self.cells, self.scripts, self._inside = [], [], [], ""
        self.feed(text)

    def handle_starttag(self, tag, attrs):
        self.tags.append((tag, dict(attrs)))
        self._inside = tag
        if tag == "tr":
            self.cells.append([])

    def handle_data(self, data):
        if self._inside in ("td", "th") and data.strip():
            self.cells[-1].append(data)
        if self._inside == "script":
            self.scripts.append(data)

    def of(self, tag):
        return [attributes for name, attributes in self.tags if name == tag]


def page_of(picture, tmp_path):
    save_releases(picture, tmp_path / "out.html", "How it is protected.")
    return (tmp_path / "out.html").read_text()


def test_a_page_stands_alone(tmp_path):
    """One heading, a description, the table, the data, and nothing that is fetched from elsewhere."""
    picture = ReleasePicture(released(38), "1w", label="visits", title="Visits <to> the clinic")
    text = page_of(picture, tmp_path)
    page = Page(text)
    assert len(page.of("h1")) == 1
    assert "<h1>Visits &lt;to&gt; the clinic</h1>" in text
    assert text.count("How it is protected.") == 1
    (figure,) = page.of("figure")
    assert figure["role"] == "img"
    assert figure["aria-label"] == picture.description
    last = picture.totals.row(-1, named=True)
    assert f"in total {last['value']:,} ± {last['high'] - last['value']:,}." in figure["aria-label"]
    assert not [one for one in page.of("script") if "src" in one]
    assert not page.of("link")
    assert all(image["src"].startswith("data:") for image in page.of("img"))
    assert page.cells[0] == ["from", "through", "value", "±", "low", "high"]
    rows = picture.figures.to_dicts()
    assert len(page.cells) == 1 + len(rows)
    value, low, high = (rows[1][part] for part in ("value", "low", "high"))
    assert page.cells[2][:2] == [str(rows[1]["from"]), str(rows[1]["through"])]
    assert page.cells[2][2:] == [f"{number:,}" for number in (value, high - value, low, high)]
    assert page.cells[1][1] == "2026-01-04 (not whole)"
    links = {link["download"]: link["href"] for link in page.of("a")}
    saved = base64.b64decode(links["figures.csv"].removeprefix("data:text/csv;base64,"))
    assert pl.read_csv(io.BytesIO(saved), try_parse_dates=True).equals(picture.figures)
    saved = base64.b64decode(links["totals.csv"].removeprefix("data:text/csv;base64,"))
    assert pl.read_csv(io.BytesIO(saved), try_parse_dates=True).equals(picture.totals)


def traces(text):
    """What plotly is told to draw."""
    script = next(script for script in Page(text).scripts if "Plotly.newPlot" in script and '"picture"' in script)
    start = script.index("[", script.index('"picture"'))
    return json.JSONDecoder().raw_decode(script[start:])[0]


def test_what_the_mouse_is_told(tmp_path):
    picture = ReleasePicture(released(38), "1w", label="visits")
    bar, *rest = traces(page_of(picture, tmp_path))
    row = picture.figures.row(1, named=True)
    value, low, high = row["value"], row["low"], row["high"]
    assert bar["type"] == "bar"
    assert bar["text"][1] == (
        f"5 January 2026 to 11 January 2026<br><b>{value:,} ± {high - value:,}</b><br>from {low:,} to {high:,}"
    )
    assert bar["text"][0].endswith("not a whole window")
    assert rest[-1]["text"][0].startswith("up to 1 January 2026<br><b>")
    assert not any("true" in str(trace.get("name")) for trace in [bar, *rest])
    with_truth = ReleasePicture(released(38), "1w", truth=np.arange(38))
    assert any("true" in str(trace.get("name")) for trace in traces(page_of(with_truth, tmp_path)))
    limited = ReleasePicture(released(38), "1w", truth=np.arange(38), limit="At most 3 rows of each person.")
    names = {str(trace.get("name")) for trace in traces(page_of(limited, tmp_path))}
    assert "counted rows (not for publication)" in names
    assert not any("true" in name for name in names)
    lines = traces(page_of(ReleasePicture(released(38, ["a", "<b>"]), "1w"), tmp_path))
    assert {trace["name"] for trace in lines if "name" in trace} == {"a", "<b>"}
    assert any("&lt;b&gt;<br>" in trace["text"][0] for trace in lines if trace.get("text"))


def test_without_plotly_the_extra_is_named(tmp_path, monkeypatch):
    import sys

    from dpstream.cli.pictures import check_picture

    monkeypatch.setitem(sys.modules, "plotly", None)
    check_picture(tmp_path / "out.png")
    with pytest.raises(MissingExtra, match=r"dpstream\[plot\]"):
        check_picture(tmp_path / "out.html")


# -- from the command line --------------------------------------------------------------------------------------------


def test_pictures_of_a_run(same_noise, tmp_path):  # noqa: F811
    log = write(month(), tmp_path, "csv")
    arguments = (log, "--time", "when", "--rho", 0.5, "--horizon", 40, "--by", "ward", "--values", ",".join(WARDS))
    arguments += ("--from", "2026-01-30", "--through", "2026-02-18", "--windows", "7d", "--label", "visits")
    for name in ("out.svg", "out.pdf", "out.html"):
        result = count(*arguments, "--title", "A clinic", "--plot", tmp_path / name, "--output", tmp_path / "out.csv")
        assert result.exit_code == 0, result.output
        assert "warning" not in result.stderr
    assert (tmp_path / "out.pdf").read_bytes().startswith(b"%PDF")
    svg, page = (tmp_path / "out.svg").read_text(), (tmp_path / "out.html").read_text()
    for words in ("visits per 7 days", "visits in total", "A clinic", "95 % error bar", *WARDS):
        assert words in svg
    assert "<title>A clinic</title>" in page
    assert "(not for publication)" not in svg + page
    written = pl.read_csv(tmp_path / "out.csv")
    shown = {trace["name"]: trace["text"][-1] for trace in traces(page) if trace.get("text")}
    for ward in WARDS:
        assert f"<b>{written.filter(category=ward)['value'][-1]:,} ±" in shown[ward]


def test_the_truth_warns(same_noise, tmp_path):  # noqa: F811
    log = write(month(), tmp_path, "csv")
    arguments = (log, "--time", "when", "--rho", 0.5, "--horizon", 40, "--quiet", "--compare-with-truth")
    arguments += ("--from", "2026-01-30", "--through", "2026-02-18")
    result = count(*arguments, "--plot", tmp_path / "out.svg", "--output", tmp_path / "out.csv")
    assert result.exit_code == 0, result.output
    said = " ".join(result.stderr.split())
    assert said.startswith("warning: the picture shows the true figures (--compare-with-truth)")
    assert "true (not for publication)" in (tmp_path / "out.svg").read_text()
    assert "true" not in (tmp_path / "out.csv").read_text()


def test_all_runs_are_drawn_and_their_truth(tmp_path, monkeypatch):
    found = []
    monkeypatch.setattr("dpstream.cli.count_run.write_releases", lambda picture, *_: found.append(picture))
    for last, rows in (("2026-01-02", "2026-01-01\n2026-01-02\n2026-01-02\n"), ("2026-01-04", "2026-01-04\n")):
        log = tmp_path / f"{last}.csv"
        log.write_text("when\n" + rows)
        arguments = (
            "--time",
            "when",
            "--rho",
            0.5,
            "--unbounded",
            "--store",
            tmp_path / "s.db",
            "--from",
            "2026-01-01",
        )
        picture = ("--plot", tmp_path / "out.png", "--compare-with-truth")
        result = count(log, *arguments, *picture, "--through", last)
        assert result.exit_code == 0, result.output
    assert [picture.truth.tolist() for picture in found] == [[1, 3], [1, 3, 3, 4]]
    with dp.Store(tmp_path / "s.db") as store:
        assert found[1].released.values.tolist() == [int(release.value) for release in store.releases("count")]
    assert found[1].released.values[:2].tolist() == found[0].released.values.tolist()


def test_no_pattern_of_the_old_page_is_left(tmp_path):
    """One heading: the picture's title was once the page's as well."""
    text = page_of(ReleasePicture(released(20), "1d", title="Only once"), tmp_path)
    without_data = re.sub(r"base64,[A-Za-z0-9+/=]+", "", re.sub(r"(?s)<script.*?</script>", "", text))
    assert re.findall(r">\s*Only once\s*<", without_data) == [">Only once<"] * 2  # title and heading
