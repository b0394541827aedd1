"""What `dpstream count` does with its options: check them, read, release, write, and say so."""

from __future__ import annotations

import csv
import os
import shlex
import stat
import sys
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, fields
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import typer
from rich.console import Console

from dpstream.cli.app import FEW_STEPS_LEFT, FailedAfterRelease, Interrupted, closed_streams
from dpstream.cli.count_notes import Notes
from dpstream.cli.names_notes import NamesNotes
from dpstream.cli.output import (
    Form,
    check_apart,
    check_output,
    form_of,
    number,
    print_rows,
    reading_progress,
    write_rows,
)
from dpstream.cli.pictures import check_picture, write_releases
from dpstream.cli.protect_text import check_protect_text, protect_text_files, write_protect_text
from dpstream.cli.release_picture import ReleasePicture, window_to_draw, with_room
from dpstream.cli.targets import NotWritten, Target, opened
from dpstream.cli.whole_command import what_is_missing
from dpstream.errors import (
    DpstreamError,
    InvalidArgument,
    SettingsMissing,
    SourceMissing,
    TooManyNames,
    TooManyPairs,
    TooManyPeople,
)
from dpstream.events.counting import CountRun
from dpstream.events.discovery_run import DiscoveryRun
from dpstream.events.tables import STDIN

__all__ = ["CountCommand"]

#: A terminal shows this many of the last releases.
SHOWN = 12
#: Of names, a terminal shows the largest.
SHOWN_NAMES = 20
#: With categories fewer steps are shown: about this many rows.
SHOWN_ROWS = 120
#: Options that discovered names do not have, and what to do instead.
_NOT_FOR_NAMES = {
    "report_dropped": "how much was left out is not told of names",
    "compare_with_truth": "most names are never published, and have no place in a picture",
}


