"""Makes data/known_answers.json: draws and streams that every later version must reproduce, bit for bit.

usage: python -m tests.noise.make_known_answers      (from the project's root; compare with git diff before committing)

A change of these numbers makes every stored stream unreadable: it needs a new FORMAT_VERSION, and the old one kept
(docs/stability.md, "Formats").
"""

import hashlib
import json
from pathlib import Path

import numpy as np

from dpstream import NoiseStream, mechanisms
from dpstream.mechanisms import Banded, BandedInverse, FittedToeplitz
from dpstream.noise.draws import Draws
from dpstream.noise.keystream import FORMAT_VERSION, Keystream
from dpstream.noise.named import NamedNoise
from dpstream.testing import fixed_key
from tests.mechanism_subjects import BOUNDED, ENDLESS, FROM_NUMBERS

TARGET = Path(__file__).parent / "data" / "known_answers.json"

DRAWS = [
    # law, dtype, coordinates, first step, slot, what it shows
    ("gaussian", "float32", 100, 1, 0, "wide float32, first step"),
    ("gaussian", "float32", 100, 10**9, 1, "wide float32, a padding draw far along"),
    ("gaussian", "float64", 100, 7, 0, "wide float64"),
    ("gaussian", "float64", 3, 12345, 0, "narrow: steps share tiles, and start inside one"),
    ("laplace", "float64", 3, 5, 2, "narrow Laplace, third slot"),
    ("laplace", "float64", 64, 2**40, 0, "wide Laplace, a trillion steps along"),
]
STREAMS = [
    # constructor, scale, shape, dtype, where the last two values are taken
    ("SmoothBinary(1000)", 3.0, [], "int64", 998),
    ("SmoothBinary(1000, noise='laplace')", 3.0, [], "int64", 998),
    ("SmoothBinary(10**9)", 1e6, [2], "int64", 123456789),
    ("Binary(1000)", 1.0, [], "float64", 998),
    ("Honaker(1000)", 1.0, [], "float64", 998),
    ("SignedDigits(1000)", 3.0, [], "int64", 998),
    ("GrowingSmooth()", 3.0, [], "int64", 123456789),
    ("BufferedToeplitz(1000, normalized=False)", 3.0, [], "int64", 998),
    ("BalancedToeplitz(1000)", 3.0, [], "int64", 998),
    ("AnytimeToeplitz()", 3.0, [], "int64", 998),
    ("SquareRoot(1000)", 3.0, [], "int64", 998),
    ("SquareRoot(1000)", 1.0, [], "float64", 998),
    ("LogMatrix()", 1.0, [], "float64", 998),
    ("Unbounded()", 3.0, [], "int64", 4097),
    ("FittedToeplitz(1000, (0.95, 0.6), (0.8, 0.25))", 3.0, [], "int64", 998),
    ("FittedToeplitz(1000, (0.95, 0.6), (0.8, 0.25), normalized=False)", 3.0, [], "int64", 998),
    ("FittedToeplitz(1000, (0.95, 0.6), (0.8, 0.25), scales=(1.0, 0.5, 0.75))", 3.0, [], "int64", 998),
    ("FittedToeplitz(1000, (0.9 + 0.2j, 0.9 - 0.2j, 0.6), (0.95 + 0.1j, 0.95 - 0.1j, 0.3))", 1.0, [], "float64", 998),
    ("Banded(1000, (1.0, 0.5, 0.375))", 3.0, [], "int64", 998),
    ("BandedInverse(1000, (1.0, -0.5, -0.125))", 3.0, [], "int64", 998),
    ("Independent(1000, noise='laplace')", 3.0, [], "int64", 998),
]
NAMED = [
    # constructor, scale, steps that are looked at
    ("BalancedToeplitz(1000)", 3.0, [1, 2, 999, 1000]),
    ("SmoothBinary(1000)", 3.0, [1, 2, 999, 1000]),
    ("FittedToeplitz(1000, (0.95, 0.6), (0.8, 0.25), normalized=False)", 1e6, [1, 2, 999, 1000]),
]
#: Every mechanism of the catalogue and the variants of the tests, in every lane that it has.
#: A fit is an optimisation, which may end in another digit on another machine: here are its results.
FITTED = {
    "FittedToeplitz": lambda T: FittedToeplitz(
        T,
        (0.994649251335, 0.942967275125, 0.772227318182, 0.351693472517),
        (0.977264122188, 0.880899875136, 0.595608249775, 0.107845849157),
        normalized=False,
    ),
    "Banded": lambda T: Banded(T, (1.0, 0.512636712948, 0.391561756003, 0.331188151001, 0.293470187794)),
    "BandedInverse": lambda T: BandedInverse(
        T,
        (
            *(1.0, -0.487196937913, -0.124732464944, -0.083935578413),
            *(-0.074634256981, -0.05996424061, -0.042098600665, -0.031919588238),
        ),
    ),
}
MECHANISMS = BOUNDED | FROM_NUMBERS | ENDLESS | FITTED
#: Its matrix comes from LAPACK, which another machine has otherwise; what streams it is pinned by FromMatrix.
del MECHANISMS["Optimal"]
LANES = [
    # dtype, shape, which noise laws it serves
    ("int64", [], ("gaussian", "laplace")),
    ("int64", [3], ("gaussian", "laplace")),
    ("float32", [70], ("gaussian",)),
    ("float64", [40], ("gaussian",)),
]
NAMES = ["rose", "tulip", "Grüße", "a name of forty characters, and then some", " "]


