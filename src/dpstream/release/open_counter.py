"""OpenCounter: private running counts by name, of names nobody listed beforehand.

    release_t(name) = (exact running count of the name)_t + (integer nearest to the ideal noise of that name at step t)

for every name whose noisy number of people has reached the threshold. Every name has noise from step 1 on, seen or not
(`dpstream.noise.named`), so when a name came up does not show in it.
"""

from __future__ import annotations

from collections import Counter as Multiset
from collections.abc import Sequence
from typing import NoReturn

import numpy as np
from numpy.typing import NDArray

from dpstream.arguments import check_probability, check_whole
from dpstream.budget import ApproxDP, Budget
from dpstream.errors import HorizonExceeded, InvalidArgument
from dpstream.mechanisms.base import Mechanism
from dpstream.release.error_bars import Estimate
from dpstream.release.name_limit import NameLimit
from dpstream.release.name_words import describe_names
from dpstream.release.open_settings import OpenSettings
from dpstream.release.open_sums import OpenSums
from dpstream.release.step_of_names import StepOfNames, step_of_names
from dpstream.turns import Turn, in_turn

__all__ = ["OpenCounter"]


class OpenCounter:
    """Running counts by name, released after every step under differential privacy; names need not be known beforehand.

    A name is published from the step on at which the noisy number of people who brought it reaches `threshold`. From
    then on its count is released at every step. Names that nobody brought are never published.

    Parameters
    ----------
    horizon
        How many releases there will be at most.
    budget
        `approx_dp(epsilon, delta)`. zCDP and pure ε are refused: that a rare name was brought at all can be hidden only
        up to a small chance δ.
    names_per_person
        How many names one person may bring, over all steps.
    per_name
        How much one person may add to one name, over all steps. 1: counts are numbers of people. More: names are chosen
        by the number of people, and counts have noise of their own (`people_share`).
    windows
        Lengths of the windows that are wanted, such as (1, 7, 30): see `window`.
    mechanism
        How noise is shared over time: a tree or a recurrence with positive weights. "auto": BalancedToeplitz, or a
        fitted one if there are windows.
    threshold_share
        The part of δ that the threshold takes, the chance that a name is published although only one person has
        brought it. The noise takes the rest.
    people_share
        With `per_name` above 1: the part of the noise's budget (of ρ) that the numbers of people take.
    declared
        Names that are public beforehand, released from the first step on.
    capacity
        How many pairs of a person and a name `add_events` can remember (`NameLimit` says how many bytes that takes).
    name
        Whose counts these are. Counters with different names share no noise even under one key.
    key
        32 secret bytes, or None for fresh ones. **Same key, name and settings: same noise**: never use them for other
        data.

    Guarantee
    ---------
    * Notion: (ε, δ)-differential privacy for everything that is published: which names, when, and all counts.
    * Neighbours: one person more or less, who brings at most `names_per_person` names and adds at most `per_name` to
      each, in whatever steps. `add_events` enforces it; with `add` **the caller ensures it**.
    * Horizon: `horizon` releases; a further one is refused.
    * Adaptivity: inputs may depend on earlier releases.
    * Exactness: released integers are those of infinite precision, and the threshold is computed for their law.
    * Threads take turns: each step is released once, its noise is used once.
    * Key: assumed secret, uniform, and used for this data only.
    The proof is in docs/discovery.md.

    Examples
    --------
    >>> import dpstream as dp
    >>> from dpstream.testing import fixed_key  # leave the key out for real data
    >>> terms = dp.OpenCounter(365, dp.approx_dp(6, 1e-9), names_per_person=3, key=fixed_key("terms"))
    >>> terms.threshold
    36
    >>> terms.add({"weather": 152, "flu": 61, "my own name": 1})  # one day's searches
    {'flu': 64, 'weather': 149}
    >>> terms.add({"weather": 140, "football": 90})
    {'flu': 63, 'weather': 297, 'football': 89}
    >>> terms.published["flu"]
    Estimate(value=63, stddev=4.56..., low=54, high=72)
    """

    __slots__ = ("_by_events", "_capacity", "_limit", "_settings", "_sums", "_turn")

    def __init__(
        self,
        horizon: int,
        budget: Budget,
        *,
        names_per_person: int,
        per_name: int = 1,
        windows: Sequence[int] = (),
        mechanism: Mechanism | str = "auto",
        threshold_share: float = 0.5,
        people_share: float = 0.5,
        declared: Sequence[str] = (),
        capacity: int = 10_000_000,
        name: str = "",
        key: bytes | None = None,
    ) -> None:
        settings = OpenSettings.of(
            horizon,
            budget,
            names_per_person=names_per_person,
            per_name=per_name,
            windows=windows,
            mechanism=mechanism,
            threshold_share=threshold_share,
            people_share=people_share,
            declared=declared,
            name=name,
        )
        self._begin(settings, check_whole("capacity", capacity), key)

    def _begin(self, settings: OpenSettings, capacity: int, key: bytes | None) -> None:
        self._turn = Turn()
        self._settings, self._capacity = settings, capacity
        self._sums = OpenSums(settings, key)
        self._by_events: bool | None = None
        self._limit = NameLimit(settings.names_per_person, settings.per_name, capacity=capacity)

    def __reduce__(self) -> NoReturn:
        raise TypeError(
            "an OpenCounter holds a secret key and exact sums and cannot be copied or pickled; fresh() makes one with"
            " the same settings and its own key and budget"
        )

    def __repr__(self) -> str:
        s = self._settings
        more = f", per_name={s.per_name}" if s.splits else ""
        return (
            f"OpenCounter(horizon={s.horizon}, budget={s.budget!r}, names_per_person={s.names_per_person}{more},"
            f" mechanism={s.mechanism!r}, name={s.name!r}, key=<hidden>) at step {self.t},"
            f" {len(self._sums.names)} names published"
        )

    # -- looking ------------------------------------------------------------------------------------------------------

    @property
    def t(self) -> int:
        """How many releases have been made."""
        return self._sums.t

    @property
    def settings(self) -> OpenSettings:
        """Everything that decides noise and threshold."""
        return self._settings

    @property
    def horizon(self) -> int:
        """The last release."""
        return self._settings.horizon

    @property
    def remaining(self) -> int:
        """How many more releases there can be."""
        return self._settings.horizon - self.t

    @property
    def budget(self) -> ApproxDP:
        """What everything that is published may reveal, all together."""
        return self._settings.budget

    @property
    def mechanism(self) -> Mechanism:
        """How noise is shared over time."""
        return self._settings.mechanism

    @property
    def threshold(self) -> int:
        """The noisy number of people from which on a name is published."""
        return self._settings.threshold

    @property
    def dropped(self) -> int:
        """How many events `add_events` has dropped, their people having brought enough: **not private**."""
        return self._limit.dropped

    @property
    def published(self) -> dict[str, Estimate[int]]:
        """The last release of every published name, with its 95 % interval: `estimates()`."""
        return self.estimates()

    def stddev(self, t: int | None = None) -> float:
        """Return the standard deviation of a count released at step t, rounding included; of the last one by default.

        Before the first release: that of the first.
        """
        return self._settings.stddev(max(self.t, 1) if t is None else t)

    def estimates(self, confidence: float = 0.95) -> dict[str, Estimate[int]]:
        """Return the last release of every published name; the interval holds the counted number this often.

        Each interval holds on its own. Of names that were published because of a noise that happened to be large it
        holds a little less often: docs/discovery.md, "What the bars mean".
        """
        return self._estimates(check_probability("confidence", confidence))

    @in_turn
    def _estimates(self, confidence: float) -> dict[str, Estimate[int]]:
        return self._sums.estimates(confidence)

    def window(self, steps: int, confidence: float = 0.95) -> dict[str, Estimate[int]]:
        """Return what was counted in the last `steps` steps for every name published long enough.

        It is the difference of two releases, so no budget is spent, and it is there for names that were published
        `steps` steps ago; while there are no more steps than that, for all published names.

        Raises
        ------
        NoReleaseYet
            Before the first release.
        ReleaseNotKept
            If the counter was not built with a window that long.
        """
        return self._window(check_whole("steps", steps), check_probability("confidence", confidence))

    @in_turn
    def _window(self, steps: int, confidence: float) -> dict[str, Estimate[int]]:
        return self._sums.window(steps, confidence)

    def describe(self) -> str:
        """Return what is promised, to whom, against whom, and what is not, in plain words."""
        return describe_names(self._settings, enforced=self._by_events is True)

    # -- counting -----------------------------------------------------------------------------------------------------

    def add(self, counts: object, people: object = None) -> dict[str, int]:
        """Take one step's counts by name; return the released count of every name that is published so far.

        Names come in the order of the step in which they were published, and those of one step by their spelling.

        **The caller ensures** that nobody brings more than `names_per_person` names or adds more than `per_name` to
        one, over all steps; `add_events` does that itself.

        Parameters
        ----------
        counts
            What was counted for each name in this step: a dict, a pair (names, counts) of lists or arrays, or a frame
            with these two columns. Whole numbers, not negative; a name with 0 counts as not brought.
        people
            With `per_name` above 1: how many people brought each name in this step for the first time, in the same
            form. With `per_name` 1 that is what `counts` says, and `people` is left out.

        Raises
        ------
        InputTypeError, InputShapeError, InputOutOfBound
            If a name is no text, empty or too long, or a count is not whole, negative or too large; nothing changes.
        HorizonExceeded
            Past the last release; nothing changes.
        """
        step = step_of_names(counts, self._sums.index, self._settings.most)
        if not self._settings.splits:
            if people is not None:
                raise InvalidArgument("people", type(people).__name__, "left out with per_name=1: counts are people")
            return self._add(step, step)
        if people is None:
            raise InvalidArgument("people", None, "given with per_name above 1: how many people are new to each name")
        return self._add(step, step_of_names(people, self._sums.index, self._settings.most))

    def add_events(self, people: Sequence[str | bytes | int], names: Sequence[str]) -> dict[str, int]:
        """Take one step's events, one (person, name) each; return the released counts, as `add` does.

        Of each person the first `names_per_person` names count, over all steps, and of each name the first `per_name`
        events; others are dropped, and `dropped` counts them. `person_id` says which ids are one person.

        Raises
        ------
        InvalidArgument, InputTypeError
            If there are more of the one than of the other, or one is no id or no name; nothing changes.
        TooManyPairs
            If no more pairs can be remembered (`capacity`); nothing changes.
        HorizonExceeded
            Past the last release; nothing changes.
        """
        if isinstance(people, (str, bytes)) or isinstance(names, (str, bytes)):
            raise InvalidArgument("people, names", "a single text", "lists: one person and one name for each event")
        names = list(names)
        people_keys, name_keys = self._limit.people_keys(people), self._limit.name_keys(names)
        return self._add_events(people_keys, name_keys, names)

    @in_turn
    def _add_events(self, people: NDArray[np.uint64], keys: NDArray[np.uint64], names: list[str]) -> dict[str, int]:
        self._enter(by_events=True)
        kept, new = self._limit.take_keys(people, keys)
        step = self._tally(names, kept)
        return self._sums.release(step, self._tally(names, new) if self._settings.splits else step)

    def _tally(self, names: list[str], chosen: NDArray[np.bool_]) -> StepOfNames:
        """Return how many of the chosen events each name has."""
        times = Multiset(name for name, one in zip(names, chosen.tolist(), strict=True) if one)
        return step_of_names(times, self._sums.index, self._settings.most)

    @in_turn
    def _add(self, step: StepOfNames, people: StepOfNames) -> dict[str, int]:
        self._enter(by_events=False)
        return self._sums.release(step, people, check=True)

    def fresh(self, key: bytes | None = None) -> OpenCounter:
        """Return a counter with the same settings and its own key, from step 1. It spends a budget of its own."""
        made = OpenCounter.__new__(OpenCounter)
        made._begin(self._settings, self._capacity, key)
        return made

    @property
    def nbytes(self) -> int:
        """How many bytes the arrays take, without the texts of the names: **not private**."""
        return self._sums.nbytes + self._limit.nbytes

    # -- inside: all of it in turn ------------------------------------------------------------------------------------

    def _enter(self, *, by_events: bool) -> None:
        """Refuse a step past the last one, and to mix `add`, whose caller counts people, with `add_events`."""
        if self._sums.t >= self._settings.horizon:
            raise HorizonExceeded(horizon=self._settings.horizon, step=self._sums.t + 1)
        if self._by_events not in (None, by_events) and self._sums.t:
            used, asked = ("add_events", "add") if self._by_events else ("add", "add_events")
            raise InvalidArgument(
                "step", asked, f"{used} as before: {used} and {asked} do not know of each other's people and names"
            )
        self._by_events = by_events