@dataclass(frozen=True)
class CountCommand:
    """What `dpstream count` is to do: the settings of the count, and what becomes of the result.

    `count.py` describes the options. Those that are settings of a count (see `count_settings`) are in `settings`.
    """

    settings: dict[str, Any]
    files: list[str] | None = None
    batch: str | None = None
    report_dropped: float | None = None
    output: Path | None = None
    form: str | None = None
    as_json: bool = False
    plot: Path | None = None
    protect_text: Path | None = None
    title: str | None = None
    label: str | None = None
    compare_with_truth: bool = False
    everything: bool = False
    warn_below: int | None = None
    quiet: bool = False
    verbose: bool = False

    @classmethod
    def of(cls, given: dict[str, Any]) -> CountCommand:
        """Take the options that were given apart."""
        own = {field.name for field in fields(cls)}
        settings = {name: value for name, value in given.items() if name not in own}
        values, values_file = settings.get("categories"), settings.pop("values_file", None)
        if isinstance(values, str) or values_file is not None:  # a settings file gives a list
            settings["categories"] = _categories(values, values_file)
        return cls(settings, **{name: value for name, value in given.items() if name in own})

    def run(self) -> None:
        """Do what the options ask for."""
        self._check()
        store = self.settings.get("store")
        shape = form_of(self.form, as_json=self.as_json)
        if self.output is not None:
            shape = check_output(self.output)
        check_picture(self.plot)
        check_protect_text(self.protect_text)
        sources = [] if self._reads_nothing() else self.files or [STDIN]
        if not sources and self.settings.get("through") is None:
            raise InvalidArgument(
                "--through", None, "given where there are no files: --through now releases every step that has ended"
            )
        text, entry = protect_text_files(self.protect_text) if self.protect_text else (None, None)
        written = {"--output": self.output, "--plot": self.plot, "--protect-text": text, "--protect-text ": entry}
        check_apart(written | {"--store": store}, sources)
        self._check_streams(sources)
        with ExitStack() as stack:
            run = self._begun()
            stack.callback(run.close)
            kind = Notes
            if isinstance(run, DiscoveryRun):  # which the store may say, and not the command
                self._check_names()
                kind = NamesNotes
            notes = kind(run, quiet=self.quiet, verbose=self.verbose)
            stack.enter_context(_said_on_interrupt(run))
            stack.enter_context(_said_if_too_many_users(run))
            # Before anything is spent: a target that cannot be written refuses the run.
            target = stack.enter_context(opened("--output", self.output))
            picture = stack.enter_context(opened("--plot", self.plot))
            with reading_progress(sources, quiet=self.quiet) as show:
                run.read(sources, show, notes.recognised, self.batch)
            run.open()
            notes.before()
            run.ingest()
            kept: list[pl.DataFrame] = []
            if picture is not None:
                run.keeps_values = True
            frames = _keeping_last(run.frames(run.closed, everything=self.everything), kept)
            with _said_if_not_written(run, to_file=target is not None):
                self._write(run, frames, kept, shape, target)
            if picture is not None:
                with _said_if_not_written(run, to_file=False):
                    write_releases(_picture(run, self, notes), picture, run.protection(self._label(run)).paragraph())
            if self.protect_text is not None:
                with _said_if_not_written(run, to_file=False):
                    write_protect_text(run.protection(self._label(run)), self.protect_text, self.title or "")
                notes.note(f"Written: {text} and {entry}")
            notes.after(self.report_dropped, self.output, self.plot)
            left = None if run.horizon is None else run.horizon - run.published
            if self.warn_below is not None and left is not None and left < self.warn_below:
                raise typer.Exit(FEW_STEPS_LEFT)

    def _label(self, run: CountRun) -> str:
        """What is counted, in a word."""
        options = run.options
        rows = "people" if options.discovery is not None and options.discovery.per_name == 1 else "rows"
        return self.label or options.measure.value or (options.name if options.name != "count" else rows)

    def _check(self) -> None:
        """Refuse options that do not go together."""
        settings = self.settings
        if self.batch is not None and "store" not in settings:
            raise InvalidArgument("--batch", self.batch, "used with --store, which remembers it")
        if self.report_dropped is not None and ("user" not in settings or "store" in settings):
            raise InvalidArgument("--report-dropped", self.report_dropped, "used with --user and without --store")
        for argument, given in settings.items():
            try:
                str(given).encode("utf-8")
            except UnicodeEncodeError:
                raise InvalidArgument(argument, str(given), "UTF-8 text") from None

    def _check_names(self) -> None:
        """Refuse options that names do not have."""
        for option, reason in _NOT_FOR_NAMES.items():
            if getattr(self, option):
                raise InvalidArgument(f"--{option.replace('_', '-')}", None, f"left out with --discover: {reason}")

    def _reads_nothing(self) -> bool:
        """Whether no rows are given, to a store that is there: steps are released, and that is all."""
        store = self.settings.get("store")
        if self.files or store is None or not store.exists():
            return False
        if 0 in closed_streams:
            return True
        try:
            found = os.fstat(sys.stdin.fileno())
        except OSError:  # it is not a file of the operating system
            return False
        # A terminal or /dev/null; an empty file.
        return stat.S_ISCHR(found.st_mode) or (stat.S_ISREG(found.st_mode) and found.st_size == 0)

    def _check_streams(self, sources: list[str]) -> None:
        """Refuse to read or write standard streams that are closed, or to wait for somebody to type a log."""
        if STDIN in sources and 0 in closed_streams:
            raise SourceMissing(source="standard input", reason="is closed")
        if self.output is None and 1 in closed_streams:
            raise InvalidArgument("standard output", None, "open, or --output given")
        if sources == [STDIN] and sys.stdin.isatty():
            raise InvalidArgument(
                "FILES", None, "a file of events, or events on standard input; see dpstream count --help"
            )

    def _begun(self) -> CountRun:
        try:
            return CountRun.of(self.settings)
        except SettingsMissing as error:  # of a stream that is not in the store
            given = {"files": self.files, **self.settings}
            raise DpstreamError(what_is_missing(error.missing, given)) from None

    def _write(
        self,
        run: CountRun,
        frames: Iterator[pl.DataFrame],
        kept: list[pl.DataFrame],
        shape: Form,
        target: Target | None,
    ) -> None:
        """Release the steps and write them to the file or to standard output; on a terminal, show the last."""
        if target is None and shape == "table":
            for _ in frames:
                pass
            _print_last(run, kept, Console())
            return
        write_rows(frames, shape, target)
        if target is not None:
            target.finish()
            if sys.stdout.isatty() and not self.quiet:
                _print_last(run, kept, Console())


def _categories(values: str | None, values_file: Path | None) -> tuple[str, ...]:
    if values is not None and values_file is not None:
        raise InvalidArgument("--values", values, "given once: as --values or as --values-file")
    if values_file is not None:
        try:
            return tuple(line.strip() for line in values_file.read_text(encoding="utf-8").splitlines() if line.strip())
        except (OSError, ValueError) as error:
            raise InvalidArgument("--values-file", str(values_file), f"a file of UTF-8 text ({error})") from None
    try:
        # With quotes as in a CSV file: '"Smith, J",B' are two.
        parts = next(csv.reader([values or ""], skipinitialspace=True, strict=True), [])
    except csv.Error:
        raise InvalidArgument(
            "--values", values, "categories with commas between them, and quotes around one that has a comma itself"
        ) from None
    return tuple(part.strip() for part in parts if part.strip())


def _keeping_last(frames: Iterator[pl.DataFrame], kept: list[pl.DataFrame]) -> Iterator[pl.DataFrame]:
    """Pass tables on, and keep the last two."""
    for frame in frames:
        kept[:-1] = []
        kept.append(frame)
        yield frame


