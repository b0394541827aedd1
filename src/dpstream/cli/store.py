"""`dpstream store`: look into a store, take releases out of it, and check them.

Looking changes nothing: a file that is not there is not made, and no stream is opened for writing.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import asdict
from decimal import Decimal
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from rich.console import Console
from rich.markup import escape
from rich.progress import Progress
from rich.text import Text

from dpstream.cli.app import BAD_INPUT, FOUND_WRONG
from dpstream.cli.budget_options import budget_in_words
from dpstream.cli.output import (
    check_output,
    frame_of,
    narrow_table,
    number,
    print_rows,
    progress_bar,
    say,
    show_table,
    write_rows,
)
from dpstream.cli.store_open import AsJson, File, OnlyName, chosen, existing_store, promised, store_app, stream_named
from dpstream.cli.targets import opened
from dpstream.errors import InvalidArgument, StoreDamaged, StoreMismatch

if TYPE_CHECKING:
    import polars as pl

    from dpstream.store import Store
    from dpstream.store.verification import Verified

__all__ = ["store_app"]

#: So many releases are printed; --output and --json give all of them.
SHOWN = 40


@store_app.command("list")
def list_streams(file: File, as_json: AsJson = False) -> None:
    """List the streams of a store, and what they have promised together.

    Example: dpstream store list counts.db
    """
    with existing_store(file) as store:
        streams, spent = store.streams(), store.spent()
    if as_json:
        from dpstream.store.composition import budget_as_json

        found = [asdict(info) | {"budget": budget_as_json(info.budget)} for info in streams]
        typer.echo(json.dumps({"streams": found, "spent": vars(spent)}, ensure_ascii=False))
        return
    table = narrow_table(("name", "kind", "steps", "of", "budget", "position", ""), words=("kind", "budget", ""))
    table.columns[0].no_wrap, table.columns[0].overflow = False, "fold"
    for info in streams:
        table.add_row(
            Text(info.name),
            info.kind,
            f"{info.t:,}",
            "no end" if info.horizon is None else f"{info.horizon:,}",
            budget_in_words(info.budget),
            "–" if info.position is None else str(info.position),
            "retired" if info.retired else "",
        )
    console = Console()
    show_table(console, table)
    for info in streams:
        left = info.remaining
        if left is not None and not info.retired and 9 * left <= info.t:  # the last tenth
            say(console, f"{info.name}: {number(left, 'step')} left.")
    say(console, promised(spent))


@store_app.command()
def show(file: File, name: OnlyName = None, as_json: AsJson = False) -> None:
    """Show one stream: its settings, how far it has come, and what it promises.

    Example: dpstream store show counts.db visits
    """
    from dpstream.release.error_bars import release_stddev

    with existing_store(file) as store:
        name = chosen(store, name)
        if stream_named(store, name).kind == "names":
            show_names(store, name, as_json=as_json)
            return
        stream, promise, info = store.settings(name), store.describe(name), stream_named(store, name)
    left = info.remaining
    stddev = release_stddev(stream, max(info.t, 1))
    settings = dict(
        sorted((stream.as_json() | {"source": info.source, "rows_per_person": info.rows_per_person}).items())
    )
    if as_json:
        state = {"steps": info.t, "remaining": left, "position": info.position, "retired": info.retired}
        made = {"name": name} | state | {"stddev": stddev, "settings": settings, "promise": promise}
        typer.echo(json.dumps(made, ensure_ascii=False))
        return
    participation, rows_per_person = settings.pop("participation"), settings.pop("rows_per_person")
    one_person = (
        {"steps of one person": f"at most {participation['times']}, at least {participation['separation']} apart"}
        if rows_per_person is None
        else {"rows of one person": f"at most {rows_per_person:,}, in whatever steps"}
    )
    facts: dict[str, Any] = {
        "kind": info.kind,
        "steps": f"{info.t:,}",
        "remaining": "without end" if left is None else f"{left:,}",
        "stddev of the last release": f"{stddev:.4g}",
        "position of the last step": "none" if info.position is None else info.position,
        "retired": "yes" if info.retired else "no",
        "times opened": f"{info.opened:,}",
        **({"goes on with": f"{info.continues}, after {number(info.steps_before, 'step')}"} if info.continues else {}),
        **({"continued by": info.continued_by} if info.continued_by else {}),
        # The settings' own name is empty in a store, and what identifies a mechanism is for programs.
        **{key: value for key, value in settings.items() if key not in ("lane", "name", "identity")},
        **_in_amounts(info.source, settings["per_person"], stddev),
        "mechanism": repr(stream.mechanism),
        "budget": budget_in_words(stream.budget),
        **one_person,
    }
    facts = {key: "none" if value is None else value for key, value in facts.items()}
    table = narrow_table(("", ""), words=("",))
    table.show_header = False
    for column in table.columns:
        column.no_wrap, column.overflow = False, "fold"
    table.title, table.title_justify, table.title_style = Text(name), "left", "bold"
    for key, value in facts.items():
        table.add_row(key, Text(str(value)))
    console = Console()
    console.print(table)
    unit = _unit(info.source)
    say(console, promise if unit == 1 else f"{promise} Numbers of this paragraph are in units of {unit}.")


@store_app.command()
def releases(
    file: File,
    name: OnlyName = None,
    since: Annotated[int, typer.Option(help="Only what was released after this step.")] = 0,
    windows: Annotated[
        str | None, typer.Option(help="Also what was counted in the last 1d,7d,1mo (or in so many steps: 7).")
    ] = None,
    confidence: Annotated[
        float, typer.Option(help="The chance that the number without noise is between low and high.")
    ] = 0.95,
    output: Annotated[Path | None, typer.Option(help="Write them to this file: .csv, .jsonl or .parquet.")] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print them as JSON, one line each.")] = False,
) -> None:
    """Print or write the releases of a stream: public values, never true sums.

    With dates, categories and error bars, as far as the store knows them. Works while another process writes to it.

    Example: dpstream store releases counts.db visits --windows 7 --output visits.csv
    """
    form = None if output is None else check_output(output)
    with existing_store(file) as store:
        name = chosen(store, name)
        frame = releases_frame(store, name, since, windows, confidence, flat=form == "csv")
    console = Console()
    steps = frame["step"].unique().sort()  # of names, those in which any is published
    count = steps.len()
    if output is not None and form is not None:
        with opened("--output", output) as target:
            write_rows([frame], form, target)
            if target is not None:
                target.finish()
        if not as_json:
            say(console, f"{number(count, 'release')} of {name} written to {output}.")
    if as_json:
        write_rows([frame], "jsonl", None)
    elif output is None:
        last = frame.filter(frame["step"].is_in(steps.tail(SHOWN).implode()))
        print_rows(last, name, console)
        if count > SHOWN:
            say(console, f"The last {SHOWN} of {count:,}; --json or --output gives all of them.")


@store_app.command()
def verify(
    file: File,
    name: Annotated[str | None, typer.Argument(help="The stream's name; all streams if left out.")] = None,
    as_json: AsJson = False,
) -> None:
    """Compute every release again from the key and compare it with what was published.

    Exit status 1 if anything differs. Works on retired streams, on old files, and while another process writes. With
    positions every input is checked; without them, whether each input is possible and the last sum is right.

    Example: dpstream store verify counts.db
    """
    damages: list[str] = []
    found: list[Verified] = []
    failed: dict[str, str] = {}
    kinds: dict[str, str] = {}
    try:
        with existing_store(file) as store, progress_bar() as progress:
            if name is None:
                try:
                    store.check_seals()
                except StoreDamaged as damage:
                    damages.append(damage.what)
            for one in [name] if name is not None else [info.name for info in store.streams()]:
                try:
                    kinds[one] = next((info.kind for info in store.streams() if info.name == one), "")
                    found.append(store.verify(one, _bar(progress, one)))
                except (InvalidArgument, StoreMismatch) as error:  # StreamUnknown ends the command
                    failed[one] = str(error)
    except StoreDamaged as damage:
        damages.append(damage.what)
    told = {finding for one in found for finding in one.findings}
    damages = [what for what in dict.fromkeys(damages) if what not in told]
    if as_json:
        made = [vars(one) | {"ok": one.ok} for one in found]
        typer.echo(json.dumps({"streams": made, "damage": damages, "not_verified": failed}, ensure_ascii=False))
    else:
        _print_verified(found, damages, failed, kinds)
    if damages or any(not one.ok for one in found):
        raise typer.Exit(FOUND_WRONG)
    if failed:
        raise typer.Exit(BAD_INPUT)


def _unit(source: str) -> Decimal:
    """Return what a whole number stands for, as far as the stream's source says so: 0.01 where cents are counted."""
    try:
        return Decimal(json.loads(source).get("unit") or 1)
    except (ValueError, AttributeError, ArithmeticError):
        return Decimal(1)


