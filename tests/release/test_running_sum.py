"""RunningSum: sums that stay right, releases on a grid, norms on the safe side, refusals that change nothing."""

import copy
import math
import os
import pickle
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

import dpstream as dp
from dpstream.budget import noise_scale
from dpstream.errors import (
    ForkedStream,
    HorizonExceeded,
    InputNotFinite,
    InputOutOfBound,
    InputShapeError,
    InputTypeError,
    InvalidArgument,
    MechanismTooShort,
    NoiseLawError,
    StateError,
)
from dpstream.mechanisms import AnytimeToeplitz, Binary, SmoothBinary
from dpstream.release.real_inputs import NORM_ERROR, squared_norm
from dpstream.release.settings import GRID
from dpstream.testing import fixed_key

BUDGET = dp.zcdp(0.5)
SILENT = dp.zcdp(1e30)


def make(horizon=50, budget=BUDGET, shape=(5,), label="sum", **settings) -> dp.RunningSum:
    settings.setdefault("mechanism", SmoothBinary(horizon))
    settings.setdefault("per_step", settings.get("per_person", 1.0))  # a step is one person's, so that it is checked
    return dp.RunningSum(horizon, budget, shape=shape, key=fixed_key(label), **settings)


def unit(shape, seed=0, dtype="float32"):
    x = np.random.default_rng(seed).standard_normal(shape)
    return (x / np.linalg.norm(x)).astype(dtype)


@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("shape", [(), (5,), (3, 4), (300,)])
def test_releases_are_sums_plus_the_noise_of_the_stream(shape, dtype):
    data = np.array([unit(shape, i, dtype) for i in range(50)])
    total = make(shape=shape, dtype=dtype)
    noise = make(shape=shape, dtype=dtype)._stream
    for t, x in enumerate(data):
        exact = data[: t + 1].astype(np.float64).sum(axis=0) + noise.step()
        release = total.add(x)
        assert release.dtype == dtype
        assert release.shape == shape
        np.testing.assert_allclose(release, exact, atol=total.grid + 1e-5 * (dtype == "float32"))


@pytest.mark.parametrize("threads", [1, 2, 3])
def test_threads_change_nothing(threads):
    shape = (70_000,)
    data = np.array([unit(shape, i) for i in range(3)])
    np.testing.assert_array_equal(
        make(shape=shape, threads=threads).extend(data), make(shape=shape, threads=1).extend(data)
    )


@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_the_error_of_the_sums_does_not_grow(dtype):
    """A large number, many small ones, and the large one back: what is left is what the small ones make."""
    total = make(4000, budget=dp.zcdp(1e60), shape=(2,), dtype=dtype, per_person=1e8, mechanism=Binary(4000))
    large, small = np.array([7e7, -7e7], dtype=dtype), np.array([1e-3, 0.1], dtype=dtype)
    total.add(large)
    total.extend(np.tile(small, (3000, 1)))
    release = total.add(-large)
    exact = [float(3000 * Fraction(float(v))) for v in small]
    np.testing.assert_allclose(release, exact, rtol=1e-5 if dtype == "float32" else 1e-14)


def test_compensation_is_needed_and_works():
    rng = np.random.default_rng(4)
    data = rng.uniform(-1, 1, (2000, 2)) * 10.0 ** rng.uniform(-8, 8, (2000, 2))
    total = make(2000, budget=SILENT, shape=(2,), dtype="float64", per_person=1e9, mechanism=Binary(2000))
    total.extend(data)
    exact = [sum(map(Fraction, column.tolist())) for column in data.T]
    kept = [Fraction(float(s)) + Fraction(float(e)) for s, e in zip(total._sum, total._lost, strict=True)]
    naive = data.cumsum(axis=0)[-1]
    for e, k, n in zip(exact, kept, naive, strict=True):
        assert abs(k - e) <= abs(Fraction(float(n)) - e) / 1000


@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("rho", [1e-6, 0.5, 1e4])
def test_releases_are_on_a_grid_far_below_the_noise(dtype, rho):
    total = make(budget=dp.zcdp(rho), dtype=dtype)
    assert math.frexp(total.grid)[0] == 0.5  # a power of two
    least = min(total.stddev(t) for t in (1, 25, 50))
    assert GRID[dtype] * least / 2 < total.grid <= GRID[dtype] * least
    values = total.extend(np.array([unit((5,), i, dtype) for i in range(50)])).astype(np.float64)
    np.testing.assert_array_equal(values, np.rint(values / total.grid) * total.grid)
    # ... and the last bits of the noise are really gone: without the grid most values would be off it.
    noise = make(budget=dp.zcdp(rho), dtype=dtype)._stream.block(50).astype(np.float64)
    assert (noise != np.rint(noise / total.grid) * total.grid).mean() > 0.9


