"""Turns what the library says about its arguments into the words of the command line."""

from __future__ import annotations

import re
import shlex
from collections.abc import Mapping

from dpstream.errors import DpstreamError, InvalidArgument

__all__ = ["in_options", "words_in_options"]

_BUDGET = re.compile(r"budget=(?:ZCDP|ApproxDP|PureDP)\(([^)]*)\)")
_MECHANISM = re.compile(r"mechanism=\{[^}]*'mechanism': '(\w+)'[^}]*\}")
_SETTING = re.compile(r"\b([a-z_]+)=(\[[^\]]*\]|'[^']*'|[A-Za-z0-9_.+-]+(?:\([^)]*\))?)")
_NAMED = re.compile(r"`([a-z_]+)`")


def in_options(error: DpstreamError, options: Mapping[str, str]) -> str:
    """Return an error's message with options in place of arguments.

    Parameters
    ----------
    options
        From the names of arguments to the options of the command that failed.

    Examples
    --------
    >>> error = DpstreamError("created with every='1d', but every='1h' was given; see `start`")
    >>> in_options(error, {"every": "--every", "start": "--from"})
    'created with --every 1d, but --every 1h was given; see --from'
    """
    text = str(error)
    if isinstance(error, InvalidArgument) and error.argument in options:
        text = text.replace(error.argument, options[error.argument], 1)
    if isinstance(error, InvalidArgument) and error.given is None:
        text = text.removesuffix(", got None")

    return words_in_options(text, options)


def words_in_options(text: str, options: Mapping[str, str]) -> str:
    """Return a sentence with options in place of arguments; see `in_options`."""

    def budget(found: re.Match[str]) -> str:
        return " ".join(f"--{part.replace('=', ' ')}" for part in found[1].split(", "))

    def setting(found: re.Match[str]) -> str:
        name, value = found[1], found[2]
        if name not in options:
            return found[0]
        option = options[name]
        if value == "None":
            return "--unbounded" if name == "horizon" else f"no {option}"
        if value in ("True", "False"):
            return option if value == "True" else f"no {option}"
        if value.startswith("["):
            return f"{option} {','.join(part.strip(chr(39)) for part in value[1:-1].split(', '))}"
        return f"{option} {shlex.quote(value.strip(chr(39)))}"

    if "mechanism" in options:
        text = _MECHANISM.sub(lambda found: f"{options['mechanism']} {found[1]}", text)
    text = _BUDGET.sub(budget, text) if "rho" in options else text
    text = _SETTING.sub(setting, text)
    text = _NAMED.sub(lambda found: options.get(found[1], found[0]), text)
    return text.replace("Pass no --", "Leave out --").replace("Pass --", "Give --")
