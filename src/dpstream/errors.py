"""One exception per meaning, each carrying its numbers.

Every error of this library is a `DpstreamError`. Those that stem from a bad argument are also `ValueError` (or
`TypeError`), so that callers who know nothing of dpstream can still catch them.
"""

from __future__ import annotations

__all__ = [
    "BudgetError",
    "CapacityError",
    "DenseTooLarge",
    "DpstreamError",
    "ForkedStream",
    "HorizonExceeded",
    "HorizonRequired",
    "InputNotFinite",
    "InputOutOfBound",
    "InputShapeError",
    "InputTypeError",
    "InvalidArgument",
    "KeyLengthError",
    "MechanismTooShort",
    "NoReleaseYet",
    "NoiseLawError",
    "NothingFits",
    "OutputMismatch",
    "ParticipationError",
    "StateError",
    "SumsTooLarge",
    "TooManyPeople",
]


class DpstreamError(Exception):
    """The base of every error raised on purpose by dpstream."""


class InvalidArgument(DpstreamError, ValueError):
    """An argument has a value that is not allowed.

    Parameters
    ----------
    argument
        The name of the argument.
    given
        What was given.
    allowed
        What is allowed, in words.
    """

    def __init__(self, argument: str, given: object, allowed: str) -> None:
        super().__init__(f"{argument} must be {allowed}, got {given!r}")
        self.argument = argument
        self.given = given
        self.allowed = allowed


class BudgetError(InvalidArgument):
    """A privacy budget that means nothing: rho, epsilon or delta out of range."""


class ParticipationError(InvalidArgument):
    """A participation pattern that cannot happen."""


class NoiseLawError(DpstreamError, ValueError):
    """A noise law, or a price, that this mechanism does not have."""


class CapacityError(DpstreamError, ValueError):
    """A tree of the given shape holds fewer steps than were asked for."""

    def __init__(self, *, zeros: int, ones: int, holds: int, horizon: int) -> None:
        super().__init__(
            f"a smooth tree with zeros={zeros} and ones={ones} holds {holds} steps, but horizon={horizon} was asked for"
        )
        self.zeros, self.ones, self.holds, self.horizon = zeros, ones, holds, horizon


class HorizonExceeded(DpstreamError):
    """A step past the last one that the privacy guarantee covers."""

    def __init__(self, *, horizon: int, step: int) -> None:
        super().__init__(f"step {step} is past the horizon: this stream was built and priced for {horizon} steps")
        self.horizon, self.step = horizon, step


class HorizonRequired(DpstreamError, TypeError):
    """A mechanism without a horizon was asked for something that needs a number of steps."""

    def __init__(self, *, mechanism: str, method: str) -> None:
        super().__init__(f"{mechanism} has no horizon: say how many steps, as in {method}(steps=1000)")
        self.mechanism, self.method = mechanism, method


class DenseTooLarge(DpstreamError, ValueError):
    """Dense matrices were asked for at a size where they stop being useful."""

    def __init__(self, *, steps: int, limit: int) -> None:
        super().__init__(
            f"factors() builds dense matrices and stops at {limit} steps, but {steps} were asked for;"
            f" pass steps={limit} or less for the leading part, or use variance() and sensitivity()"
        )
        self.steps, self.limit = steps, limit


class KeyLengthError(DpstreamError, ValueError):
    """A key that is not 32 bytes. The message never holds any part of the key."""


class OutputMismatch(DpstreamError, ValueError):
    """An `out` array of the wrong shape, dtype or memory layout."""


class ForkedStream(DpstreamError):
    """A noise stream was used in a forked child process, where it would repeat its parent's noise."""

    def __init__(self) -> None:
        super().__init__(
            "this process was forked while the stream was open: parent and child would publish the same noise under"
            " different data, which gives the difference away. Keep using the stream in the parent, or call"
            " stream.fresh() in the child for a stream of its own (its own key, its own budget, from step 1)"
        )


class StateError(DpstreamError, ValueError):
    """Saved bytes that are not a state of this stream: damaged, of another stream, or of another version."""


class InputTypeError(DpstreamError, TypeError):
    """A step's input is not made of what this lane adds up: whole numbers (exact) or real numbers (float)."""

    def __init__(self, *, given: str, allowed: str) -> None:
        super().__init__(f"a step's input must be {allowed}, got {given}; nothing was added")
        self.given, self.allowed = given, allowed


class InputShapeError(DpstreamError, ValueError):
    """A step's input has another shape than the releases."""

    def __init__(self, *, given: tuple[int, ...], allowed: str) -> None:
        super().__init__(f"a step's input must have shape {allowed}, got {given}; nothing was added")
        self.given, self.allowed = given, allowed


class InputNotFinite(DpstreamError, ValueError):
    """A step's input holds a NaN or an infinity."""

    def __init__(self) -> None:
        super().__init__("a step's input must be finite, but holds a NaN or an infinity; nothing was added")


class InputOutOfBound(DpstreamError, ValueError):
    """A step's input is larger than was declared, or negative where only counts are allowed."""

    def __init__(self, *, given: float, least: float, most: float, what: str) -> None:
        super().__init__(
            f"{what} of a step's input must be from {least:g} to {most:g}, got {given!r}; nothing was added."
            " clip=True makes such inputs fit, and counts them"
        )
        self.given, self.least, self.most = given, least, most


class MechanismTooShort(DpstreamError, ValueError):
    """A mechanism is built and priced for fewer steps than were asked for."""

    def __init__(self, *, mechanism: str, holds: int, horizon: int | None) -> None:
        asked = "horizon=None (no last step)" if horizon is None else f"horizon={horizon}"
        super().__init__(f"{mechanism} is built and priced for {holds} steps, but {asked} was asked for")
        self.mechanism, self.holds, self.horizon = mechanism, holds, horizon


class SumsTooLarge(DpstreamError, ValueError):
    """Sums and noise of this size might not fit into 64 bits."""

    def __init__(self, *, horizon: int, largest: int, noise: float, most: int) -> None:
        super().__init__(
            f"{horizon} steps of up to {largest} each, and noise of up to {noise:.3g}, may pass {most}, the most that"
            " int64 sums are allowed to reach; use a shorter horizon, a smaller bound or a larger budget"
        )
        self.horizon, self.largest, self.noise, self.most = horizon, largest, noise, most


class NoReleaseYet(DpstreamError):
    """An interval was asked for before the first release."""

    def __init__(self) -> None:
        super().__init__("there is no release yet: an interval belongs to the last release, so add something first")


class NothingFits(DpstreamError, ValueError):
    """No mechanism can serve what was asked for."""

    def __init__(self, *, wanted: str, reasons: dict[str, str]) -> None:
        listed = "; ".join(f"{name}: {reason}" for name, reason in reasons.items())
        super().__init__(f"no mechanism fits {wanted} ({listed or 'none was considered'})")
        self.wanted, self.reasons = wanted, reasons


class TooManyPeople(DpstreamError):
    """A new person appeared when a contribution limit had room for no more."""

    def __init__(self, *, capacity: int) -> None:
        super().__init__(
            f"this ContributionLimit has met {capacity} people, its capacity, and cannot count another one; nothing"
            " changed, and people it knows are still served. Build it with a larger capacity"
        )
        self.capacity = capacity
