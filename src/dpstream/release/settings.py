"""StreamSettings: everything that decides a stream's noise, checked once, in one spelling.

Horizon, budget, mechanism, per_person, neighbours and participation give the scale of the draws; all settings together
give the stream a key of its own. Counter, RunningSum and a store's streams all stand on this object.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property, lru_cache
from typing import Any, Literal

import numpy as np
from numpy.typing import ArrayLike, DTypeLike, NDArray

from dpstream.arguments import check_horizon, check_text, check_whole, check_windows
from dpstream.budget import Budget, budget_as_json, budget_from_json, check_budget, noise_scale
from dpstream.errors import (
    HorizonExceeded,
    InputOutOfBound,
    InvalidArgument,
    SumsTooLarge,
)
from dpstream.mechanisms.as_json import mechanism_from_json, mechanism_to_json
from dpstream.mechanisms.base import Mechanism
from dpstream.noise.draws import STEPS_LIMIT
from dpstream.noise.keystream import check_key, configuration_digest, derive_from_digest, fresh_key
from dpstream.noise.settings import check_scale, check_shape
from dpstream.noise.stream import NoiseStream
from dpstream.participation import Participation, check_participation
from dpstream.release.change_law import ChangeNoise, change_between
from dpstream.release.integer_inputs import (
    as_single_row,
    check_integer_rows,
    check_norms,
    check_numbers,
    whole_number,
)
from dpstream.release.lane import Lane
from dpstream.release.mechanism_argument import check_mechanism
from dpstream.release.noise_law import RealNoise, noise_at
from dpstream.release.plan import choose, pure_in_float_lane
from dpstream.release.real_inputs import NORM_ERROR, check_norm, flat_vector, real_rows

__all__ = ["Neighbours", "StreamSettings", "check_neighbours"]

Neighbours = Literal["add-remove", "replace", "replace-anywhere"]
NEIGHBOURS: tuple[Neighbours, ...] = ("add-remove", "replace", "replace-anywhere")

#: Exact sums and noise stay below this; noise is given this many standard deviations of room (the largest draw has 44).
LARGEST_SUM = 2**63 - 1
NOISE_ROOM = 4096
#: Without a horizon a step may hold this much unless `per_step` says otherwise: 2^30 such steps fit (see `last`).
ENDLESS_STEP = 2**32
#: √2 rounded up.
ROOT_2 = 1.4142135623730952
#: The grid of a float release is at most this part of its standard deviation, and no grid is finer than FINEST_GRID,
#: whose inverse must fit into a float32.
GRID = {"float32": 2.0**-16, "float64": 2.0**-32}
FINEST_GRID = 2.0**-80
#: `per_person` of the float lane: no square of such a number underflows or overflows enough to matter.
REAL_LIMITS = {"float32": (1e-10, 1e15), "float64": (1e-100, 1e100)}
#: No step of the float lane is longer: sums of squares of its coordinates are computed in its dtype.
LARGEST_NORM = {"float32": 2.0**60, "float64": 2.0**500}


@dataclass(frozen=True)
class StreamSettings:
    """The settings of one stream of releases, checked and complete. Built by `for_counter`, `for_sum` or `from_json`.

    Attributes
    ----------
    lane
        "exact" (whole numbers) or "float".
    horizon
        The last release, or None.
    budget, mechanism, participation
        What all releases together may reveal, how noise is shared over time, how often one person appears.
    shape
        The shape of a release.
    per_person
        What one person adds to one step at most: in ℓ2, or in ℓ1 for a pure budget.
    per_step
        What one step may add up to, in the same norm; None for no limit but that of the sums (`step_limit`).
    neighbours
        "add-remove", "replace" or "replace-anywhere"; see `distance`.
    dtype
        "int64" in the exact lane, "float32" or "float64" in the float lane.
    name
        Tells streams apart that have everything else in common.
    windows
        Lengths of the windows whose sums are wanted, rising: an automatic choice of the mechanism is fitted to them,
        and the releases they need are kept. () for none.
    """

    lane: Lane
    horizon: int | None
    budget: Budget
    mechanism: Mechanism
    shape: tuple[int, ...]
    per_person: float
    per_step: float | None
    participation: Participation
    neighbours: Neighbours
    dtype: str
    name: str = ""
    windows: tuple[int, ...] = ()

    # -- building -----------------------------------------------------------------------------------------------------

    @classmethod
    def for_counter(
        cls,
        horizon: int | None,
        budget: Budget,
        *,
        shape: int | Sequence[int] = (),
        per_person: int = 1,
        per_step: int | None = None,
        mechanism: Mechanism | str = "auto",
        participation: Participation | None = None,
        neighbours: Neighbours = "add-remove",
        name: str = "",
        windows: Sequence[int] = (),
    ) -> StreamSettings:
        """Check the settings of a `Counter`; its docstring explains them."""
        horizon, budget = None if horizon is None else check_horizon(horizon), check_budget(budget)
        return _complete(
            "exact",
            horizon,
            budget,
            check_mechanism(mechanism, horizon, budget),
            check_shape(shape),
            check_whole("per_person", per_person),
            None if per_step is None else check_whole("per_step", per_step),
            check_participation(participation),
            check_neighbours(neighbours),
            "int64",
            check_windows(windows, horizon),
        )._named(name)

    @classmethod
    def for_sum(
        cls,
        horizon: int | None,
        budget: Budget,
        *,
        shape: int | Sequence[int] = (),
        per_person: float = 1.0,
        per_step: float | None = None,
        dtype: DTypeLike = "float32",
        mechanism: Mechanism | str = "auto",
        participation: Participation | None = None,
        neighbours: Neighbours = "add-remove",
        name: str = "",
        windows: Sequence[int] = (),
    ) -> StreamSettings:
        """Check the settings of a `RunningSum`; its docstring explains them."""
        horizon, budget = None if horizon is None else check_horizon(horizon), check_budget(budget)
        if budget.noise == "laplace":
            raise pure_in_float_lane(budget)
        real = _check_real_dtype(dtype)
        return _complete(
            "float",
            horizon,
            budget,
            check_mechanism(mechanism, horizon, budget),
            check_shape(shape),
            _check_real("per_person", per_person, real),
            None if per_step is None else _check_real("per_step", per_step, real),
            check_participation(participation),
            check_neighbours(neighbours),
            real,
            check_windows(windows, horizon),
        )._named(name)

    def _named(self, name: str) -> StreamSettings:
        """Return the same settings with a name, keeping what was computed."""
        if not check_text("name", name):
            return self
        _ = self._nameless_digest
        named = replace(self, name=name)
        computed = {key: value for key, value in vars(self).items() if key not in ("name", "_digest")}
        vars(named).update(computed)
        return named

    # -- what follows from the settings -------------------------------------------------------------------------------

    @cached_property
    def distance(self) -> float:
        """How far the inputs of two neighbouring streams are apart in each of the person's steps.

        In ℓ2, or in ℓ1 for a pure budget. "add-remove": a person is there or not. "replace": in the same step,
        something else that the person might have added; two vectors without negative entries are √2 (ℓ1: 2) times
        as far apart as either is long. "replace-anywhere": in other steps; by the triangle inequality that is no
        further than removing the one and adding the other, for every mechanism and participation.
        """
        distance = float(self.per_person)
        if self.lane == "float":
            distance *= 1 + 2 * NORM_ERROR
        if self.neighbours == "replace-anywhere" or (self.neighbours == "replace" and self.lane == "float"):
            return 2 * distance
        if self.neighbours == "replace" and math.prod(self.shape) > 1:
            return distance * (2.0 if self.budget.noise == "laplace" else ROOT_2)
        return distance

    @cached_property
    def scale(self) -> float:
        """The scale of the draws that keeps the budget."""
        return noise_scale(self.mechanism, self.budget, per_person=self.distance, participation=self.participation)

    @cached_property
    def last(self) -> int:
        """The last step that can ever be made."""
        ends = [n for n in (self.horizon, self.mechanism.horizon, STEPS_LIMIT) if n is not None]
        if self.horizon is None and self.lane == "exact":
            most = max(int(self.per_person), ENDLESS_STEP) if self.per_step is None else int(self.per_step)
            ends.append(max(1, 2**62 // most))  # beyond, sums might not fit into 64 bits
        return min(ends)

    @cached_property
    def grid(self) -> float:
        """The power of two whose multiples are released; 1 in the exact lane."""
        if self.lane == "exact":
            return 1.0
        return _power_of_two_below(max(self._typical_stddevs[0] * GRID[self.dtype], FINEST_GRID))

    @cached_property
    def input_range(self) -> tuple[int, int]:
        """The least and the largest entry of a step's input, in the exact lane."""
        most = int(self.step_limit)
        return (-most if self.neighbours == "add-remove" else 0), most

    @cached_property
    def step_limit(self) -> float:
        """What one step may add up to: `per_step`, or as much as the sums allow; a whole number in the exact lane."""
        if self.lane == "float":
            most = min(float(np.finfo(self.dtype).max) * self.grid / 4 / self.last, LARGEST_NORM[self.dtype])
            asked = self.per_person if self.per_step is None else self.per_step
            if asked > most:
                name = "per_person" if self.per_step is None else "per_step"
                raise InvalidArgument(name, asked, f"at most {most:g}, so that {self.dtype} can hold the sums")
            return most if self.per_step is None else self.per_step
        noise = math.ceil(NOISE_ROOM * self._typical_stddevs[1])
        if self.per_step is not None:
            limit = int(self.per_step)
        elif self.horizon is None:
            limit = max(int(self.per_person), ENDLESS_STEP)
        else:
            limit = max(int(self.per_person), (LARGEST_SUM - 1 - noise) // self.horizon)
        if self.last * limit + noise >= LARGEST_SUM:
            raise SumsTooLarge(horizon=self.last, per_step=limit, noise=noise, most=LARGEST_SUM)
        return limit

    @cached_property
    def _typical_stddevs(self) -> tuple[float, float]:
        """The least and the largest standard deviation of the first, a middle and the last release.

        Long streams are looked at up to 2^20 steps, which costs a mechanism that keeps its history little: noise grows
        like a logarithm, and those who ask leave room for a factor of ten.
        """
        end = min(self.last, 2**20)
        found = [noise_at(self.mechanism, self.scale, t).variance ** 0.5 for t in {1, (end + 1) // 2, end}]
        return min(found), max(found)

    # -- noise --------------------------------------------------------------------------------------------------------

    def noise_stream(
        self, key: bytes | None = None, *, state: bytes | None = None, threads: int | None = None
    ) -> NoiseStream:
        """Return the noise of these settings, under a key that no other settings and no other name have.

        From its first step, or from where `state` was saved.
        """
        own = derive_from_digest(fresh_key() if key is None else check_key(key), self._digest)
        if state is not None:
            return NoiseStream.from_state(
                state, self.mechanism, self.scale, self.shape, dtype=self.dtype, key=own, threads=threads
            )
        return NoiseStream(self.mechanism, self.scale, self.shape, dtype=self.dtype, key=own, threads=threads)

    def noise_at(self, t: int) -> RealNoise:
        """Return the law of release t's noise, before it is rounded."""
        t = check_whole("t", t)
        if t > self.last:
            raise HorizonExceeded(horizon=self.last, step=t)
        return noise_at(self.mechanism, self.scale, t)

    def change_between(self, t: int, since: int) -> ChangeNoise:
        """Return the law of the noise of release t and of an earlier release together, before they are rounded."""
        t, since = check_whole("t", t), check_whole("since", since)
        if t > self.last:
            raise HorizonExceeded(horizon=self.last, step=t)
        if since >= t:
            raise InvalidArgument("since", since, f"an earlier release than {t}")
        return change_between(self.mechanism, self.scale, t, since)

    # -- one spelling -------------------------------------------------------------------------------------------------

    def as_json(self) -> dict[str, Any]:
        """Return all settings as JSON has them: what a stream's key is derived from, and what a store keeps."""
        return {
            "lane": self.lane,
            "horizon": self.horizon,
            "budget": budget_as_json(self.budget),
            "mechanism": _mechanism_as_json(self.mechanism),
            "identity": self.mechanism.identity,
            "shape": list(self.shape),
            "per_person": self.per_person,
            "per_step": self.per_step,
            "participation": {"times": self.participation.times, "separation": self.participation.separation},
            "neighbours": self.neighbours,
            "dtype": self.dtype,
            "name": self.name,
            "windows": list(self.windows),
            "scale": self.scale,
        }

    @classmethod
    def from_json(cls, given: Mapping[str, Any]) -> StreamSettings:
        """Build the settings that `as_json` wrote.

        Raises
        ------
        InvalidArgument
            If a setting is unknown, missing or wrong, or if the scale or the identity of the mechanism is another one:
            this dpstream would then make other noise for these settings than the one that wrote them.
        """
        settings = dict(given)
        try:
            lane, scale, identity = (settings.pop(name) for name in ("lane", "scale", "identity"))
            settings["budget"] = budget_from_json(settings["budget"])
            settings["mechanism"] = mechanism_from_json(settings["mechanism"])
            settings["participation"] = Participation(**settings["participation"])
            settings["shape"] = tuple(settings["shape"])
            settings["windows"] = tuple(settings["windows"])
            if lane == "exact":
                if settings.pop("dtype") != "int64":
                    raise InvalidArgument("dtype", given["dtype"], "'int64' in the exact lane")
                made = cls.for_counter(**settings)
            else:
                made = cls.for_sum(**settings)
        except (KeyError, TypeError, AttributeError) as error:
            raise InvalidArgument("settings", given, f"what as_json() wrote ({error!r})") from None
        if made.lane != lane or made.scale != scale:
            raise InvalidArgument("scale", scale, f"{made.scale!r}, the scale of these settings in this dpstream")
        if made.mechanism.identity != identity:
            raise InvalidArgument(
                "identity", identity, f"{made.mechanism.identity!r}, the noise that this dpstream makes"
            )
        return made

    @cached_property
    def _digest(self) -> bytes:
        """What keys are derived from: all settings, the name by itself, since thousands of streams share the others."""
        return configuration_digest("release", {"settings": self._nameless_digest.hex(), "name": self.name})

    @cached_property
    def _nameless_digest(self) -> bytes:
        settings = self.as_json()
        del settings["name"]
        return configuration_digest("settings", settings)

    # -- inputs -------------------------------------------------------------------------------------------------------

    def check_rows(self, xs: ArrayLike) -> NDArray[Any]:
        """Return many steps' inputs, one row each, in the dtype of the stream; refuse what a step may not hold.

        The array is `xs` itself if it has that dtype.
        """
        if self.lane == "float":
            rows = real_rows(xs, self.shape, np.dtype(self.dtype))
            for row in rows.reshape(len(rows), math.prod(self.shape)):
                check_norm(row, self.step_limit)
            return rows
        given = check_integer_rows(xs, self.shape)
        self._check_counts(given)
        return given.astype(np.int64, copy=False)

    def check_row(self, x: ArrayLike) -> NDArray[Any]:
        """Return one step's input as an array with one row; refuse what a step may not hold."""
        if self.lane == "float":
            vector = flat_vector(x, self.shape, np.dtype(self.dtype))
            check_norm(vector, self.step_limit)
            return vector.reshape(1, *self.shape)
        if not self.shape:
            return np.array([self.check_number(x)], dtype=np.int64)
        return self.check_rows(as_single_row(x, self.shape))

    def check_number(self, x: object) -> int:
        """Return one step's whole number as an int; refuse what a step may not hold."""
        number = whole_number(x)
        least, most = self.input_range
        if not least <= number <= most:
            raise InputOutOfBound(given=number, least=least, most=most, what="the value")
        return number

    def _check_counts(self, rows: NDArray[Any]) -> None:
        least, most = self.input_range
        if not self.shape or self.per_step is None:
            check_numbers(rows, least, most, "every entry" if self.shape else "the value")
            return
        if least == 0 and rows.size and int(rows.min()) < 0:
            raise InputOutOfBound(given=int(rows.min()), least=0, most=most, what="every entry")
        check_norms(rows, most, laplace=self.budget.noise == "laplace")


@lru_cache(maxsize=256)
def _complete(
    lane: Lane,
    horizon: int | None,
    budget: Budget,
    mechanism: Mechanism | None,
    shape: tuple[int, ...],
    per_person: float,
    per_step: float | None,
    participation: Participation,
    neighbours: Neighbours,
    dtype: str,
    windows: tuple[int, ...],
) -> StreamSettings:
    """Choose the mechanism if none was given; check that noise and sums fit. Cached: many streams share settings."""
    if per_step is not None and per_step < per_person:
        raise InvalidArgument("per_step", per_step, f"at least per_person={per_person}, or None")
    if mechanism is None:
        mechanism = choose(horizon, budget.noise, math.prod(shape), lane, participation, windows)
    settings = StreamSettings(
        lane,
        horizon,
        budget,
        mechanism,
        shape,
        per_person,
        per_step,
        participation,
        neighbours,
        dtype,
        windows=windows,
    )
    _ = settings.step_limit
    check_scale(settings.scale, exact=lane == "exact")
    return settings


def _mechanism_as_json(mechanism: Mechanism) -> dict[str, Any]:
    """Return the JSON spelling of a mechanism; of one that has none its name, which cannot be read back."""
    try:
        return mechanism_to_json(mechanism)
    except InvalidArgument:
        return {"mechanism": type(mechanism).__name__}


def check_neighbours(neighbours: object) -> Neighbours:
    """Return `neighbours`; refuse anything but the three words."""
    for known in NEIGHBOURS:
        if isinstance(neighbours, str) and neighbours == known:
            return known
    raise InvalidArgument("neighbours", neighbours, "'add-remove', 'replace' or 'replace-anywhere'")


def _check_real_dtype(dtype: DTypeLike) -> str:
    try:
        known = np.dtype(dtype)
    except TypeError:
        known = None
    if known is None or known not in (np.float32, np.float64):
        raise InvalidArgument("dtype", dtype, "'float32' or 'float64'")
    return known.name


def _check_real(name: str, value: object, dtype: str) -> float:
    least, most = REAL_LIMITS[dtype]
    if (
        not isinstance(value, bool)
        and isinstance(value, (int, float, np.integer, np.floating))
        and least <= value <= most
    ):
        return float(value)
    raise InvalidArgument(name, value, f"a number from {least:g} to {most:g} for {dtype}")


def _power_of_two_below(x: float) -> float:
    """Return the largest power of two that is at most x > 0."""
    return math.ldexp(0.5, math.frexp(x)[1])
