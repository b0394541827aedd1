"""The `dpstream` command: gathers the sub-commands."""

from __future__ import annotations

from typing import Annotated

import typer

import dpstream
from dpstream.cli.audit import audit
from dpstream.cli.bench import bench
from dpstream.cli.compare import compare
from dpstream.cli.count import count
from dpstream.cli.demo import demo
from dpstream.cli.group import CommandGroup
from dpstream.cli.paper import paper
from dpstream.cli.plan import plan
from dpstream.cli.store import store_app

app = typer.Typer(
    name="dpstream",
    help="Private running totals: publish a number again and again while nobody in the data is exposed.",
    cls=CommandGroup,
    no_args_is_help=True,
    pretty_exceptions_enable=False,
)
app.command()(count)
app.command()(demo)
app.command()(plan)
app.command()(compare)
app.add_typer(store_app, name="store")
app.command()(audit)
app.command()(paper)
app.command()(bench)


def _print_version(wanted: bool) -> None:
    if wanted:
        typer.echo(f"dpstream {dpstream.__version__}")
        raise typer.Exit


@app.callback()
def _root(
    version: Annotated[
        bool, typer.Option("--version", callback=_print_version, is_eager=True, help="Print the version and stop.")
    ] = False,
) -> None:
    del version  # acted upon by its callback


def main() -> None:
    """Entry point of the `dpstream` script."""
    app()
