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

from dpstream.mechanisms.balanced_toeplitz import KNOTS, epsilon_for, normal_time
from thinned_time import ThinnedNorms, minimise_largest, spline_basis, time_grid

TABLE = Path(__file__).parents[1] / "src/dpstream/mechanisms/balanced_table.json"
#: Horizons to fit, by number of buffers. Neighbouring bands share a horizon, so that V hardly jumps between them.
BANDS = {
    8: [24, 22],
    7: [22, 20, 18],
    6: [18, 16, 14],
    5: [14, 12, 11, 10],
    4: [10, 9, 8, 7, 6, 5, 4],
    3: [4, 3, 2],
    2: [2, 1],
}


def fit(horizon, buffers, start, sharpness):
    steps = time_grid(horizon, mirrored=True)
    norms = ThinnedNorms(steps, epsilon_for(horizon), buffers)
    before = np.maximum(steps - 1, 0.75)
    at, earlier = (spline_basis(normal_time(t, horizon), KNOTS) for t in (steps, before))
    bases = [at, at - earlier]
    if start is None:
        left_over = horizon - steps + 1
        log_q = 0.5 * np.log((np.log(left_over + 0.3) + np.euler_gamma + 4 * np.log(2)) / np.pi)
        start = np.concatenate([np.zeros(KNOTS.size + 2), np.linalg.lstsq(bases[0], log_q, rcond=None)[0]])
    return minimise_largest(norms, bases, start, sharpness=sharpness, iterations=120, pull=3e-4, even=0.01)


def main() -> None:
    began = time.time()
    start, _ = fit(2**24, 8, None, (8, 32, 128, 512))
    bands = []
    for buffers, exponents in BANDS.items():
        rows = []
        for exponent in exponents:
            start, V = fit(2**exponent, buffers, start, (128, 512, 2048, 8192))
            rows.insert(0, np.split(start.round(7), 2))
            print(f"T = 2^{exponent}, {buffers} buffers: V = {V:.4f}, {time.time() - began:.0f} s", flush=True)
        bands.insert(
            0,
            {
                "buffers": buffers,
                "log2_horizon": exponents[::-1],
                "log_p": [p.tolist() for p, _ in rows],
                "log_q": [q.tolist() for _, q in rows],
            },
        )
    table = {"version": 1, "made_by": "research/fit_balanced.py", "bands": bands}
    TABLE.write_text(json.dumps(table).replace("], [", "],\n  [").replace(', "', ',\n "') + "\n")


if __name__ == "__main__":
    main()
