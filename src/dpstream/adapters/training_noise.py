"""Correlated noise for all parameters of a model, one step for all of them at a time.

Each parameter tensor has a `NoiseStream` of its own, under a key derived from the run's key and the parameter's name,
so that no two parameters share noise and noise is made tensor by tensor. A worker that holds only a part of a parameter
makes only that part: the values do not depend on how a parameter is cut.
"""

from __future__ import annotations

import math
import os
import threading
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Literal, Protocol

import numpy as np
from numpy.typing import NDArray

from dpstream.adapters.run_key import RunKey
from dpstream.errors import InvalidArgument, StateError, TrainingEnded
from dpstream.mechanisms.base import Mechanism
from dpstream.noise import NoiseStream
from dpstream.noise.draws import NARROW, STEPS_LIMIT
from dpstream.noise.keystream import derive_key

__all__ = ["GivenScale", "NoiseSettings", "Part", "PartNoise", "TrainingNoise", "Which"]

#: "increments": the noise of a release minus that of the one before, for update rules that take gradients one by one.
#: "prefix": the noise of a release, for update rules that take the running sum of all gradients (FTRL).
Which = Literal["increments", "prefix"]

FORMAT = 1


@dataclass(frozen=True)
class Part:
    """A parameter and the coordinates low..high of it, flattened, that are made here.

    Attributes
    ----------
    shape
        The shape of the whole parameter.
    low, high
        The coordinates made here; all of them by default.
    dtype
        "float32" or "float64".
    """

    shape: tuple[int, ...]
    low: int = 0
    high: int | None = None
    dtype: str = "float32"

    @property
    def coordinates(self) -> int:
        """How many coordinates the whole parameter has."""
        return math.prod(self.shape)

    @property
    def end(self) -> int:
        """`high`, resolved."""
        return self.coordinates if self.high is None else self.high


class NoiseSettings(Protocol):
    """What noise depends on besides the key and the parameters: `TrainingSettings` or `GivenScale`."""

    @property
    def mechanism(self) -> Mechanism:
        """How noise is shared over time."""

    @property
    def scale(self) -> float:
        """The scale of the draws."""

    @property
    def horizon(self) -> int:
        """The last step."""

    @property
    def identity(self) -> str:
        """What shapes the sums and their promise besides: trainings that differ in it share no noise."""


@dataclass(frozen=True)
class GivenScale:
    """A mechanism and a scale that the caller computed; the guarantee is the caller's."""

    mechanism: Mechanism
    scale: float

    @property
    def horizon(self) -> int:
        """The last step of the mechanism, or of any stream."""
        return STEPS_LIMIT if self.mechanism.horizon is None else self.mechanism.horizon

    @property
    def identity(self) -> str:
        """Nothing more is known."""
        return ""


