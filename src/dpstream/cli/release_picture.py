"""The picture of releases: what was counted in each day, week or month, with error bars, above the running total."""

from __future__ import annotations

import textwrap
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np
import polars as pl
from numpy.typing import NDArray

from dpstream.charts import ACCENT, new_figure
from dpstream.cli.budget_options import budget_in_words
from dpstream.cli.date_axis import date_axis, day_in_words
from dpstream.errors import InvalidArgument
from dpstream.events.released import Released
from dpstream.events.window_figures import Spans, figures_of, spans_of
from dpstream.events.windows import Window

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

__all__ = [
    "COLOURS",
    "NOTHING",
    "TRUE_COLOUR",
    "ReleasePicture",
    "draw_picture",
    "window_to_draw",
    "with_room",
]

#: Colours of categories, in order, with dashes where they begin again (Okabe and Ito).
COLOURS = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E69F00", "#56B4E9", "#000000")
DASHES = ("-", "--", ":", "-.")
#: Up to so many windows are drawn as bars; more as a line.
BARS = 62
#: Up to so many points each gets a dot.
DOTTED = 40
#: There is room for so many error bars beside each other.
SIDE_BY_SIDE = 64
#: Of discovered names so many are drawn, the largest.
MOST_NAMES = 10
#: Up to so many categories have their last totals written beside them.
MOST_LABELS = 6
#: The lengths of windows that are tried if none is asked for; then so many steps.
_LENGTHS = ("6h", "1d", "1w", "1mo", "1q", "1y")
_STEPS = (1, 4, 10, 25, 100, 1000, 10_000, 100_000, 10**6)
NOTHING = "Nothing was released yet."
TRUE_COLOUR = "#D55E00"


