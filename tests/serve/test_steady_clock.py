"""The clock by which steps close: it does not jump, and where it stands at the start must prove itself."""

import datetime as dt

import pytest

from dpstream.events import last_step
from dpstream.serve.steady_clock import SteadyClock

START = dt.datetime(2026, 1, 1, tzinfo=dt.UTC)


class Machine:
    """A machine whose clocks a test sets: `wrong` is how many seconds the one that can be set is ahead."""

    def __init__(self, monkeypatch, wrong=0.0):
        self.uptime, self.wrong, self.told = 0.0, wrong, []
        monkeypatch.setattr(last_step, "now", lambda: START + dt.timedelta(seconds=self.uptime + self.wrong))
        self.clock = SteadyClock(lambda: self.uptime, self.told.append)

    def after(self, seconds):
        """Return how many seconds the steady clock is ahead, after it was read every ten seconds for so long."""
        for _ in range(int(seconds) // 10):
            self.uptime += 10
            found = self.clock.now()
        return (found - START).total_seconds() - self.uptime


def test_a_clock_that_goes_on_evenly_is_proven_after_five_minutes(monkeypatch):
    machine = Machine(monkeypatch)
    assert not machine.clock.proven
    assert machine.after(290) == 0
    assert not machine.clock.proven
    assert machine.after(10) == 0
    assert machine.clock.proven
    assert machine.told == []


@pytest.mark.parametrize("wrong", [6 * 3600, -6 * 3600])
def test_a_correction_soon_after_the_start_is_taken_and_must_prove_itself(monkeypatch, wrong):
    machine = Machine(monkeypatch, wrong)
    assert machine.after(200) == wrong
    machine.wrong = 0
    assert machine.after(200) == 0
    assert not machine.clock.proven
    assert machine.after(110) == 0
    assert machine.clock.proven
    assert len(machine.told) == 1


def test_a_jump_of_a_proven_clock_is_not_taken_before_it_has_proven_itself(monkeypatch):
    machine = Machine(monkeypatch)
    machine.after(300)
    machine.wrong = 86400
    assert machine.after(290) == 0
    machine.wrong = 0
    assert machine.after(10) == 0
    machine.wrong = 86400
    assert machine.after(300) == 0
    assert machine.after(20) == 86400
    assert machine.clock.proven
