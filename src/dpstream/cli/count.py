"""`dpstream count`: from an event log to published, private running totals."""

from __future__ import annotations

import shlex
import sys
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from functools import partial
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
from dpstream.cli.group import Interrupted, Spent
from dpstream.cli.output_files import check_apart, check_output, form_of, print_table, write_rows
from dpstream.cli.picture import check_picture, draw_into
from dpstream.cli.printed import number
from dpstream.cli.release_plot import draw_releases
from dpstream.cli.targets import NotWritten, Target, opened
from dpstream.errors import DpstreamError, InvalidArgument
from dpstream.events.counting import MOST_PER_ROW, ROW, CountOptions, CountRun
from dpstream.events.last_step import steps_ended
from dpstream.events.measure import Measure
from dpstream.events.tables import STDIN, tables
from dpstream.events.tally import RowTally, TimeTally
from dpstream.mechanisms.catalogue import mechanism_named
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
    categories: Annotated[
        str | None, typer.Option("--values", help="The categories there are: a,b,c.", rich_help_panel=READ)
    ] = None,
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
        typer.Option(help="The column that says when a row happened.", rich_help_panel=STEPS),
    ] = None,
    every: Annotated[
        str | None,
        typer.Option(
            help="How long a step is: 15m, 1h, 1d, 1w, 1mo, ...; 1d if left out. 'row', without --time: every row is"
            " a step, and how many rows there are is then not protected.",
            rich_help_panel=STEPS,
        ),
    ] = None,
    time_format: Annotated[
        str | None,
        typer.Option(
            help="How timestamps are written, such as %d/%m/%Y; s, ms or us for numbers since 1970. ISO 8601 is"
            " recognised.",
            rich_help_panel=STEPS,
        ),
    ] = None,
    time_zone: Annotated[
        str | None,
        typer.Option(
            help="Whose days and whose clock: Europe/Vienna, UTC, ... Of an hour that the clock shows twice, a time"
            " without an offset is taken to be in the first.",
            rich_help_panel=STEPS,
        ),
    ] = None,
    start: Annotated[
        str | None,
        typer.Option(
            "--from",
            help="The date of the first step. If left out, the first row's, which tells something about the data.",
            rich_help_panel=STEPS,
        ),
    ] = None,
    through: Annotated[
        str | None,
        typer.Option(
            help="Release every step up to this date (or yesterday, or now), with or without rows. If left out: with"
            " --store or --until the last step that has ended; else the last row's, which tells something about the"
            " data.",
            rich_help_panel=STEPS,
        ),
    ] = None,
    any_order: Annotated[
        bool, typer.Option("--any-order", help="Rows may come in any order.", rich_help_panel=STEPS)
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
        str | None,
        typer.Option(
            help="The column of user ids: protect people, not rows. White space around an id does not matter, 7.0 is"
            " 7, letter case does matter.",
            rich_help_panel=PEOPLE,
        ),
    ] = None,
    fold_case: Annotated[
        bool,
        typer.Option(
            "--user-fold-case", help="Ids that differ in letter case only are one user.", rich_help_panel=PEOPLE
        ),
    ] = False,
    max_contributions: Annotated[
        int | None,
        typer.Option(help="How many rows of one user are counted; the rest is dropped.", rich_help_panel=PEOPLE),
    ] = None,
    report_dropped: Annotated[
        float | None,
        typer.Option(help="Spend so much ρ more to say how many users had rows dropped.", rich_help_panel=PEOPLE),
    ] = None,
    neighbours: Annotated[
        str,
        typer.Option(
            help="add-remove: whether a row is there is protected. replace: what it says, while it and its time are"
            " known to be there.",
            rich_help_panel=PEOPLE,
        ),
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
        typer.Option(help="A file that remembers the releases, to go on tomorrow.", rich_help_panel=WRITE),
    ] = None,
    name: Annotated[str, typer.Option(help="The stream's name in the store.", rich_help_panel=WRITE)] = "count",
    follow: Annotated[
        bool,
        typer.Option(
            "--follow",
            help="Keep reading standard input; release a step when a row of a later one arrives or, with --through"
            " now, when it has ended by the clock.",
            rich_help_panel=WRITE,
        ),
    ] = False,
    quiet: Annotated[
        bool, typer.Option("--quiet", "-q", help="Print releases, warnings and errors only.", rich_help_panel=WRITE)
    ] = False,
    verbose: Annotated[
        bool, typer.Option("--verbose", "-v", help="Say how the mechanism was chosen.", rich_help_panel=WRITE)
    ] = False,
) -> None:
    """Publish private running totals of the events in a log.

    Each step (a day, an hour) releases the total so far with noise; all releases together keep the budget. Nothing is
    released before the whole input was read and found in order. Without --store every run draws fresh noise and spends
    the budget again.

    Exit status: 0 done; 2 refused, nothing written and nothing spent; 4 steps were released but the result could not be
    written; 130 interrupted.

    Example: dpstream count visits.csv --time when --from 2026-01-01 --through 2026-02-28 --epsilon 1 --delta 1e-6
    --horizon 365

    Example: dpstream count visits.csv --time when --by ward --values north,south --rho 0.5 --from 2026-01-01
    --until 2026-12-31

    Example: dpstream count visits.csv --time when --from 2026-01-01 --through 2026-02-28 --user patient
    --max-contributions 3 --epsilon 1 --horizon 365

    Example: dpstream count visits.csv --time when --from 2026-01-01 --rho 0.5 --unbounded --store visits.db
    --output totals.csv
    """
    sources = files or [STDIN]
    _check_complete(sources, time, every, (horizon, until, unbounded or None), (rho, epsilon, delta))
    if value is not None and bound is None:
        raise InvalidArgument("--bound", None, "given with --value: the largest size of a value")
    if (user is None) != (max_contributions is None):
        missing = "--user" if user is None else "--max-contributions"
        raise InvalidArgument(missing, None, "given: --user and --max-contributions go together")
    if follow and (output or plot or any_order or files not in (None, [STDIN])):
        raise InvalidArgument(
            "--follow", True, "for standard input and output: no files, --output, --plot or --any-order"
        )
    if report_dropped is not None and (user is None or store is not None):
        raise InvalidArgument("--report-dropped", report_dropped, "used with --user and without --store")
    if follow and form not in (None, "csv", "jsonl"):
        raise InvalidArgument("--as", form, "csv or jsonl with --follow")
    if undeclared not in ("refuse", "other"):
        raise InvalidArgument("--undeclared", undeclared, "refuse or other")
    for option, text in (("--time", time), ("--by", by), ("--values", categories), ("--user", user), ("--value", value),
                         ("--name", name)):  # fmt: skip
        _check_text(option, text)
    side = check_neighbours(neighbours)
    largest = check_whole("--bound", 1 if bound is None else bound)
    if largest > MOST_PER_ROW:
        raise InvalidArgument("--bound", largest, f"at most {MOST_PER_ROW:,}")
    measure = Measure(
        value=value,
        bound=largest,
        least=0 if value is None or side == "replace" else -largest,
        by=by,
        categories=_categories(categories, values_file),
        undeclared=cast(Literal["refuse", "other"], undeclared),
    )
    by_clock = follow and through in ("now", "yesterday")
    options = CountOptions(
        measure=measure,
        budget=budget_of(rho, epsilon, delta),
        time=time,
        every=every or "1d",
        time_format=time_format,
        time_zone=time_zone,
        start=start,
        through=through,
        horizon=None if horizon is None else check_whole("--horizon", horizon),
        until=until,
        order="open" if by_clock else "late" if follow else "any" if any_order else "sorted",
        user=user,
        max_contributions=1 if max_contributions is None else check_whole("--max-contributions", max_contributions),
        fold_case=fold_case,
        mechanism="auto" if mechanism == "auto" else partial(mechanism_named, mechanism),
        neighbours=side,
        confidence=check_confidence(confidence),
        store=store,
        name=name,
    )
    shape = form_of(form, as_json=as_json)
    if output is not None:
        shape = check_output(output)
    check_picture(plot)
    check_apart({"--output": output, "--plot": plot, "--store": store}, sources)
    if sources == [STDIN] and sys.stdin.isatty() and not follow:
        raise InvalidArgument("FILES", None, "a file of events, or events on standard input; see dpstream count --help")
    with ExitStack() as stack:
        run = CountRun(options)
        stack.callback(run.close)
        notes = Notes(run, quiet=quiet, verbose=verbose)
        stack.enter_context(_said_on_interrupt(run))
        if follow:
            _follow(run, notes, shape, file_format, by_clock=by_clock)
            return
        # Before anything is spent: a target that cannot be written refuses the run.
        target = stack.enter_context(opened("--output", output))
        picture = stack.enter_context(opened("--plot", plot))
        _read(run, sources, file_format, quiet=quiet)
        run.open()
        notes.before()
        kept: list[pl.DataFrame] = []
        frames = _keeping(run.frames(run.closed), kept, everything=plot is not None)
        with _said_if_not_written(run, to_file=target is not None):
            if target is None and shape == "table":
                for _ in frames:
                    pass
                _print_last(run, kept, Console())
            else:
                write_rows(frames, shape, target)
                if target is not None:
                    target.finish()
                    if sys.stdout.isatty() and not quiet:
                        _print_last(run, kept, Console())
        if picture is not None:
            with _said_if_not_written(run, to_file=False):
                _draw(run, pl.concat(kept), picture, notes, with_truth=compare_with_truth)
        notes.after(report_dropped, output, plot)


