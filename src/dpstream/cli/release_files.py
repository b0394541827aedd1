"""What a store released, as a table for files."""

from __future__ import annotations

import math

import numpy as np
import polars as pl

from dpstream.store.releases import Release

__all__ = ["frame_of"]


def frame_of(releases: list[Release], shape: tuple[int, ...], dtype: str, *, flat: bool) -> pl.DataFrame:
    """The releases as a data frame: step, position, value; a histogram's value is a list or, flat, a column each."""
    frame = pl.DataFrame(
        {"step": [release.step for release in releases], "position": [release.position for release in releases]},
        schema={"step": pl.Int64, "position": pl.Int64},
    )
    values = np.array([release.value for release in releases], dtype=dtype).reshape(len(releases), math.prod(shape))
    if not shape:
        return frame.with_columns(pl.Series("value", values[:, 0]))
    if flat:
        return frame.with_columns(pl.Series(f"value_{i}", column) for i, column in enumerate(values.T))
    return frame.with_columns(pl.Series("value", values).arr.to_list())
