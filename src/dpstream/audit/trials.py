"""Trials: the real release path, run again and again on a given stream."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any, Protocol

import numpy as np
from numpy.typing import ArrayLike, NDArray

from dpstream.errors import InvalidArgument

__all__ = ["MakeRelease", "Publisher", "Release", "Stream", "blocks", "one_changed_step", "run"]

#: What one person, and everybody else, puts in: one row a step.
Stream = NDArray[Any]


class Publisher(Protocol):
    """What is audited, when a trial is more than one object or one column of it."""

    def publish(self, stream: Stream, /) -> NDArray[Any]:
        """Everything that is published about `stream` in some independent trials, one row a trial."""


class Release(Protocol):
    """What is audited: anything that takes a stream of inputs and gives what it publishes."""

    @property
    def shape(self) -> tuple[int, ...]:
        """() for one trial an object; (k,) for k independent ones, each coordinate a trial of its own."""

    def extend(self, xs: ArrayLike, /) -> NDArray[Any]:
        """One row an input; everything that is published, one row a publication."""


MakeRelease = Callable[[], Release | Publisher]


def one_changed_step(steps: int, bound: float = 1) -> list[tuple[Stream, Stream]]:
    """Every pair of (no input at all, an input of size `bound` in one step).

    Additive noise does not depend on the data, so the other inputs may as well be 0.

    >>> [second.tolist() for first, second in one_changed_step(3)]
    [[1, 0, 0], [0, 1, 0], [0, 0, 1]]
    """
    first = np.zeros(steps, dtype=type(bound))
    pairs = []
    for j in range(steps):
        second = first.copy()
        second[j] = bound
        pairs.append((first, second))
    return pairs


def blocks(make_release: MakeRelease, stream: Stream, trials: int) -> Iterator[NDArray[Any]]:
    """Everything published on `stream`, one row a trial, object by object, until there are `trials` of them."""
    left = trials
    while left > 0:
        release = make_release()
        publish = getattr(release, "publish", None)
        rows = (_extended(release, stream) if publish is None else np.asarray(publish(stream)))[:left]  # type: ignore[arg-type]
        if rows.dtype.kind not in "iuf" or rows.ndim != 2 or not len(rows):
            raise InvalidArgument("make_release", type(release).__name__, "what releases numbers, one row a step")
        left -= len(rows)
        yield rows


def _extended(release: Release, stream: Stream) -> NDArray[Any]:
    """Give every coordinate of `release` the same stream, and return one row a coordinate."""
    shape = tuple(getattr(release, "shape", ()))
    inputs = stream.astype(getattr(release, "dtype", stream.dtype)).reshape(stream.shape + (1,) * len(shape))
    published = np.asarray(release.extend(np.broadcast_to(inputs, stream.shape + shape)))
    return published.reshape(len(published), -1).T if published.ndim else published


def run(make_release: MakeRelease, stream: Stream, trials: int) -> NDArray[Any]:
    """All of `blocks` at once."""
    return np.concatenate(list(blocks(make_release, stream, trials)))