def _check_complete(
    sources: list[str],
    time: str | None,
    every: str | None,
    ends: tuple[int | None, str | None, bool | None],
    budget: tuple[float | None, ...],
) -> None:
    """Refuse a command that lacks something, and name everything that it lacks."""
    given = [
        option for option, end in zip(("--horizon", "--until", "--unbounded"), ends, strict=True) if end is not None
    ]
    if len(given) > 1:
        raise DpstreamError(f"give one of --horizon, --until and --unbounded, not {' and '.join(given)}")
    missing = []
    if time is None and every != ROW:
        missing.append("which column says when a row happened (--time COLUMN; or --every row: every row is a step)")
    if not given:
        missing.append(
            "how long you will publish (--horizon 365 for a year of days, --until DATE, or --unbounded for no end)"
        )
    if all(one is None for one in budget):
        missing.append("the budget (--epsilon 1 --delta 1e-6 is a usual choice)")
    if missing:
        *most, last = missing
        listed = f"{', '.join(most)} and {last}" if most else last
        source = "" if sources == [STDIN] else shlex.join(sources) + " "
        step = "--every row " if every == ROW and time is None else f"--time {shlex.quote(time or 'COLUMN')} "
        count = {1: "one thing is", 2: "two things are"}.get(len(missing), "three things are")
        raise DpstreamError(
            f"{count} missing: {listed}. Try: dpstream count {source}{step}--horizon 365 --epsilon 1 --delta 1e-6"
        )


