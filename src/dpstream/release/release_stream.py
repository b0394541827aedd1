"""ReleaseStream: what a Counter and a RunningSum have in common."""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import Any, NoReturn, Self

from numpy.typing import NDArray

from dpstream.budget import Budget
from dpstream.mechanisms.base import Mechanism
from dpstream.noise.stream import NoiseStream
from dpstream.participation import Participation
from dpstream.release.error_bars import release_stddev
from dpstream.release.in_words import describe
from dpstream.release.secret_state import SecretState
from dpstream.release.settings import Neighbours, StreamSettings
from dpstream.turns import Turn

__all__ = ["ReleaseStream"]


class ReleaseStream(ABC):
    """A stream of releases under settings that never change.

    Threads that use one stream take turns; a signal handler that comes back to a stream in the middle of a call gets
    `StreamInUse`, a forked child `ForkedStream`. A stream cannot be copied or pickled: two of them would publish the
    same noise under different data.
    """

    __slots__ = ("_settings", "_stream", "_turn")

    _settings: StreamSettings
    _stream: NoiseStream
    _turn: Turn

    @classmethod
    def resume(cls, settings: StreamSettings, noise: NoiseStream, state: SecretState) -> Self:
        """Build a stream that goes on from `state`: for a store, which keeps the state sealed.

        `noise` is `settings.noise_stream(key)`; it is used by this stream alone from now on, and moved to step t.
        """
        made = cls.__new__(cls)
        made._begin(settings, noise, state)
        return made

    @abstractmethod
    def _begin(self, settings: StreamSettings, noise: NoiseStream, state: SecretState) -> None:
        """Set all fields: stand where `state` says."""

    def __reduce__(self) -> NoReturn:
        raise TypeError(
            f"a {type(self).__name__} holds a secret key and exact sums and cannot be copied or pickled; fresh() makes"
            " one with the same settings and its own key and budget"
        )

    def __repr__(self) -> str:
        s = self._settings
        limit = "" if s.per_step is None else f", per_step={s.per_step:g}"
        kind = "" if s.lane == "exact" else f", dtype={s.dtype!r}"
        return (
            f"{type(self).__name__}(horizon={s.horizon}, budget={s.budget!r}, shape={s.shape},"
            f" per_person={s.per_person:g}{limit}{kind}, mechanism={s.mechanism!r}, name={s.name!r}, key=<hidden>)"
            f" at step {self.t}"
        )

    # -- looking ------------------------------------------------------------------------------------------------------

    @property
    @abstractmethod
    def t(self) -> int:
        """How many releases have been made."""

    @property
    def settings(self) -> StreamSettings:
        """Everything that decides the noise."""
        return self._settings

    @property
    def horizon(self) -> int | None:
        """The last release; None if there is none."""
        return self._settings.horizon

    @property
    def remaining(self) -> int | None:
        """How many more releases there can be; None without a horizon."""
        return None if self._settings.horizon is None else self._settings.horizon - self.t

    @property
    def budget(self) -> Budget:
        """What all releases together may reveal."""
        return self._settings.budget

    @property
    def mechanism(self) -> Mechanism:
        """How noise is shared over time."""
        return self._settings.mechanism

    @property
    def shape(self) -> tuple[int, ...]:
        """The shape of a release."""
        return self._settings.shape

    @property
    def per_person(self) -> float:
        """What one person adds to one step at most."""
        return self._settings.per_person

    @property
    def per_step(self) -> float | None:
        """What one step may add up to; None for no limit but that of the sums."""
        return self._settings.per_step

    @property
    def participation(self) -> Participation:
        """In how many steps one person may appear."""
        return self._settings.participation

    @property
    def neighbours(self) -> Neighbours:
        """Which streams nobody can tell apart."""
        return self._settings.neighbours

    def stddev(self, t: int | None = None) -> float:
        """Return the standard deviation of release t, rounding included; of the last one if t is left out.

        Before the first release: that of the first. For an array, of each of its entries.
        """
        return release_stddev(self._settings, max(self.t, 1) if t is None else t)

    def describe(self) -> str:
        """Return one paragraph in plain words: what is promised, to whom, against whom, and what is not."""
        t = max(self.t, 1)
        return describe(self._settings, self.stddev(t), t)

    @abstractmethod
    def extend_checked(self, rows: NDArray[Any]) -> NDArray[Any]:
        """Do what `extend` does with rows that `settings.check_rows` or `check_row` returned, without another check."""

    @abstractmethod
    def reveal_secret_state(self) -> SecretState:
        """Return the step, the TRUE sums and the last release. **Secret**: for a store that seals them.

        The sums are the data without noise: whoever publishes them, or goes on from them twice with the same noise,
        breaks the promise.
        """

    def fresh(self, key: bytes | None = None) -> Self:
        """Return a stream with the same settings and its own key, from step 1. It spends a budget of its own."""
        settings = self._settings
        return type(self).resume(settings, settings.noise_stream(key), SecretState.start(settings))

    # -- inside -------------------------------------------------------------------------------------------------------

    def _noise_from(self, t: int) -> NoiseStream:
        """Return the noise, standing after step t: an interrupt may have come before its last values were used."""
        if self._stream.t != t:
            self._stream.seek(t)
        return self._stream
