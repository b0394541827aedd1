"""Fit the scales p and q of `BalancedToeplitz` and write its table.

    pip install -r research/requirements.txt
    python research/fit_balanced.py            # about 10 minutes on one core

From the longest horizon to the shortest, each fit starts from its neighbour and is held near it, so that the
coefficients move smoothly with the horizon and may be interpolated.
"""

from __future__ import annotations

import json
import time
from pathlib import Path

import numpy as np

from dpstream.mechanisms.balanced_toeplitz import KNOTS, buffers_for, epsilon_for, normal_time
from thinned_time import ThinnedNorms, minimise_largest, spline_basis, time_grid

TABLE = Path(__file__).parents[1] / "src/dpstream/mechanisms/balanced_table.json"
EXPONENTS = [24, 22, 20, 18, 16, 14, 12, 11, 10, 9, 8, 7, 6, 5, 4, 3]


def fit(horizon, start, sharpness, iterations, pull):
    steps = time_grid(horizon, mirrored=True)
    norms = ThinnedNorms(steps, epsilon_for(horizon), buffers_for(horizon))
    before = np.maximum(steps - 1, 0.75)
    bases = [spline_basis(normal_time(t, horizon), KNOTS) for t in (steps, before)]
    if start is None:
        left_over = horizon - steps + 1
        log_q = 0.5 * np.log((np.log(left_over + 0.3) + np.euler_gamma + 4 * np.log(2)) / np.pi)
        start = np.concatenate([np.zeros(KNOTS.size + 2), np.linalg.lstsq(bases[0], log_q, rcond=None)[0]])
    return minimise_largest(norms, bases, start, sharpness=sharpness, iterations=iterations, pull=pull)


def main() -> None:
    began = time.time()
    start, rows = None, {}
    for exponent in EXPONENTS:
        if start is None:
            start, _ = fit(2**exponent, None, (8, 32, 128, 512), 200, 1e-5)
        start, V = fit(2**exponent, start, (128, 512, 2048, 8192), 200, 1e-5)
        m = start.size // 2
        rows[exponent] = {"log_p": start[:m].round(7).tolist(), "log_q": start[m:].round(7).tolist()}
        print(f"T = 2^{exponent}: V = {V:.4f} on the thinned grid, {time.time() - began:.0f} s", flush=True)
    table = {
        "version": 1,
        "made_by": "research/fit_balanced.py",
        "log2_horizon": sorted(rows),
        "log_p": [rows[e]["log_p"] for e in sorted(rows)],
        "log_q": [rows[e]["log_q"] for e in sorted(rows)],
    }
    TABLE.write_text(json.dumps(table).replace("], [", "],\n  [").replace(', "', ',\n "') + "\n")


if __name__ == "__main__":
    main()
