"""A stream made by an earlier version is reproduced for ever."""

import json

import pytest

from .make_known_answers import (
    DRAWS,
    MECHANISMS,
    NAMED,
    STREAMS,
    TARGET,
    draw_entry,
    lanes_entry,
    named_entry,
    stream_entry,
)

KNOWN = json.loads(TARGET.read_text())
CHANGED = (
    "noise of given keys changed, so stored streams cannot go on: see docs/stability.md, 'Formats', for what to do"
)


@pytest.mark.parametrize("known", KNOWN["draws"], ids=lambda entry: entry["desc"])
def test_draws(known):
    names = ("law", "dtype", "coordinates", "first", "slot", "desc")
    assert draw_entry(*(known[name] for name in names)) == known, CHANGED


@pytest.mark.parametrize("known", KNOWN["streams"], ids=lambda entry: entry["desc"])
def test_streams(known):
    names = ("mechanism", "scale", "shape", "dtype", "late")
    assert stream_entry(*(known[name] for name in names)) == known, CHANGED


@pytest.mark.parametrize("known", KNOWN["named"], ids=lambda entry: entry["desc"])
def test_named_noise(known):
    assert named_entry(*(known[name] for name in ("mechanism", "scale", "steps"))) == known, CHANGED


@pytest.mark.parametrize("known", KNOWN["lanes"], ids=lambda entry: entry["mechanism"])
def test_every_mechanism_in_every_lane(known):
    assert lanes_entry(known["mechanism"]) == known, CHANGED


def test_the_file_holds_every_case_of_the_script():
    assert len(KNOWN["draws"]) == len(DRAWS)
    assert len(KNOWN["streams"]) == len(STREAMS)
    assert len(KNOWN["named"]) == len(NAMED)
    assert [entry["mechanism"] for entry in KNOWN["lanes"]] == list(MECHANISMS)
