"""Wrong buffers are refused, by both kernels alike, before anything is written."""

from __future__ import annotations

from collections.abc import Callable
from types import ModuleType
from typing import Any

import numpy as np
import pytest

from dpstream.kernel import twin

F32, F64, U8, I64 = np.float32, np.float64, np.uint8, np.int64


def read_only(array: np.ndarray) -> np.ndarray:
    array.flags.writeable = False
    return array


def misaligned(count: int, dtype: type) -> np.ndarray:
    size = np.dtype(dtype).itemsize
    return np.frombuffer(bytearray(count * size + 1), np.uint8)[1:].view(dtype)


#: A real buffer, a pair, another real buffer: (gap, turn, weight, turned weight).
TABLE = np.array([[0.1, 0.0, 1.0, 0.0], [0.2, 0.3, 1.0, 2.0], [0.5, 0.0, 1.0, 0.0]])


def good(name: str) -> list[Any]:
    """Arguments that the function takes."""
    n, d, b = 100, 2, 3
    zeros = np.zeros
    real = F32 if name.endswith("f32") else F64
    words = bytes(128 * real().itemsize)
    return {
        "normal": lambda: [words, zeros(128, real)],
        "laplace": lambda: [bytes(80), zeros(10)],
        "flag_unsafe": lambda: [bytes(512), "normal"],
        "flag_tails": lambda: [bytes(512)],
        "increment_step": lambda: [
            words, 1.0, 1.0, TABLE.copy(), 1, zeros((1, n)), zeros((3, n), real), zeros(n), 0, n, zeros(n, real), 0
        ],
        "increment_block": lambda: [
            zeros((n, d)), zeros(n), TABLE.copy(), zeros((4, d)), zeros(d), zeros((n, d))
        ],
        "banded_step": lambda: [
            words, 1.0, 1.0, zeros(b), zeros((b, n), real), 0, zeros(n), 0, n, zeros(n, real), 0
        ],
        "stack_step": lambda: [words, 1.0, words, 0.5, zeros(n, real), zeros(n, real), zeros(n, real)],
        "stack_increment": lambda: [
            words, 1.0, words, 0.5, zeros(n, real), zeros(n, real), zeros(n, real), zeros(n, real)
        ],
        "recurrence_step": lambda: [
            words, 1.0, 1.0, zeros(b), zeros(b), zeros((1, n)), zeros((2, n), real), 0, n, zeros(n, real)
        ],
        "add_increment": lambda: [zeros(n, real), zeros(n, real), zeros(n, real)],
        "release": lambda: [zeros(n, real), zeros(n), zeros(n, real), 0.5],
        "squared_norm": lambda: [zeros(n, real)],
        "stack_block": lambda: [
            zeros(n, U8), zeros(n), np.ones(n), zeros((2, 1)), zeros((n, d), real), zeros((n, d), real),
            zeros((n, d), real), 0, zeros((n, d), real),
        ],
        "smooth_moves": lambda: [7, zeros(n, U8), zeros(n, U8)],
        "recurrence_block": lambda: [
            zeros((n, d)), zeros(n), zeros(n), zeros(b), zeros(b), zeros((b, d)), zeros((n, d))
        ],
        "recurrence_leap": lambda: [
            zeros((n, d)), zeros(n), zeros(n), zeros((b, 16)), zeros(16), zeros((17, b)), zeros((17, b)), zeros((b, d)),
            zeros((b, d)), zeros((n, d)),
        ],
        "recurrence_mixed": lambda: [
            zeros(n), 1.0, 1.0, zeros(b), zeros(b), zeros((b, n)), zeros((2, n)), zeros(n)
        ],
        "round_guarded": lambda: [zeros(n), 0.1, zeros(n, I64)],
    }[name.removesuffix("_f32").removesuffix("_f64")]()  # fmt: skip


