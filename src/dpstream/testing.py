"""For tests and documentation only: keys that are the same in every run, and the contract that every class keeps.

A fixed key makes noise that anybody can recompute. Never use one for real data.

`check_mechanism`, `check_noise`, `check_counter` and `check_running_sum` raise AssertionError with a sentence that says
what is wrong. Run them on a mechanism, stream or release of your own. Statistical parts have a false-alarm rate below
1e-6 over the choice of key, and the keys are fixed: what passes once passes always.
"""

from __future__ import annotations

import gc
import hashlib
import math
import tracemalloc
from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dpstream.budget import Budget, noise_scale, pure_dp, zcdp
from dpstream.distance import check_distance
from dpstream.errors import DpstreamError, HorizonExceeded
from dpstream.mechanisms.base import Mechanism
from dpstream.noise.pure_step_engine import TrackedError
from dpstream.participation import Participation

__all__ = ["check_counter", "check_distance", "check_mechanism", "check_noise", "check_running_sum", "fixed_key"]

#: Independent streams behind each statistical check.
STREAMS = 4000
#: A standard normal exceeds this once in 10^9 times; no check looks at more than a few hundred of them.
FAR = 6.2


def fixed_key(label: str) -> bytes:
    """A 32-byte key that follows from `label`, known to everybody.

    Examples
    --------
    >>> len(fixed_key("example"))
    32
    """
    return hashlib.sha256(b"dpstream test key, not for real data: " + label.encode()).digest()


# -- mechanisms -------------------------------------------------------------------------------------------------------


#: Sensitivities are held against dense matrices over so many steps, and against so many choices of steps.
SENSITIVITY_STEPS = 1024
PATTERNS = 100


def check_mechanism(mechanism: Mechanism, steps: int | None = None) -> None:
    """Hold a mechanism against its own dense matrices, over `steps` steps (default: its horizon, at most 64).

    Checked are that L R is the matrix of prefix sums; that the pure step is pure, streams L and takes no more draws
    than stated; variances; that a step past the horizon is refused; and that the sensitivity is not below that of R to
    one step, to two, three and four steps (some hundred choices of them, with signs), nor far above it where it is
    called exact. Sensitivities are looked at over the whole horizon, up to 1,024 steps, whatever `steps` is: one that
    is too small for a long stream only would else pass. Not checked are `memory` and sensitivities beyond.

    Examples
    --------
    >>> from dpstream.mechanisms import SmoothBinary
    >>> check_mechanism(SmoothBinary(20))
    """
    if steps is None:
        steps = min(mechanism.horizon or 64, 64)
    L, R = mechanism.factors(steps)
    _require(np.allclose(L @ R, np.tri(steps), atol=1e-8), "L @ R is not the prefix-sum matrix")
    _check_sensitivity(mechanism, steps)
    variance = mechanism.sensitivity() ** 2 * (L**2).sum(axis=1)
    stated = [mechanism.variance(t) for t in range(1, steps + 1)]
    _require(np.allclose(stated, variance, rtol=1e-8), "variance(t) is not sensitivity² · ‖L_t‖²")
    _require(math.isclose(mechanism.max_variance(steps), variance.max(), rel_tol=1e-8), "max_variance() is wrong")
    _require(math.isclose(mechanism.mean_variance(steps), variance.mean(), rel_tol=1e-8), "mean_variance() is wrong")
    operator = _streamed(mechanism, steps)
    _check_arithmetic(mechanism, operator)
    _require(np.allclose(operator @ operator.T, L @ L.T, atol=1e-8), "the stream's covariance is not that of L")
    if mechanism.horizon == steps:
        state = mechanism.start()
        for t in range(1, steps + 1):
            _, state = mechanism.advance(state, [np.zeros(1)] * mechanism.draws_at(t))
        _refused(lambda: mechanism.advance(state, [np.zeros(1)]), "a step past the horizon", HorizonExceeded)
        _refused(lambda: mechanism.variance(steps + 1), "the variance past the horizon", HorizonExceeded)