@dataclass(frozen=True)
class ReleasePicture:
    """What a picture of releases shows.

    Attributes
    ----------
    released
        All releases.
    over, every, rolling, start, through
        The windows that are drawn; see `window_figures`. `over` None: such that there are not too many.
    confidence
        Of the error bars.
    title, label
        What stands above the picture, and what is counted, in one word: "visits"; None: words of our own.
    truth
        The true running totals, to draw beside the releases. Never for publication.
    limit
        The sentence on what of a person counts (`ProtectionText.limit`); "" where each row is protected by itself.
    """

    released: Released
    over: str | None = None
    every: str | None = None
    rolling: bool = False
    start: str | None = None
    through: str | None = None
    confidence: float = 0.95
    title: str | None = None
    label: str | None = None
    truth: NDArray[np.int64] | None = None
    limit: str = ""

    @cached_property
    def window(self) -> Window:
        """The length of the windows that are drawn."""
        return Window(self._over)

    @cached_property
    def _over(self) -> str:
        return self.over or suggested_window(self.released)

    @cached_property
    def spans(self) -> Spans:
        """The windows that are drawn."""
        between = {"start": self.start, "through": self.through}
        return spans_of(self.released, self._over, every=self.every, rolling=self.rolling, **between)

    @cached_property
    def figures(self) -> pl.DataFrame:
        """What was counted in each window."""
        return figures_of(self.released, self.spans, self.confidence)

    @cached_property
    def totals(self) -> pl.DataFrame:
        """The running totals."""
        return self.released.table(confidence=self.confidence)

    @property
    def names(self) -> tuple[str, ...]:
        """The categories; ("",) for a single number."""
        return self.released.names or ("",)

    # -- words --------------------------------------------------------------------------------------------------------

    @property
    def counted(self) -> str:
        """What is counted."""
        return self.label or "count"

    @property
    def per_window(self) -> str:
        """What a figure is: per week, or in the 7 days up to each day."""
        window = self.window
        if self.rolling or self.every:
            return f"in the {window.words} up to each date" if self.dated else f"in {window.words}"
        return f"per {window.words.removeprefix('1 ')}"

    @property
    def heading(self) -> str:
        """The title that was given, or one that says what is shown."""
        return self.title or f"{capital(self.counted)} {self.per_window}, and in total"

    @property
    def dates(self) -> str:
        """From when to when."""
        first, last = self.totals.item(0, 0), self.totals.item(-1, 0)
        if not self.dated:
            return f"steps {first:,} to {last:,}"
        first, last = self.totals["start"][0], self.totals["start"][-1]
        return f"{day_in_words(first)} to {day_in_words(last)}"

    @property
    def subtitle(self) -> str:
        """What the error bars mean, and how people are protected."""
        sure = f"{100 * self.confidence:.10g} %"
        within = "error bar" if self.as_bars or self.side_by_side else "band"
        shown = f"Shown are {self.released.left_out}. " if self.released.left_out else ""
        privacy = budget_in_words(self.released.settings.budget)
        figure = "figure of the counted rows" if self.limit else "true figure"
        return (
            f"{self.dates}. {shown}The figures carry noise for privacy ({privacy}): each {figure} is within its"
            f" {within} with {sure} confidence. {self.limit}"
        ).strip()

    @property
    def description(self) -> str:
        """What is to be seen, for those who do not see it."""
        parts = []
        for name in self.names[:8]:
            figures, last = self._of(self.figures, name), self._of(self.totals, name).row(-1, named=True)
            total = f"in total {last['value']:,} ± {last['high'] - last['value']:,}"
            if not figures.height:  # a name that was published after the last window began
                parts.append(f"{name}: {total}")
                continue
            low, high = (
                figures.row(int(figures["value"].arg_min() or 0), named=True),
                figures.row(int(figures["value"].arg_max() or 0), named=True),
            )
            parts.append(
                f"{name + ': from' if name else 'From'} {low['value']:,} ± {low['high'] - low['value']:,}"
                f" ({self.span_in_words(low)}) to {high['value']:,} ± {high['high'] - high['value']:,}"
                f" ({self.span_in_words(high)}); {total}"
            )
        more = f" And {len(self.names) - 8} further categories." if len(self.names) > 8 else ""
        return f"{self.heading}. {self.dates}. {'. '.join(parts)}.{more}"

    def span_in_words(self, row: dict[str, Any]) -> str:
        """From when to when a figure is."""
        first, last = row["from"], row["through"]
        if not self.dated:
            return f"step {first:,}" if first == last else f"steps {first:,} to {last:,}"
        return day_in_words(first) if first == last else f"{day_in_words(first)} to {day_in_words(last)}"

    # -- numbers ------------------------------------------------------------------------------------------------------

    @property
    def dated(self) -> bool:
        """Whether steps have dates."""
        return self.released.calendar is not None

    @property
    def as_bars(self) -> bool:
        """Whether windows are drawn as bars; otherwise as lines."""
        return not (self.rolling or self.every or self.released.names or len(self.spans.t) > BARS)

    @property
    def side_by_side(self) -> bool:
        """Whether categories are drawn beside each other, with error bars: bars in one place would hide each other."""
        return not self.as_bars and len(self.names) > 1 and int(self.drawn.sum()) * len(self.names) <= SIDE_BY_SIDE

    @property
    def drawn(self) -> NDArray[np.bool_]:
        """Which windows are drawn: a line leaves out those that are not whole, unless there are no others."""
        complete = self.spans.complete
        return np.ones_like(complete) if self.as_bars or not complete.any() else complete

    @cached_property
    def edges(self) -> NDArray[Any]:
        """When each step begins, by the clock on the wall, and the last one ends; or the numbers of steps."""
        calendar, steps = self.released.calendar, len(self.released.values)
        if calendar is None:
            return np.arange(steps + 1) + 0.5
        calendar.lay_out(steps + 1)
        return calendar.begins(0, steps + 1).dt.replace_time_zone(None).to_numpy()

    @property
    def shown(self) -> slice:
        """The steps that the windows span."""
        return slice(int(self.spans.since.min()), int(self.spans.t.max()))

    def values(self, frame: pl.DataFrame, name: str) -> dict[str, NDArray[np.float64]]:
        """Return value, low and high of a category; NaN where it has none, being published later."""
        part, known = self._of(frame, name), self.known(frame, name)
        found = {}
        for column in ("value", "low", "high"):
            found[column] = np.full(len(known), np.nan)
            found[column][known] = part[column].cast(pl.Float64).to_numpy()
        return found

    def known(self, frame: pl.DataFrame, name: str) -> NDArray[np.bool_]:
        """Return for each window, if the table is that of figures, or step whether a category has a number."""
        t, since = self.spans.t, self.spans.since
        if frame is not self.figures:
            t, since = np.arange(1, len(self.released.values) + 1), np.zeros(1, dtype=np.int64)
        return self.released.known(t, since)[:, self.names.index(name)]

    def true_values(self, name: str) -> tuple[NDArray[np.float64], NDArray[np.float64]] | None:
        """Return the true figures of the windows and the true totals of a category, if they are to be drawn."""
        if self.truth is None:
            return None
        own = self.truth if not self.released.names else self.truth[:, self.names.index(name)]
        before = np.append([0], own)
        unit = float(self.released.unit)
        return np.asarray((own[self.spans.t - 1] - before[self.spans.since]) * unit), np.asarray(own * unit)

    @property
    def true_label(self) -> str:
        """What is drawn beside the releases: of a limited stream only the rows that were counted."""
        return f"{'counted rows' if self.limit else 'true'} (not for publication)"

    def _of(self, frame: pl.DataFrame, name: str) -> pl.DataFrame:
        return frame if not self.released.names else frame.filter(pl.col("category") == name)


