"""A clock that does not jump: steps that are closed too early can never be opened again."""

from __future__ import annotations

import datetime as dt
import time
from collections.abc import Callable

from dpstream.events import last_step

__all__ = ["SteadyClock"]

#: Less than this is what clocks do: it is taken as it comes.
JUMP_SECONDS = 30.0
#: A jump is believed when the clock has gone on evenly for so long.
PROOF_SECONDS = 300.0


def _uptime() -> float:
    """Seconds by a clock that nobody sets, if possible one that goes on while the machine sleeps."""
    return time.clock_gettime(time.CLOCK_BOOTTIME) if hasattr(time, "CLOCK_BOOTTIME") else time.monotonic()


class SteadyClock:
    """The time of this machine, but after a jump the time as it would be without, until the new one has proved itself.

    Someone sets the clock a year ahead by mistake, and back: no step was closed because of that. Where the clock stood
    at the start may be a mistake as well, so whoever closes steps that ended long ago waits until it is `proven`.

    Parameters
    ----------
    uptime
        A clock in seconds that nobody sets.
    say
        Called with a sentence when the clock jumps, and when a jump is believed.
    """

    def __init__(self, uptime: Callable[[], float] = _uptime, say: Callable[[str], object] = lambda _: None) -> None:
        self._uptime, self._say = uptime, say
        self._trusted = self._seen = last_step.now()
        self._at = self._jumped = self._since = uptime()
        self._doubted = False

    @property
    def proven(self) -> bool:
        """Whether the clock has gone on evenly for long enough since the start, at the last reading."""
        return self._at - self._since >= PROOF_SECONDS

    def now(self) -> dt.datetime:
        """Return the present moment; see the class."""
        moment, at = last_step.now(), self._uptime()
        passed = dt.timedelta(seconds=at - self._at)
        trusted, expected = self._trusted + passed, self._seen + passed
        self._at, self._seen = at, moment
        if _apart(moment, trusted) <= JUMP_SECONDS:
            if self._doubted:
                self._say("The clock agrees again with what it was before it jumped.")
            self._doubted, self._trusted = False, moment
            return moment
        if not self.proven:  # where it stood at the start is worth no more than where it stands now
            self._say(f"The clock was set to {moment:%Y-%m-%d %H:%M:%S} UTC soon after the start.")
            self._since, self._trusted = at, moment
            return moment
        if not self._doubted or _apart(moment, expected) > JUMP_SECONDS:
            self._doubted, self._jumped = True, at
            self._say(
                f"The clock jumped to {moment:%Y-%m-%d %H:%M:%S} UTC, where {trusted:%Y-%m-%d %H:%M:%S} was expected:"
                f" steps close as if it had not, unless it stays so for {PROOF_SECONDS / 60:g} minutes."
            )
        elif at - self._jumped >= PROOF_SECONDS:
            self._say("The clock has gone on evenly since it jumped: it is believed.")
            self._doubted, self._trusted = False, moment
            return moment
        self._trusted = trusted
        return trusted


def _apart(one: dt.datetime, other: dt.datetime) -> float:
    return abs((one - other).total_seconds())
