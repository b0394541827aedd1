"""The kernel's loops in NumPy: the same functions as the compiled ones, the same results to the last bit.

Each file is the twin of the header of the same name. Every operation stands here in the same order, each rounded
once, and no function of a mathematical library is used. Slower than C by a factor of five to fifty, and
available everywhere.

Layouts: a tile of float32 normals is 64 little-endian 32-bit words, of which words p and 32 + p make the
normals p and 32 + p (Box-Muller); a tile of float64 normals is 32 words of 64 bits, words p and 16 + p
making normals p and 16 + p. A Laplace draw is one word of 64 bits: the top bit is the sign, the others
begin the fraction. Wherever a vector may end inside its last tile, its words still cover whole tiles.
"""

from dpstream.kernel.twin.draws import (
    LAPLACE_ERROR,
    NORMAL_ERROR,
    TAIL_LIMIT,
    flag_tails_f32,
    flag_tails_f64,
    flag_unsafe,
    laplace_f64,
    normal_f32,
    normal_f64,
)
from dpstream.kernel.twin.labels import smooth_moves
from dpstream.kernel.twin.recurrence import (
    STEPS_AT_ONCE,
    increment_block_f64,
    recurrence_block_f64,
    recurrence_leap_f64,
    recurrence_mixed_f64,
)
from dpstream.kernel.twin.rounding import round_guarded
from dpstream.kernel.twin.stack import stack_block_f64
from dpstream.kernel.twin.sums import release_f32, squared_norm_f32
from dpstream.kernel.twin.transform import TILE_F32, TILE_F64
from dpstream.kernel.twin.vectors import (
    add_increment_f32,
    add_increment_f64,
    banded_step_f32,
    banded_step_f64,
    increment_step_f32,
    increment_step_f64,
    recurrence_step_f32,
    recurrence_step_f64,
    stack_increment_f32,
    stack_increment_f64,
    stack_step_f32,
    stack_step_f64,
)

__all__ = [
    "LAPLACE_ERROR",
    "NORMAL_ERROR",
    "STEPS_AT_ONCE",
    "TAIL_LIMIT",
    "TILE_F32",
    "TILE_F64",
    "add_increment_f32",
    "add_increment_f64",
    "banded_step_f32",
    "banded_step_f64",
    "flag_tails_f32",
    "flag_tails_f64",
    "flag_unsafe",
    "increment_block_f64",
    "increment_step_f32",
    "increment_step_f64",
    "laplace_f64",
    "normal_f32",
    "normal_f64",
    "recurrence_block_f64",
    "recurrence_leap_f64",
    "recurrence_mixed_f64",
    "recurrence_step_f32",
    "recurrence_step_f64",
    "release_f32",
    "round_guarded",
    "smooth_moves",
    "squared_norm_f32",
    "stack_block_f64",
    "stack_increment_f32",
    "stack_increment_f64",
    "stack_step_f32",
    "stack_step_f64",
]
