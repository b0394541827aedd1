"""A stream's counter or sum, built again from the settings that its row keeps: to look at, never to write.

Mechanisms are kept by their `repr`, which is a constructor call. It is read here, not run: names of
`dpstream.mechanisms` and plain values are all that it may hold.
"""

from __future__ import annotations

import ast
from typing import Any

from dpstream import mechanisms
from dpstream.errors import InvalidArgument
from dpstream.mechanisms.base import Mechanism
from dpstream.participation import Participation
from dpstream.release.counter import Counter
from dpstream.release.running_sum import RunningSum
from dpstream.store.composition import budget_from_json
from dpstream.store.settings import check_settings, settings_of
from dpstream.store.stream_row import StreamRow

__all__ = ["mechanism_from_repr", "rebuilt"]


def rebuilt(row: StreamRow, path: str) -> Counter | RunningSum:
    """A counter or a sum with the settings of this stream, before its first step, under a key of its own.

    Raises
    ------
    InvalidArgument
        If the stream's mechanism is not one of `dpstream.mechanisms`.
    StoreMismatch
        If these settings mean another noise to this dpstream than to the one that wrote them.
    """
    kept = row.settings
    budget = budget_from_json(kept["budget"], path)
    settings: dict[str, Any] = {
        "shape": tuple(kept["shape"]),
        "per_person": kept["per_person"],
        "mechanism": mechanism_from_repr(kept["mechanism"]),
        "participation": Participation(**kept["participation"]),
        "clip": kept["clip"],
    }
    made: Counter | RunningSum
    if kept["lane"] == "exact":
        made = Counter(kept["horizon"], budget, per_step=kept["per_step"], neighbours=kept["neighbours"], **settings)
        found = settings_of(made) | {"per_step": made._per_step}
    else:
        made = RunningSum(kept["horizon"], budget, dtype=kept["dtype"], **settings)
        found = settings_of(made)
    own = {"source": kept.get("source"), "rows_per_person": kept.get("rows_per_person")}
    check_settings(row.name, kept, found | own, path)
    return made


def mechanism_from_repr(text: str) -> Mechanism:
    """The mechanism that this is the `repr` of.

    Examples
    --------
    >>> mechanism_from_repr("Binary(horizon=10, noise='gaussian')")
    Binary(horizon=10, noise='gaussian')
    """
    refused = InvalidArgument("mechanism", text, "the repr of a mechanism from dpstream.mechanisms")
    try:
        call = ast.parse(text, mode="eval").body
    except (SyntaxError, ValueError):
        raise refused from None
    kind = _class_named(call.func) if isinstance(call, ast.Call) and not call.args else None
    if not isinstance(call, ast.Call) or kind is None:
        raise refused
    values: dict[str, Any] = {}
    for argument in call.keywords:
        try:
            values[str(argument.arg)] = _class_named(argument.value) or ast.literal_eval(argument.value)
        except ValueError:
            raise refused from None
    try:
        made = kind(**values)
    except TypeError:
        raise refused from None
    if repr(made) != text:
        raise refused
    return made


def _class_named(node: ast.expr) -> type[Mechanism] | None:
    """The class of mechanisms that a bare name means, if it means one."""
    found = getattr(mechanisms, node.id, None) if isinstance(node, ast.Name) else None
    return found if isinstance(found, type) and issubclass(found, Mechanism) else None