def _in_amounts(source: str, per_person: float, stddev: float) -> dict[str, str]:
    """Return figures in the unit of the amounts that are counted, where there is one."""
    unit = _unit(source)
    if unit == 1:
        return {}
    return {
        "stddev of the last release": f"{stddev * float(unit):,.4g} ({stddev:,.0f} units of {unit})",
        "per_person": f"{int(per_person) * unit:,f} ({int(per_person):,} units of {unit})",
    }


def releases_frame(
    store: Store, name: str, since: int, windows: str | None, confidence: float, *, flat: bool
) -> pl.DataFrame:
    """Return the releases of a stream after a step as a table; of those that have no error bars here, the values."""
    from dpstream.arguments import check_whole

    info, since = stream_named(store, name), check_whole("--since", since, least=0)
    if info.kind == "names":
        from dpstream.events.stored_names import StoredNames
        from dpstream.events.windows import windows_of

        asked = () if windows is None else windows_of(windows)
        return StoredNames(store, name).table(confidence=confidence, windows=asked, since=since)
    told = info.kind == "counter" and len(info.shape) <= 1
    if told:
        try:
            store.settings(name)
        except InvalidArgument:  # a mechanism that dpstream knows nothing of
            told = False
    if not told:
        if windows is not None:
            raise InvalidArgument("--windows", windows, f"left out: {name} is no counter of numbers or categories")
        return frame_of(store.releases(name, since), info.shape, info.dtype, flat=flat)
    import polars as pl

    from dpstream.events.stored_stream import StoredStream
    from dpstream.events.windows import windows_of

    asked = () if windows is None else windows_of(windows)
    frame = StoredStream(store, name).released().table(confidence=confidence, windows=asked)
    alone = info.continues is None and info.continued_by is None
    if info.position is not None and alone and "start" not in frame.columns:  # the caller's numbers are all there is
        position = (pl.col("step") + (info.position - info.t)).alias("position")
        frame = frame.select("step", position, pl.exclude("step"))
    return frame.filter(pl.col("step") > since)