@settings(max_examples=200, deadline=None)
@given(hnp.arrays(np.float32, st.sampled_from([1, 5, 255, 256, 700]), elements=st.floats(-1, 1, width=32)))
def test_norms_are_right_to_well_below_the_slack(x):
    exact = sum(Fraction(float(v)) ** 2 for v in x)
    computed = Fraction(squared_norm(x))
    assert abs(computed - exact) <= exact * Fraction(NORM_ERROR) + Fraction(1, 2**120)


def test_rounding_is_on_the_safe_side():
    """What passes is never longer than what is paid for, and honest unit vectors pass."""
    total = make(shape=(700,), per_person=0.1)
    paid = noise_scale(total.mechanism, total.budget, per_person=0.1 * (1 + 2.0**-15))
    assert total.settings.scale == paid
    for seed in range(20):
        total.add(unit((700,), seed) * np.float32(0.1))
    just_too_long = unit((700,)).astype(np.float64) * (0.1 * (1 + 2.0**-15))
    with pytest.raises(InputOutOfBound, match=r"the ℓ2 norm of a step's input must be from 0 to 0\.1, got 0\.10000"):
        total.add(just_too_long.astype(np.float32))
    assert total.t == 20


BAD = [
    (unit((5,)) * np.float32(1.01), InputOutOfBound, "ℓ2 norm"),
    (np.full(5, 1e30, dtype=np.float32), InputOutOfBound, "got inf"),
    ([math.nan, 0, 0, 0, 0], InputNotFinite, "holds a NaN or an infinity"),
    ([math.inf, 0, 0, 0, 0], InputNotFinite, "holds a NaN or an infinity"),
    ([1e300, 0, 0, 0, 0], InputNotFinite, "infinity"),
    (unit((4,)), InputShapeError, r"shape \(5,\), got \(4,\)"),
    (unit((1, 5)), InputShapeError, r"got \(1, 5\)"),
    (0.5, InputShapeError, r"got \(\)"),
    (unit((5,), dtype="float64"), InputTypeError, "real numbers that fit into float32, got float64 values"),
    (unit((5,)) * 1j, InputTypeError, "complex"),
    (["a", "b", "c", "d", "e"], InputTypeError, "real numbers"),
    ([None] * 5, InputTypeError, "object"),
]


@pytest.mark.parametrize(("x", "error", "message"), BAD, ids=lambda v: str(v)[:25])
def test_bad_vectors_change_nothing(x, error, message):
    honest, tried = make(), make()
    data = [unit((5,), i) for i in range(4)]
    for i, good in enumerate(data):
        with pytest.raises(error, match=message):
            tried.add(x)
        assert tried.t == i
        np.testing.assert_array_equal(tried.add(good), honest.add(good))


def test_one_bad_row_refuses_all():
    honest, tried = make(), make()
    rows = np.array([unit((5,), i) for i in range(6)])
    bad = rows.copy()
    bad[4, 2] = np.nan
    with pytest.raises(InputNotFinite):
        tried.extend(bad)
    with pytest.raises(HorizonExceeded, match="step 60 is past the horizon"):
        tried.extend(np.tile(rows, (10, 1)))
    for wrong in (rows[0], 1.0, rows[:, :4]):
        with pytest.raises(InputShapeError):
            tried.extend(wrong)
    assert tried.t == 0
    np.testing.assert_array_equal(tried.extend(rows), honest.extend(rows))
    assert tried.extend(np.empty((0, 5))).shape == (0, 5)


def test_looking():
    total = make(shape=(2, 3), participation=dp.Participation(2))
    assert (total.t, total.remaining, total.horizon, total.shape, total.dtype) == (0, 50, 50, (2, 3), np.float32)
    total.add(np.zeros((2, 3), dtype=np.float32))
    assert (total.t, total.remaining) == (1, 49)
    scale = noise_scale(total.mechanism, total.budget, per_person=1 + 2.0**-15, participation=dp.Participation(2))
    assert total.stddev() == pytest.approx(scale * total.mechanism.squared_row_norm(1) ** 0.5)
    text = total.describe()
    for words in ("running sums", "rho = 0.5", "at most 2 steps", "ℓ2 norm", "real-valued noise"):
        assert words in text
    endless = dp.RunningSum(None, dp.zcdp(0.5), shape=3)
    assert type(endless.mechanism) is AnytimeToeplitz
    assert endless.remaining is None