def capital(text: str) -> str:
    """Return a text with its first letter as a capital, the others as they are.

    >>> capital("sales (EUR)")
    'Sales (EUR)'
    """
    return text[:1].upper() + text[1:]


def with_room(picture: ReleasePicture) -> ReleasePicture:
    """Return a picture of what there is room for: of discovered names, the largest."""
    return replace(picture, released=picture.released.largest(MOST_NAMES))


def window_to_draw(released: Released, asked: Sequence[Window]) -> str | None:
    """Return which of the windows that were asked for is drawn: the shortest of which there are not too many.

    None if none was asked for: then the picture chooses.
    """
    lengths = sorted(asked, key=lambda window: window.longest(released.every))
    fitting = [window for window in lengths if len(released.values) <= BARS * window.longest(released.every)]
    return (fitting[0] if fitting else lengths[-1]).text if lengths else None


def suggested_window(released: Released) -> str:
    """Return a length of windows of which a picture has room for all.

    >>> import dpstream as dp
    >>> settings = dp.Counter(1000, dp.zcdp(0.5)).settings
    >>> suggested_window(Released(settings, np.zeros(365, dtype=np.int64)))
    '10'
    """
    steps, every = len(released.values), released.every
    lengths = [] if every is None else [every, *_LENGTHS]
    for text in [*lengths, *map(str, _STEPS)]:
        try:
            if steps <= BARS * Window(text).longest(every):
                return text
        except InvalidArgument:  # weeks that are no whole number of months
            continue
    return str(_STEPS[-1])


# -- drawing ----------------------------------------------------------------------------------------------------------


def draw_picture(picture: ReleasePicture) -> Figure:
    """Draw the windows above the running total."""
    figure = new_figure(8.0, 6.4)
    if picture.released.empty:
        figure.text(0.5, 0.5, picture.title or NOTHING, ha="center")
        return figure
    above, below = figure.subplots(2, 1, sharex=True, height_ratios=[3, 2])
    for i, name in enumerate(picture.names):
        _draw_windows(above, picture, i, name)
        _draw_totals(below, picture, i, name)
    if len(picture.names) <= MOST_LABELS:
        _label_last_totals(below, picture)
    above.set_ylabel(f"{picture.counted} {picture.per_window}")
    below.set_ylabel(f"{picture.counted} in total")
    for axes in (above, below):
        axes.grid(axis="y", alpha=0.3)
        axes.set_axisbelow(True)
        axes.spines[["top", "right"]].set_visible(False)
        axes.yaxis.set_major_formatter(lambda x, _: f"{x:,.10g}")
    edges = picture.edges
    shown = picture.shown
    if picture.dated:
        date_axis(below, edges[shown.start], edges[shown.stop], days=picture.totals.schema["start"] == pl.Date)
    else:
        below.set_xlim(edges[shown.start], edges[shown.stop])
        below.set_xlabel("step")
        below.xaxis.set_major_formatter(lambda x, _: f"{x:,.10g}")
    figure.suptitle(picture.heading, fontsize="x-large", fontweight="bold", x=0.02, ha="left")
    above.set_title(_wrapped(picture.subtitle, 105), fontsize="small", color="#444444", loc="left")
    figure.align_ylabels()
    _legend(figure, above, picture)
    return figure