def _bar(progress: Progress, name: str) -> Callable[[float], None]:
    """Add a bar of this name and return the function that moves it."""
    bar = progress.add_task(escape(name), total=1.0)
    return lambda part: progress.update(bar, completed=part)


def _print_verified(found: list[Verified], damages: list[str], failed: dict[str, str], kinds: dict[str, str]) -> None:
    console = Console()
    table = narrow_table(("name", "steps", "held against", "found"), words=("held against", "found"))
    table.columns[0].no_wrap, table.columns[0].overflow = False, "fold"
    for one in found:
        against = "every input" if one.every_input else "what is possible, and the last sum"
        if kinds.get(one.name) == "names":
            against = "its seals, and the last sums of all names"
        verdict = "as it should be" if one.ok else "WRONG"
        table.add_row(Text(one.name), f"{one.steps:,}", against, verdict, style="" if one.ok else "bold red")
    if found:
        show_table(console, table)
    for one in found:
        for finding in one.findings:
            say(console, f"{one.name}: {finding}.", "red")
        if one.outdated:
            say(console, f"{one.name}: {one.outdated}. This is an old backup or a copy.", "yellow")
    for name, reason in failed.items():
        say(console, f"{name}: not verified; {reason}", "yellow")
    for what in damages:
        say(console, f"The file is damaged: {what}.", "red")
    if not (found or failed or damages):
        say(console, "There are no streams.")


def show_names(store: Store, name: str, *, as_json: bool) -> None:
    """Print one stream of discovered names: its settings, how far it has come, and what it promises."""
    stream, promise, info = store.open_settings(name), store.describe(name), stream_named(store, name)
    published = len(store.published_names(name).names)
    if as_json:
        made = {"name": name, "steps": info.t, "remaining": info.remaining, "published": published}
        settings = stream.as_json() | {"source": info.source}
        typer.echo(json.dumps(made | {"settings": settings, "promise": promise}, ensure_ascii=False))
        return
    table = narrow_table(("", ""), words=("",))
    table.show_header = False
    for column in table.columns:
        column.no_wrap, column.overflow = False, "fold"
    table.title, table.title_justify, table.title_style = Text(name), "left", "bold"
    for key, value in {
        "kind": info.kind,
        "steps": f"{info.t:,}",
        "remaining": f"{info.remaining:,}",
        "published names": f"{published:,}",
        "threshold": f"{stream.threshold:,}",
        "stddev of the last release": f"{stream.stddev(max(info.t, 1)):.4g}",
        "names of one person": f"at most {stream.names_per_person:,}, in whatever steps",
        "rows of one person for a name": f"at most {stream.per_name:,}",
        "room for pairs of a person and a name": f"{info.people:,}",
        "retired": "yes" if info.retired else "no",
        "times opened": f"{info.opened:,}",
        "mechanism": repr(stream.mechanism),
        "budget": budget_in_words(stream.budget),
        "source": info.source,
    }.items():
        table.add_row(key, Text(value))
    console = Console()
    console.print(table)
    say(console, promise)


# The commands that change a store are part of the same group.
from dpstream.cli import store_changes, store_protect, store_tokens  # noqa: E402,F401