class TrainingNoise:
    """The noise of a training run.

    Parameters
    ----------
    settings
        What is promised.
    parts
        The parameters by name, in the order in which noise is made.
    key
        A path to a key file, 32 bytes, or None for a key of this process; see `RunKey`.
    which
        "increments" or "prefix".
    threads
        As for `NoiseStream`.
    open_key
        Opens `key` for settings that are given as text; the workers of a distributed run open it together.

    Guarantee
    ---------
    That of `TrainingSettings`, if each step's noise is added to the sum of that step's clipped gradients (for
    "prefix": to the sum of all steps' so far), before it is divided by anything. Assumed: the key is secret and
    uniformly random, and AES-256 is a pseudorandom function.
    """

    def __init__(
        self,
        settings: NoiseSettings,
        parts: Mapping[str, Part],
        *,
        key: bytes | str | os.PathLike[str] | None = None,
        which: Which = "increments",
        threads: int | None = None,
        open_key: Callable[[bytes | str | os.PathLike[str] | None, str], RunKey] = RunKey,
    ) -> None:
        if which not in ("increments", "prefix"):
            raise InvalidArgument("which", which, "'increments' or 'prefix'")
        if not parts:
            raise InvalidArgument("parameters", {}, "at least one parameter that requires a gradient")
        for name, part in parts.items():
            if part.coordinates == 0:
                raise InvalidArgument("parameters", {name: part.shape}, "parameters with at least one coordinate each")
        self.settings = settings
        self.parts = dict(parts)
        self._which = which
        self._run_key = open_key(key, self._described())
        self._streams = {
            name: PartNoise(name, part, settings, self._run_key.key, which, threads) for name, part in parts.items()
        }
        self._t = 0
        self._interrupted = False
        self._turn = threading.Lock()

    def _described(self) -> str:
        """All that the noise depends on but the key."""
        whole = {name: (part.shape, part.dtype) for name, part in self.parts.items()}
        settings = self.settings
        return f"{settings.mechanism.identity}; {settings.scale!r}; {settings.identity}; {self._which}; {whole!r}"

    def __repr__(self) -> str:
        coordinates = sum(part.end - part.low for part in self.parts.values())
        return f"TrainingNoise({self.settings!r}, {coordinates:,} coordinates, key=<hidden>) at step {self._t}"

    @property
    def t(self) -> int:
        """How many steps have been made."""
        return self._t

    def check_next_step(self) -> int:
        """Return the number of the next step; refuse one past the horizon, or one that was released before."""
        step = self._t + 1 + self._interrupted
        if step > self.settings.horizon:
            raise TrainingEnded(horizon=self.settings.horizon, step=step)
        self._run_key.check(step - 1)
        return step

    def step(self, use: Callable[[str, PartNoise], None]) -> int:
        """Make the next step: call ``use(name, noise)``, parameter after parameter.

        `use` calls one method of `noise`, once, which makes the noise of this parameter's coordinates. If `use` fails
        or is interrupted, the step counts as made, and what it has noise in must not be shown to anybody.
        """
        with self._turn:
            self._give_up_interrupted_step()
            step = self.check_next_step()
            self._run_key.reserve(step, self.settings.horizon)
            self._interrupted = True
            for name, noise in self._streams.items():
                if noise.size:
                    use(name, noise)
                    noise.check_made(step)
            self._t, self._interrupted = step, False
            return step

    def _give_up_interrupted_step(self) -> None:
        """Bring all streams to the end of a step that was interrupted, so that none of its noise is used again."""
        if not self._interrupted:
            return
        for stream in self._streams.values():
            stream.skip_to(self._t + 1)
        self._t, self._interrupted = self._t + 1, False

    # -- saving ---------------------------------------------------------------------------------------------------

    def state(self) -> dict[str, Any]:
        """Where the noise stands, without the key: numbers, text and bytes. The count of released steps is exact now.

        Raises
        ------
        StateError
            If the key was made by this process: it is shown to nobody, so nobody could go on.
        """
        with self._turn:
            if not self._run_key.resumable:
                raise StateError(
                    "this training made its own key, which is never shown, so it could not be resumed; give it a key"
                    " file to save checkpoints, as in key='run.key'"
                )
            self._give_up_interrupted_step()
            self._run_key.settle(self._t)
            return {
                "format": FORMAT,
                "settings": self._described(),
                "t": self._t,
                "parts": {name: self._cut(name) for name in self.parts},
                "streams": {name: stream.state() for name, stream in self._streams.items() if stream.size},
            }

    def restore(self, state: Mapping[str, Any], *, discard_later_steps: bool = False) -> None:
        """Go on where `state` was saved; nothing changes if it is refused.

        Parameters
        ----------
        state
            What `state` returned, under the same key and settings.
        discard_later_steps
            Declares that nothing that depends on later steps of this run was or will be shown to anybody.

        Raises
        ------
        StateError
            If the state is damaged, or belongs to other settings or another key.
        StepsReleased
            If more steps than that were released under the key.
        """
        with self._turn:
            try:
                form, described, t = state["format"], state["settings"], state["t"]
                parts, streams = state["parts"], state["streams"]
            except (KeyError, TypeError) as error:
                raise StateError(f"this is not the state of a training's noise: {error} is missing") from None
            if form != FORMAT:
                raise StateError(f"this training state has format {form!r}, but this dpstream reads format {FORMAT}")
            if described != self._described():
                raise StateError(
                    f"this state belongs to a training with other settings: {described}; this training has"
                    f" {self._described()}"
                )
            if isinstance(t, bool) or not isinstance(t, int) or not 0 <= t <= self.settings.horizon:
                raise StateError(f"this training state is damaged: it stands after step {t!r}")
            fitting = {name: sealed for name, sealed in streams.items() if parts.get(name) == self._cut(name)}
            self._go_to(t, fitting, discard_later_steps)

    def seek(self, t: int, *, discard_later_steps: bool = False) -> None:
        """Stand after step `t`, as after `restore` of a state of that step; takes the time of t steps, or less."""
        with self._turn:
            self._go_to(t, {}, discard_later_steps)

    def _go_to(self, t: int, sealed: Mapping[str, bytes], discard_later_steps: bool) -> None:
        if not discard_later_steps:
            self._run_key.check(t)
        self._streams = {name: stream.at(t, sealed.get(name)) for name, stream in self._streams.items()}
        self._t, self._interrupted = t, False
        self._run_key.settle(t)

    def _cut(self, name: str) -> list[int]:
        return [self.parts[name].low, self.parts[name].end]

    def close(self) -> None:
        """Let go of the key, for another process to go on with."""
        self._run_key.close()


