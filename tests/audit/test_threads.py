"""The check of threads finds a race when there is one."""

import time

import pytest

from dpstream.audit.threads import ThreadCheck, _together, check_threads


class Unguarded:
    """Hands out numbers as Counter handed out noise before threads took turns."""

    def __init__(self):
        self.at = 0

    def take(self):
        at = self.at
        time.sleep(0)  # others come in between
        self.at = at + 1
        return at


@pytest.mark.parametrize("threads", [2, 4, 8])
def test_a_race_is_found(threads):
    """Not by chance: every call lets others in between reading and writing."""
    unguarded = Unguarded()
    got = _together(unguarded.take, threads, 40_000 // threads)
    assert len(set(got)) < len(got)


@pytest.mark.parametrize("threads", [2, 4, 8])
def test_no_noise_goes_out_twice(threads):
    for check in check_threads(threads, 1_000):
        assert check.repeated == 0, str(check)
        assert "none repeated" in str(check)


def test_what_is_said():
    assert str(ThreadCheck("Counter", 4, 4_000, 12, 3)) == (
        "4 threads on one Counter: 4,000 calls, 12 repeated, 3 refused"
    )
