"""What the commands of `dpstream store` share: the group, its arguments, and opening a store that must exist."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from typer.core import TyperGroup

from dpstream.cli.app import CommandGroup
from dpstream.cli.option_words import in_options
from dpstream.errors import DpstreamError, InvalidArgument, NotAStore, StreamUnknown

if TYPE_CHECKING:
    from dpstream.store import Store, StreamInfo
    from dpstream.store.composition import Spent

__all__ = [
    "AsJson",
    "File",
    "Name",
    "OnlyName",
    "check_store_file",
    "chosen",
    "existing_store",
    "promised",
    "store_app",
    "stream_named",
]


class StoreGroup(CommandGroup):
    """Says what the library refuses in the options of the command that was run."""

    def invoke(self, ctx: Any) -> Any:
        """Run the command; see the class."""
        try:
            return TyperGroup.invoke(self, ctx)
        except DpstreamError as error:
            raise DpstreamError(in_options(error, self._options(ctx))) from error


store_app = typer.Typer(
    cls=StoreGroup, no_args_is_help=True, help="Look into a store of counters and sums, and check what it says."
)

File = Annotated[Path, typer.Argument(help="The store's database.")]
Name = Annotated[str, typer.Argument(help="The stream's name.")]
OnlyName = Annotated[str | None, typer.Argument(help="The stream's name; may be left out if there is one stream.")]
AsJson = Annotated[bool, typer.Option("--json", help="Print JSON.")]
#: The δ at which a total is said as an ε, too.
USUAL_DELTA = 1e-6


def check_store_file(file: Path) -> Path:
    """Return the path of a store's file; refuse one where there is none, or something else."""
    from dpstream.store.database import MIGRATIONS
    from dpstream.store.files import check_file, check_path

    path = check_path(file)
    if not check_file(path, newest=len(MIGRATIONS)):
        raise NotAStore(path=str(file), found="there is no such file")
    return path


def existing_store(file: Path) -> Store:
    """Open the store in this file, which must exist: looking makes none.

    Raises
    ------
    NotAStore
        If there is no file, or something else.
    """
    from dpstream.store import Store

    return Store(check_store_file(file))


def stream_named(store: Store, name: str) -> StreamInfo:
    """Return what the store lists of this stream; refuse a name that it does not have."""
    for info in store.streams():
        if info.name == name:
            return info
    raise StreamUnknown(name=name)


def chosen(store: Store, name: str | None) -> str:
    """Return the name of a stream; where none is given, that of the only one, or of the last of the only series.

    Raises
    ------
    InvalidArgument
        If there is none, or more than one to choose from.
    """
    if name is not None:
        return name
    last = [info.name for info in store.streams() if info.continued_by is None]
    if len(last) != 1:
        allowed = f"given: one of {', '.join(last)}" if last else "that of a stream: the store has none"
        raise InvalidArgument("NAME", None, allowed)
    return last[0]


def promised(spent: Spent, who: str = "") -> str:
    """Return one sentence on what streams promise together: all of a store, or those that `who` says."""
    if not spent.streams:
        return "There are no streams, and nothing is promised."
    count = "The stream has" if spent.streams == 1 else f"All {spent.streams} streams together have"
    if who:
        count = f"{who} have"
    if not spent.gaussian_rho:
        return f"{count} promised ε = {spent.pure_epsilon:.6g}."
    return (
        f"{count} promised ρ = {spent.rho:.6g}, which is ε = {spent.epsilon(USUAL_DELTA):.4g} at δ = {USUAL_DELTA:g}."
    )
