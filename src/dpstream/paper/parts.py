"""All figures and tables, in the order in which they are computed and shown."""

from __future__ import annotations

from dpstream.paper import (
    figure_1,
    figure_2,
    figure_3,
    figure_4a,
    figure_4b,
    figure_5a,
    figure_5b,
    table_1_matrices,
    table_1_memory,
    table_1_time,
    table_1_variance,
)
from dpstream.paper.model import Part

__all__ = ["PARTS"]

PARTS: tuple[Part, ...] = (
    table_1_variance.PART,
    table_1_time.PART,
    table_1_memory.PART,
    table_1_matrices.PART,
    figure_1.PART,
    figure_2.PART,
    figure_3.PART,
    figure_4a.PART,
    figure_4b.PART,
    figure_5a.PART,
    figure_5b.PART,
)
