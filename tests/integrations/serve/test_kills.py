"""A server that takes events is killed while clients send and steps close; see `torture_ingest`."""

import json
import subprocess
import sys

import pytest


def tortured(*options):
    run = subprocess.run(  # noqa: S603
        [sys.executable, "-m", "tests.integrations.serve.torture_ingest", *options],
        capture_output=True,
        text=True,
        timeout=900,
        check=False,
    )
    assert run.stdout.startswith("{"), run.stderr
    return json.loads(run.stdout)


def test_kills_lose_nothing_double_nothing_change_nothing():
    found = tortured("--kills", "5", "--seed", "7")
    assert (found["lost"], found["doubled"], found["changed"]) == (0, 0, 0)
    assert found["events"] > 100
    assert found["sent again"] > 0


@pytest.mark.parametrize(("sabotage", "kind"), [("again", "doubled")])
def test_a_broken_writer_is_found(sabotage, kind):
    assert tortured("--kills", "2", "--sabotage", sabotage)[kind] > 0