#: Each function, and which of its arguments are written to.
WRITTEN = {
    "normal_f32": [1],
    "normal_f64": [1],
    "laplace_f64": [1],
    "flag_unsafe": [],
    "flag_tails_f32": [],
    "flag_tails_f64": [],
    "increment_step_f32": [5, 6, 7, 10],
    "increment_step_f64": [5, 6, 7, 10],
    "increment_block_f64": [3, 4, 5],
    "banded_step_f32": [4, 6, 9],
    "banded_step_f64": [4, 6, 9],
    "stack_step_f32": [5, 6],
    "stack_step_f64": [5, 6],
    "stack_increment_f32": [5, 6, 7],
    "stack_increment_f64": [5, 6, 7],
    "recurrence_step_f32": [5, 6, 9],
    "recurrence_step_f64": [5, 6, 9],
    "add_increment_f32": [1, 2],
    "add_increment_f64": [1, 2],
    "release_f32": [1, 2],
    "squared_norm_f32": [],
    "stack_block_f64": [6, 8],
    "smooth_moves": [1, 2],
    "recurrence_block_f64": [5, 6],
    "recurrence_leap_f64": [7, 8, 9],
    "recurrence_mixed_f64": [5, 6, 7],
    "round_guarded": [2],
}
NAMES = list(WRITTEN)


def test_every_function_is_here() -> None:
    assert {name for name in twin.__all__ if name.islower()} == set(NAMES)


def is_buffer(argument: object) -> bool:
    return isinstance(argument, (bytes, np.ndarray))


ARRAYS = [(name, i) for name in NAMES for i, argument in enumerate(good(name)) if isinstance(argument, np.ndarray)]
BUFFERS = [(name, i) for name in NAMES for i, argument in enumerate(good(name)) if is_buffer(argument)]


@pytest.mark.parametrize("name", NAMES)
def test_good_arguments_are_taken(kernel: ModuleType, name: str) -> None:
    getattr(kernel, name)(*good(name))


def refused(kernel: ModuleType, name: str, position: int, change: Callable[[Any], Any], match: str = "") -> None:
    arguments = good(name)
    arguments[position] = change(arguments[position])
    for i in WRITTEN[name]:  # to see that nothing is written
        if i != position:
            arguments[i][...] = 77
    with pytest.raises(ValueError, match=match):
        getattr(kernel, name)(*arguments)
    for i in WRITTEN[name]:
        if i != position:
            assert (arguments[i] == 77).all()


@pytest.mark.parametrize(("name", "position"), BUFFERS)
def test_a_buffer_of_the_wrong_size(kernel: ModuleType, name: str, position: int) -> None:
    if name == "squared_norm_f32":
        return  # any size will do
    if name in ("round_guarded", "release_f32", "smooth_moves") or isinstance(good(name)[position], bytes):
        refused(kernel, name, position, lambda a: a[:-1], "must have")
    elif name.startswith("stack_block") and position in (3, 6):
        refused(kernel, name, position, lambda a: a[:0] if position == 3 else a[:-1], "step .* of the block")
    elif name.startswith(("recurrence_step", "increment_step")) and position in (5, 6):
        refused(kernel, name, position, lambda a: a[:, :-1].copy(), "must ")
        refused(kernel, name, position, lambda a: a[:-1], "must have")
    elif name == "recurrence_mixed_f64" and position == 6:  # fewer rows are fewer precise buffers
        refused(kernel, name, position, lambda a: a[:, :-1].copy(), "must have")
        refused(kernel, name, position, lambda a: np.zeros((4, a.shape[1])), "at most 3 rows")
    else:
        refused(kernel, name, position, lambda a: a[:-1], "must have")


@pytest.mark.parametrize(("name", "position"), ARRAYS)
def test_a_buffer_of_the_wrong_type(kernel: ModuleType, name: str, position: int) -> None:
    refused(kernel, name, position, lambda a: a.astype(np.int16), "must hold")
    refused(
        kernel,
        name,
        position,
        lambda a: a.astype(a.dtype.newbyteorder(">")) if a.itemsize > 1 else a.view(np.int8),
        "hold",
    )


