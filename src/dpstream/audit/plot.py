"""The picture of an audit: the errors that the best test made, against the least that the promise allows."""

from __future__ import annotations

from pathlib import Path

import numpy as np

from dpstream.audit.audit import Audit
from dpstream.audit.promise import Promise
from dpstream.charts import new_figure

__all__ = ["plot_trade_off"]


def plot_trade_off(found: Audit, path: Path, title: str = "") -> None:
    """Draw the empirical trade-off curve and the promised one, and save the picture.

    Below the promised curve no test should get; the cross marks the certified bound of the one test that was counted.

    Raises
    ------
    MissingExtra
        Without matplotlib, the extra `plot`.
    """
    figure = new_figure(5.5, 5.0)
    axes = figure.subplots()
    alpha = np.linspace(1e-6, 1 - 1e-6, 500)
    promise = Promise(found.budget)
    least = promise.least_errors(alpha)
    axes.fill_between(alpha, least, color="tab:red", alpha=0.12, linewidth=0)
    axes.plot(alpha, least, color="tab:red", label=f"promised: {promise.name} = {promise.value:g}{promise.proviso}")
    axes.plot(*found.curve, color="tab:blue", label=f"measured, {found.statistic}")
    certificate = found.certificate
    axes.plot(
        certificate.false_positive_bound,
        certificate.false_negative_bound,
        "kx",
        label=f"certified at {certificate.confidence:.6g}",
    )
    axes.plot([0, 1], [1, 0], color="0.7", linestyle=":", label="nothing leaks")
    axes.set(
        xlabel="false positives: says it is there, and it is not",
        ylabel="false negatives: says it is not there, and it is",
        xlim=(0, 1),
        ylim=(0, 1),
        title=title or f"{found.verdict}: {100 * found.ratio:.0f} % of the promise",
    )
    axes.legend(loc="upper right", fontsize="small")
    figure.savefig(path)
