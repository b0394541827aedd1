"""The settings of a count by name: what kind each is, what a stream keeps of them, and which are missing.

A setting has one name: the argument of `dpstream.count` and the field of `CountOptions`. On the command line and in a
settings file it is the option of that name. This module loads nothing, so that a usage error comes at once.
"""

from __future__ import annotations

import difflib
import tomllib
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

from dpstream.errors import InvalidArgument, SettingsUnreadable, SettingUnknown

__all__ = ["BUDGET", "ENDS", "SETTINGS", "Setting", "continued", "missing", "read_settings"]

Kind = Literal["text", "whole", "number", "flag", "texts"]


@dataclass(frozen=True)
class Setting:
    """What a setting may be, and what becomes of it when a stream is continued.

    Attributes
    ----------
    kind
        What a settings file may give: a text, a whole number, a number, true or false, or several texts.
    kept
        "same": it must be the same in every run of a stream. "default": a stream remembers it, and a run may give
        another for itself. "run": it is not remembered.
    option
        Its name on the command line and in settings files, where that is another.
    """

    kind: Kind = "text"
    kept: Literal["same", "default", "run"] = "same"
    option: str = ""


SETTINGS: dict[str, Setting] = {
    # What is counted.
    "value": Setting(),
    "per_person": Setting(),
    "unit": Setting(),
    "clip": Setting("flag"),
    "by": Setting(),
    "categories": Setting("texts", option="values"),
    "undeclared": Setting(),
    "where": Setting("texts"),
    "missing": Setting(),
    "user": Setting(),
    "max_contributions": Setting("whole"),
    "discover": Setting("flag"),
    "names_per_person": Setting("whole"),
    "per_name": Setting("whole"),
    "fold_case": Setting("flag", option="user_fold_case"),
    # In which steps.
    "time": Setting(),
    "every": Setting(),
    "time_zone": Setting(),
    "start": Setting(option="from"),
    "whole_log": Setting("flag"),
    # Held by the stream itself, which compares them.
    "horizon": Setting("whole", kept="run"),
    "until": Setting(kept="run"),
    "unbounded": Setting("flag", kept="run"),
    "rho": Setting("number", kept="run"),
    "epsilon": Setting("number", kept="run"),
    "delta": Setting("number", kept="run"),
    "mechanism": Setting(kept="run"),
    "max_users": Setting("whole", kept="run"),
    "max_pairs": Setting("whole", kept="run"),
    # How files are read, and what is made of the releases.
    "file_format": Setting(kept="default", option="format"),
    "delimiter": Setting(kept="default"),
    "encoding": Setting(kept="default"),
    "sheet": Setting(kept="default"),
    "decimal": Setting(kept="default"),
    "time_format": Setting(kept="default"),
    "any_order": Setting("flag", kept="run"),
    "late": Setting(kept="default"),
    "confidence": Setting("number", kept="default"),
    "windows": Setting("texts", kept="default"),
    "non_negative": Setting("flag", kept="default"),
    "monotone": Setting("flag", kept="default"),
    "total": Setting("flag", kept="default"),
    # Of one run.
    "through": Setting(kept="run"),
    "store": Setting(kept="run"),
    "name": Setting(kept="run"),
}
#: The settings that say how many steps there will ever be: one of them.
ENDS = ("horizon", "until", "unbounded")
BUDGET = ("rho", "epsilon", "delta")


def read_settings(path: Path) -> dict[str, Any]:
    """Read the settings in a TOML file, by their names.

    Raises
    ------
    SettingsUnreadable
        If it is not there, or is not TOML.
    SettingUnknown
        If it names a setting that there is not.
    InvalidArgument
        If a setting is not of its kind.
    """
    try:
        found = tomllib.loads(path.read_text(encoding="utf-8"))
    except OSError as error:
        raise SettingsUnreadable(path=str(path), reason=(error.strerror or str(error)).lower()) from None
    except ValueError as error:  # also what is not UTF-8
        raise SettingsUnreadable(path=str(path), reason=f"is not TOML ({error})") from None
    names = {setting.option or name: name for name, setting in SETTINGS.items()}
    settings = {}
    for key, value in found.items():
        plain = key.replace("-", "_")
        if plain not in names:
            near = difflib.get_close_matches(plain, names, n=1)
            raise SettingUnknown(path=str(path), key=key, near=near[0] if near else "", known=sorted(names))
        name = names[plain]
        settings[name] = _of_kind(f"{key} in {path}", value, SETTINGS[name].kind)
    return {name: value for name, value in settings.items() if value is not False}


def _of_kind(where: str, value: Any, kind: Kind) -> Any:
    words = {
        "text": "a text, in quotes",
        "whole": "a whole number",
        "number": "a number",
        "flag": "true or false",
        "texts": 'a list of texts, such as ["north", "south"]',
    }
    if kind == "texts" and isinstance(value, list) and all(isinstance(one, str) for one in value):
        return tuple(value)
    if kind == "texts" and isinstance(value, str):
        return tuple(part.strip() for part in value.split(",") if part.strip())
    if kind == "text" and not isinstance(value, (bool, list, dict)):
        return str(value)  # dates and numbers, too: from = 2026-01-01
    whole = isinstance(value, int) and not isinstance(value, bool)
    fits = {"whole": whole, "number": whole or isinstance(value, float), "flag": isinstance(value, bool)}
    if not fits.get(kind, False):
        raise InvalidArgument(where, value, words[kind])
    return value


def continued(given: Mapping[str, Any], stored: Mapping[str, Any]) -> dict[str, Any]:
    """Return the settings of a run that goes on with a stream: what it gives, and of the rest the stream's.

    Examples
    --------
    >>> continued({"until": "2026-12-31"}, {"time": "when", "horizon": 365, "rho": 0.5})
    {'time': 'when', 'rho': 0.5, 'until': '2026-12-31'}
    """
    replaced = {name for group in (ENDS, BUDGET) if any(name in given for name in group) for name in group}
    return {name: value for name, value in stored.items() if name not in replaced} | dict(given)


def missing(settings: Mapping[str, Any]) -> list[str]:
    """Return which of the settings that nobody can guess are missing: "time", "end" and "budget".

    Raises
    ------
    InvalidArgument
        If more than one end is given.
    """
    given = [end for end in ENDS if settings.get(end) is not None and settings[end] is not False]
    if len(given) > 1:
        raise InvalidArgument("the end", " and ".join(f"`{end}`" for end in given), "given by one setting, not by two")
    found = []
    if settings.get("time") is None:
        found.append("time")
    if not given and not _ends_with_this_run(settings):
        found.append("end")
    if all(settings.get(part) is None for part in BUDGET):
        found.append("budget")
    return found


def _ends_with_this_run(settings: Mapping[str, Any]) -> bool:
    """Whether there will be no other run, and this one releases up to a date."""
    return settings.get("store") is None and settings.get("through") not in (None, "now", "yesterday")
