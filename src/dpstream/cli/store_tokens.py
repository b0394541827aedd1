"""`dpstream store token`: who may send events over HTTP, to which streams and until when."""

from __future__ import annotations

import datetime as dt
from typing import TYPE_CHECKING, Annotated

import typer
from rich.console import Console
from rich.text import Text

from dpstream.cli.output import narrow_table, say, show_table
from dpstream.cli.store_open import File, existing_store, store_app
from dpstream.errors import InvalidArgument

if TYPE_CHECKING:
    from dpstream.store import Store

__all__ = ["token"]

#: How long a token is good for, unless something else is asked for.
USUAL_DAYS = 365
ACTIONS = ("list", "create", "revoke")


@store_app.command()
def token(
    file: File,
    action: Annotated[str, typer.Argument(metavar="[list|create|revoke]", help="What to do.")] = "list",
    name: Annotated[str | None, typer.Argument(help="What the token is called: who will use it.")] = None,
    stream: Annotated[
        list[str] | None, typer.Option(help="A stream that it may send events to; may be repeated.")
    ] = None,
    every_stream: Annotated[
        bool, typer.Option("--every-stream", help="It may send events to all streams, also to those to come.")
    ] = False,
    days: Annotated[int, typer.Option(min=1, max=36500, help="For how many days it is good.")] = USUAL_DAYS,
) -> None:
    """List, create or revoke the tokens with which events are sent to `dpstream serve --ingest`.

    A new token is printed once, on standard output: the store keeps a digest of it. A server that runs takes a new
    token, and refuses a revoked one, within seconds.

    Example: dpstream store token counts.db create "web shop" --stream visits --days 90
    """
    if action not in ACTIONS:
        raise InvalidArgument("ACTION", action, "list, create or revoke")
    if action == "list":
        with existing_store(file) as store:
            _list(store)
        return
    if name is None:
        raise InvalidArgument("NAME", None, f"given: dpstream store token {file} {action} NAME")
    with existing_store(file) as store:
        if action == "revoke":
            store.tokens.revoke(name)
            say(Console(stderr=True), f"The token {name!r} is revoked.")
            return
        if bool(stream) == every_stream:
            there = ", ".join(info.name for info in store.streams() if info.kind == "counter") or "none yet"
            raise InvalidArgument("--stream", stream, f"given, or --every-stream instead; the store's streams: {there}")
        from dpstream.events.last_step import now

        until = now() + dt.timedelta(days=days)
        secret = store.tokens.create(name, None if every_stream else stream, expires=until)
    typer.echo(secret)
    say(
        Console(stderr=True),
        f"This is the token {name!r}, good until {until:%Y-%m-%d}. It is not shown again: keep it where secrets are.",
    )


def _list(store: Store) -> None:
    from dpstream.events.last_step import now

    tokens, present, console = store.tokens.all(), now(), Console()
    if not tokens:
        say(console, f"There are no tokens. dpstream store token {store.path} create NAME --stream STREAM makes one.")
        return
    table = narrow_table(("name", "streams", "good until", ""), words=("streams", ""))
    for one in tokens:
        until = "–" if one.expires is None else f"{dt.datetime.fromtimestamp(one.expires, dt.UTC):%Y-%m-%d}"
        streams = "all" if one.streams is None else ", ".join(one.streams)
        table.add_row(Text(one.name), Text(streams), until, "expired" if one.expired(present) else "")
    show_table(console, table)
