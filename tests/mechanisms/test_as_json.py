"""The JSON spelling of mechanisms: there and back, and nothing else is made from it."""

import json
from dataclasses import dataclass

import numpy as np
import pytest

from dpstream.errors import InvalidArgument
from dpstream.mechanisms import (
    BalancedToeplitz,
    Binary,
    FromCoefficients,
    FromMatrix,
    SmoothBinary,
    SquareRoot,
    Unbounded,
    mechanism_from_json,
    mechanism_to_json,
)
from dpstream.mechanisms.catalogue import ENTRIES

MECHANISMS = {f"{entry.name}-{noise}": entry.make(20, noise) for entry in ENTRIES for noise in entry.laws} | {
    "FromMatrix": FromMatrix(np.tril(np.arange(1.0, 401.0).reshape(20, 20) ** -0.5)),
    "FromCoefficients": FromCoefficients([1.0, 1 / 3, -0.1]),
    "Unbounded-SquareRoot": Unbounded(SquareRoot),
    "SmoothBinary-unpadded": SmoothBinary(20, padded=False, zeros=4),
    "BalancedToeplitz-3": BalancedToeplitz(20, buffers=3),
}


@pytest.mark.parametrize("name", MECHANISMS)
def test_there_and_back(name):
    mechanism = MECHANISMS[name]
    spelling = mechanism_to_json(mechanism)
    again = mechanism_from_json(json.loads(json.dumps(spelling)))
    assert again == mechanism
    assert type(again) is type(mechanism)
    assert again.identity == mechanism.identity
    assert mechanism_to_json(again) == spelling


@dataclass(frozen=True)
class Own(Binary):
    """A mechanism that dpstream does not know."""

    pairs: tuple[complex, ...] = (0.5 + 0.25j, 1 - 1j)


def test_classes_of_ones_own_are_named_by_the_caller():
    spelling = json.loads(json.dumps(mechanism_to_json(Own(9))))
    assert spelling["pairs"] == [{"complex": [0.5, 0.25]}, {"complex": [1.0, -1.0]}]
    with pytest.raises(InvalidArgument, match=r"mechanism must be the JSON of one of AnytimeToeplitz, .*, got 'Own'"):
        mechanism_from_json(spelling)
    assert mechanism_from_json(spelling, classes=[Own]) == Own(9)


@pytest.mark.parametrize(
    "spelling",
    [
        None,
        [],
        {},
        {"mechanism": "os.system"},
        {"mechanism": "Mechanism", "horizon": 10},
        {"mechanism": "Binary"},
        {"mechanism": "Binary", "horizon": 10},  # not as it is written: the noise law is missing
        {"mechanism": "Binary", "horizon": 10, "noise": "gaussian", "more": 1},
        {"mechanism": "Binary", "horizon": "10", "noise": "gaussian"},
        {"mechanism": "Unbounded", "inner": {"class": "int"}, "noise": "gaussian"},
        {"mechanism": "Unbounded", "inner": {"complex": ["a", 1]}, "noise": "gaussian"},
        {"mechanism": "FromCoefficients", "numbers": {"float64": "////", "shape": [1]}, "noise": "gaussian"},
        {"mechanism": "FromCoefficients", "numbers": {"float64": "no base64", "shape": [1]}, "noise": "gaussian"},
    ],
)
def test_what_is_no_spelling_is_refused(spelling):
    with pytest.raises(InvalidArgument):
        mechanism_from_json(spelling)


def test_what_has_no_spelling_is_refused():
    with pytest.raises(InvalidArgument, match="mechanism must be a mechanism"):
        mechanism_to_json("Binary")
    with pytest.raises(InvalidArgument, match="made of numbers, text, arrays and mechanisms"):
        mechanism_to_json(Own(9, pairs=(object(),)))
