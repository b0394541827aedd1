"""The contract that every mechanism keeps.

A mechanism says how noise is shared over time: a factorisation ``A = L @ R`` of the prefix-sum matrix. It knows nothing
of randomness or data. Releasing ``A x + L z`` with independent draws ``z`` is private because the noise hides ``R x``.

Two views of the same mechanism are offered and held against each other by the tests:

* the algebra: `Mechanism.factors`, `Mechanism.sensitivity`, `Mechanism.variance`;
* the stream: `Mechanism.start` and `Mechanism.advance`, a pure step from one release's noise to the next.
"""

from __future__ import annotations

import hashlib
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, ClassVar, Literal, overload

import numpy as np
from numpy.typing import ArrayLike, NDArray

from dpstream.arguments import check_whole
from dpstream.errors import (
    DenseTooLarge,
    HorizonExceeded,
    HorizonRequired,
    InvalidArgument,
    NoiseLawError,
)
from dpstream.participation import Participation

__all__ = [
    "DENSE_LIMIT",
    "DrawsPerStep",
    "Mechanism",
    "NoiseLaw",
    "SensitivityOf",
    "State",
    "Value",
    "check_noise_law",
    "check_window_steps",
    "sampled_steps",
]

NoiseLaw = Literal["gaussian", "laplace"]
SensitivityOf = Literal["nodes", "releases"]

#: Dense factors above this many steps are refused: 4,096² doubles are 128 MB a matrix.
DENSE_LIMIT = 4096

#: Arrays with one entry a step are refused above this many.
ARRAY_LIMIT = 2**28

#: Variances of windows that are computed step by step stop here.
WINDOW_STEPS = 2**22

#: A computed sensitivity is rounded up by this much, so that floating-point error in it never costs privacy.
SAFETY = 1.0 + 1e-12

#: How far the identity of a mechanism without a last release looks.
SAMPLED_LIMIT = 2**16

RealArray = NDArray[np.float64]

#: What a stream's noise is made of: a NumPy array, but also a float, a fraction or a ball of Arb. A pure step may use
#: nothing but + and - between two of them and * with a Python float, so that one step serves them all.
Value = Any


@dataclass(frozen=True)
class DrawsPerStep:
    """How many independent draws a release takes, at worst and on average over the horizon."""

    worst: int
    average: float


class State(ABC):
    """What a stream remembers between two releases. Immutable; `t` is the number of releases made so far."""

    t: int


