"""How every command ends: a refusal is one line and exit status 2, never a traceback."""

from __future__ import annotations

from typing import Any

import typer
from rich.console import Console
from rich.text import Text
from typer.core import TyperGroup

from dpstream.errors import DpstreamError

__all__ = ["BAD_INPUT", "FOUND_WRONG", "INTERRUPTED", "CommandGroup", "Interrupted", "refuse"]

#: Exit statuses, besides 0: something that was checked is wrong; the input was refused; Ctrl-C.
FOUND_WRONG = 1
BAD_INPUT = 2
INTERRUPTED = 130


class Interrupted(KeyboardInterrupt):
    """Ctrl-C, with words that say what is safe and how to go on."""


class CommandGroup(TyperGroup):
    """Turns what the library refuses into one line on standard error."""

    def invoke(self, ctx: Any) -> Any:
        """Run the command; see the class."""
        try:
            return super().invoke(ctx)
        except DpstreamError as error:
            refuse(_name(ctx), str(error))
            raise typer.Exit(BAD_INPUT) from None
        except KeyboardInterrupt as interrupt:
            refuse(_name(ctx), f"interrupted. {interrupt}".rstrip())
            raise typer.Exit(INTERRUPTED) from None


def refuse(command: str, message: str) -> None:
    """Say on standard error, in one line however narrow the terminal is, why the command stops."""
    line = Text.assemble((f"{command}: ", "bold red"), " ".join(message.split()))
    Console(stderr=True, soft_wrap=True).print(line)


def _name(ctx: Any) -> str:
    return " ".join(filter(None, ("dpstream", ctx.invoked_subcommand)))
