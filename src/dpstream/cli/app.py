"""The `dpstream` command: loads a sub-command when it is used, and ends every one in one line and an exit status."""

from __future__ import annotations

import importlib
import inspect
import os
import re
import sys
import textwrap
import warnings
from contextlib import redirect_stdout
from typing import Annotated, Any, TextIO

import typer
import typer.main
from typer.core import TyperCommand, TyperGroup

import dpstream
from dpstream.cli.option_words import in_options
from dpstream.cli.printable import printable
from dpstream.errors import DpstreamError

__all__ = [
    "BAD_INPUT",
    "COMMANDS",
    "FEW_STEPS_LEFT",
    "FOUND_WRONG",
    "INTERRUPTED",
    "NOT_WRITTEN",
    "CommandGroup",
    "FailedAfterRelease",
    "Interrupted",
]

#: The commands and what each does, in the order of `--help`. Each is the function of its name in the module of its name
#: (or the Typer application NAME_app), which is imported when the command is used: together they take a second to load.
COMMANDS = {
    "count": "Publish private running totals of the events in a log.",
    "windows": "Tell what a stream counted in each day, week or month, with error bars.",
    "init": "Look at a file of events, ask what is to be published, and write the settings for dpstream count.",
    "demo": "Make up a year of visits to a clinic and publish their running total.",
    "plan": "Say what accuracy a budget buys, with which mechanism; or what budget an accuracy costs.",
    "compare": "Compare all mechanisms at one horizon: error, sensitivity, draws, memory and speed.",
    "store": "Look into a store of counters and sums, and check what it says.",
    "serve": "Show the releases of a store as a page, live, with downloads and an API.",
    "export": "Write the pages of a store as files, with CSV, JSON and Parquet, to put on any web server.",
    "audit": "Run real releases on neighbouring streams and certify how much of the promised budget they give away.",
    "paper": "Measure again what the paper on the smooth binary mechanism states and shows, and write a report.",
    "bench": "Measure dpstream against its peers on one core of this machine: minutes, and a table.",
}
#: Exit statuses, besides 0: something that was checked is wrong; the input was refused, nothing was written or spent;
#: done, but few steps are left; steps were released, but the result could not be written; Ctrl-C.
FOUND_WRONG = 1
BAD_INPUT = 2
FEW_STEPS_LEFT = 3
NOT_WRITTEN = 4
INTERRUPTED = 130
#: Spaces at the end of a line, with the colours that end among them.
_PADDING = re.compile(r" +((?:\x1b\[[0-9;]*m)*) *(?=\n)")
#: Examples in help texts are broken so that they fit into 80 columns.
EXAMPLE_WIDTH = 65

#: Which of the standard streams (0, 1, 2) were closed when the program was started.
closed_streams: set[int] = set()


class Interrupted(KeyboardInterrupt):
    """Ctrl-C, with words that say what is safe and how to go on."""


class FailedAfterRelease(DpstreamError):
    """A command failed after it had released something: the message says what, and how to read it again."""


class CommandGroup(TyperGroup):
    """Turns what the library refuses into one line on standard error."""

    def invoke(self, ctx: Any) -> Any:
        """Run the command; see the class."""
        try:
            return super().invoke(ctx)
        except FailedAfterRelease as error:
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


class LazyGroup(CommandGroup):
    """A group whose commands are imported when they are used, and not to list them."""

    def __init__(self, **settings: Any) -> None:
        super().__init__(**settings)
        self.commands = {name: TyperCommand(name, help=does) for name, does in COMMANDS.items()}
        self._loaded: dict[str, Any] = {}
        self._listing = False

    def get_command(self, ctx: Any, cmd_name: str) -> Any:
        """Return a command, or what is listed of it."""
        if self._listing or cmd_name not in COMMANDS:
            return self.commands.get(cmd_name)
        if cmd_name not in self._loaded:
            self._loaded[cmd_name] = load(cmd_name)
        return self._loaded[cmd_name]

    def format_help(self, ctx: Any, formatter: Any) -> None:
        """Print the help without loading any command."""
        self._listing = True
        try:
            with redirect_stdout(_WithoutPadding(sys.stdout)):
                super().format_help(ctx, formatter)
        finally:
            self._listing = False

    def invoke(self, ctx: Any) -> Any:
        """Run the command; see the class."""
        command = ctx._protected_args[0] if ctx._protected_args else ""
        if 1 in closed_streams and command != "count":  # which may have an --output
            refuse("dpstream", "standard output is closed")
            raise typer.Exit(BAD_INPUT)
        return super().invoke(ctx)