class Mechanism(ABC):
    """How noise is shared over time; see the module's text for the two views.

    Sub-classes are frozen dataclasses whose fields are their constructor's arguments, resolved: two mechanisms are
    equal exactly if they describe the same noise, and ``repr`` is a constructor call that says everything.

    Guarantee
    ---------
    Releases A x + L z, with independent draws z of scale ``sensitivity(participation) · per_person / μ`` (Gaussian,
    μ² = 2ρ) or ``/ ε`` (Laplace), keep this for every mechanism:

    * Notion: ρ-zCDP with Gaussian noise, pure ε-DP with Laplace noise, for all releases together.
    * Neighbours: streams that differ in the steps of one person as `Participation` says, in each by at most
      `per_person` (ℓ2; ℓ1 for Laplace noise).
    * Horizon: `horizon` releases, a further one is refused; without a horizon a stream without end.
    * Adaptivity: inputs may depend on earlier releases.

    Attributes
    ----------
    horizon
        The number of releases T, or None if there is no last one.
    noise
        The law of the draws z: independent, of unit variance if "gaussian", of unit scale if "laplace".
    sensitivity_of
        What `sensitivity` is the sensitivity of: "nodes" (of R x, as if R x + z were published; any noise law) or
        "releases" (of what is published, A x + L z; Gaussian noise only; never more).
    reference
        Where the mechanism comes from.
    """

    horizon: int | None
    noise: NoiseLaw = "gaussian"
    sensitivity_of: SensitivityOf = "nodes"
    reference: ClassVar[str]

    @cached_property
    def identity(self) -> str:
        """What the noise depends on: part of every stream's key, so that other noise has other keys.

        The constructor call, and a digest of the computed numbers that the noise is made of: if another version or
        another library computes one of them differently, in the last digit, it makes other noise and has another key.
        """
        content = hashlib.sha256()
        for array in self.computed_numbers():
            numbers = np.ascontiguousarray(array, dtype="<f8")
            content.update(repr(numbers.shape).encode() + numbers.tobytes())
        return f"{self!r} {content.hexdigest()}"

    # -- what each mechanism must say ---------------------------------------------------------------------------

    @property
    @abstractmethod
    def draws_per_step(self) -> DrawsPerStep:
        """Independent draws that a release takes."""

    @property
    @abstractmethod
    def memory(self) -> int:
        """How many vectors a stream holds between two steps (for an unbounded mechanism: at a million steps)."""

    @abstractmethod
    def start(self) -> State:
        """The state before the first release."""

    @abstractmethod
    def draws_at(self, t: int) -> int:
        """How many draws release t takes."""

    @abstractmethod
    def advance(self, state: Any, draws: Sequence[Value]) -> tuple[Value, Any]:
        """Take the draws of release ``state.t + 1``; return its noise (L z)_t and the next state.

        Pure: `state` and `draws` are not changed, and nothing else is read. `draws` holds `draws_at(state.t + 1)`
        independent standard draws, all of one shape.
        """

    @abstractmethod
    def _factors(self, steps: int) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
        """Dense (L, R) of the first `steps` releases."""

    @abstractmethod
    def _sensitivity(self, participation: Participation) -> tuple[float, bool]:
        """The sensitivity under `participation` (``times`` already cut to what fits), and whether it is exact."""

    @abstractmethod
    def squared_row_norm(self, t: int) -> float:
        """‖L_t‖², fast: O(log T) for a tree, O(buffers²) for a recurrence."""

    @abstractmethod
    def squared_row_norms(self, steps: int) -> NDArray[np.float64]:
        """‖L_t‖² for t = 1..steps."""

    def max_squared_row_norm(self, steps: int) -> float:
        """The largest ‖L_t‖² over t = 1..steps; trees know it without looking at every t."""
        return float(self.squared_row_norms(steps).max())

    def mean_squared_row_norm(self, steps: int) -> float:
        """The mean of ‖L_t‖² over t = 1..steps."""
        return float(self.squared_row_norms(steps).mean())

    # -- what a kind of mechanism may know better than the pure step ---------------------------------------------

    def noise_of_release(self, t: int, draw: Callable[[int, int], Value]) -> Value:
        """Return (L z)_t from the draws it takes, where ``draw(step, slot)`` gives draw number `slot` of a step.

        This replays the pure step from the first release; kinds override it where fewer draws are needed. It must be
        the same sum as the stream's: exact rounding stands on it.
        """
        state, noise = self.start(), None
        for step in range(1, t + 1):
            noise, state = self.advance(state, [draw(step, slot) for slot in range(self.draws_at(step))])
        return noise

    def row_weights(self, t: int) -> list[float]:
        """Return the entries of row t of L that are not zero."""
        row = self.factors(t)[0][-1]
        return [float(weight) for weight in row[row != 0]]

    def widest_row_weights(self, steps: int) -> list[float]:
        """Return `row_weights` of the release with the largest variance among the first `steps`."""
        return self.row_weights(int(self.squared_row_norms(steps).argmax()) + 1)

    def computed_numbers(self) -> Iterable[ArrayLike]:
        """Return the numbers that the noise is made of, or enough of them to notice a change: `identity` digests them.

        By default the first rows of L; kinds return what they stream from, at `sampled_steps`.
        """
        yield self._factors(min(self.horizon or 32, 32))[0]

    @property
    def table_bytes(self) -> int:
        """How many bytes of tables all streams of this mechanism share."""
        return 0

    @property
    def serves_without_horizon(self) -> bool:
        """Whether this mechanism may stream when no last release is known."""
        return self.horizon is None

    def window_weights(self, t: int, s: int) -> list[tuple[float, float]]:
        """Return the weights of each draw in release t and in an earlier release s ≥ 1, unless both are 0."""
        L = self.factors(t)[0]
        return [
            (later, earlier) for later, earlier in zip(*L[[t - 1, s - 1]].tolist(), strict=True) if later or earlier
        ]

    def squared_window_norm(self, t: int, s: int) -> float:
        """‖L_t - L_s‖² for 0 ≤ s < t. This looks at dense factors; kinds of mechanisms know faster ways."""
        L = self.factors(t)[0]
        difference = L[t - 1] - L[s - 1] if s else L[t - 1]
        return float(difference @ difference)

    def squared_window_norms(self, window: int, steps: int) -> NDArray[np.float64]:
        """‖L_t - L_{t-window}‖² for t = 1..steps, and ‖L_t‖² where t ≤ window; see `squared_window_norm`."""
        rows = self.factors(steps)[0]
        rows[window:] -= rows[: max(steps - window, 0)].copy()
        norms: NDArray[np.float64] = (rows**2).sum(axis=1)
        return norms

    def max_squared_window_norm(self, window: int, steps: int) -> float:
        """The largest of `squared_window_norms`."""
        return float(self.squared_window_norms(window, steps).max())

    def mean_squared_window_norm(self, window: int, steps: int) -> float:
        """The mean of `squared_window_norms`."""
        return float(self.squared_window_norms(window, steps).mean())

    # -- what follows from it -----------------------------------------------------------------------------------

    def factors(self, steps: int | None = None) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
        """Dense ``(L, R)`` with ``L @ R`` the prefix-sum matrix of the first `steps` releases (default: all).

        Raises
        ------
        DenseTooLarge
            Above 4,096 steps.
        HorizonRequired
            If the mechanism has no horizon and `steps` is not given.
        """
        n = self._steps(steps, "factors")
        if n > DENSE_LIMIT:
            raise DenseTooLarge(steps=n, limit=DENSE_LIMIT)
        return self._factors(n)

    def sensitivity(self, participation: Participation | None = None) -> float:
        """How far one person can move what the noise protects, per unit of `per_person`.

        ℓ2 for Gaussian noise, ℓ1 for Laplace, rounded up. `sensitivity_is_exact` tells whether it is attained or a
        safe upper bound.
        """
        return self._safe_sensitivity(participation)[0]

    def sensitivity_is_exact(self, participation: Participation | None = None) -> bool:
        """Whether `sensitivity` is attained under this participation, and not only an upper bound."""
        return self._safe_sensitivity(participation)[1]

    def _safe_sensitivity(self, participation: Participation | None) -> tuple[float, bool]:
        participation = Participation() if participation is None else participation
        if not isinstance(participation, Participation):
            raise InvalidArgument("participation", participation, "a Participation")
        fitting = Participation(participation.reach(self.horizon), participation.separation)
        if fitting not in self._sensitivities:
            value, exact = self._sensitivity(fitting)
            self._sensitivities[fitting] = (value * SAFETY, exact)
        return self._sensitivities[fitting]

    @cached_property
    def _sensitivities(self) -> dict[Participation, tuple[float, bool]]:
        """What `_safe_sensitivity` has found: a walk over patterns takes up to half a second."""
        return {}

    @overload
    def variance(self, t: None = None, *, since: int = 0, participation: Participation | None = None) -> RealArray: ...
    @overload
    def variance(self, t: int, *, since: int = 0, participation: Participation | None = None) -> float: ...
    def variance(
        self, t: int | None = None, *, since: int = 0, participation: Participation | None = None
    ) -> float | RealArray:
        """Normalised variance V_t = sensitivity² · ‖L_t‖² of release t, or of all releases as an array.

        The true variance is ``V_t · per_person² / (2ρ)`` for Gaussian and ``2 · V_t · per_person² / ε²`` for Laplace
        noise.

        Parameters
        ----------
        t
            The release; None for all of them.
        since
            An earlier release s: V is then that of the sum of the steps s + 1 .. t, release t minus release s. Two
            releases share noise, so that this is not the sum of their variances.
        participation
            How often one person may appear; None for one step.
        """
        squared = self.sensitivity(participation) ** 2
        if t is None:
            if since != 0:
                raise InvalidArgument("since", since, "0 unless t is given; for windows of one length see max_variance")
            steps = self._steps(None, "max_variance")
            if steps > ARRAY_LIMIT:
                raise InvalidArgument("t", None, f"given above {ARRAY_LIMIT} steps: {steps} variances fit no memory")
            return squared * self.squared_row_norms(steps)
        t = check_whole("t", t)
        since = check_whole("since", since, least=0)
        if self.horizon is not None and t > self.horizon:
            raise HorizonExceeded(horizon=self.horizon, step=t)
        if since >= t:
            raise InvalidArgument("since", since, f"less than t, {t}")
        return squared * (self.squared_window_norm(t, since) if since else self.squared_row_norm(t))

    def max_variance(
        self, steps: int | None = None, *, window: int | None = None, participation: Participation | None = None
    ) -> float:
        """The largest V_t over the first `steps` releases (default: all).

        With a window w, V_t is that of the sum of the last w steps up to t, release t minus release t - w (of all steps
        up to t while there are no more than w).
        """
        n, squared = self._steps(steps, "max_variance"), self.sensitivity(participation) ** 2
        if window is not None and self._checked_window(window) < n:
            return squared * self.max_squared_window_norm(window, n)
        return squared * self.max_squared_row_norm(n)

    def mean_variance(
        self, steps: int | None = None, *, window: int | None = None, participation: Participation | None = None
    ) -> float:
        """The mean of V_t over the first `steps` releases (default: all); for a window see `max_variance`."""
        n, squared = self._steps(steps, "mean_variance"), self.sensitivity(participation) ** 2
        if window is not None and self._checked_window(window) < n:
            return squared * self.mean_squared_window_norm(window, n)
        return squared * self.mean_squared_row_norm(n)

    def _checked_window(self, window: int) -> int:
        window = check_whole("window", window)
        if self.horizon is not None and window > self.horizon:
            raise InvalidArgument("window", window, f"at most the horizon, {self.horizon}")
        return window

    def _steps(self, steps: int | None, method: str) -> int:
        """`steps`, checked; the horizon if it was left out."""
        if steps is None:
            if self.horizon is None:
                raise HorizonRequired(mechanism=type(self).__name__, method=method)
            return self.horizon
        steps = check_whole("steps", steps)
        if self.horizon is not None and steps > self.horizon:
            raise HorizonExceeded(horizon=self.horizon, step=steps)
        return steps

    def _next_step(self, state: State) -> int:
        """The number of the release after `state`, refused past the horizon."""
        t = state.t + 1
        if self.horizon is not None and t > self.horizon:
            raise HorizonExceeded(horizon=self.horizon, step=t)
        return t