def _check_text(option: str, text: str | None) -> None:
    try:
        (text or "").encode("utf-8")
    except UnicodeEncodeError:
        raise InvalidArgument(option, text, "UTF-8 text") from None


def _categories(values: str | None, values_file: Path | None) -> tuple[str, ...]:
    if values is not None and values_file is not None:
        raise InvalidArgument("--values", values, "given once: as --values or as --values-file")
    if values_file is not None:
        try:
            return tuple(line.strip() for line in values_file.read_text(encoding="utf-8").splitlines() if line.strip())
        except (OSError, ValueError) as error:
            raise InvalidArgument("--values-file", str(values_file), f"a file of UTF-8 text ({error})") from None
    return tuple(part.strip() for part in values.split(",") if part.strip()) if values else ()


def _read(run: CountRun, sources: list[str], file_format: str | None, *, quiet: bool) -> None:
    tally = run.tally
    with reading_progress(sources, quiet=quiet) as show:
        done = 0

        def report(count: int) -> None:
            nonlocal done
            done = count

        for table in tables(sources, tally.columns, file_format=file_format, report=report):
            tally.take(table)
            show(done, tally.rows)


def _keeping(frames: Iterator[pl.DataFrame], kept: list[pl.DataFrame], *, everything: bool) -> Iterator[pl.DataFrame]:
    """Pass tables on, and keep all of them or the last."""
    for frame in frames:
        if not everything:
            kept[:-1] = []
        kept.append(frame)
        yield frame


def _print_last(run: CountRun, kept: list[pl.DataFrame], console: Console) -> None:
    if not run.published:
        console.print("No step has ended yet: nothing was released.")
        return
    frame = pl.concat(kept[-2:])
    total = run.published
    shown = frame.tail(SHOWN * max(len(run.options.measure.names), 1))
    steps = shown["step"].n_unique()
    title = f"The last {steps} of {total:,} releases" if steps < total else number(total, "release")
    print_table(shown, title, console)


