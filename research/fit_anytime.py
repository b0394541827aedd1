"""Fit the scales p and q of `AnytimeToeplitz` and write its table.

    pip install -r research/requirements.txt
    python research/fit_anytime.py             # about 10 minutes on one core
    python research/fit_anytime.py 50          # only the limit 2^50; the others stay as they are

For each limit 2^H: F is Zolotarev's with ε = 8 · 2^-H; log p and log q are cubic splines in ln t, fitted to minimise
max_t V_t / S_max(t,8)², where S_t² is the variance of the square root that knows its horizon t. Bends are priced, so
that p does not climb steeply towards the limit: it is constant on levels, and V_t jumps with p² from level to level.
"""

from __future__ import annotations

import json
import sys
import time
from pathlib import Path

import numpy as np

from thinned_time import ThinnedNorms, minimise_largest, spline_basis, spline_rises, time_grid

TABLE = Path(__file__).parents[1] / "src/dpstream/mechanisms/anytime_table.json"
BUFFERS = {20: 6, 24: 7, 30: 9, 40: 12, 50: 14}


def square_root_sum(t: np.ndarray) -> np.ndarray:
    """S_t = Σ_{k<t} f_k², f_k = C(2k, k)/4^k: exact to 4096, then by its asymptotic series (to 1e-12)."""
    k = np.arange(1, 4096)
    exact = np.cumsum(np.concatenate([[1.0], np.cumprod(1 - 0.5 / k)]) ** 2)
    series = (np.log(t) + np.euler_gamma + 4 * np.log(2) - 1 / (4 * t) + 5 / (192 * t * t)) / np.pi
    return np.where(t <= 4096, exact[np.minimum(t, 4096).astype(int) - 1], series)


def spline_knots(exponent: int) -> np.ndarray:
    """Knots in ln t for a limit of 2^exponent."""
    return np.linspace(0, exponent * np.log(2), exponent // 3 + 4)


def stretched(coefficients: np.ndarray, old: int, new: int, log_t: np.ndarray) -> np.ndarray:
    """A scale fitted for 2^old, continued to 2^new: both ends kept, a power law put into the middle."""
    middle, extra = 0.5 * old * np.log(2), (new - old) * np.log(2)

    def at(u):
        return spline_basis(np.asarray(u), spline_knots(old)) @ coefficients

    slope = float(at(middle + 0.5) - at(middle - 0.5))
    inserted = np.clip(log_t - middle, 0, extra)
    return at(log_t - inserted) + slope * inserted


def fit(exponent: int, buffers: int, shorter: tuple[int, np.ndarray] | None) -> tuple[np.ndarray, float]:
    limit = 2**exponent
    steps = time_grid(limit, mirrored=False)
    knots = spline_knots(exponent)
    bases = [spline_basis(np.log(steps), knots), spline_rises(steps, knots)]
    norms = ThinnedNorms(steps, 8.0 / limit, buffers)
    if shorter is None:
        log_p = 0.4 * np.log(steps) - 0.2 * np.log(limit)
        scales = [log_p, -log_p + 0.5 * np.log(square_root_sum(steps))]
    else:
        scales = [stretched(c, shorter[0], exponent, np.log(steps)) for c in np.split(shorter[1], 2)]
        scales = [scales[0] - scales[0].mean(), scales[1] + scales[0].mean()]
    start = np.concatenate([np.linalg.lstsq(bases[0], scale, rcond=None)[0] for scale in scales])
    settings = {"bend": 1e-4, "offset": 2 * np.log(square_root_sum(np.maximum(steps, 8)))}
    # Soft maxima first, unless a shorter limit's fit has shown the way: they would lead away from it.
    stages = ((8, 32, 128, 512), (128, 512, 2048), (512, 2048, 8192)) if shorter is None else ((64, 256), (1024, 4096))
    for sharpness in (*stages, (1024, 4096)):
        start, ratio = minimise_largest(norms, bases, start, sharpness=sharpness, iterations=300, pull=1e-8, **settings)
    return start, ratio


def main() -> None:
    began = time.time()
    wanted = {int(argument) for argument in sys.argv[1:]} or set(BUFFERS)
    shipped = {row["log2_limit"]: row for row in json.loads(TABLE.read_text())["limits"]} if TABLE.exists() else {}
    rows, shorter = [], None
    for exponent, buffers in BUFFERS.items():
        if exponent in wanted:
            z, ratio = fit(exponent, buffers, shorter)
            print(f"limit 2^{exponent}, {buffers} buffers: ratio {ratio:.4f}, {time.time() - began:.0f} s", flush=True)
        else:
            z = np.array(shipped[exponent]["log_p"] + shipped[exponent]["log_q"])
        shorter = exponent, z
        m = z.size // 2
        rows.append(
            {
                "log2_limit": exponent,
                "buffers": buffers,
                "log_p": z[:m].round(7).tolist(),
                "log_q": z[m:].round(7).tolist(),
            }
        )
    table = {"version": 1, "made_by": "research/fit_anytime.py", "limits": rows}
    TABLE.write_text(json.dumps(table).replace(', "', ',\n "') + "\n")


if __name__ == "__main__":
    main()
