"""OpenSums: true sums by name, their noise, and which names are published; what an open counter is made of.

    release_t(name) = (exact running count of the name)_t + (integer nearest to the ideal noise of that name at step t)

For one thread at a time, and unchecked: `OpenCounter` and the store's `DurableNames` see to that.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from dpstream.errors import InvalidArgument, NameCountOutOfBound, NoReleaseYet, ReleaseNotKept
from dpstream.release.error_bars import Estimate
from dpstream.release.open_settings import OpenSettings
from dpstream.release.step_of_names import StepOfNames

__all__ = ["NameSums", "OpenSums"]

Numbers = NDArray[np.int64]


class NameSums(NamedTuple):
    """**Secret**: the true sums of all names after some step, one entry each, and when each was published.

    Attributes
    ----------
    counts, people
        How much was counted of each name, and how many people brought it.
    published
        The step in which each was published; -1 for those that are not, 0 for declared ones.
    """

    counts: Numbers
    people: Numbers
    published: Numbers


class _State(NamedTuple):
    """Where the sums stand. One object, put in its place by one assignment: an interruption leaves the old one.

    `counts` and `people` are the TRUE sums of every name in its row; `shown` lists the rows that are published, in the
    order of their publication, `names` their names, `since` in which step, and `releases` holds their last releases,
    and those before as far as windows need them.
    """

    t: int
    counts: Numbers
    people: Numbers
    shown: Numbers
    names: tuple[str, ...]
    since: Numbers
    releases: tuple[Numbers, ...]


class OpenSums:
    """Adds counts up by name and says what may be published after each step.

    Parameters
    ----------
    settings
        What decides noise and threshold.
    key
        32 secret bytes, or None for fresh ones.
    """

    __slots__ = ("_noise", "_people_rows", "_rows", "_settings", "_state", "index")

    def __init__(self, settings: OpenSettings, key: bytes | None) -> None:
        self._settings = settings
        noise, people_noise = settings.noise(key)
        self._noise, self._rows = noise, noise.rows()
        self._people_rows = None if people_noise is None else (people_noise, people_noise.rows())
        #: The row of each name that was met, in their one spelling.
        self.index: dict[str, int] = {}
        nothing = np.zeros(0, dtype=np.int64)
        self._state = _State(0, nothing, nothing, nothing, (), nothing, ())
        self.meet(settings.declared)
        zeros = np.zeros(len(settings.declared), dtype=np.int64)
        self._state = _State(0, zeros, zeros, np.arange(len(zeros)), settings.declared, zeros, ())

    @classmethod
    def resume(
        cls,
        settings: OpenSettings,
        key: bytes,
        t: int,
        names: Sequence[str],
        sums: NameSums,
        releases: Sequence[Numbers] = (),
    ) -> OpenSums:
        """Return sums that stand after step t: with these names, in the order in which they were met.

        `releases` are the last ones before step t, oldest first, as far as windows need them; that of step t itself
        follows from the sums.
        """
        made = cls(settings, key)
        first = len(settings.declared)
        if tuple(names[:first]) != settings.declared or len({*names}) != len(names):
            raise InvalidArgument("names", f"{len(names):,} names", "different ones, those that were declared first")
        # The noise of step t itself is needed, so the rows are put after the step before.
        made._state = made._state._replace(t=max(t - 1, 0))
        made.meet(names[first:])
        later = sorted((since, names[row], row) for row, since in enumerate(sums.published.tolist()) if since > 0)
        rows = np.array([*range(first), *(row for _, _, row in later)], dtype=np.int64)
        released = [(sums.counts + made._rows.at(t))[rows]] if t else []
        shown = (*settings.declared, *(name for _, name, _ in later))
        made._state = _State(t, sums.counts, sums.people, rows, shown, sums.published[rows], (*releases, *released))
        return made

    # -- looking ------------------------------------------------------------------------------------------------------

    @property
    def t(self) -> int:
        """How many releases have been made."""
        return self._state.t

    @property
    def names(self) -> tuple[str, ...]:
        """The published names, in the order of their publication, those of one step by their spelling."""
        return self._state.names

    @property
    def since(self) -> Numbers:
        """The step in which each of `names` was published; 0 for declared ones."""
        return self._state.since

    @property
    def released(self) -> Numbers:
        """The last release of each of `names`; none before the first."""
        return self._state.releases[-1] if self._state.releases else np.zeros(0, dtype=np.int64)

    @property
    def nbytes(self) -> int:
        """How many bytes the arrays take, without the texts of the names: **not private**."""
        state = self._state
        arrays = [state.counts, state.people, state.shown, state.since, *state.releases]
        rows = [self._rows] if self._people_rows is None else [self._rows, self._people_rows[1]]
        return sum(array.nbytes for array in arrays) + sum(row.nbytes for row in rows)

    def reveal(self) -> NameSums:
        """**Secret**: return the true sums of all names that were met, by their rows."""
        state, size = self._state, len(self.index)
        published = np.full(size, -1, dtype=np.int64)
        published[state.shown] = state.since
        return NameSums(_longer(state.counts, size), _longer(state.people, size), published)

    def estimates(self, confidence: float) -> dict[str, Estimate[int]]:
        """Return the last release of every published name; the interval holds the counted number this often."""
        state = self._state
        if not state.t:
            return {}
        return self._with_bars(
            state.releases[-1], self._settings.stddev(state.t), self._settings.half_width(state.t, confidence)
        )

    def window(self, steps: int, confidence: float) -> dict[str, Estimate[int]]:
        """Return what was counted in the last `steps` steps for every name published long enough."""
        state, settings = self._state, self._settings
        if not state.t:
            raise NoReleaseYet
        since = state.t - steps
        if since <= 0:
            return self.estimates(confidence)
        if steps >= len(state.releases):
            needed = tuple(sorted({*settings.windows, steps}))
            raise ReleaseNotKept(step=since, advice=f"build the counter with windows={needed}")
        earlier = state.releases[-1 - steps]
        return self._with_bars(
            state.releases[-1][: len(earlier)] - earlier, *settings.change(state.t, since, confidence)
        )

    def _with_bars(self, values: Numbers, stddev: float, off: int) -> dict[str, Estimate[int]]:
        return {
            name: Estimate(value, stddev, value - off, value + off)
            for name, value in zip(self._state.names, values.tolist(), strict=False)
        }

    # -- counting -----------------------------------------------------------------------------------------------------

    def meet(self, names: Iterable[str]) -> None:
        """Give rows to names that have none; their noise stands after the last step. Nobody has brought them yet."""
        new = [name for name in names if name not in self.index]
        t, first = self._state.t, len(self.index)
        # Rows of an interrupted call whose names are not in the index are given anew.
        for noise, rows in [(self._noise, self._rows), *([self._people_rows] if self._people_rows else [])]:
            rows.cut(first)
            rows.append(noise.tags(new), after=t)
        self.index.update({name: first + i for i, name in enumerate(new)})

    def release(self, step: StepOfNames, people: StepOfNames, *, check: bool = False) -> dict[str, int]:
        """Add a step's counts, and how many people brought each name for the first time; return what is released.

        `check`: refuse counts that do not fit the people. Only what a caller has counted is checked: of events that
        come out of step order, a person is new in the step of the first one that came.
        """
        state, settings = self._state, self._settings
        self.meet({**step.new, **people.new})
        t = state.t + 1
        counts = self._added(state.counts, step)
        brought = self._added(state.people, people) if settings.splits else counts
        if check and settings.splits:
            self._check_people(counts, brought)
        noisy = counts + self._rows.at(t)
        chosen_by = noisy if self._people_rows is None else brought + self._people_rows[1].at(t)
        reached = (chosen_by >= settings.threshold) & (brought > 0)
        reached[state.shown] = False
        new = np.flatnonzero(reached)
        shown, names, since = state.shown, state.names, state.since
        if new.size:
            everyone = list(self.index)
            # By name, not by row: which of them was brought first is nowhere protected.
            found = sorted((everyone[row], row) for row in new.tolist())
            shown = np.concatenate([shown, [row for _, row in found]])
            names = (*names, *(name for name, _ in found))
            since = np.concatenate([since, np.full(len(found), t)])
        released = noisy[shown]
        kept = state.releases[-settings.windows[-1] :] if settings.windows else ()
        self._state = _State(t, counts, brought, shown, names, since, (*kept, released))
        return dict(zip(names, released.tolist(), strict=True))

    def _added(self, sums: Numbers, step: StepOfNames) -> Numbers:
        """Return new sums of all names: the old ones and this step's."""
        added = _longer(sums, len(self.index))
        np.add.at(added, step.rows, step.counts)
        for name, count in step.new.items():  # which another thread may have met in the meantime
            added[self.index[name]] += count
        return added

    def _check_people(self, counts: Numbers, people: Numbers) -> None:
        most = people * self._settings.per_name
        if ((counts > most) | (people > counts)).any():
            what = "what a name adds for each person who brought it, over all steps,"
            raise NameCountOutOfBound(given=None, least=1, most=self._settings.per_name, what=what)


def _longer(sums: Numbers, size: int) -> Numbers:
    """Return a copy with zeros behind it."""
    added = np.zeros(size, dtype=np.int64)
    added[: len(sums)] = sums
    return added
