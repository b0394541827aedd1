"""`dpstream store`, the commands that change a store: limit, extend, adopt, retire."""

from __future__ import annotations

import itertools
import shlex
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from rich.console import Console

from dpstream.cli.budget_options import Delta, Epsilon, Rho, budget_in_words, budget_of
from dpstream.cli.output import number, say
from dpstream.cli.store_open import (
    File,
    Name,
    OnlyName,
    check_store_file,
    chosen,
    existing_store,
    promised,
    store_app,
    stream_named,
)
from dpstream.errors import DpstreamError, InvalidArgument, StepsNotReleased, StoreCopied

if TYPE_CHECKING:
    from dpstream.budget import Budget
    from dpstream.store import Store

__all__ = ["adopt", "extend", "limit", "retire"]


@store_app.command()
def limit(
    file: File,
    epsilon: Epsilon = None,
    delta: Delta = None,
    rho: Rho = None,
    none: Annotated[bool, typer.Option("--none", help="Take the limit away.")] = False,
) -> None:
    """Show, set or take away the budget that all streams of a store together may not exceed.

    The limit is kept in the file and holds for whoever opens it: a stream that would exceed it is not created. It
    cannot be less than what is promised already.

    Example: dpstream store limit counts.db --epsilon 8 --delta 1e-6
    """
    given = any(value is not None for value in (epsilon, delta, rho))
    if none and given:
        raise InvalidArgument("--none", "--none with a budget", "given alone: it takes the limit away")
    wanted = budget_of(rho, epsilon, delta) if given else None
    with existing_store(file) as store:
        if given or none:
            store.set_limit(wanted)
        kept, spent = store.limit, store.spent()
    console = Console()
    changed = "is now" if given or none else "is"
    say(console, f"The limit {changed} {'none' if kept is None else budget_in_words(kept)}. {promised(spent)}")


@store_app.command()
def extend(
    file: File,
    stream: OnlyName = None,
    horizon: Annotated[int | None, typer.Option(help="How many more steps there will be.")] = None,
    until: Annotated[str | None, typer.Option(help="The date of the last step.")] = None,
    unbounded: Annotated[bool, typer.Option("--unbounded", help="There is no last step.")] = False,
    name: Annotated[str | None, typer.Option(help="What the new stream is called; NAME-2 if left out.")] = None,
    epsilon: Epsilon = None,
    delta: Delta = None,
    rho: Rho = None,
) -> None:
    """Go on past the end of a stream: end it, and start a successor with a budget of its own.

    The last released total is carried over, so that readers see one series. Without a budget the successor has one as
    large as the first stream's. People who are in both are protected by the sum of the two, which is said.

    Example: dpstream store extend counts.db visits --horizon 365 --rho 0.1
    """
    ends = [option for option in (horizon, until, unbounded or None) if option is not None]
    if len(ends) != 1:
        given = "none" if not ends else "more than one"
        raise InvalidArgument("the end", given, "given by one of --horizon, --until and --unbounded")
    budget = None if rho is None and epsilon is None and delta is None else budget_of(rho, epsilon, delta)
    from dpstream.events.successor import extend_stream
    from dpstream.store.composition import compose

    with existing_store(file) as store:
        stream = chosen(store, stream)
        if stream_named(store, stream).kind == "names":
            raise _another_stream(store, stream, file, {"horizon": horizon, "until": until}, budget)
        try:
            made = extend_stream(store, stream, horizon=horizon, until=until, budget=budget, new_name=name)
        except StepsNotReleased as error:
            raise _release_first(store, stream, file, error) from None
        parts, everything = store.series(made.name), store.spent()
    steps = "without a last step" if made.horizon is None else f"for {number(made.horizon, 'step')}"
    who = "Both together" if len(parts) == 2 else f"All {len(parts)} together"
    together = promised(compose([part.budget for part in parts]), who)
    console = Console()
    say(
        console,
        f"{made.name} goes on with {stream} after {number(made.steps_before, 'step')}, {steps}, from the total that was"
        f" released last. {stream} is ended. {made.name} has a budget of its own: {budget_in_words(made.budget)}."
        f" {together}",
    )
    if everything.streams > len(parts):
        say(console, promised(everything))


