"""Holds our sensitivities, errors and banded optimum against jax_privacy's own functions.

usage: python research/compare_jax_privacy.py      (needs `pip install jax_privacy==2.0.0` beside dpstream)

jax_privacy computes the sensitivity under a minimum separation of a strategy matrix (an upper bound by a walk over
patterns for nonnegative matrices) and the error per query of a strategy; both are given our R.
"""

from __future__ import annotations

import numpy as np

from dpstream import Participation
from dpstream.mechanisms import Banded, BandedInverse, FittedToeplitz, Mechanism


def main() -> None:
    import jax

    jax.config.update("jax_enable_x64", True)
    import jax.numpy as jnp
    from jax_privacy.matrix_factorization import sensitivity, toeplitz

    n, epochs = 512, Participation(4, 128)
    made: dict[str, Mechanism] = {
        "FittedToeplitz, 2 buffers": FittedToeplitz.fit(n, participation=epochs, buffers=2, normalized=False),
        "FittedToeplitz, 2 buffers, normalised": FittedToeplitz.fit(n, participation=epochs, buffers=2),
        "FittedToeplitz, 4 buffers": FittedToeplitz.fit(n, participation=epochs, normalized=False),
        "FittedToeplitz, 4 buffers, normalised": FittedToeplitz.fit(n, participation=epochs),
        "Banded": Banded.fit(n, participation=epochs),
        "BandedInverse": BandedInverse.fit(n, participation=epochs),
    }
    for name, mechanism in made.items():
        L, R = mechanism.factors()
        ours = mechanism.sensitivity(epochs)
        walked = float(sensitivity.get_min_sep_sensitivity_upper_bound(jnp.asarray(R), epochs.separation, epochs.times))
        line = f"{name:40s} sensitivity: ours {ours:.9f}, their bound {walked:.9f} ({walked / ours:.6f})"
        r = R[:, 0]
        if np.isclose(R[-1, -1], r[0]):  # Toeplitz: columns are not normalised
            errors = toeplitz.per_query_error(strategy_coef=jnp.asarray(r), n=n)
            off = float(np.abs(np.asarray(errors) / (L**2).sum(axis=1) - 1).max())
            line += f"; errors per query agree to {off:.1e}"
            if (np.diff(r) <= 1e-12).all() and (r >= -1e-12).all():
                exact = float(
                    toeplitz.minsep_sensitivity_squared(
                        jnp.asarray(np.maximum.accumulate(np.maximum(r, 0.0)[::-1])[::-1]),
                        min_sep=epochs.separation,
                        max_participations=epochs.times,
                        n=n,
                    )
                )
                line += f"; their exact one {exact**0.5:.9f} ({exact**0.5 / ours:.9f})"
        print(line)
    for steps in (512, 1024):
        bands = steps // 4
        c = np.asarray(toeplitz.optimize_banded_toeplitz(n=steps, bands=bands), dtype=np.float64)
        ours = Banded.fit(steps, participation=Participation(4, bands), objective="mean", normalized=False)
        losses = [
            float((np.asarray(b) ** 2).sum() * np.cumsum(_increment_sums(np.asarray(b), steps) ** 2).mean())
            for b in (c, ours.coefficients)
        ]
        print(f"banded optimum, n = {steps}, {bands} bands: theirs {losses[0]:.9f}, ours {losses[1]:.9f}")


def _increment_sums(bands: np.ndarray, steps: int) -> np.ndarray:
    """Coefficients of A C⁻¹."""
    from scipy.signal import lfilter

    return np.asarray(lfilter([1.0], bands, np.ones(steps)))


if __name__ == "__main__":
    main()
