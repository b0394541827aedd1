"""How every command ends: a refusal is one line and an exit status, never a traceback."""

from __future__ import annotations

from typing import Any

import typer
from typer.core import TyperGroup

from dpstream.cli.option_words import in_options
from dpstream.errors import DpstreamError

__all__ = ["BAD_INPUT", "FOUND_WRONG", "INTERRUPTED", "NOT_WRITTEN", "CommandGroup", "Interrupted", "Spent", "refuse"]

#: Exit statuses, besides 0: something that was checked is wrong; the input was refused, nothing was written or spent;
#: steps were released, but the result could not be written; Ctrl-C.
FOUND_WRONG = 1
BAD_INPUT = 2
NOT_WRITTEN = 4
INTERRUPTED = 130


class Interrupted(KeyboardInterrupt):
    """Ctrl-C, with words that say what is safe and how to go on."""


class Spent(DpstreamError):
    """A command failed after it had released something: the message says what, and how to read it again."""


class CommandGroup(TyperGroup):
    """Turns what the library refuses into one line on standard error."""

    def invoke(self, ctx: Any) -> Any:
        """Run the command; see the class."""
        try:
            return super().invoke(ctx)
        except Spent as error:
            refuse(_name(ctx), str(error))
            raise typer.Exit(NOT_WRITTEN) from None
        except DpstreamError as error:
            refuse(_name(ctx), in_options(error, self._options(ctx)))
            raise typer.Exit(BAD_INPUT) from None
        except KeyboardInterrupt as interrupt:
            refuse(_name(ctx), f"interrupted. {interrupt}".rstrip())
            raise typer.Exit(INTERRUPTED) from None

    def _options(self, ctx: Any) -> dict[str, str]:
        """The options of the command that was run, by the names of their arguments."""
        command = self.get_command(ctx, ctx.invoked_subcommand) if ctx.invoked_subcommand else None
        found = {}
        for parameter in command.params if command else ():
            longest = max(parameter.opts, key=len, default="")
            if parameter.name and longest.startswith("--"):
                found[parameter.name] = longest
        return found


def refuse(command: str, message: str) -> None:
    """Print on standard error, in one line however narrow the terminal is, why the command stops."""
    from rich.console import Console
    from rich.text import Text

    text = " ".join(message.split()).encode("utf-8", "backslashreplace").decode("utf-8")
    Console(stderr=True, soft_wrap=True).print(Text.assemble((f"{command}: ", "bold red"), text))


def _name(ctx: Any) -> str:
    return " ".join(filter(None, ("dpstream", ctx.invoked_subcommand)))
