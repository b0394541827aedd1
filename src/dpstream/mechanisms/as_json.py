"""The one JSON spelling of a mechanism: its class and its fields.

Whatever keeps a mechanism in a file writes and reads it here. Fields are numbers, text, True, False, None, tuples of
them, complex numbers, arrays of doubles (base64 of their little-endian bytes), classes of mechanisms and mechanisms.
Reading makes nothing but mechanisms of `dpstream.mechanisms.catalogue.CLASSES` and of classes that the caller names.
"""

from __future__ import annotations

import base64
from collections.abc import Iterable
from dataclasses import fields, is_dataclass
from typing import Any, cast

import numpy as np

from dpstream.errors import InvalidArgument
from dpstream.mechanisms.base import Mechanism
from dpstream.mechanisms.catalogue import CLASSES

__all__ = ["mechanism_from_json", "mechanism_to_json"]


def mechanism_to_json(mechanism: Mechanism) -> dict[str, Any]:
    """Return what `json.dumps` can write and `mechanism_from_json` turns back into an equal mechanism.

    Raises
    ------
    InvalidArgument
        If it is no mechanism, no dataclass, or has a field that has no spelling.

    Examples
    --------
    >>> from dpstream.mechanisms import Binary
    >>> mechanism_to_json(Binary(10))
    {'mechanism': 'Binary', 'horizon': 10, 'noise': 'gaussian'}
    """
    if not isinstance(mechanism, Mechanism):
        raise InvalidArgument("mechanism", mechanism, "a mechanism from dpstream.mechanisms")
    if not is_dataclass(mechanism):
        raise InvalidArgument("mechanism", mechanism, "a dataclass, so that its fields are known")
    spelled = {field.name: _spelled(getattr(mechanism, field.name)) for field in fields(mechanism) if field.init}
    return {"mechanism": type(mechanism).__name__, **spelled}


def mechanism_from_json(spelling: dict[str, Any], classes: Iterable[type[Mechanism]] = ()) -> Mechanism:
    """Return the mechanism of this spelling.

    Parameters
    ----------
    spelling
        What `mechanism_to_json` returned, also after a trip through `json.dumps` and `json.loads`.
    classes
        Classes of your own that may occur, besides those of dpstream.

    Raises
    ------
    InvalidArgument
        If this is no spelling of a mechanism whose class is known.

    Examples
    --------
    >>> mechanism_from_json({"mechanism": "Binary", "horizon": 10, "noise": "gaussian"})
    Binary(horizon=10, noise='gaussian')
    """
    known = CLASSES | {kind.__name__: kind for kind in classes}
    if not isinstance(spelling, dict) or spelling.get("mechanism") not in known:
        given = spelling.get("mechanism") if isinstance(spelling, dict) else spelling
        raise InvalidArgument("mechanism", given, f"the JSON of one of {', '.join(sorted(known))}")
    kind = known[spelling["mechanism"]]
    values = {name: _read(value, known) for name, value in spelling.items() if name != "mechanism"}
    try:
        # Fields are the constructor's arguments; the caller's numbers come first and by position.
        numbers = [values.pop("numbers")] if "numbers" in values else []
        made = cast("Any", kind)(*numbers, **values)
    except TypeError as error:
        raise InvalidArgument(
            "mechanism", spelling["mechanism"], f"spelled by the fields of its class: {error}"
        ) from None
    if mechanism_to_json(made) != spelling:
        raise InvalidArgument("mechanism", spelling["mechanism"], "spelled as `mechanism_to_json` does")
    return cast("Mechanism", made)


def _spelled(value: Any) -> Any:
    if value is None or isinstance(value, (bool, int, float, str)):
        return value
    if isinstance(value, complex):
        return {"complex": [value.real, value.imag]}
    if isinstance(value, (tuple, list)):
        return [_spelled(part) for part in value]
    if isinstance(value, np.ndarray) and value.dtype == np.float64:
        encoded = base64.b64encode(np.ascontiguousarray(value, dtype="<f8").tobytes()).decode()
        return {"float64": encoded, "shape": list(value.shape)}
    if isinstance(value, type) and issubclass(value, Mechanism):
        return {"class": value.__name__}
    if isinstance(value, Mechanism):
        return mechanism_to_json(value)
    raise InvalidArgument("mechanism", value, "made of numbers, text, arrays and mechanisms, to be written as JSON")


def _read(value: Any, known: dict[str, type[Mechanism]]) -> Any:
    if isinstance(value, list):
        return tuple(_read(part, known) for part in value)
    if not isinstance(value, dict):
        return value
    if "mechanism" in value:
        return mechanism_from_json(value, known.values())
    try:
        if "complex" in value:
            return complex(*value["complex"])
        if "float64" in value:
            content = base64.b64decode(value["float64"], validate=True)
            return np.frombuffer(content, dtype="<f8").reshape(value["shape"])
        if value.get("class") in known:
            return known[value["class"]]
    except (TypeError, ValueError):
        pass
    raise InvalidArgument("mechanism", value, "the JSON of a mechanism")