def _draw(run: CountRun, frame: pl.DataFrame, plot: Target, notes: Notes, *, with_truth: bool) -> None:
    options = run.options
    title = f"Running total, {budget_in_words(options.budget)}"
    truth = None
    if with_truth:
        notes.warn("the picture shows the true totals (--compare-with-truth): it must not be published.")
        inputs = run.tally.inputs(0, run.published)
        if run.seen and run.store is not None:
            earlier = run.store.recorded_inputs(options.name, 1, run.seen)
            inputs = np.concatenate([earlier, inputs[run.seen :]])
        sums = np.cumsum(inputs, axis=0)
        names = options.measure.names
        truth = {name: sums[:, i] for i, name in enumerate(names)} if names else {"": sums}
    draw_into(plot, draw_releases(frame, title, options.confidence, truth), title)


def _follow(run: CountRun, notes: Notes, form: str, file_format: str | None, *, by_clock: bool) -> None:
    """Release each step as soon as a row of a later one arrives or, by the clock, when it has ended."""
    shape: Literal["csv", "jsonl"] = "jsonl" if form == "jsonl" else "csv"  # a table would never be complete
    tally = run.tally
    header = True

    def emit(closed: int) -> None:
        nonlocal header
        if closed <= run.published:
            return
        run.open()
        notes.before()
        with _said_if_not_written(run, to_file=False):
            for values in run.release(closed):
                first = run.published - len(values)
                write_rows([run.rows(first, values)], shape, None, header=header)
                header = False

    def tick() -> float | None:
        """Release what has ended by now, while nothing is waiting to be read; look again within a second."""
        if isinstance(tally, TimeTally) and tally.calendar is not None:
            ended = steps_ended(tally.calendar, tally.horizon, midnight=run.options.through == "yesterday")
            tally.close(ended)
            emit(max(ended, run.seen))
        return 1.0

    idle = tick if by_clock else None
    for table in tables([STDIN], tally.columns, file_format=file_format, at_once=True, idle=idle):
        tally.take(table)
        if isinstance(tally, RowTally):
            emit(tally.steps)
        elif run.options.order == "late" and tally.data_steps:
            emit(min(tally.data_steps - 1, tally.steps))
    if by_clock:
        tick()
    run.open()
    notes.before()
    if not by_clock:
        emit(run.closed)
    notes.after(None, None, None)


@contextmanager
def _said_if_not_written(run: CountRun, *, to_file: bool) -> Iterator[None]:
    """Say what was spent, and how to read it again, if a result cannot be written."""
    try:
        yield
    except NotWritten as error:
        released = run.published - run.seen
        store, name = run.options.store, run.options.name
        if store is not None:
            raise Spent(
                f"{error}. {number(released, 'step')} {'was' if released == 1 else 'were'} released before that and"
                f" {'is' if released == 1 else 'are'} kept in {store}: read them again with dpstream store releases"
                f" {shlex.quote(str(store))} {shlex.quote(name)}, or run the same command again"
            ) from None
        if to_file:
            raise InvalidArgument(error.where, None, f"a file that can be written ({error.reason})") from None
        raise Spent(
            f"{error}. {number(released, 'step')} {'was' if released == 1 else 'were'} released and the budget is"
            " spent; without --store nothing can be read again: treat what was written as published"
        ) from None


@contextmanager
def _said_on_interrupt(run: CountRun) -> Iterator[None]:
    """Say on Ctrl-C what is safe, and how to go on."""
    try:
        yield
    except KeyboardInterrupt:
        raise Interrupted(_how_to_go_on(run)) from None


def _how_to_go_on(run: CountRun) -> str:
    released = run.published - run.seen
    store, tally = run.options.store, run.tally
    if not released:
        return "Nothing was released and no budget is spent: run the same command again."
    were = "was" if released == 1 else "were"
    if store is None:
        return f"{number(released, 'step')} {were} released, without a --store to go on from."
    safe = f"{number(run.published, 'step')} {'is' if run.published == 1 else 'are'} safe in {store}."
    if isinstance(tally, TimeTally) and tally.calendar is not None and tally.steps > run.published:
        begin = tally.calendar.begin(run.published)
        return f"{safe} Run the same command again, with all rows or with those from {begin} on, to go on."
    return f"{safe} Run the same command again to go on."