def _check_sensitivity(mechanism: Mechanism, steps: int) -> None:
    looked_at = max(steps, min(mechanism.horizon or steps, SENSITIVITY_STEPS))
    L, R = mechanism.factors(looked_at)
    order = 1 if mechanism.noise == "laplace" else 2
    releases = mechanism.sensitivity_of == "releases"
    protected = np.linalg.lstsq(L, np.tri(looked_at), rcond=None)[0] if releases else R
    needed = np.linalg.norm(protected, ord=order, axis=0).max()
    stated = mechanism.sensitivity()
    _require(stated >= needed * (1 - 1e-11), f"sensitivity() is below {needed}, the sensitivity of its factors")
    whole = mechanism.horizon == looked_at
    if whole and mechanism.sensitivity_is_exact():
        _require(stated <= needed * (1 + 1e-6), f"sensitivity() is called exact, and that of its factors is {needed}")
    rng = np.random.default_rng(1)  # which patterns are tried is no secret
    for times, separation in ((2, 2), (3, 5), (4, 2)):
        bound = mechanism.sensitivity(Participation(times=times, separation=separation))
        for _ in range(PATTERNS):
            gaps = separation + rng.geometric(rng.uniform(0.05, 1), size=times - 1) - 1
            at = rng.integers(looked_at) + np.concatenate([[0], np.cumsum(gaps)])
            at = at[at < looked_at]
            signs = rng.choice([1.0, 1.0, -1.0], size=at.size)
            found = np.linalg.norm(protected[:, at] @ signs, ord=order)
            enough = bound >= max(found, needed) * (1 - 1e-11)
            _require(enough, f"sensitivity() to a person in {times} steps is too low")


def _streamed(mechanism: Mechanism, steps: int) -> NDArray[np.float64]:
    """The pure step as a matrix: unit vectors in, rows out; and that it is pure."""
    counts = [mechanism.draws_at(t) for t in range(1, steps + 1)]
    _require(max(counts) <= mechanism.draws_per_step.worst, "a step takes more draws than draws_per_step says")
    units = iter(np.eye(sum(counts)))
    state, rows = mechanism.start(), []
    for count in counts:
        draws = [next(units) for _ in range(count)]
        before = [draw.copy() for draw in draws]
        noise, following = mechanism.advance(state, draws)
        noise = np.array(noise)
        again, _ = mechanism.advance(state, draws)
        _require(np.array_equal(noise, again), "the same state and draws gave two different noises")
        _require(all(map(np.array_equal, draws, before)), "advance changed the draws it was given")
        rows.append(noise)
        state = following
    return np.array(rows)


def _check_arithmetic(mechanism: Mechanism, operator: NDArray[np.float64]) -> None:
    """Check that the pure step uses only + and - between values and * with floats, as exact rounding needs."""
    units = iter(np.eye(operator.shape[1]))
    state = mechanism.start()
    for t, row in enumerate(operator, start=1):
        draws = [TrackedError(next(units), 0.0) for _ in range(mechanism.draws_at(t))]
        try:
            noise, state = mechanism.advance(state, draws)
            same = np.allclose(noise.value, row, atol=1e-8)
        except (TypeError, AttributeError) as error:
            raise AssertionError(f"advance must use only + and - between values and * with floats: {error}") from error
        _require(same, "the pure step gives other noise for numbers that are no arrays")


# -- noise ------------------------------------------------------------------------------------------------------------


