"""Releases as files: comma-separated values, JSON lines or Parquet, written by Polars."""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any

import numpy as np

from dpstream.errors import DpstreamError, InvalidArgument
from dpstream.store.releases import Release

__all__ = ["check_release_file", "frame_of", "write_frame"]

SUFFIXES = (".csv", ".jsonl", ".parquet")


def check_release_file(path: Path | None) -> None:
    """Refuse a file that could not be written, before the work."""
    if path is None:
        return
    if path.suffix not in SUFFIXES:
        raise InvalidArgument("--output", str(path), "a file that ends in .csv, .jsonl or .parquet")
    if not path.parent.is_dir():
        raise InvalidArgument("--output", str(path), "a file in a directory that exists")
    _polars()


def frame_of(releases: list[Release], shape: tuple[int, ...], dtype: str, *, flat: bool) -> Any:
    """The releases as a data frame: step, position, value; a histogram's value is a list or, flat, a column each."""
    polars = _polars()
    frame = polars.DataFrame(
        {"step": [release.step for release in releases], "position": [release.position for release in releases]},
        schema={"step": polars.Int64, "position": polars.Int64},
    )
    values = np.array([release.value for release in releases], dtype=dtype).reshape(len(releases), math.prod(shape))
    if not shape:
        return frame.with_columns(polars.Series("value", values[:, 0]))
    if flat:
        return frame.with_columns(polars.Series(f"value_{i}", column) for i, column in enumerate(values.T))
    return frame.with_columns(polars.Series("value", values).arr.to_list())


def write_frame(frame: Any, path: Path) -> None:
    """Write a data frame in the format that the suffix names."""
    try:
        {".csv": frame.write_csv, ".jsonl": frame.write_ndjson, ".parquet": frame.write_parquet}[path.suffix](path)
    except OSError as error:
        raise InvalidArgument("--output", str(path), f"a file that can be written ({error})") from None


def _polars() -> Any:
    try:
        import polars
    except ImportError:
        raise DpstreamError("--output needs Polars: pip install polars; --json does without") from None
    return polars
