"""What `dpstream windows` does: tell the figures of windows from a stream that exists."""

from __future__ import annotations

from pathlib import Path

import polars as pl
from rich.console import Console

from dpstream.cli.output import check_apart, check_output, form_of, number, print_rows, say, write_rows
from dpstream.cli.pictures import check_picture, save_releases
from dpstream.cli.release_picture import ReleasePicture, with_room
from dpstream.cli.store_open import existing_store
from dpstream.cli.targets import opened
from dpstream.errors import InvalidArgument
from dpstream.events.stored_names import StoredNames, stored_stream
from dpstream.store import Store

__all__ = ["run_windows", "the_stream"]

#: A terminal shows this many of the last figures.
SHOWN = 60


def run_windows(
    *,
    store: Path,
    stream: str | None,
    over: str,
    every: str | None,
    rolling: bool,
    start: str | None,
    through: str | None,
    confidence: float,
    output: Path | None,
    form: str | None,
    as_json: bool,
    plot: Path | None,
    title: str | None,
    label: str | None,
) -> None:
    """Tell what the options of `dpstream windows` ask for."""
    shape = form_of(form, as_json=as_json) if output is None else check_output(output)
    check_picture(plot)
    check_apart({"--output": output, "--plot": plot}, [str(store)])
    with existing_store(store) as opened_store:
        found = stored_stream(opened_store, the_stream(opened_store, stream))
        released, text = found.released(), found.protection(confidence=confidence, label=label or "")
    counted = label or found.label
    picture = ReleasePicture(
        released, over, every, rolling, start, through, confidence, title, counted, limit=text.limit
    )
    figures, console = picture.figures, Console()
    if output is None and shape == "table":
        _show(figures, f"{picture.counted.capitalize()} {picture.per_window}", console)
    else:
        with opened("--output", output) as target:
            write_rows([figures], shape, target)
            if target is not None:
                target.finish()
    notes = Console(stderr=True)
    parts = figures.height - int(figures["complete"].sum())
    if parts:
        are = "is" if parts == 1 else "are"
        say(notes, f"{number(parts, 'figure')} {are} not of a whole window (complete: false).")
    if isinstance(found, StoredNames):
        say(notes, _of_names(picture))
    if text.limit:
        say(notes, text.limit)
    if plot is not None:
        save_releases(with_room(picture), plot, text.paragraph())
    for path in (output, plot):
        if path is not None:
            say(notes, f"Written: {path}")


def the_stream(store: Store, name: str | None) -> str:
    """Return the name that was given, or that of the only stream."""
    if name is not None:
        return name
    names = [info.name for info in store.streams()]
    if len(names) != 1:
        listed = ", ".join(names) or "there is none"
        raise InvalidArgument("STREAM", None, f"given where there is not exactly one: {listed}")
    return names[0]


def _of_names(picture: ReleasePicture) -> str:
    """Say which figures there are none of: those of names that were published later than a window began."""
    names, windows = len(picture.released.names), len(picture.spans.t)
    if not names:
        return "No name is published yet."
    missing = names * windows - picture.figures.height
    told = f"{number(names, 'name')} published, {number(windows, 'window')}"
    if not missing:
        return f"{told}."
    are = "is" if missing == 1 else "are"
    return f"{told}; {number(missing, 'figure')} {are} missing: of windows that began before a name was published."


def _show(figures: pl.DataFrame, title: str, console: Console) -> None:
    shown = figures.tail(SHOWN)
    if shown["complete"].all():
        shown = shown.drop("complete")
    else:
        shown = shown.with_columns(complete=pl.when("complete").then(pl.lit("yes")).otherwise(pl.lit("no")))
    if figures.height > SHOWN:
        title = f"{title}: the last {SHOWN} of {figures.height:,} figures"
    print_rows(shown, title, console)
