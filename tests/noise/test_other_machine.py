"""The same bits on another machine: nothing that enters noise changes if every library is off by one unit.

What stays out, and why, is said in docs/exact-rounding.md, "The same bits everywhere".
"""

import json
import os
import subprocess
import sys

import numpy as np
import pytest

from dpstream import portable

from . import other_machine
from .make_known_answers import MECHANISMS

#: Fits are optimisations: their results are fields, which are kept.
FITTED = {name: repr(MECHANISMS[name](100)) for name in ("FittedToeplitz", "Banded", "BandedInverse")}

#: Their sensitivities come from linear algebra or integration: another machine may charge one whose last digits differ.
FROM_LIBRARIES = {"LogMatrix", "FromMatrix"}


@pytest.fixture(scope="module")
def elsewhere():
    """What a process with other libraries, without SIMD in NumPy and with another BLAS kernel, computes."""
    features = [name for name in ("AVX512F", "AVX512CD", "AVX512_SKX", "AVX2", "FMA3") if _has(name)]
    environment = os.environ | {"OPENBLAS_CORETYPE": "Prescott", "NPY_DISABLE_CPU_FEATURES": " ".join(features)}
    command = [sys.executable, "-m", "tests.noise.other_machine", json.dumps(FITTED)]
    found = subprocess.run(command, capture_output=True, text=True, env=environment, check=True)  # noqa: S603
    return json.loads(found.stdout)


def _has(feature: str) -> bool:
    from numpy._core._multiarray_umath import __cpu_features__

    return bool(__cpu_features__.get(feature))


@pytest.mark.heavy
def test_numbers_that_noise_is_made_of(elsewhere):
    here, there = other_machine.numbers(FITTED), elsewhere["numbers"]
    assert list(here) == list(there)
    changed = {name for name in here if here[name] != there[name]}
    assert changed <= FROM_LIBRARIES, changed
    # The matrices are the same, and scales are rounded up to 32 bits, which hides such differences nearly always.
    assert all(here[name][:4] == there[name][:4] for name in changed)


@pytest.mark.heavy
def test_known_answers(elsewhere):
    here, there = other_machine.answers(FITTED), elsewhere["answers"]
    assert list(here) == list(there)
    changed = {name for name in here if here[name] != there[name]}
    assert not changed, changed


def test_the_other_machine_is_another_one():
    """The replaced functions do differ: a test that changes nothing would show nothing."""
    for name in ("exp", "log1p", "sum", "dot"):
        arguments = (np.ones(3), np.ones(3)) if name == "dot" else (np.ones(3),)
        function = getattr(np, name)
        assert (other_machine.one_unit_off(function)(*arguments) > function(*arguments)).all()


@pytest.mark.parametrize("name", ["exp", "expm1", "log", "log1p"])
def test_elementary_functions_against_balls(name):
    import flint

    from dpstream.balls import working_precision

    rng = np.random.default_rng(1)
    x = np.concatenate([rng.uniform(-700, 700, 150), rng.uniform(-1, 1, 150), -(10.0 ** rng.uniform(-18, -0.001, 150))])
    if name.startswith("log"):
        x = np.concatenate([10.0 ** rng.uniform(-300, 300, 150), rng.uniform(0.4, 2.5, 300)]) - (name == "log1p")
        x = x[x > (-1 if name == "log1p" else 0)]
    with working_precision(160):
        for given, found in zip(x.tolist(), getattr(portable, name)(x).tolist(), strict=True):
            true = getattr(flint.arb(given), name)()
            assert abs(flint.arb(found) - true) <= 2.1 * 2.0**-53 * abs(true)


def test_cosine_and_sine_against_balls():
    import flint

    from dpstream.balls import working_precision

    x = np.concatenate([np.linspace(-7, 7, 200), np.random.default_rng(2).uniform(-1e6, 1e6, 200), [0.0, np.pi]])
    with working_precision(160):
        for given, cosine, sine in zip(x.tolist(), *(part.tolist() for part in portable.cosine_sine(x)), strict=True):
            assert abs(flint.arb(cosine) - flint.arb(given).cos()) <= 2.0**-52
            assert abs(flint.arb(sine) - flint.arb(given).sin()) <= 2.0**-52