def check_noise(make: Callable[[bytes, int], Any], steps: int = 24) -> None:
    """Check a noise stream: one value a step for ever, of the right law.

    Parameters
    ----------
    make
        Opens a stream: ``make(key, coordinates)``, a `NoiseStream` or something that behaves like one.
    steps
        How many steps to look at.

    Examples
    --------
    >>> from dpstream import NoiseStream
    >>> from dpstream.mechanisms import Binary
    >>> check_noise(lambda key, coordinates: NoiseStream(Binary(30), 2.0, coordinates, key=key))
    """
    key = fixed_key("contract")
    for coordinates in (3, 70):
        stream = make(key, coordinates)
        _require(stream.t == 0, "a new stream does not stand at step 0")
        kept = [stream.step() for _ in range(steps)]
        values = np.array([np.array(v) for v in kept])
        _require(stream.t == steps, "t does not count the steps")
        _require(len({id(v) for v in kept}) == steps, "two steps returned the same array")
        for first in (0, 1, steps // 2):
            again = make(key, coordinates)
            head = again.block(first)
            _require(np.array_equal(head, values[:first]), "block() and step() differ")
            again.step()
            _require(np.array_equal(again.block(steps - first - 1), values[first + 1 :]), "block() and step() differ")
        moved = make(key, coordinates)
        moved.seek(steps - 1)
        _require(np.array_equal(moved.step(), values[-1]), "seek() and stepping differ")
        half = make(key, coordinates)
        half.block(steps // 2)
        saved = type(half).from_state(half.state(), half.mechanism, half.scale, half.shape, dtype=half.dtype, key=key)
        _require(
            np.array_equal(saved.block(steps - steps // 2), values[steps // 2 :]), "a saved and restored stream differs"
        )
        other = make(fixed_key("another"), coordinates).block(steps)
        _require(not np.array_equal(other, values), "two keys gave the same noise")
        if stream.mechanism.horizon == steps:
            for attempt in (stream.step, partial(stream.block, 1)):
                _refused(attempt, "a step past the horizon", HorizonExceeded)
                _require(stream.t == steps, "a refused step moved t")
    _check_memory(lambda: make(key, 70), lambda stream: stream.step(), steps)
    stream = make(key, STREAMS)
    noise = stream.block(steps).astype(np.float64).T
    _check_law(noise, stream.mechanism, stream.scale, rounding=1 / 12 if stream.dtype == np.int64 else 0.0)


# -- releases ---------------------------------------------------------------------------------------------------------


def check_counter(make: Callable[..., Any], budget: Budget | None = None, horizon: int = 24) -> None:
    """Check a counter: exact sums, one noise a step, refusals that change nothing, enough noise for the budget.

    Parameters
    ----------
    make
        Builds a counter, called like `dpstream.Counter` with keywords.
    budget
        What the statistical part runs with; `zcdp(0.5)` if left out.
    horizon
        How many steps to look at.

    Examples
    --------
    >>> from dpstream import Counter
    >>> check_counter(Counter)
    """
    budget = zcdp(0.5) if budget is None else budget
    data = np.random.default_rng(5).integers(-3, 4, horizon)

    def build(**settings: Any) -> Any:
        return make(
            **(
                {"horizon": horizon, "budget": budget, "per_person": 3, "per_step": 3, "key": fixed_key("contract")}
                | settings
            )
        )

    silent = build(budget=_silent(budget))
    _require([silent.add(int(x)) for x in data] == np.cumsum(data).tolist(), "without noise the counts are not exact")
    counter = build()
    loop = [counter.add(int(x)) for x in data]
    _require(all(type(v) is int for v in loop), "add() does not return an int")
    _check_extend(build, data, np.array(loop), np.dtype(np.int64))
    _check_refusals(build, data, [1.5, math.nan, "1", None, 4, -5, 10**30, [1], np.float64(1.0)])
    _check_streams_differ(build, data)
    _check_memory(build, lambda c: c.add(1), horizon)
    wide = build(shape=(STREAMS,))
    ones = np.zeros(STREAMS, dtype=np.int64)
    ones[7] = 2
    released = np.array([np.array(wide.add(ones)) for _ in range(horizon)])
    _require(ones[7] == 2 and ones.sum() == 2, "add() changed the array it was given")
    noise = released - np.cumsum(np.tile(ones, (horizon, 1)), axis=0)
    _check_scale(wide, budget, 3.0, noise.T.astype(np.float64), 1 / 12)
    _, _, low, high = wide.estimate(0.9)
    inside = float(((low <= horizon * ones) & (horizon * ones <= high)).mean())
    _require(inside > 0.9 - FAR * math.sqrt(0.09 / STREAMS), f"estimate(0.9) holds the truth {inside:.3f} of the time")


def check_running_sum(make: Callable[..., Any], budget: Budget | None = None, horizon: int = 24) -> None:
    """Check a running sum of vectors: as `check_counter`, for the float lane.

    Examples
    --------
    >>> from dpstream import RunningSum
    >>> check_running_sum(RunningSum)
    """
    budget = zcdp(0.5) if budget is None else budget
    rows = np.random.default_rng(5).standard_normal((horizon, 5)).astype(np.float32)
    data = (3 * rows / np.linalg.norm(rows, axis=1, keepdims=True)).astype(np.float32)

    def build(**settings: Any) -> Any:
        given = {
            "horizon": horizon,
            "budget": budget,
            "shape": (5,),
            "per_person": 3.0,
            "per_step": 3.0,
            "key": fixed_key("contract"),
        }
        return make(**(given | settings))

    silent = build(budget=_silent(budget))
    exact = np.cumsum(data.astype(np.float64), axis=0)
    _require(
        np.allclose([silent.add(x) for x in data], exact, rtol=1e-6, atol=1e-5), "without noise the sums are wrong"
    )
    total = build()
    kept = data.copy()
    loop = np.array([np.array(total.add(x)) for x in data])
    _require(np.array_equal(data, kept), "add() changed the array it was given")
    _require(total.dtype == loop.dtype, "a release is not of the dtype asked for")
    _require(np.array_equal(loop, np.rint(loop / total.grid) * total.grid), "releases are not on the grid")
    _require(total.grid < total.stddev() / 1000, "the grid is not far below the noise")
    _check_extend(build, data, loop, loop.dtype)
    long, nan, infinite = data[0] * 1.01, data[0].copy(), data[0].copy()
    nan[2], infinite[1] = np.nan, np.inf
    _check_refusals(build, data, [long, nan, infinite, data[0][:4], "1", None, data[0] * 1j, 1.0])
    _check_streams_differ(build, data)
    _check_memory(build, lambda s: s.add(data[0]), horizon)
    wide = build(shape=(STREAMS,))
    ones = np.zeros(STREAMS, dtype=np.float32)
    ones[7] = 2
    released = np.array([np.array(wide.add(ones)) for _ in range(horizon)], dtype=np.float64)
    _check_scale(wide, budget, 3.0, (released - np.cumsum(np.tile(ones, (horizon, 1)), axis=0)).T, 0.0)


def _silent(budget: Budget) -> Budget:
    """A budget so large that the noise vanishes."""
    return pure_dp(1e18) if budget.noise == "laplace" else zcdp(1e30)


def _check_extend(build: Callable[..., Any], data: NDArray[Any], loop: NDArray[Any], dtype: np.dtype[Any]) -> None:
    n = len(data)
    for cut in (0, 1, n // 3, n):
        release = build()
        head, tail = release.extend(data[:cut]), release.extend(data[cut:])
        _require(head.dtype == tail.dtype == dtype, f"extend() does not return {dtype.name}")
        _require(np.array_equal(np.concatenate([head, tail]), loop), "extend() and the loop differ")
        _require(release.t == n, "extend() does not count its steps")
    release = build()
    mixed = [release.add(data[0].item() if data.ndim == 1 else data[0]), *release.extend(data[1:-1])]
    mixed.append(release.add(data[-1].item() if data.ndim == 1 else data[-1]))
    _require(np.array_equal(mixed, loop), "add() and extend() in turns differ from the loop")


def _check_refusals(build: Callable[..., Any], data: NDArray[Any], bad: list[Any]) -> None:
    """After any refusal everything goes on as if it had never been asked for."""
    honest, tried = build(), build()
    half = len(data) // 2
    for i, x in enumerate(data):
        for wrong in bad if i in (0, half) else bad[:1]:
            _refused(partial(tried.add, wrong), f"the input {wrong!r}")
            _refused(partial(tried.extend, [wrong]), f"the input [{wrong!r}]")
            _require(tried.t == i, "a refused input moved t")
        too_many = np.concatenate([data[i:], data])
        _refused(partial(tried.extend, too_many), "more steps than there are", HorizonExceeded)
        _require(tried.t == i, "refusing too many steps moved t")
        x = x.item() if data.ndim == 1 else x
        _require(np.array_equal(tried.add(x), honest.add(x)), "a refused input changed what came after")
    first = data[0].item() if data.ndim == 1 else data[0]
    _refused(partial(tried.add, first), "a step past the horizon", HorizonExceeded)
    _require(tried.t == len(data), "a step past the horizon moved t")


def _check_streams_differ(build: Callable[..., Any], data: NDArray[Any]) -> None:
    """The same settings and key give the same releases; anything else changed gives other noise."""
    values = build().extend(data)
    _require(np.array_equal(build().extend(data), values), "the same key and settings gave other releases")
    others: list[dict[str, Any]] = [{"key": fixed_key("another")}, {"key": None}, {"name": "another"}]
    for changed in others:
        _require(
            not np.array_equal(build(**changed).extend(data), values),
            f"{next(iter(changed))} does not change the noise",
        )
    first, second = build(), build()
    released = first.extend(data[:3])
    released[...] = 77
    second.extend(data[:3])
    _require(
        np.array_equal(first.extend(data[3:]), second.extend(data[3:])), "changing a released array changed later ones"
    )


# -- statistics -------------------------------------------------------------------------------------------------------


def _check_scale(release: Any, budget: Budget, bound: float, noise: NDArray[np.float64], rounding: float) -> None:
    """The noise has the law that the budget asks for, and `stddev` says so."""
    mechanism: Mechanism = release.mechanism
    scale = noise_scale(mechanism, budget, per_person=bound)
    unit = 2 * scale**2 if mechanism.noise == "laplace" else scale**2
    for t in {1, noise.shape[1]}:
        needed = unit * mechanism.squared_row_norm(t)
        stated = release.stddev(t) ** 2
        _require(needed * (1 - 1e-9) <= stated <= 1.001 * needed + 0.1, f"stddev({t})² is {stated}, not {needed}")
    _check_law(noise, mechanism, scale, rounding)


def _check_law(noise: NDArray[np.float64], mechanism: Mechanism, scale: float, rounding: float) -> None:
    """The covariance over time is the mechanism's at this scale, and visibly not that at 2/3 or 3/2 of it."""
    L, _ = mechanism.factors(noise.shape[1])
    unit = 2 * scale**2 if mechanism.noise == "laplace" else scale**2
    covariance = unit * L @ L.T + rounding * np.eye(noise.shape[1])
    white = np.linalg.solve(np.linalg.cholesky(covariance), noise.T)
    wrong = _unlikely(white)
    _require(wrong is None, f"the noise does not have the law of its mechanism: {wrong}")
    for factor in (2 / 3, 3 / 2):
        _require(_unlikely(white / factor) is not None, f"a scale of {factor:.2f} passes as well")


def _unlikely(white: NDArray[np.float64]) -> str | None:
    """What is too far from uncorrelated noise of mean 0 and variance 1 (a row a step, a column a stream), or None."""
    n = white.shape[1]
    if np.abs(white.mean(axis=1)).max() > FAR / math.sqrt(n):
        return "its mean is not 0"
    products = white @ white.T / n - np.eye(len(white))
    # A product of two has variance 1; a square at most 5, that of a Laplace variable.
    if np.abs(np.diag(products)).max() > FAR * math.sqrt(5 / n):
        return "its variance is off"
    if np.abs(products - np.diag(np.diag(products))).max() > FAR * math.sqrt(1.2 / n):
        return "its correlations over time are off"
    across = float((white[:, 1:] * white[:, :-1]).mean())
    if abs(across) > FAR * math.sqrt(1.2 / white.size):
        return "its coordinates are correlated"
    return None


# -- asserting --------------------------------------------------------------------------------------------------------


def _check_memory(make: Callable[[], Any], step: Callable[[Any], object], steps: int) -> None:
    """What is held after all steps is no more than after half of them and a little."""
    first = make()
    for _ in range(steps):
        step(first)
    subject = make()
    for _ in range(steps // 2):
        step(subject)
    gc.collect()
    tracemalloc.start()
    try:
        for _ in range(steps - steps // 2):
            step(subject)
        gc.collect()
        held, _ = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    _require(
        held < 100_000 + 16 * steps * min(subject.mechanism.memory, steps) * 70,
        f"{held} bytes pile up in {steps} steps",
    )


def _require(condition: object, message: str) -> None:
    if not condition:
        raise AssertionError(message)


def _refused(attempt: Callable[[], object], what: str, error: type[Exception] = DpstreamError) -> None:
    try:
        attempt()
    except error:
        return
    except Exception as other:
        raise AssertionError(f"{what} was refused by {other!r}, not by a {error.__name__}") from other
    raise AssertionError(f"{what} was not refused")
