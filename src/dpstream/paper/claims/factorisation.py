"""The factorisation mechanism (section 2.3): L(R x + z) is unbiased; variance and sensitivity follow from L and R."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from dpstream.audit.table import SUBJECTS
from dpstream.mechanisms.base import Mechanism
from dpstream.paper.claims.wording import number
from dpstream.paper.model import Claim, ClaimMaker, Row, column, judge

__all__ = ["FACTORISATION"]

Make = Callable[[int], Mechanism]


def _factorisation(quick: bool, makers: dict[str, Make] | None = None) -> Claim:
    if makers is None:
        makers = {subject.title: subject.make for subject in SUBJECTS if subject.mechanism.noise == "gaussian"}
    lengths = (15,) if quick else (15, 60)
    rows = [_row(title, make(steps), steps) for title, make in makers.items() for steps in lengths]
    sums, variances = max(column(rows, "gap of L R")), max(column(rows, "gap of V"))
    overspent = max(column(rows, "part of stated"))
    lower = [row for row in rows if float(row["Δ², releases"]) < float(row["Δ², nodes"]) - 1e-9]
    holds = max(sums, variances) < 1e-9 and overspent <= 1 + 1e-9
    shares = np.array(column(rows, "Δ², releases")) / np.array(column(rows, "Δ², nodes"))
    most, best = float(shares.max()), rows[int(shares.argmin())]
    holds = holds and most <= 1 + 1e-9
    sharper = (
        "Δ = max ‖R e_i‖ is the sensitivity of R x + z. With Gaussian noise only the releases are published, and "
        "max δᵀ(L Lᵀ)⁻¹δ, δ = A e_i, is exact: never more, and less wherever L has more columns than rows: in "
        f"{len(lower)} of {len(rows)} cases here, most for {best['mechanism']} at {best['steps']} steps, "
        f"{number(float(best['Δ², releases']))} instead of {number(float(best['Δ², nodes']))}."
        if lower
        else ""
    )
    return Claim(
        FACTORISATION.key,
        FACTORISATION.title,
        "With A = L R the mechanism L(R x + z) releases the running sums; Gaussian z of variance Δ²/(2ρ), "
        "Δ = max ‖R e_i‖, makes it ρ-zCDP, and release i has the variance Δ²‖L_i‖²/(2ρ).",
        f"Explicit matrices of {len(makers)} mechanisms: L R is A to {number(sums)}, and the variances stated are "
        f"Δ²‖L_i‖² to {number(variances)} of them. The squared sensitivity of the releases is at most "
        f"{number(overspent)} of what "
        f"is stated, and {number(most)} of max ‖R e_i‖².",
        judge(holds, sharper),
        sharper,
        rows,
    )


def _row(title: str, mechanism: Mechanism, steps: int) -> Row:
    L, R = mechanism.factors(steps)
    A = np.tri(steps)
    claimed = mechanism.sensitivity() ** 2
    norms = (L**2).sum(axis=1)
    stated = np.array([mechanism.variance(t) for t in range(1, steps + 1)])
    released = float((A * np.linalg.solve(L @ L.T, A)).sum(axis=0).max())
    return {
        "mechanism": title,
        "steps": steps,
        "gap of L R": float(np.abs(L @ R - A).max()),
        "gap of V": float(np.abs(stated / (claimed * norms) - 1).max()),
        "stated Δ²": claimed,
        "Δ², nodes": float((R**2).sum(axis=0).max()),
        "Δ², releases": released,
        "part of stated": released / claimed,
    }


FACTORISATION = ClaimMaker("factorisation", "Section 2.3, factorisation mechanism", _factorisation)
