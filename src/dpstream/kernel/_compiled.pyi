from typing import Any, Literal, SupportsFloat, SupportsIndex, TypeAlias

import numpy as np
from numpy.typing import NDArray

Words: TypeAlias = Any
Single: TypeAlias = NDArray[np.float32]
Double: TypeAlias = NDArray[np.float64]

def normal_f32(words: Words, out: Single, /) -> None: ...
def normal_f64(words: Words, out: Double, /) -> None: ...
def laplace_f64(words: Words, out: Double, /) -> None: ...
def flag_unsafe(words: Words, kind: Literal["normal", "laplace"], /) -> bytes: ...
def stack_step_f32(
    node_words: Words,
    node_weight: SupportsFloat,
    pad_words: Words | None,
    pad_weight: SupportsFloat,
    base: Single | None,
    top: Single,
    out: Single | None,
    /,
) -> None: ...
def stack_step_f64(
    node_words: Words,
    node_weight: SupportsFloat,
    pad_words: Words | None,
    pad_weight: SupportsFloat,
    base: Double | None,
    top: Double,
    out: Double | None,
    /,
) -> None: ...
def recurrence_step_f32(
    words: Words,
    input_scale: SupportsFloat,
    output_scale: SupportsFloat,
    gaps: Double,
    weights: Double,
    slow_state: Double | None,
    fast_state: Single,
    lo: SupportsIndex,
    hi: SupportsIndex,
    out: Single,
    /,
) -> None: ...
def recurrence_step_f64(
    words: Words,
    input_scale: SupportsFloat,
    output_scale: SupportsFloat,
    gaps: Double,
    weights: Double,
    slow_state: Double | None,
    fast_state: Double,
    lo: SupportsIndex,
    hi: SupportsIndex,
    out: Double,
    /,
) -> None: ...
def release_f32(x: Single, total: Double, release: Single, grid: SupportsFloat, /) -> None: ...
def squared_norm_f32(x: Single, /) -> float: ...
def stack_block_f32(
    pops: NDArray[np.uint8],
    push: Double,
    padding: Double,
    mix: Double | None,
    z: Single,
    zpad: Single | None,
    stack: Single,
    depth: SupportsIndex,
    out: Single,
    /,
) -> int: ...
def stack_block_f64(
    pops: NDArray[np.uint8],
    push: Double,
    padding: Double,
    mix: Double | None,
    z: Double,
    zpad: Double | None,
    stack: Double,
    depth: SupportsIndex,
    out: Double,
    /,
) -> int: ...
def smooth_moves(label: SupportsIndex, pops: NDArray[np.uint8], padding: NDArray[np.uint8], /) -> int: ...
def recurrence_block_f64(
    z: Double,
    input_scale: Double,
    output_scale: Double,
    gaps: Double,
    weights: Double,
    state: Double,
    out: Double,
    /,
) -> None: ...
def recurrence_leap_f64(
    z: Double,
    input_scale: Double,
    output_scale: Double,
    carried: Double,
    response: Double,
    decay: Double,
    decay_low: Double,
    high: Double,
    low: Double,
    out: Double,
    /,
) -> None: ...
def recurrence_mixed_f64(
    z: Double,
    input_scale: SupportsFloat,
    output_scale: SupportsFloat,
    gaps: Double,
    weights: Double,
    high: Double,
    low: Double,
    out: Double,
    /,
) -> None: ...
def round_guarded(x: Double, guard: SupportsFloat, out: NDArray[np.int64], /) -> bytes: ...
