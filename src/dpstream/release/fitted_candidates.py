"""The mechanisms that `plan` fits to a question: several steps a person, or windows."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Literal

from dpstream.errors import DpstreamError, FitNotConverged
from dpstream.mechanisms.banded import Banded
from dpstream.mechanisms.banded_inverse import BandedInverse
from dpstream.mechanisms.base import Mechanism, NoiseLaw
from dpstream.mechanisms.fitted_toeplitz import FittedToeplitz
from dpstream.mechanisms.independent import Independent
from dpstream.participation import Participation

__all__ = ["Question", "fitted_candidates"]

#: Banded mechanisms are fitted up to here: beyond, their errors take minutes.
BANDED_STEPS = 2**17
#: In the exact lane, mechanisms whose parts cancel are offered up to here: beyond, too many releases are too close to
#: call in doubles, and a decision takes seconds (docs/exact-rounding.md, "Increments").
CANCELLING_STEPS = 2**16


@dataclass(frozen=True)
class Question:
    """What is asked of a plan: everything that a fit looks at, and how many vectors it may keep."""

    horizon: int
    noise: NoiseLaw
    participation: Participation
    windows: tuple[int, ...]
    objective: str
    vectors: int
    exact: bool

    @property
    def may_cancel(self) -> bool:
        """Whether parts of a release may cancel: complex pairs, normalised columns, bands."""
        return not self.exact or self.horizon <= CANCELLING_STEPS


def fitted_candidates(question: Question, left_out: dict[str, str]) -> Iterator[Mechanism]:
    """Yield mechanisms fitted to the question; note in `left_out` why others cannot be."""
    T, windows = question.horizon, question.windows or None
    yield Independent(T, noise=question.noise)
    if question.noise != "gaussian":
        return
    # More contributions than fit into the horizon cannot happen: a fit wants to know how many do.
    epochs = Participation(question.participation.reach(T), question.participation.separation)
    objective: Literal["max", "mean"] = "mean" if question.objective == "mean" else "max"
    makers: list[tuple[str, Callable[[], Mechanism]]] = [
        (f"FittedToeplitz, {buffers} buffers", lambda b=buffers: _fitted(question, epochs, objective, b))  # type: ignore[misc]
        for buffers in ((3,) if windows else (2, 4))
    ]
    if windows and question.may_cancel:
        makers.append(("FittedToeplitz, plain", lambda: _fitted(question, epochs, objective, 3, normalized=False)))
    if epochs.times > 1 and not windows and question.may_cancel:
        bands = min(epochs.separation, max(2, question.vectors - 1))
        if T <= BANDED_STEPS:
            makers.append(
                ("Banded", lambda: Banded.fit(T, participation=epochs, bands=bands, objective=objective)),
            )
            makers.append(("BandedInverse", lambda: BandedInverse.fit(T, participation=epochs, objective=objective)))
        else:
            left_out["Banded"] = f"it is fitted for at most {BANDED_STEPS:,} steps here"
    for name, make in makers:
        try:
            yield make()
        except DpstreamError as error:
            left_out[name] = str(error)


def _fitted(
    question: Question,
    participation: Participation,
    objective: Literal["max", "mean"],
    buffers: int,
    *,
    normalized: bool | None = None,
) -> FittedToeplitz:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", FitNotConverged)  # a plan ranks it by the error that it has
        return FittedToeplitz.fit(
            question.horizon,
            participation=participation,
            windows=question.windows or None,
            objective=objective,
            buffers=buffers,
            complex_pairs=None if question.may_cancel else False,
            normalized=normalized if question.may_cancel else False,
        )
