"""A stream's settings: what must be the same when it is opened again, and what it may be called."""

from __future__ import annotations

import unicodedata
from typing import Any, TypeVar

from dpstream.arguments import check_whole
from dpstream.errors import BudgetError, InvalidArgument, ParticipationError, StoreDamaged, StoreMismatch
from dpstream.participation import Participation
from dpstream.release.contribution_limit import MOST_TIMES
from dpstream.release.open_settings import OpenSettings
from dpstream.release.settings import StreamSettings
from dpstream.store.composition import budget_from_json
from dpstream.store.tables import StreamRow

__all__ = [
    "NAME_LIMIT",
    "check_name",
    "check_rows_per_person",
    "check_settings",
    "check_source",
    "open_settings_from_row",
    "settings_from_row",
]

S = TypeVar("S", StreamSettings, OpenSettings)

NAME_LIMIT = 200
#: Settings that are the store's own.
#: What streams are called, by the lane that their settings name.
KINDS = {"exact": "counter", "float": "running sum", "names": "names"}
OWN_SETTINGS = ("source", "rows_per_person", "open_steps", "continues")


def check_settings(name: str, stored: dict[str, Any], given: dict[str, Any], path: str) -> None:
    """Refuse the first setting that differs, by name."""
    if set(stored) - set(given) and stored["lane"] == given["lane"]:
        raise StoreDamaged(path=path, what=f"stream {name!r} has settings that this dpstream does not know")
    for setting, value in given.items():
        kept = stored.get(setting)
        if kept != value:
            if setting == "budget":
                kept, value = (budget_from_json(v, path) for v in (kept, value))  # type: ignore[arg-type]
            elif setting == "participation":
                kept, value = Participation(**kept), Participation(**value)  # type: ignore[arg-type]
            elif setting == "lane":
                setting, (kept, value) = "kind", (KINDS.get(str(v), v) for v in (kept, value))
            raise StoreMismatch(name=name, setting=setting, stored=kept, given=value)


def settings_from_row(row: StreamRow, path: str) -> StreamSettings:
    """Return the settings of this stream.

    Raises
    ------
    InvalidArgument
        If the stream's mechanism is not one of `dpstream.mechanisms`.
    StoreMismatch
        If these settings mean another noise to this dpstream than to the one that wrote them.
    """
    if row.settings["lane"] == "names":
        raise InvalidArgument("name", row.name, "a counter or a running sum, not a stream of discovered names")
    return _settings_from_row(row, path, StreamSettings)


def open_settings_from_row(row: StreamRow, path: str) -> OpenSettings:
    """Return the settings of this stream of names; raises as `settings_from_row`."""
    if row.settings["lane"] != "names":
        raise InvalidArgument("name", row.name, "a stream of discovered names")
    return _settings_from_row(row, path, OpenSettings)


def _settings_from_row(row: StreamRow, path: str, kind: type[S]) -> S:
    kept = {name: value for name, value in row.settings.items() if name not in OWN_SETTINGS}
    try:
        return kind.from_json(kept)
    except BudgetError as error:
        raise StoreDamaged(path=path, what=f"the budget of stream {row.name!r} cannot be read: {error}") from None
    except InvalidArgument as error:
        if error.argument in ("scale", "people_scale", "threshold", "identity"):
            raise StoreMismatch(
                name=row.name, setting=error.argument, stored=error.given, given=error.allowed
            ) from None
        raise


def check_source(source: object) -> str:
    """Return `source`; refuse what is not text that a file can hold."""
    if not isinstance(source, str) or any(unicodedata.category(c) == "Cs" for c in source):
        raise InvalidArgument("source", source, "text")
    return source


def check_rows_per_person(rows: object, settings: StreamSettings) -> int | None:
    """Return how many rows of a person a stream counts; refuse more than its settings promise to protect.

    K rows of 1 in whatever steps move the releases no further than one row of K does, so per_person=K covers them
    (the norm of a sum of columns is at most the sum of their norms). Up to `participation.times` rows are covered as
    well if no step holds more than `per_person` of them, which is then the caller's to ensure.
    """
    if rows is None:
        return None
    checked = check_whole("rows_per_person", rows)
    if checked > MOST_TIMES:
        raise InvalidArgument("rows_per_person", checked, f"at most {MOST_TIMES:,}")
    times, separation = settings.participation.times, settings.participation.separation
    promised = max(int(settings.per_person), int(settings.per_person) * times if separation == 1 else 0)
    if checked > promised:
        raise ParticipationError(
            "rows_per_person",
            checked,
            f"at most {promised:,}: per_person={settings.per_person:g} and {settings.participation!r} promise no more;"
            f" create the stream with per_person={checked}",
        )
    return checked


def check_name(name: object) -> str:
    """A stream's name: text of 1 to 200 printable characters; slashes are as good as any."""
    if not isinstance(name, str) or not 1 <= len(name) <= NAME_LIMIT:
        shown = name if not isinstance(name, str) or len(name) <= NAME_LIMIT else f"{len(name)} characters"
        raise InvalidArgument("name", shown, f"text of 1 to {NAME_LIMIT} characters")
    if any(unicodedata.category(c) in ("Cc", "Cs") for c in name):
        raise InvalidArgument("name", name, "text without control characters (NUL, newline, ...)")
    return name