@pytest.mark.parametrize(
    ("settings", "error", "message"),
    [
        ({"budget": dp.pure_dp(1.0), "mechanism": "auto"}, NoiseLawError, r"use Counter \(the exact lane\)"),
        ({"budget": dp.pure_dp(1.0), "mechanism": SmoothBinary(50, noise="laplace")}, NoiseLawError, "exact lane"),
        ({"mechanism": SmoothBinary(50, noise="laplace")}, NoiseLawError, "needs gaussian noise"),
        ({"mechanism": SmoothBinary(49)}, MechanismTooShort, "built for 49 steps"),
        ({"per_person": 0.0}, InvalidArgument, "per_person must be a number from 1e-10 to 1e\\+15 for float32"),
        ({"per_person": math.nan}, InvalidArgument, "per_person must be"),
        ({"per_person": True}, InvalidArgument, "per_person must be"),
        ({"per_person": "1"}, InvalidArgument, "per_person must be"),
        ({"dtype": "int64"}, InvalidArgument, "dtype must be 'float32' or 'float64'"),
        ({"dtype": "nonsense"}, InvalidArgument, "dtype must be"),
        ({"shape": (0,)}, InvalidArgument, "shape must be"),
        ({"threads": 0}, InvalidArgument, "threads must be"),
    ],
    ids=str,
)
def test_bad_settings(settings, error, message):
    with pytest.raises(error, match=message):
        dp.RunningSum(**({"horizon": 50, "budget": dp.zcdp(0.5), "shape": (5,), "mechanism": Binary(50)} | settings))


def test_an_interrupt_is_never_forgotten(monkeypatch):
    total, honest = make(), make()
    data = [unit((5,), i) for i in range(3)]
    np.testing.assert_array_equal(total.add(data[0]), honest.add(data[0]))
    step = total._stream.step
    # In the noise: nothing has happened yet.
    with monkeypatch.context() as patch:
        patch.setattr(
            type(total._stream),
            "step",
            lambda self, out: (step(out), (_ for _ in ()).throw(KeyboardInterrupt))[1].__next__(),
        )
        with pytest.raises(KeyboardInterrupt):
            total.add(data[1])
    assert total.t == 1
    np.testing.assert_array_equal(total.add(data[1]), honest.add(data[1]))
    # In the sums: part of them has the input, so there is no going on.
    with monkeypatch.context() as patch:
        patch.setattr(type(total), "_add_in_float64", lambda *_: (_ for _ in ()).throw(KeyboardInterrupt).__next__())
        with pytest.raises(KeyboardInterrupt):
            total.add(data[2])
    with pytest.raises(StateError, match="interrupted while it added an input"):
        total.add(data[2])


def test_secrets_and_forks():
    key = os.urandom(32)
    total = dp.RunningSum(10, dp.zcdp(0.5), shape=3, key=key, mechanism=Binary(10))
    total.add([0.5, 0.25, 0.125])
    assert key.hex() not in repr(total) + total.describe()
    for leak in (pickle.dumps, copy.copy, copy.deepcopy):
        with pytest.raises(TypeError, match="cannot be copied or pickled"):
            leak(total)
    read, write = os.pipe()
    child = os.fork()
    if child == 0:  # pragma: no cover - runs in the child
        try:
            total.add([0, 0, 0])
        except ForkedStream:
            os.write(write, b"refused")
        os._exit(0)
    os.waitpid(child, 0)
    assert os.read(read, 100) == b"refused"
    os.close(read)
    os.close(write)


@pytest.mark.parametrize("shape", [(), (2,)])
def test_extend_takes_lists_and_numbers_like_add(shape):
    rows = [0.5, 0.25, -0.125] if shape == () else [[0.5, 0.25], [0.125, 0.5], [0.0, 0.0]]
    one, other, listed = (dp.RunningSum(5, dp.zcdp(0.5), shape=shape, key=bytes(32)) for _ in range(3))
    expected = [one.add(row).tolist() for row in rows]
    assert listed.extend(rows).tolist() == expected
    assert other.extend(np.array(rows, dtype=np.float32)).tolist() == expected