def sampled_steps(horizon: int | None) -> list[tuple[int, int]]:
    """Return runs (first step, how many) that `Mechanism.identity` looks at: both ends, and around powers of two.

    >>> sampled_steps(100)
    [(1, 64), (63, 3), (97, 4)]
    """
    last = SAMPLED_LIMIT if horizon is None else horizon
    runs = [(1, min(last, 64))]
    runs += [(2**k - 1, 3) for k in range(6, last.bit_length()) if 2**k + 1 <= last]
    return [*runs, (last - 3, 4)] if last > 64 else runs


def check_window_steps(steps: int, most: int = WINDOW_STEPS) -> None:
    """Refuse to look at windows of more steps than are looked at one by one."""
    if steps > most:
        raise InvalidArgument("t", steps, f"at most {most} for the variance of a window of this mechanism")


def check_noise_law(mechanism: str, noise: object, allowed: tuple[NoiseLaw, ...] = ("gaussian", "laplace")) -> NoiseLaw:
    """The noise law, refused unless this mechanism has it."""
    if noise not in ("gaussian", "laplace"):
        raise InvalidArgument("noise", noise, "'gaussian' or 'laplace'")
    if noise not in allowed:
        raise NoiseLawError(
            f"{mechanism} has real coefficients and takes Gaussian noise only, got noise={noise!r};"
            " for pure epsilon use SmoothBinary, Binary or SignedDigits with noise='laplace'"
        )
    return noise
