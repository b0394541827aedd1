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

#: Their numbers come from linear algebra, Fourier transforms or integration: another machine may make another matrix,
#: or charge a sensitivity whose last digits differ. Its identity, or the settings of a store, then say so.
FROM_LIBRARIES = {"Optimal", "LogMatrix", "FromMatrix"}
#: Of these, those whose exact lane streams other numbers there.
OTHER_MATRICES = {"Optimal", "LogMatrix"}
#: Kinds that are streamed by Fourier transforms and BLAS in the float lane. (In the exact lane their rounding errors
#: are bounded, and integers do not change.)
FLOAT_BY_LIBRARIES = FROM_LIBRARIES | {"FromCoefficients", "SquareRoot", "SquareRoot.plain", "Unbounded-SquareRoot"}


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
    # Their scales are rounded up to 32 bits, which hides such differences nearly always.
    assert all(here[name][1:4] == there[name][1:4] for name in changed)


@pytest.mark.heavy
def test_known_answers(elsewhere):
    here, there = other_machine.answers(FITTED), elsewhere["answers"]
    assert list(here) == list(there)
    changed = {name for name in here if here[name] != there[name]}
    floats = {f"{name}, {lane}" for name in FLOAT_BY_LIBRARIES for lane in ("float32 [70]", "float64 [40]")}
    exact = {f"{name}, {lane}" for name in OTHER_MATRICES for lane in ("int64 []", "int64 [3]")}
    assert changed <= floats | exact, changed


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