def _draw_windows(axes: Axes, picture: ReleasePicture, i: int, name: str) -> None:
    spans, drawn = picture.spans, picture.drawn
    left, right = picture.edges[spans.since][drawn], picture.edges[spans.t][drawn]
    numbers = picture.values(picture.figures, name)
    value, low, high = (numbers[column][drawn] for column in ("value", "low", "high"))
    at = right if picture.rolling or picture.every else left + (right - left) / 2
    bars, colour, sure = [value - low, high - value], _colour(i), f"{100 * picture.confidence:.10g} %"
    if picture.as_bars:
        looks: dict[bool, dict[str, Any]] = {
            True: {"facecolor": colour},
            False: {"facecolor": "white", "edgecolor": colour, "hatch": "///"},
        }
        labels = {True: "released", False: "released, not a whole window"}
        for whole, look in looks.items():
            of = spans.complete == whole
            if of.any():
                width = 0.82 * (right - left)[of]
                axes.bar(at[of], value[of], width=width, linewidth=0.8, label=labels[whole], **look)
        axes.errorbar(
            at, value, yerr=bars, fmt="none", ecolor="black", elinewidth=1.1, capsize=2.5, label=f"{sure} error bar"
        )
        axes.axhline(0, color="black", linewidth=0.8)
    else:
        few, last, apart = len(value) <= DOTTED, i == len(picture.names) - 1, picture.side_by_side
        if apart:
            at = at + ((i - (len(picture.names) - 1) / 2) * 0.6 / len(picture.names) * (right - left))
        axes.plot(
            at,
            value,
            color=colour,
            linestyle=_dash(i),
            linewidth=1 if apart else 1.5,
            marker="o" if few else "",
            markersize=3.5,
            label=name or "released",
        )
        if apart:
            axes.errorbar(at, value, yerr=bars, fmt="none", ecolor=colour, elinewidth=1.1, capsize=2)
            if last:
                axes.errorbar(at[:0], [], yerr=[], fmt="none", ecolor="#666666", capsize=2, label=f"{sure} error bar")
                axes.axhline(0, color="black", linewidth=0.8)
        else:
            axes.fill_between(at, low, high, color=colour, alpha=0.2, linewidth=0)
        if last and not apart:
            axes.fill_between(at[:0], [], [], color="#666666", alpha=0.3, linewidth=0, label=f"{sure} band")
    truth = picture.true_values(name)
    if truth is not None:
        label = picture.true_label if i == len(picture.names) - 1 else None
        axes.plot(at, truth[0][drawn], "x", color=TRUE_COLOUR, markersize=6, markeredgewidth=1.8, label=label)


def _draw_totals(axes: Axes, picture: ReleasePicture, i: int, name: str) -> None:
    numbers = picture.values(picture.totals, name)
    # A total is known when its step has ended; before the first step it is 0.
    first = np.nan if np.isnan(numbers["value"][0]) else 0.0
    at, numbers = picture.edges, {column: np.append([first], each) for column, each in numbers.items()}
    axes.fill_between(at, numbers["low"], numbers["high"], color=_colour(i), alpha=0.3, linewidth=0)
    marker = "o" if len(at) <= DOTTED else ""
    axes.plot(at, numbers["value"], color=_colour(i), linestyle=_dash(i), linewidth=1.5, marker=marker, markersize=3)
    truth = picture.true_values(name)
    if truth is not None:
        axes.plot(at[1:], truth[1], linestyle=":", color=TRUE_COLOUR, linewidth=1.8)


def _label_last_totals(axes: Axes, picture: ReleasePicture) -> None:
    """Write the last totals beside the ends of their lines, one below the other."""
    last = picture.shown.stop - 1
    ends = []
    for i, name in enumerate(picture.names):
        numbers = picture.values(picture.totals, name)
        value = float(numbers["value"][last])
        if not np.isnan(value):
            ends.append((value, i, f"{value:,.10g} ± {numbers['high'][last] - value:,.10g}"))
    low, high = axes.get_ylim()
    gap, below = 0.11 * (high - low), -np.inf
    for value, i, text in sorted(ends):
        below = max(value, below + gap)
        axes.annotate(
            text,
            (1.0, below),
            xycoords=("axes fraction", "data"),
            xytext=(5, 0),
            textcoords="offset points",
            va="center",
            fontsize="small",
            color=_colour(i),
            annotation_clip=False,
        )


def _legend(figure: Figure, axes: Axes, picture: ReleasePicture) -> None:
    handles, labels = axes.get_legend_handles_labels()
    if len(picture.names) > 10:
        figure.legend(handles, labels, loc="outside right upper", ncols=1 + len(labels) // 28, frameon=False,
                      fontsize="small")  # fmt: skip
    elif len(labels) > 1:
        figure.legend(handles, labels, loc="outside lower center", ncols=min(len(labels), 5), frameon=False,
                      fontsize="small")  # fmt: skip


def _colour(i: int) -> str:
    return COLOURS[i % len(COLOURS)] if i else ACCENT


def _dash(i: int) -> str:
    return DASHES[i // len(COLOURS) % len(DASHES)]


def _wrapped(text: str, width: int) -> str:
    return "\n".join(textwrap.wrap(text, width))
