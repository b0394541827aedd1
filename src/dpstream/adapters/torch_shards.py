"""Which coordinates of a sharded parameter (`DTensor`) live in this process."""

from __future__ import annotations

import math
from typing import Any

from torch.distributed.tensor import DTensor
from torch.distributed.tensor._utils import compute_local_shape_and_global_offset

from dpstream.errors import InvalidArgument

__all__ = ["local_range"]


def local_range(tensor: DTensor) -> tuple[int, int]:
    """Return low and high: the local shard is coordinates low..high of the flattened parameter.

    Raises
    ------
    InvalidArgument
        If the shard is not contiguous: a parameter may be cut along its first dimension only, as `fully_shard` does.
    """
    shape = tuple(tensor.shape)
    local, offset = compute_local_shape_and_global_offset(shape, tensor.device_mesh, tensor.placements)
    if tuple(local[1:]) != shape[1:] or any(_is_partial(placement) for placement in tensor.placements):
        raise InvalidArgument("parameters", tensor.placements, "replicated, or sharded along the first dimension only")
    row = math.prod(shape[1:])
    low = int(offset[0]) * row if shape else 0
    return low, low + math.prod(local)


def _is_partial(placement: Any) -> bool:
    return bool(placement.is_partial())
