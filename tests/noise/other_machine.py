"""Prints the known answers, and the numbers that noise is made of, as a machine with other libraries has them.

usage: python -m tests.noise.other_machine FITTED.json      (from the project's root; writes JSON to standard output)

Every function of NumPy, SciPy and the standard library that IEEE 754 does not fix to the last bit is replaced by one
that is off by one unit in the last place: elementary and special functions, sums and products in an order of the
library's own, linear algebra, Fourier transforms, filters, interpolation and root search. NumPy's additions,
multiplications, divisions and square roots, `np.cumsum` and `np.cumprod` (sequential by definition) stay. The caller
also takes SIMD away from NumPy and chooses another BLAS kernel, through the environment.

FITTED.json holds mechanisms that were fitted elsewhere: a fit is an optimisation, whose result is kept, not made again.
"""

import json
import math
import sys
import warnings
from collections.abc import Callable
from typing import Any

import numpy as np
import scipy.fft
import scipy.integrate
import scipy.interpolate
import scipy.linalg
import scipy.optimize
import scipy.signal
import scipy.special

#: What is replaced, module by module.
REPLACED: dict[Any, str] = {
    np: "exp exp2 expm1 log log2 log10 log1p sin cos tan arcsin arccos arctan arctan2 sinh cosh tanh power float_power"
    " hypot cbrt sum prod mean std var average dot vdot inner matmul tensordot einsum convolve interp polyfit polyval"
    " linspace geomspace logspace nansum trace",
    np.linalg: "norm inv solve eigh cholesky svd det",
    np.polynomial.legendre: "leggauss",
    math: "exp expm1 log log1p log2 log10 sin cos tan asin acos atan atan2 sinh cosh tanh pow gamma lgamma erf erfc"
    " hypot dist cbrt",
    scipy.special: "ellipkm1 ellipj ellipk expit ndtr ndtri erf erfc erfcx log_ndtr gammaln gammaincc xlogy logsumexp",
    scipy.fft: "rfft irfft fft ifft",
    scipy.linalg: "solve_triangular eigh cholesky toeplitz",
    scipy.signal: "lfilter fftconvolve oaconvolve",
    scipy.optimize: "brentq",
    scipy.integrate: "quad",
}
#: Exact: they only place numbers.
EXACT = ("toeplitz",)


def one_unit_off(function: Callable[..., Any]) -> Callable[..., Any]:
    """Return the function with the next larger double as every result."""

    def other(*arguments: Any, **options: Any) -> Any:
        found = moved(function(*arguments, **options))
        if options.get("out") is not None:
            options["out"][...] = found
            return options["out"]
        return found

    return other


def moved(found: Any) -> Any:
    """Return the next larger double of each number of a result."""
    if isinstance(found, tuple):
        return tuple(map(moved, found))
    if isinstance(found, float) and not isinstance(found, np.floating):
        return math.nextafter(found, math.inf)
    if isinstance(found, (np.ndarray, np.floating)) and found.dtype.kind == "f":
        return np.nextafter(found, found.dtype.type(np.inf))
    if isinstance(found, (np.ndarray, np.complexfloating)) and found.dtype.kind == "c":
        return moved(found.real) + 1j * moved(found.imag)
    return found


def replace_libraries() -> None:
    """Replace all of `REPLACED`."""
    for module, names in REPLACED.items():
        for name in names.split():
            if name not in EXACT and hasattr(module, name):
                setattr(module, name, one_unit_off(getattr(module, name)))


def numbers(fitted: dict[str, str]) -> dict[str, Any]:
    """Return what known answers do not show: identities, sensitivities, scales and thresholds."""
    import dpstream as dp
    from dpstream import mechanisms
    from tests.noise import make_known_answers as make

    makers: dict[str, Callable[[], Any]] = {name: lambda m=m: m(100) for name, m in make.MECHANISMS.items()}
    makers |= {name: lambda call=call: eval(call, vars(mechanisms)) for name, call in fitted.items()}  # noqa: S307
    makers |= {
        "BalancedToeplitz, 50,000": lambda: mechanisms.BalancedToeplitz(50_000),
        "BufferedToeplitz, 2^23": lambda: mechanisms.BufferedToeplitz(2**23),
        "AnytimeToeplitz, 2^20": lambda: mechanisms.AnytimeToeplitz(2**20),
    }
    several = [None, dp.Participation(2, 40), dp.Participation(3, 20)]
    found: dict[str, Any] = {}
    for name, maker in makers.items():
        mechanism = maker()
        budget = dp.approx_dp(1.0, 1e-6) if mechanism.noise == "gaussian" else dp.pure_dp(1.0)
        scales = [dp.noise_scale(mechanism, budget, participation=p).hex() for p in several]
        found[name] = [mechanism.identity, *scales, *(mechanism.sensitivity(p).hex() for p in several)]
    for horizon in (10, 365):
        terms = dp.OpenCounter(horizon=horizon, budget=dp.approx_dp(6, 1e-9), names_per_person=32)
        found[f"threshold, {horizon}"] = terms.threshold
    return found


def answers(fitted: dict[str, str]) -> dict[str, Any]:
    """Return known answers by their names; a fitted mechanism is the one that was fitted before."""
    from dpstream import mechanisms
    from tests.noise import make_known_answers as make

    for name, call in fitted.items():
        make.MECHANISMS[name] = lambda _, call=call: eval(call, vars(mechanisms))  # noqa: S307
    known: dict[str, Any] = make.known_answers()
    found = {entry["desc"]: entry for kind in ("draws", "streams", "named") for entry in known[kind]}
    for entry in known["lanes"]:
        found |= {f"{entry['mechanism']}, {lane}": digest for lane, digest in entry["digests"].items()}
    return found


if __name__ == "__main__":
    warnings.simplefilter("ignore")
    given = json.loads(sys.argv[1])
    if "--same" not in sys.argv:
        replace_libraries()
    print(json.dumps({"numbers": numbers(given), "answers": answers(given)}))
