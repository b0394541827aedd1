"""Format 1 of keys, states, settings and stores is frozen: what was written once is read for ever."""

import json

import pytest

import dpstream as dp
from dpstream.release import OpenSettings, StreamSettings
from dpstream.testing import fixed_key

from .make_formats import TARGET, M, formats

KEY = fixed_key("formats")
PINNED = json.loads(TARGET.read_text())
FOUND = json.loads(json.dumps(formats()))
WHAT_TO_DO = (
    "{part}: what this version writes differs from format 1. If a version with format 1 was published, keep the old way"
    " readable and give the new one its own number (docs/stability.md, 'Formats'). If none was published yet: python -m"
    " tests.package.make_formats --again, python -m tests.store.make_format_1 --again, and a line in CHANGELOG.md"
)


@pytest.mark.parametrize("part", PINNED)
def test_format_1_is_written_as_ever(part):
    assert FOUND[part] == PINNED[part], WHAT_TO_DO.format(part=part)


def test_every_part_is_pinned():
    assert list(FOUND) == list(PINNED)


def test_a_saved_state_goes_on_as_ever():
    saved = PINNED["noise state"]
    stream = dp.NoiseStream.from_state(
        bytes.fromhex(saved["state"]), M.SmoothBinary(100), 3.0, (70,), dtype="float32", key=KEY
    )
    assert [float(value).hex() for value in stream.step()[:8]] == saved["next"]


@pytest.mark.parametrize(
    ("part", "kind"),
    [
        ("settings of a counter", StreamSettings),
        ("settings of a sum", StreamSettings),
        ("settings of names", OpenSettings),
    ],
)
def test_settings_are_read_as_ever(part, kind):
    assert json.loads(json.dumps(kind.from_json(PINNED[part]).as_json())) == PINNED[part]
