"""The files of `real_files` are published by what docs/transcripts shows, and what is counted is what is in them."""

import datetime as dt

import pytest

import dpstream as dp
from tests.real_files import DAYS, FIRST
from tests.transcripts import FOLDER, TRANSCRIPTS, index, page


@pytest.mark.parametrize("transcript", TRANSCRIPTS, ids=lambda one: one.name)
def test_the_page_is_what_is_printed(transcript, tmp_path, monkeypatch):
    """If this fails because messages changed: python -m tests.transcripts."""
    monkeypatch.chdir(tmp_path)
    printed = page(transcript)
    assert printed == (FOLDER / f"{transcript.name}.md").read_text()
    # Every refusal is one line; the last two commands, the week and the day after, are not refused.
    blocks = printed.split("```console\n")[1:]
    refusals = [block for block in blocks if "[exit status 2]" in block]
    for block in refusals:
        command, said = block.split("\n[exit status 2]")[0].splitlines()[-2:]
        assert command.startswith(("$ ", "    "))
        assert said.startswith("dpstream count: ")
    assert blocks[-1] not in refusals
    assert blocks[-2] not in refusals
    # What the store holds is what happened.
    with dp.Store(transcript.store) as store:
        (info,) = store.streams()
        counted = store.true_data.inputs(info.name, 1, DAYS).reshape(DAYS, -1)
    happened = transcript.make(tmp_path)
    kinds = list(dict.fromkeys(kind for event in happened for kind in transcript.adds(event)))
    sums = {(day, kind): 0 for day in range(DAYS) for kind in kinds}
    for event in happened:
        for kind, amount in transcript.adds(event).items():
            sums[(event.when.date() - FIRST).days, kind] += amount
    assert sorted(map(int, counted.reshape(-1))) == sorted(sums.values())
    assert counted.sum(axis=1).tolist() == [sum(sums[day, kind] for kind in kinds) for day in range(DAYS)]
    assert FIRST + dt.timedelta(days=DAYS - 1) == dt.date(2025, 4, 1)


def test_the_index_lists_every_page():
    assert (FOLDER / "README.md").read_text() == index()
    assert {path.stem for path in FOLDER.iterdir()} == {"README", *(one.name for one in TRANSCRIPTS)}
