"""`dpstream count`: from an event log to a published, private running count."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Annotated, Literal, cast

import numpy as np
import polars as pl
import typer
from rich.console import Console

from dpstream.arguments import check_whole
from dpstream.cli.budget_options import Delta, Epsilon, Rho, budget_in_words, budget_of
from dpstream.cli.count_notes import Notes
from dpstream.cli.count_progress import reading_progress
from dpstream.cli.group import Interrupted
from dpstream.cli.output_files import check_apart, check_output, form_of, print_table, write_rows
from dpstream.cli.picture import check_picture, save_picture
from dpstream.cli.publication import LARGEST_STEP, Publication, Wanted
from dpstream.cli.release_plot import draw_releases
from dpstream.errors import InvalidArgument
from dpstream.events.measure import Measure
from dpstream.events.tables import STDIN, tables
from dpstream.events.tally import TimeTally
from dpstream.release.interval import check_confidence
from dpstream.release.terms import check_neighbours

READ, STEPS, PEOPLE, WRITE = "What is counted", "Steps and releases", "People", "Where it goes"
#: A terminal shows this many of the last releases.
SHOWN = 12


def count(
    files: Annotated[
        list[str] | None, typer.Argument(help="CSV, JSON lines or Parquet, gzip or not; - or nothing: standard input.")
    ] = None,
    value: Annotated[
        str | None,
        typer.Option(help="Sum this column of whole numbers instead of counting rows.", rich_help_panel=READ),
    ] = None,
    bound: Annotated[
        int | None, typer.Option(help="The largest size of a --value; larger ones are refused.", rich_help_panel=READ)
    ] = None,
    by: Annotated[
        str | None, typer.Option(help="One total for each category in this column.", rich_help_panel=READ)
    ] = None,
    values: Annotated[str | None, typer.Option(help="The categories there are: a,b,c.", rich_help_panel=READ)] = None,
    values_file: Annotated[
        Path | None, typer.Option(help="The categories there are, one a line.", rich_help_panel=READ)
    ] = None,
    undeclared: Annotated[
        str, typer.Option(help="Other categories: refuse, or count them together as other.", rich_help_panel=READ)
    ] = "refuse",
    file_format: Annotated[
        str | None,
        typer.Option(
            "--format", help="csv, tsv, jsonl or parquet; by default the file's ending says it.", rich_help_panel=READ
        ),
    ] = None,
    time: Annotated[
        str | None,
        typer.Option(help="The column of timestamps. Without it every row is a step.", rich_help_panel=STEPS),
    ] = None,
    every: Annotated[
        str, typer.Option(help="How long a step is: 15m, 1h, 1d, 1w, 1mo, ...", rich_help_panel=STEPS)
    ] = "1d",
    time_format: Annotated[
        str | None,
        typer.Option(
            help="strptime's words, or s, ms, us for numbers since 1970; ISO 8601 needs none.", rich_help_panel=STEPS
        ),
    ] = None,
    time_zone: Annotated[
        str | None, typer.Option(help="Whose calendar: Europe/Vienna, UTC, ...", rich_help_panel=STEPS)
    ] = None,
    start: Annotated[
        str | None, typer.Option("--from", help="The first step; by default the first row's.", rich_help_panel=STEPS)
    ] = None,
    any_order: Annotated[
        bool, typer.Option("--any-order", help="Rows may come in any order.", rich_help_panel=STEPS)
    ] = False,
    leave_last_open: Annotated[
        bool,
        typer.Option(
            "--leave-last-open", help="Do not release the last step yet: more of it may come.", rich_help_panel=STEPS
        ),
    ] = False,
    horizon: Annotated[
        int | None, typer.Option(help="How many steps there will ever be.", rich_help_panel=STEPS)
    ] = None,
    until: Annotated[
        str | None, typer.Option(help="The date of the last step there will ever be.", rich_help_panel=STEPS)
    ] = None,
    unbounded: Annotated[
        bool, typer.Option("--unbounded", help="There is no last step.", rich_help_panel=STEPS)
    ] = False,
    mechanism: Annotated[
        str, typer.Option(help="How noise is shared over time; auto takes the best.", rich_help_panel=STEPS)
    ] = "auto",
    confidence: Annotated[float, typer.Option(help="How sure low and high are.", rich_help_panel=STEPS)] = 0.95,
    rho: Rho = None,
    epsilon: Epsilon = None,
    delta: Delta = None,
    user: Annotated[
        str | None, typer.Option(help="The column of user ids: protect people, not rows.", rich_help_panel=PEOPLE)
    ] = None,
    max_contributions: Annotated[
        int | None,
        typer.Option(help="How many rows of one user are counted; the rest is dropped.", rich_help_panel=PEOPLE),
    ] = None,
    report_dropped: Annotated[
        float | None,
        typer.Option(help="Spend so much ρ more to say how many users had rows dropped.", rich_help_panel=PEOPLE),
    ] = None,
    neighbours: Annotated[
        str, typer.Option(help="add-remove: was a row there? replace: what did it say?", rich_help_panel=PEOPLE)
    ] = "add-remove",
    output: Annotated[
        Path | None,
        typer.Option(help="Write all releases to this .csv, .jsonl or .parquet file.", rich_help_panel=WRITE),
    ] = None,
    form: Annotated[
        str | None, typer.Option("--as", help="Standard output as csv, jsonl, parquet or table.", rich_help_panel=WRITE)
    ] = None,
    as_json: Annotated[
        bool, typer.Option("--json", help="Standard output as JSON lines.", rich_help_panel=WRITE)
    ] = False,
    plot: Annotated[
        Path | None, typer.Option(help="Draw the releases: .png, .svg, .pdf or .html.", rich_help_panel=WRITE)
    ] = None,
    compare_with_truth: Annotated[
        bool,
        typer.Option(
            "--compare-with-truth", help="Draw the true totals, too. Never publish that.", rich_help_panel=WRITE
        ),
    ] = False,
    store: Annotated[
        Path | None,
        typer.Option(help="Go on tomorrow where today stopped: a file that remembers.", rich_help_panel=WRITE),
    ] = None,
    name: Annotated[str, typer.Option(help="The stream's name in the store.", rich_help_panel=WRITE)] = "count",
    follow: Annotated[
        bool,
        typer.Option(
            "--follow", help="Keep reading standard input; release each step as it closes.", rich_help_panel=WRITE
        ),
    ] = False,
    quiet: Annotated[
        bool, typer.Option("--quiet", "-q", help="Say nothing but the releases and errors.", rich_help_panel=WRITE)
    ] = False,
) -> None:
    """Publish a running count of events that exposes nobody in them.

    Each step (a day, an hour, a row) releases the total so far with noise; all releases together keep the budget.
    Nothing is released before the whole input was read and found in order. Run again without --store, the same data
    gets fresh noise and spends the budget again.

    Exit status: 0 done, 2 something was refused (nothing written, nothing spent), 130 interrupted.

    Example: dpstream count visits.csv --time when --every 1d --epsilon 1 --delta 1e-6 --horizon 365

    Example: dpstream count visits.csv --time when --by ward --values north,south --rho 0.5 --until 2026-12-31

    Example: dpstream count visits.csv --time when --user patient --max-contributions 3 --epsilon 1 --horizon 365

    Example: dpstream count visits.csv --time when --rho 0.5 --unbounded --store visits.db --output totals.csv
    """
    if sum((horizon is not None, until is not None, unbounded)) != 1:
        given = (horizon, until, unbounded or None)
        raise InvalidArgument("the end", given, "given by one of --horizon N, --until DATE and --unbounded")
    if until is not None and time is None:
        raise InvalidArgument("--until", until, "used with --time; without it every row is a step, so give --horizon")
    if value is not None and bound is None:
        raise InvalidArgument("--bound", None, "given with --value: the largest size of a value")
    if (user is None) != (max_contributions is None):
        raise InvalidArgument("--user and --max-contributions", (user, max_contributions), "given together")
    if follow and (output or plot or any_order or leave_last_open or files not in (None, [STDIN])):
        raise InvalidArgument(
            "--follow", True, "for standard input and output: no files, --output, --plot or --any-order"
        )
    if report_dropped is not None and (user is None or store is not None):
        raise InvalidArgument("--report-dropped", report_dropped, "used with --user and without --store")
    if follow and form not in (None, "csv", "jsonl"):
        raise InvalidArgument("--as", form, "csv or jsonl with --follow")
    if undeclared not in ("refuse", "other"):
        raise InvalidArgument("--undeclared", undeclared, "refuse or other")
    side = check_neighbours(neighbours)
    largest = check_whole("--bound", 1 if bound is None else bound)
    if largest > LARGEST_STEP:
        raise InvalidArgument("--bound", largest, f"at most {LARGEST_STEP:,}")
    measure = Measure(
        value,
        largest,
        0 if value is None or side == "replace" else -largest,
        by,
        _categories(values, values_file),
        cast(Literal["refuse", "other"], undeclared),
    )
    wanted = Wanted(
        measure,
        budget_of(rho, epsilon, delta),
        None if horizon is None else check_whole("--horizon", horizon),
        until,
        time,
        every,
        time_format,
        time_zone,
        start,
        "late" if follow else "any" if any_order else "sorted",
        user,
        1 if max_contributions is None else check_whole("--max-contributions", max_contributions),
        mechanism,
        side,
        check_confidence(confidence),
        store,
        name,
    )
    shape = form_of(form, as_json=as_json)
    if output is not None:
        shape = check_output(output)
    check_picture(plot)
    sources = files or [STDIN]
    check_apart({"--output": output, "--plot": plot, "--store": store}, sources)
    if sources == [STDIN] and sys.stdin.isatty() and not follow:
        raise InvalidArgument("FILES", None, "a file of events, or events on standard input; see dpstream count --help")
    with ExitStack() as stack:
        publication = Publication(wanted)
        stack.callback(publication.close)
        notes = Notes(publication, quiet=quiet)
        stack.enter_context(_said_on_interrupt(publication))
        if follow:
            _follow(publication, notes, shape, file_format)
            return
        _read(publication, sources, file_format, quiet=quiet)
        settled = publication.settle()
        closed = _closed(publication, leave_last_open=leave_last_open)
        notes.before(settled)
        kept: list[pl.DataFrame] = []
        frames = _keeping(publication.frames(closed), kept, everything=plot is not None)
        if output is None and shape == "table":
            for _ in frames:
                pass
            _print_last(publication, kept, Console())
        else:
            write_rows(frames, shape, output)
            if output is not None and sys.stdout.isatty() and not quiet:
                _print_last(publication, kept, Console())
        if plot is not None:
            _draw(publication, pl.concat(kept), plot, notes, with_truth=compare_with_truth)
        notes.after(report_dropped, output, plot)


def _categories(values: str | None, values_file: Path | None) -> tuple[str, ...]:
    if values is not None and values_file is not None:
        raise InvalidArgument("--values", values, "given once: as --values or as --values-file")
    if values_file is not None:
        try:
            return tuple(line.strip() for line in values_file.read_text(encoding="utf-8").splitlines() if line.strip())
        except (OSError, UnicodeDecodeError) as error:
            raise InvalidArgument("--values-file", str(values_file), f"a file of UTF-8 text ({error})") from None
    return tuple(part.strip() for part in values.split(",") if part.strip()) if values else ()


def _read(publication: Publication, sources: list[str], file_format: str | None, *, quiet: bool) -> None:
    tally = publication.tally
    with reading_progress(sources, quiet=quiet) as show:
        done = 0

        def report(count: int) -> None:
            nonlocal done
            done = count

        for table in tables(sources, tally.columns, file_format=file_format, report=report):
            tally.take(table)
            show(done, tally.rows)


def _closed(publication: Publication, *, leave_last_open: bool) -> int:
    steps = publication.tally.steps
    if leave_last_open and isinstance(publication.tally, TimeTally):
        steps -= 1
    return max(steps, publication.seen)


def _keeping(frames: Iterator[pl.DataFrame], kept: list[pl.DataFrame], *, everything: bool) -> Iterator[pl.DataFrame]:
    """Pass tables on, and keep all of them or the last."""
    for frame in frames:
        if not everything:
            kept[:-1] = []
        kept.append(frame)
        yield frame


def _print_last(publication: Publication, kept: list[pl.DataFrame], console: Console) -> None:
    if not publication.published:
        console.print("No step is complete yet: nothing was released.")
        return
    frame = pl.concat(kept[-2:])
    total = publication.published
    shown = frame.tail(SHOWN * max(len(publication.wanted.measure.names), 1))
    steps = shown["step"].n_unique()
    title = f"The last {steps} of {total:,} releases" if steps < total else f"{total:,} releases"
    print_table(shown, title, console)


def _draw(publication: Publication, frame: pl.DataFrame, plot: Path, notes: Notes, *, with_truth: bool) -> None:
    wanted = publication.wanted
    title = f"Running total, {budget_in_words(wanted.budget)}"
    truth = None
    if with_truth:
        notes.warn("the picture shows the true totals (--compare-with-truth): it must not be published.")
        inputs = publication.tally.inputs(0, publication.published)
        if publication.seen and publication.store is not None:
            earlier = publication.store.recorded_inputs(wanted.name, 1, publication.seen)
            inputs = np.concatenate([earlier, inputs[publication.seen :]])
        sums = np.cumsum(inputs, axis=0)
        names = wanted.measure.names
        truth = {name: sums[:, i] for i, name in enumerate(names)} if names else {"": sums}
    save_picture(draw_releases(frame, title, wanted.confidence, truth), plot, title)


def _follow(publication: Publication, notes: Notes, form: str, file_format: str | None) -> None:
    """Release each step as soon as a row of a later one arrives."""
    shape: Literal["csv", "jsonl"] = "jsonl" if form == "jsonl" else "csv"  # a table would never be complete
    tally = publication.tally
    timed = isinstance(tally, TimeTally)
    header = True

    def emit(closed: int) -> None:
        nonlocal header
        if closed <= publication.published:
            return
        for values in publication.release(closed):
            first = publication.published - len(values)
            write_rows([publication.rows(first, values)], shape, None, header=header)
            header = False

    for table in tables([STDIN], tally.columns, file_format=file_format, at_once=True):
        tally.take(table)
        if tally.steps:
            notes.before(publication.settle())
            emit(tally.steps - timed)
    notes.before(publication.settle())
    emit(tally.steps)
    notes.after(None, None, None)


@contextmanager
def _said_on_interrupt(publication: Publication) -> Iterator[None]:
    """Say on Ctrl-C what is safe, and how to go on."""
    try:
        yield
    except KeyboardInterrupt:
        raise Interrupted(_how_to_go_on(publication)) from None


def _how_to_go_on(publication: Publication) -> str:
    released = publication.published - publication.seen
    store, tally = publication.wanted.store, publication.tally
    if not released:
        return "Nothing was released and no budget is spent: run the same command again."
    if store is None:
        return f"{released:,} steps were released, without a --store to go on from."
    safe = f"{publication.published:,} steps are safe in {store}. Run the same command again"
    if isinstance(tally, TimeTally) and tally.calendar is not None and tally.steps > publication.published:
        begin = tally.calendar.begin(publication.published)
        return f"{safe}, with all rows or with those from {begin} on, to go on."
    return f"{safe} to go on."