@pytest.mark.parametrize(("name", "position"), BUFFERS)
def test_a_buffer_with_gaps(kernel: ModuleType, name: str, position: int) -> None:
    def gappy(argument: Any) -> Any:
        if isinstance(argument, bytes):
            return np.zeros(2 * len(argument), U8)[::2]
        return np.zeros((*argument.shape[:-1], 2 * argument.shape[-1]), argument.dtype)[..., ::2]

    refused(kernel, name, position, gappy, "contiguous")


@pytest.mark.parametrize(("name", "position"), [(name, i) for name in NAMES for i in WRITTEN[name]])
def test_a_read_only_buffer_to_write_to(kernel: ModuleType, name: str, position: int) -> None:
    refused(kernel, name, position, read_only, "writable")


@pytest.mark.parametrize(("name", "position"), [(n, i) for n, i in ARRAYS if good(n)[i].itemsize > 1])
def test_a_misaligned_buffer(kernel: ModuleType, name: str, position: int) -> None:
    refused(kernel, name, position, lambda a: misaligned(a.size, a.dtype).reshape(a.shape), "aligned")


@pytest.mark.parametrize(("name", "position"), ARRAYS)
def test_the_wrong_number_of_dimensions(kernel: ModuleType, name: str, position: int) -> None:
    flat_is_fine = name.split("_f")[0] in (
        "normal",
        "laplace",
        "stack_step",
        "stack_increment",
        "add_increment",
        "release",
        "squared_norm",
        "round_guarded",
    )
    out_of_step = {"recurrence_step": 9, "increment_step": 10, "banded_step": 9}
    if flat_is_fine or out_of_step.get(name[:-4]) == position:
        arguments = good(name)
        arguments[position] = arguments[position].reshape(1, 1, -1)
        getattr(kernel, name)(*arguments)
    else:
        refused(kernel, name, position, lambda a: a[None], "dimension")


@pytest.mark.parametrize(("name", "position"), BUFFERS)
def test_no_buffer_at_all(kernel: ModuleType, name: str, position: int) -> None:
    arguments = good(name)
    arguments[position] = [0.0] * 100
    with pytest.raises(TypeError, match="must be a buffer"):
        getattr(kernel, name)(*arguments)


@pytest.mark.parametrize("name", NAMES)
def test_the_wrong_number_of_arguments(kernel: ModuleType, name: str) -> None:
    for arguments in ([], good(name)[:-1], [*good(name), None]):
        with pytest.raises(TypeError):
            getattr(kernel, name)(*arguments)


@pytest.mark.parametrize("name", [n for n in NAMES if len(WRITTEN[n]) > 1 or n.startswith(("add", "normal"))])
def test_overlapping_buffers(kernel: ModuleType, name: str) -> None:
    """Anything that is written to must not share memory with another buffer of the same type."""
    for i in WRITTEN[name]:
        for j, other in enumerate(good(name)):
            arguments = good(name)
            same = (
                isinstance(other, np.ndarray)
                and other.dtype == arguments[i].dtype
                and other.shape == arguments[i].shape
            )
            if j == i or not same or (name.startswith(("stack_step", "stack_incr")) and (i, j) in ((5, 4), (4, 5))):
                continue
            arguments[j] = arguments[i]
            with pytest.raises(ValueError, match="overlap"):
                getattr(kernel, name)(*arguments)


def test_top_may_be_base_but_not_overlap_it(kernel: ModuleType) -> None:
    arguments = good("stack_step_f32")
    memory = np.zeros(200, F32)
    arguments[4] = arguments[5] = memory[:100]
    kernel.stack_step_f32(*arguments)
    arguments[5] = memory[1:101]
    with pytest.raises(ValueError, match="overlap"):
        kernel.stack_step_f32(*arguments)