def _print_last(run: CountRun, kept: list[pl.DataFrame], console: Console) -> None:
    if not run.published:
        console.print("Nothing is released yet.")
        return
    frame = pl.concat(kept[-2:])
    if isinstance(run, DiscoveryRun) and not frame.height and run.published > run.seen:
        console.print("No name is published yet.")
        return
    if not frame.height:
        console.print(f"Nothing new: {number(run.published, 'step')} released in earlier runs (--all shows them).")
        return
    total = run.published
    if isinstance(run, DiscoveryRun):
        last = frame.filter(pl.col("step") == frame["step"].max())
        shown = last.sort("value", descending=True).head(SHOWN_NAMES)
        title = f"Release {total:,}: the largest {shown.height} of {last.height:,} published names"
        print_rows(shown, title if shown.height < last.height else f"Release {total:,}", console)
        return
    categories = max(len(run.options.measure.names) + run.options.total, 1)
    shown = frame.tail(categories * max(min(SHOWN, SHOWN_ROWS // categories), 1))
    steps = shown["step"].n_unique()
    which = "The last" if steps == 1 else f"The last {steps}"
    title = f"{which} of {total:,} releases" if steps < total else number(total, "release")
    print_rows(shown, title, console)


def _picture(run: CountRun, command: CountCommand, notes: Notes) -> ReleasePicture:
    """What is drawn: the windows that were asked for, or such that there are not too many, above the running total."""
    options = run.options
    truth = None
    if command.compare_with_truth:
        notes.warn("the picture shows the true figures (--compare-with-truth): it must not be published.")
        if run.store is not None:
            series = run.store.series(options.name)
            inputs = np.concatenate([run.store.true_data.inputs(part.name, 1, part.t) for part in series])
        else:
            inputs = run.tally.inputs(0, run.published)
        truth = np.cumsum(inputs, axis=0)
    released = run.released()
    over = window_to_draw(released, options.windows)
    return with_room(
        ReleasePicture(
            released,
            over,
            confidence=options.confidence,
            title=command.title,
            label=command._label(run),
            truth=truth,
            limit=run.protection("").limit,
        )
    )


@contextmanager
def _said_if_not_written(run: CountRun, *, to_file: bool) -> Iterator[None]:
    """Say what was spent, and how to read it again, if a result cannot be written."""
    try:
        yield
    except NotWritten as error:
        released = run.published - run.seen
        store, name = run.options.store, run.options.name
        if store is not None:
            raise FailedAfterRelease(
                f"{error}. {number(released, 'step')} {'was' if released == 1 else 'were'} released before that and"
                f" {'is' if released == 1 else 'are'} kept in {store}: read them again with dpstream store releases"
                f" {shlex.quote(str(store))} {shlex.quote(name)}, or run the same command again with --all"
            ) from None
        if to_file:
            raise InvalidArgument(error.where, None, f"a file that can be written ({error.reason})") from None
        raise FailedAfterRelease(
            f"{error}. {number(released, 'step')} {'was' if released == 1 else 'were'} released and the budget is"
            " spent; without --store nothing can be read again: treat what was written as published"
        ) from None


@contextmanager
def _said_if_too_many_users(run: CountRun) -> Iterator[None]:
    """Name the option that makes room for more users."""
    try:
        yield
    except (TooManyPairs, TooManyNames) as error:
        raise DpstreamError(_too_many_names(run, error)) from None
    except TooManyPeople as error:
        found = f"there are more than {number(error.capacity, 'user')}"
        released = run.published - run.seen
        state = f"{number(released, 'step')} released before that stay" if released else "nothing was released"
        if run.options.store is None:
            raise DpstreamError(f"{found}, and no more can be told apart in one run; {state}") from None
        more = f"--max-users {2 * error.capacity}"
        raise DpstreamError(
            f"{found}, which is what --max-users makes room for; {state}. Give a larger number, such as {more}: the"
            " store keeps 10 bytes for each, and what it has counted stays"
        ) from None


def _too_many_names(run: CountRun, error: TooManyPairs | TooManyNames) -> str:
    what = "pairs of a user and a name" if isinstance(error, TooManyPairs) else error.what
    room = error.capacity if isinstance(error, TooManyPairs) else error.room
    found = f"there are more than {room:,} {what}"
    if run.options.discovery is None or run.options.store is None:
        return f"{found}, and no more can be told apart in one run; nothing was released"
    return (
        f"{found}, which is what --max-pairs makes room for; nothing was released. Give a larger number, such as"
        f" --max-pairs {2 * run.options.discovery.pairs}: what the store has counted stays"
    )


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
    if run.in_ledger:
        are = "is" if run.published == 1 else "are"
        return f"{number(run.published, 'step')} {are} safe in {store}. Run the same command again to go on."
    were = "was" if released == 1 else "were"
    if store is None:
        return f"{number(released, 'step')} {were} released, without a --store to go on from."
    safe = f"{number(run.published, 'step')} {'is' if run.published == 1 else 'are'} safe in {store}."
    if tally.calendar is not None and tally.steps > run.published:
        begin = tally.calendar.begin(run.published)
        return f"{safe} Run the same command again, with all rows or with those from {begin} on, to go on."
    return f"{safe} Run the same command again to go on."