def draw_entry(law: str, dtype: str, coordinates: int, first: int, slot: int, desc: str) -> dict[str, object]:
    """Two steps of draws, as hexadecimal floats."""
    draws = Draws(Keystream(fixed_key("known answers")), law, coordinates, np.dtype(dtype), exact=dtype == "float64")
    rows = draws.rows(first, 2, slot)[:, :8]
    return {
        "desc": desc,
        "law": law,
        "dtype": dtype,
        "coordinates": coordinates,
        "first": first,
        "slot": slot,
        "draws": [[float(value).hex() for value in row] for row in rows],
    }


def stream_entry(call: str, scale: float, shape: list[int], dtype: str, late: int) -> dict[str, object]:
    """The first eight values of a stream, and two after `late`."""
    mechanism = eval(call, vars(mechanisms))  # noqa: S307
    stream = NoiseStream(mechanism, scale, tuple(shape), dtype=dtype, key=fixed_key("known answers"))
    values = stream.block(8)
    stream.seek(late)
    values = np.concatenate([values, stream.block(2)])
    return {
        "desc": f"{call}, {dtype}",
        "mechanism": call,
        "scale": scale,
        "shape": shape,
        "dtype": dtype,
        "late": late,
        "values": values.tolist() if dtype == "int64" else [float(v).hex() for v in values],
    }


def named_entry(call: str, scale: float, steps: list[int]) -> dict[str, object]:
    """The noise of some names at some steps, and the tags of the names."""
    noise = NamedNoise(eval(call, vars(mechanisms)), scale, key=fixed_key("known answers"))  # noqa: S307
    tags = noise.tags(NAMES)
    return {
        "desc": f"{call}, names",
        "mechanism": call,
        "scale": scale,
        "steps": steps,
        "names": NAMES,
        "tags": [tag.astype("<u4").tobytes().hex() for tag in tags],
        "values": [noise.values(tags, t).tolist() for t in steps],
    }


def lanes_entry(name: str) -> dict[str, object]:
    """The first 37 values of a mechanism in each of its lanes, as SHA-256 of their little-endian bytes.

    Of the widest lane also five values after step 90, which are made by other parts of some engines.
    """
    mechanism = MECHANISMS[name](100)
    digests = {}
    for dtype, shape, laws in LANES:
        if mechanism.noise in laws:
            stream = NoiseStream(mechanism, 3.0, tuple(shape), dtype=dtype, key=fixed_key("known answers"))
            digests[f"{dtype} {shape}"] = _digest(stream.block(37))
            if dtype == "float32":
                stream.seek(90)
                digests[f"{dtype} {shape}, from step 91 on"] = _digest(stream.block(5))
    return {"mechanism": name, "digests": digests}


def _digest(values: np.ndarray) -> str:
    return hashlib.sha256(values.astype(values.dtype.newbyteorder("<")).tobytes()).hexdigest()


def known_answers() -> dict[str, object]:
    """Everything that is pinned."""
    return {
        "format": FORMAT_VERSION,
        "key": "dpstream.testing.fixed_key('known answers')",
        "draws": [draw_entry(*entry) for entry in DRAWS],
        "streams": [stream_entry(*entry) for entry in STREAMS],
        "named": [named_entry(*entry) for entry in NAMED],
        "lanes": [lanes_entry(name) for name in MECHANISMS],
    }


if __name__ == "__main__":
    TARGET.write_text(json.dumps(known_answers(), indent=1) + "\n")