def test_normals_come_in_whole_tiles(kernel: ModuleType) -> None:
    with pytest.raises(ValueError, match="multiple of 64"):
        kernel.normal_f32(bytes(4 * 64), np.empty(63, F32))
    with pytest.raises(ValueError, match="multiple of 32"):
        kernel.normal_f64(bytes(8 * 32), np.empty(31))


def test_padding_needs_somewhere_to_go(kernel: ModuleType) -> None:
    refused(kernel, "stack_step_f32", 6, lambda _: None, "out must be given")


@pytest.mark.parametrize(("lo", "hi"), [(1, 100), (64, 32), (0, 101), (-64, 100), (0, 2**70)])
def test_columns_that_are_not_there(kernel: ModuleType, lo: int, hi: int) -> None:
    arguments = good("recurrence_step_f32")
    arguments[7], arguments[8] = lo, hi
    with pytest.raises(ValueError, match=r"lo|hi"):
        kernel.recurrence_step_f32(*arguments)


def test_more_buffers_than_a_leap_has_room_for(kernel: ModuleType) -> None:
    refused(kernel, "recurrence_leap_f64", 7, lambda _: np.zeros((33, 2)), "at most 32 rows")


def test_moves_that_leave_the_stack(kernel: ModuleType) -> None:
    def pops(step: int, count: int) -> Callable[[np.ndarray], np.ndarray]:
        def change(array: np.ndarray) -> np.ndarray:
            array[step] = count
            return array

        return change

    refused(kernel, "stack_block_f64", 0, pops(5, 6), "step 5 of the block pops more entries than there are")
    refused(kernel, "stack_block_f64", 0, pops(5, 255), "step 5 of the block pops more entries than there are")
    refused(
        kernel,
        "stack_block_f64",
        0,
        pops(5, 2),
        "step 5 of the block pops more entries than mix has rows for",
    )
    refused(kernel, "stack_block_f64", 7, lambda _: 3, "step 97 of the block pushes past the end")
    refused(kernel, "stack_block_f64", 7, lambda _: 101, "depth must be at most 100")
    refused(kernel, "stack_block_f64", 7, lambda _: -1, "depth must be a whole number")
    refused(kernel, "stack_block_f64", 5, lambda _: None, "step 0 of the block has padding")


@pytest.mark.parametrize("guard", [-1.0, float("nan")])
def test_a_guard_that_is_none(kernel: ModuleType, guard: float) -> None:
    refused(kernel, "round_guarded", 1, lambda _: guard, "guard must be")


def test_an_unknown_kind_of_draw(kernel: ModuleType) -> None:
    for kind in ("cauchy", None, 3):
        with pytest.raises(ValueError, match="'normal' or 'laplace'"):
            kernel.flag_unsafe(bytes(256), kind)


@pytest.mark.parametrize("suffix", ["f32", "f64"])
def test_buffers_that_do_not_fit_their_table(kernel: ModuleType, suffix: str) -> None:
    step = f"increment_step_{suffix}"
    refused(kernel, step, 4, lambda _: 4, "slow must be at most 3, the buffers that have a state, got 4")
    refused(kernel, step, 4, lambda _: 2, r"slow_state must have shape \(3, 100\), got \(1, 100\)")
    refused(kernel, step, 3, lambda table: table[:, :3].copy(), r"buffers must have shape \(3, 4\), got \(3, 3\)")
    arguments = good(step)
    arguments[5] = None
    with pytest.raises(ValueError, match="slow must be at most 0, the buffers that have a state, got 1"):
        getattr(kernel, step)(*arguments)
    refused(kernel, f"banded_step_{suffix}", 5, lambda _: 3, "position must be below 3, the rows of ring, got 3")
    refused(kernel, "increment_block_f64", 3, lambda state: state[:-1], r"state must have shape \(4, 2\)")