def _release_first(store: Store, name: str, file: Path, error: StepsNotReleased) -> DpstreamError:
    """Return what is said where rows wait for steps that are not released: the command that releases them."""
    from dpstream.events.stored_stream import StoredStream

    stream = StoredStream(store, name)
    if stream.calendar is None:
        return error
    last = stream.info.steps_before + error.last
    stream.calendar.lay_out(last)
    day = str(stream.calendar.shown(last - 1, 1)[0]).replace(" ", "T")
    command = ["dpstream", "count", "--store", str(file), "--name", name, "--through", day]
    return DpstreamError(
        f"rows wait in {name!r} for steps that are not released yet, up to that of {day}; nothing was changed. Release"
        f" them first: {shlex.join(command)}"
    )


def _another_stream(store: Store, name: str, file: Path, end: dict[str, Any], budget: Budget | None) -> DpstreamError:
    """Return what is said where names are to go on: the command that begins another stream of them."""
    from dpstream.cli.whole_command import whole_command
    from dpstream.events.stored_names import StoredNames

    found = StoredNames(store, name)
    taken = {info.name for info in store.streams()}
    number = next(i for i in itertools.count(2) if f"{name}-{i}" not in taken)
    settings = {key: value for key, value in found.source.items() if key not in ("confidence", "start")}
    if found.calendar is not None:
        found.calendar.lay_out(found.settings.horizon + 1)
        settings["start"] = found.calendar.shown(found.settings.horizon, 1)[0].isoformat()
    ends = {key: value for key, value in end.items() if value is not None} or {"horizon": found.settings.horizon}
    amount = budget or found.settings.budget
    parts = {part: getattr(amount, part) for part in ("rho", "epsilon", "delta") if hasattr(amount, part)}
    command = whole_command(
        [], {"files": ["FILE"], **settings, **ends, **parts, "store": file, "name": f"{name}-{number}"}
    )
    return DpstreamError(
        f"{name} counts discovered names and cannot go on past its last step, for which its threshold was made; nothing"
        f" was changed. Begin another stream then, with totals from 0 and a budget of its own: {command}. Names"
        " that are published by now are public: --values-file declares them"
    )


@store_app.command()
def adopt(
    file: File,
    yes: Annotated[bool, typer.Option("--yes", help="Do not ask.")] = False,
) -> None:
    """Say that a store which was copied or moved here is the only one from now on.

    A store on another disk refuses to work: if the original went on as well, both would publish the same noise under
    different data, which gives the data away. After this command the copy goes on; the original must never be used
    again, and should be deleted. A store that was only renamed on its disk needs nothing.

    Example: dpstream store adopt counts.db --yes
    """
    from dpstream.store import Store

    path, console = check_store_file(file), Console()
    try:
        Store(path).close()
    except StoreCopied:
        pass
    else:
        say(console, f"{file} is where it was made: there is nothing to adopt.")
        return
    if not yes:
        typer.confirm(f"Will the original of {file} never be used again?", abort=True)
    with Store(path, adopt=True) as store:
        streams = len(store.streams())
    say(console, f"{file} goes on from here, with {number(streams, 'stream')}. Delete the original.")


@store_app.command()
def retire(
    file: File,
    name: Name,
    yes: Annotated[bool, typer.Option("--yes", help="Do not ask.")] = False,
) -> None:
    """End a stream for good.

    It takes no further step. Its releases stay, and so does the budget it has spent.

    Example: dpstream store retire counts.db visits --yes
    """
    with existing_store(file) as store:
        info = stream_named(store, name)
        waiting = info.kind in ("counter", "names") and store.true_data.rows_wait(name)
        lost = " Rows that wait in its open steps are never released." if waiting else ""
        if not yes:
            typer.confirm(f"{name} has {number(info.t, 'release')}.{lost} End it for good?", abort=True)
        store.retire(name)
    say(Console(), f"{name} is retired after {number(info.t, 'release')}.{lost}")
