"""What a Counter and a RunningSum have in common: the terms they were built on."""

from __future__ import annotations

from abc import abstractmethod

from dpstream.budget import Budget
from dpstream.mechanisms.base import Mechanism
from dpstream.release.terms import Terms

__all__ = ["UnderTerms"]


class UnderTerms:
    """A release under terms that never change."""

    __slots__ = ()

    _terms: Terms
    _clipped: int

    @property
    @abstractmethod
    def t(self) -> int:
        """How many releases have been made."""

    @property
    def horizon(self) -> int | None:
        """The last release; None if there is none."""
        return self._terms.horizon

    @property
    def remaining(self) -> int | None:
        """How many more releases there can be; None without a horizon."""
        return None if self._terms.horizon is None else self._terms.horizon - self.t

    @property
    def budget(self) -> Budget:
        """What all releases together may reveal."""
        return self._terms.budget

    @property
    def mechanism(self) -> Mechanism:
        """How noise is shared over time."""
        return self._terms.mechanism

    @property
    def shape(self) -> tuple[int, ...]:
        """The shape of a release."""
        return self._terms.shape

    @property
    def clipped(self) -> int:
        """How many steps' inputs were clipped."""
        return self._clipped