def load(name: str) -> Any:
    """Import a command and build it."""
    module = importlib.import_module(f"dpstream.cli.{name}")
    several = getattr(module, f"{name}_app", None)
    if several is not None:
        group = typer.main.get_group(several)
        group.name = name
        for command in group.commands.values():
            command.help = flowing(command.help or "")
            print_help_without_padding(command)
        return print_help_without_padding(group)
    single = typer.Typer(add_completion=False)
    function = getattr(module, name)
    single.command(name, help=flowing(function.__doc__))(function)
    return print_help_without_padding(typer.main.get_command(single))


def print_help_without_padding(command: Any) -> Any:
    """Let a command print its help without spaces at the ends of lines; return the command.

    Rich fills lines up to the width of the terminal, and a shell joins lines only where nothing follows the backslash.
    """
    format_help = command.format_help

    def without_padding(ctx: Any, formatter: Any) -> None:
        with redirect_stdout(_WithoutPadding(sys.stdout)):
            format_help(ctx, formatter)

    command.format_help = without_padding
    return command


class _WithoutPadding:
    """A stream that takes spaces away from the ends of lines, and is the stream below in everything else."""

    def __init__(self, below: TextIO) -> None:
        self._below = below

    def __getattr__(self, name: str) -> Any:
        return getattr(self._below, name)

    def write(self, text: str) -> int:
        """Write lines, which come whole."""
        return self._below.write(_PADDING.sub(r"\1", text))


def flowing(text: str) -> str:
    """Return a help text whose paragraphs have no line ends of their own, and whose examples can be pasted."""
    paragraphs = []
    for paragraph in inspect.cleandoc(text).split("\n\n"):
        words = " ".join(paragraph.split())
        if words.startswith("Example: "):
            command = words.removeprefix("Example: ")
            lines = textwrap.wrap(command, EXAMPLE_WIDTH, break_long_words=False, break_on_hyphens=False)
            words = "Example: " + " \\\n    ".join(lines)
        paragraphs.append(words)
    return "\n\n".join(paragraphs)


app = typer.Typer(
    name="dpstream",
    help="Private running totals: publish a number again and again while nobody in the data is exposed.",
    cls=LazyGroup,
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["--help", "-h"]},
)


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


def refuse(command: str, message: str) -> None:
    """Print on standard error, in one line however narrow the terminal is, why the command stops."""
    from rich.console import Console
    from rich.text import Text

    text = " ".join(message.split()).encode("utf-8", "backslashreplace").decode("utf-8")
    Console(stderr=True, soft_wrap=True).print(Text.assemble((f"{command}: ", "bold red"), printable(text)))


def _name(ctx: Any) -> str:
    return " ".join(filter(None, ("dpstream", ctx.invoked_subcommand)))


def main() -> None:
    """Entry point of the `dpstream` script."""
    warnings.showwarning = _show_warning
    try:
        _occupy_standard_streams()
        app()
    except KeyboardInterrupt:  # while a command is loaded
        refuse("dpstream", "interrupted. Nothing was released and no budget is spent.")
        sys.exit(INTERRUPTED)


def _show_warning(message: Warning | str, *_: object, **__: object) -> None:
    """Print a warning as the commands print theirs, without the place in the program that gave it."""
    print(f"warning: {message}", file=sys.stderr)


def _occupy_standard_streams() -> None:
    """Open /dev/null in place of standard streams that are closed, so that no file of ours takes their numbers."""
    for number, name in enumerate(("stdin", "stdout", "stderr")):
        try:
            os.fstat(number)
        except OSError:
            os.open(os.devnull, os.O_RDWR)
            closed_streams.add(number)
        if getattr(sys, name) is None:
            setattr(sys, name, os.fdopen(number, "r" if number == 0 else "w", closefd=False))
    # Names of files need not be UTF-8; they are shown with their odd bytes spelled out.
    if hasattr(sys.stdout, "reconfigure"):
        sys.stdout.reconfigure(errors="backslashreplace")