class PartNoise:
    """The noise of one parameter's coordinates low..high, flattened.

    A stream starts at a multiple of 64, and a parameter of fewer than 64 coordinates is made as a whole: up to 63
    values before the first one asked for are made and left out.
    """

    def __init__(
        self, name: str, part: Part, settings: NoiseSettings, key: bytes, which: Which, threads: int | None
    ) -> None:
        self._arguments = (name, part, settings, key, which, threads)
        self.size = part.end - part.low
        self._which = which
        first = 0 if part.coordinates < NARROW else part.low // NARROW * NARROW
        self._skip = part.low - first
        whole = part.coordinates < NARROW or (first, part.end) == (0, part.coordinates)
        self._settings: dict[str, Any] = {
            "mechanism": settings.mechanism,
            "scale": settings.scale,
            "shape": part.coordinates,
            "dtype": part.dtype,
            "key": derive_key(
                key,
                purpose="training parameter",
                configuration={"name": name, "which": which, "settings": settings.identity},
            ),
            "threads": threads,
            "part": None if whole else (first, part.end),
        }
        self._stream = NoiseStream(**self._settings) if self.size else None

    def add_to(self, values: NDArray[Any]) -> None:
        """Add the noise of the next step to `values`, in their own memory; of increments no vector is made."""
        assert self._stream is not None  # noqa: S101
        if self._which == "increments" and self._stream.shape == values.shape:
            self._stream.add_increment(values)
        else:
            values += self._made()

    def write_to(self, out: NDArray[Any]) -> None:
        """Write the noise of the next step to `out`."""
        assert self._stream is not None  # noqa: S101
        if self._stream.shape == out.shape:
            _ = self._stream.increment(out) if self._which == "increments" else self._stream.step(out)
        else:
            out[...] = self._made()

    def _made(self) -> NDArray[Any]:
        """Return the noise of the next step in a new array."""
        assert self._stream is not None  # noqa: S101
        made = self._stream.increment() if self._which == "increments" else self._stream.step()
        return np.asarray(made)[self._skip : self._skip + self.size]

    def check_made(self, t: int) -> None:
        """Raise unless the noise of step t, and of no later one, was made."""
        assert self._stream is not None  # noqa: S101
        if self._stream.t != t:
            raise RuntimeError(f"the noise of step {t} must be used once, got {self._stream.t - t + 1} times")

    def skip_to(self, t: int) -> None:
        """Make the steps up to t and throw their noise away."""
        if self._stream is not None and self._stream.t < t:
            _ = self._stream.increment() if self._which == "increments" else self._stream.step()

    def state(self) -> bytes:
        """Return where the stream stands, sealed."""
        assert self._stream is not None  # noqa: S101
        return self._stream.state()

    def at(self, t: int, saved: bytes | None) -> PartNoise:
        """Return a copy that stands after step t: from its saved state, or, if it was cut otherwise, by seeking."""
        copy = PartNoise(*self._arguments)
        if copy._stream is None:
            return copy
        if saved is None:
            copy._stream.seek(t)
            return copy
        copy._stream = NoiseStream.from_state(saved, **self._settings)
        if copy._stream.t != t:
            raise StateError(
                f"this training state is damaged: it stands after step {t}, its noise after {copy._stream.t}"
            )
        return copy