def test_sums_and_filters():
    x = np.random.default_rng(3).normal(size=1000)
    assert portable.total(x) == sum(x.tolist())
    assert portable.dot(x, x) == sum((x * x).tolist())
    assert portable.total([]) == 0.0
    a, b = x[:300], 1e6 * x[500:700]
    np.testing.assert_allclose(portable.series_product(a, b, 499), np.convolve(a, b), atol=1e-7)
    poles = np.array([0.9, 1.0 - 2.0**-20, 0.0])
    found = portable.one_pole(x, poles, np.array([1.0, 2.0, 3.0]))
    state = np.array([1.0, 2.0, 3.0])
    for t, entering in enumerate(x.tolist()):
        state = poles * state + entering
        np.testing.assert_allclose(found[:, t], state, rtol=1e-11, atol=1e-12)


def test_angles_against_balls():
    import flint

    from dpstream.balls import working_precision

    rng = np.random.default_rng(4)
    y, x = rng.normal(size=(2, 300)) * 10.0 ** rng.uniform(-12, 12, size=(2, 300))
    y, x = np.append(y, [0.0, -0.0, 1.0, -1.0]), np.append(x, [2.0, 2.0, 0.0, -1e-300])
    with working_precision(160):
        for up, along, found in zip(y.tolist(), x.tolist(), portable.arctan2(y, x).tolist(), strict=True):
            true = flint.arb.atan2(flint.arb(up), flint.arb(along))
            assert abs(flint.arb(found) - true) <= 2.0**-51


@pytest.mark.parametrize("n", [64, 512, 2**13])
@pytest.mark.parametrize("series", ["falling", "signs"])
def test_tails_of_products_keep_their_bound(n, series):
    """Against sums in long doubles, whose own error is far below the bound."""
    rng = np.random.default_rng(n)
    coefficients = 1.0 / np.sqrt(np.arange(1.0, 2 * n + 1)) if series == "falling" else rng.normal(size=2 * n)
    block = rng.normal(size=(n, 3))
    found = portable.tail_of_product(coefficients, block)
    for i in {0, 1, n // 3, n - 1}:
        true = (coefficients[n + i : i : -1, None].astype(np.longdouble) * block).sum(axis=0)
        error = np.abs(found[i] - true).max()
        assert error <= portable.tail_of_product_error(coefficients, float(np.linalg.norm(block, axis=0).max()))
    assert portable.tail_of_product_error(coefficients, 10.0) < 1e-4
    for column in range(3):  # each as if it were alone
        assert np.array_equal(
            found[:, column : column + 1], portable.tail_of_product(coefficients, block[:, column : column + 1])
        )


def test_products_of_series_keep_their_bound():
    rng = np.random.default_rng(5)
    for n in (10, 300, 5000):
        for a, b in ((rng.normal(size=n), rng.normal(size=n)), (0.999 ** np.arange(n), 1e9 / np.arange(1.0, n + 1))):
            true = np.array([float((a[: i + 1].astype(np.longdouble) * b[i::-1]).sum()) for i in range(0, n, 97)])
            error = np.abs(portable.series_product(a, b, n)[::97] - true).max()
            assert error <= portable.series_product_error(a, b)
    assert portable.series_product_error(np.zeros(3), np.ones(3)) == 0.0


def test_sequences_of_given_spectra():
    x = np.random.default_rng(6).normal(size=4096)
    spectrum = np.fft.rfft(x)
    np.testing.assert_allclose(portable.real_sequence(spectrum.real, spectrum.imag), x, atol=1e-13)


@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize(("count", "width"), [(1, 1), (70, 3), (70, 8), (5, 2**13 + 5)])
def test_weighted_sums_are_formed_from_the_first_row_to_the_last(count, width, dtype):
    rng = np.random.default_rng(count)
    weights, rows = rng.normal(size=count).astype(dtype), rng.normal(size=(count, width)).astype(dtype)
    expected = rows[0] * weights[0]
    for row, weight in zip(rows[1:], weights[1:], strict=True):
        expected = expected + row * weight
    out = np.empty(width, dtype)
    portable.weighted_sum(weights, rows, out)
    assert np.array_equal(out, expected)
