"""NoiseStream: the right operator in the dtype used, one value per step for ever, refusals that change nothing."""

import copy
import gc
import math
import os
import pickle
import traceback

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.signal import lfilter

from dpstream import NoiseStream
from dpstream.errors import (
    ForkedStream,
    HorizonExceeded,
    InvalidArgument,
    KeyLengthError,
    NoiseLawError,
    OutputMismatch,
    StateError,
)
from dpstream.mechanisms import BalancedToeplitz, Binary, BufferedToeplitz, SmoothBinary, SquareRoot, Unbounded
from dpstream.mechanisms.unbounded import TOTALS_SLOT
from dpstream.noise import draws as draws_module
from dpstream.noise import engine as engine_module
from dpstream.testing import fixed_key

from .catalogue import ALL, GAUSSIAN, LAPLACE

#: Beside the widths that every run takes.
MORE_WIDTHS = [pytest.param(width, marks=pytest.mark.heavy) for width in (3, 300)]

DTYPES = {"float32": 2e-6, "float64": 1e-13}


def make(name: str, horizon: int, shape=(), dtype="float32", threads=None, label="stream", scale=2.0) -> NoiseStream:
    dtype = "int64" if name in LAPLACE else dtype
    return NoiseStream(ALL[name](horizon), scale, shape, dtype=dtype, key=fixed_key(label), threads=threads)


def draws_of(stream: NoiseStream, steps: int) -> np.ndarray:
    """The independent draws behind the first steps, in the order the pure step takes them."""
    mechanism, rows = stream.mechanism, []
    for t in range(1, steps + 1):
        slots = list(range(mechanism.draws_at(t)))
        if isinstance(mechanism, Unbounded) and t > 1 and t & (t - 1) == 0:
            slots = [TOTALS_SLOT, *slots[:-1]]  # a new epoch: the total before it comes first
        rows += [stream._draws.rows(t, 1, slot)[0].astype(np.float64) for slot in slots]
    return np.array(rows)


def operator_of(mechanism, steps: int) -> np.ndarray:
    """The pure step as a matrix."""
    counts = [mechanism.draws_at(t) for t in range(1, steps + 1)]
    units = iter(np.eye(sum(counts)))
    state, rows = mechanism.start(), []
    for count in counts:
        noise, state = mechanism.advance(state, [next(units) for _ in range(count)])
        rows.append(noise)
    return np.array(rows)


@pytest.mark.parametrize("coordinates", [1, 64, *MORE_WIDTHS])
@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("name", GAUSSIAN)
def test_the_operator_in_the_dtype_used(name, dtype, coordinates):
    """Every release is scale · (L z), with the very draws that went in, to the precision of the dtype."""
    stream = make(name, 150, coordinates, dtype)
    expected = 2.0 * operator_of(stream.mechanism, 150) @ draws_of(stream, 150)
    values = np.array([stream.step() for _ in range(150)])
    scale = 2.0 * np.sqrt((stream.mechanism.variance(150)) / stream.mechanism.sensitivity() ** 2)
    assert np.abs(values - expected).max() < 20 * DTYPES[dtype] * scale


@pytest.mark.parametrize(
    "mechanism", [BufferedToeplitz(2**20), BalancedToeplitz(2**20)], ids=lambda m: type(m).__name__
)
def test_long_horizons_in_float32(mechanism):
    """Decay rates near 1 are not representable in float32; the operator must hold all the same, 30,000 steps in.

    The stream's own draws go through the stated recurrence in float64, where θ is right to 1e-16.
    """
    steps, d = 30_000, 64
    stream = NoiseStream(mechanism, 1.0, d, key=fixed_key("long"), threads=1)
    source = np.array([stream._draws.rows(t, 1, 0)[0] for t in range(1, steps + 1)], dtype=np.float64)
    scaled = source * mechanism.input_scale(1, steps)[:, None]
    expected = scaled.copy()
    for gap, weight in zip(mechanism.gaps, mechanism.weights, strict=True):
        buffers = lfilter([1.0], [1.0, -(1.0 - gap)], scaled, axis=0)
        expected += weight * (buffers - scaled)
    expected *= mechanism.output_scale(1, steps)[:, None]
    out, worst = np.empty(d, dtype=np.float32), 0.0
    for t in range(steps):
        stream.step(out)
        worst = max(worst, float(np.abs(out - expected[t]).max()))
    assert worst < 1e-4 * float(expected.std())


@pytest.mark.parametrize("coordinates", [1, 64, *MORE_WIDTHS])
@pytest.mark.parametrize("dtype", ["float32", "float64", "int64"])
@pytest.mark.parametrize("name", ALL)
def test_block_equals_steps(name, dtype, coordinates):
    one, other = make(name, 300, coordinates, dtype), make(name, 300, coordinates, dtype)
    steps = np.array([one.step() for _ in range(300)])
    blocks = np.concatenate([other.block(n) for n in (1, 0, 7, 64, 100, 3, 125)])
    assert steps.dtype == blocks.dtype == np.dtype("int64" if name in LAPLACE else dtype)
    np.testing.assert_array_equal(steps, blocks)
    assert one.t == other.t == 300


@pytest.mark.parametrize("coordinates", [1, 70])
@pytest.mark.parametrize("dtype", ["float32", "int64"])
@pytest.mark.parametrize("name", ALL)
def test_seek(name, dtype, coordinates):
    stream, other = make(name, 200, coordinates, dtype), make(name, 200, coordinates, dtype)
    values = stream.block(200)
    for t in (150, 0, 199, 63, 64, 65, 1, 128):
        other.seek(t)
        assert other.t == t
        np.testing.assert_array_equal(other.step(), values[t])


def test_seek_on_a_tree_takes_few_draws(monkeypatch):
    stream = NoiseStream(SmoothBinary(10**12), 1.0, 100, key=fixed_key("seek"))
    asked = []
    honest = draws_module.Draws.words
    monkeypatch.setattr(draws_module.Draws, "words", lambda self, *a: asked.append(a) or honest(self, *a))
    stream.seek(123_456_789_012)
    stream.step()
    assert len(asked) <= stream.mechanism.ones + 2


@pytest.mark.parametrize("coordinates", [1, 70])
@pytest.mark.parametrize("name", ALL)
def test_increments_add_up(name, coordinates):
    stream, other = make(name, 50, coordinates, "float64"), make(name, 50, coordinates, "float64")
    values = stream.block(50)
    total = np.zeros(coordinates)
    for t in range(50):
        total = total + other.increment()
        np.testing.assert_allclose(total, values[t], rtol=1e-12, atol=1e-12)
    late = make(name, 50, coordinates, "float64")
    late.block(20)
    np.testing.assert_allclose(late.increment(), values[20] - values[19], atol=1e-12)
    np.testing.assert_array_equal(late.step(), values[21])
    np.testing.assert_allclose(late.increment(), values[22] - values[21], atol=1e-12)


@pytest.mark.parametrize("threads", [1, 2, 3, 8])
@pytest.mark.parametrize("name", ["SmoothBinary", "BufferedToeplitz", "SquareRoot"])
def test_threads_and_chunks_change_no_bit(name, threads, monkeypatch):
    plain = make(name, 20, 100_003, threads=1).block(5)
    np.testing.assert_array_equal(make(name, 20, 100_003, threads=threads).block(5), plain)
    monkeypatch.setattr(engine_module, "CHUNK_COORDINATES", 640)
    np.testing.assert_array_equal(make(name, 20, 100_003, threads=threads).block(5), plain)


def test_settings_and_keys_give_other_noise():
    streams = [
        make("SmoothBinary", 100),
        make("SmoothBinary", 101),
        make("SmoothBinary", 100, label="other"),
        make("SmoothBinary", 100, scale=np.nextafter(2.0, 3.0)),
        make("SmoothBinary", 100, dtype="float64"),
        make("SmoothBinary", 100, shape=(1,)),
        make("Binary", 100),
        NoiseStream(SmoothBinary(100), 2.0),
        NoiseStream(SmoothBinary(100), 2.0),
    ]
    firsts = {float(np.ravel(stream.step())[0]) for stream in streams}
    assert len(firsts) == len(streams)


@pytest.mark.parametrize("coordinates", [(), (2, 3), 70])
@pytest.mark.parametrize("name", ALL)
def test_state_goes_on_where_it_was(name, coordinates):
    dtype = "int64" if name in LAPLACE else "float32"
    whole = make(name, 120, coordinates).block(120)
    stream = make(name, 120, coordinates)
    stream.block(17)
    for _ in range(20):
        stream.step()
    saved = stream.state()
    assert fixed_key("stream") not in saved
    again = NoiseStream.from_state(saved, ALL[name](120), 2.0, coordinates, dtype=dtype, key=fixed_key("stream"))
    assert again.t == 37
    np.testing.assert_array_equal(again.block(83), whole[37:])
    np.testing.assert_array_equal(stream.block(83), whole[37:])


def test_state_of_another_stream_is_refused():
    saved = make("BufferedToeplitz", 50, 70).state()

    def reopen(mechanism=None, scale=2.0, shape=70, dtype="float32", label="stream", state=saved):
        mechanism = BufferedToeplitz(50) if mechanism is None else mechanism
        return NoiseStream.from_state(state, mechanism, scale, shape, dtype=dtype, key=fixed_key(label))

    assert reopen().t == 0
    with pytest.raises(StateError, match="another stream: its mechanism is 'BufferedToeplitz"):
        reopen(mechanism=BufferedToeplitz(51))
    with pytest.raises(StateError, match=r"its scale is '2.0', not '3.0'"):
        reopen(scale=3.0)
    with pytest.raises(StateError, match="its shape is"):
        reopen(shape=71)
    with pytest.raises(StateError, match="its dtype is 'float32', not 'float64'"):
        reopen(dtype="float64")
    with pytest.raises(StateError, match="damaged, or was saved under another key"):
        reopen(label="other")
    with pytest.raises(StateError, match="has format version 9, but this dpstream reads version 1"):
        reopen(state=saved[:4] + b"\x09\x00" + saved[6:])
    with pytest.raises(StateError, match="do not start with DPNS"):
        reopen(state=b"PK\x03\x04" + saved[4:])


@settings(max_examples=300 if os.environ.get("DPSTREAM_HEAVY") else 100, deadline=None)
@given(st.data())
def test_damaged_states_are_refused(data):
    saved = bytearray(make("BufferedToeplitz", 50, 3).state())
    if data.draw(st.booleans()):
        del saved[data.draw(st.integers(0, len(saved) - 1)) :]
    else:
        saved[data.draw(st.integers(0, len(saved) - 1))] ^= 1 << data.draw(st.integers(0, 7))
    with pytest.raises(StateError):
        NoiseStream.from_state(bytes(saved), BufferedToeplitz(50), 2.0, 3, key=fixed_key("stream"))


def test_a_stream_with_a_key_of_its_own_cannot_be_saved():
    with pytest.raises(StateError, match="give the stream a key of yours"):
        NoiseStream(Binary(5), 1.0).state()


@pytest.mark.parametrize("coordinates", [1, 70])
@pytest.mark.parametrize("name", ALL)
def test_past_the_horizon_nothing_changes(name, coordinates):
    stream = make(name, 10, coordinates)
    if stream.mechanism.horizon != 10:
        return  # no horizon within reach: HorizonExceeded is tested by the mechanism's own tests
    values = stream.block(10)
    for attempt in (stream.step, stream.increment, lambda: stream.block(1)):
        with pytest.raises(HorizonExceeded, match="step 11 is past the horizon"):
            attempt()
        assert stream.t == 10
    stream.seek(4)
    with pytest.raises(HorizonExceeded, match="step 12 is past"):
        stream.block(8)
    assert stream.t == 4
    np.testing.assert_array_equal(stream.block(6), values[4:])


def test_a_forked_child_is_refused():
    stream = NoiseStream(SmoothBinary(100), 2.0, 3, key=fixed_key("fork"))
    stream.step()
    read, write = os.pipe()
    child = os.fork()
    if child == 0:  # pragma: no cover - runs in the child, which reports through the pipe
        told = []
        for attempt in (stream.step, stream.increment, lambda: stream.block(2), lambda: stream.seek(3), stream.state):
            try:
                attempt()
                told.append("went through")
            except ForkedStream as error:
                told.append("refused" if "stream.fresh()" in str(error) else "unclear")
        own = stream.fresh()
        told.append(f"{own.t}")
        told.append(repr(own.step().tolist()))
        os.write(write, "|".join(told).encode())
        os._exit(0)
    os.waitpid(child, 0)
    *told, started, first = os.read(read, 10_000).decode().split("|")
    os.close(read)
    os.close(write)
    assert told == ["refused"] * 5
    assert started == "0"
    replay = NoiseStream(SmoothBinary(100), 2.0, 3, key=fixed_key("fork"))
    assert repr(replay.step().tolist()) != first
    np.testing.assert_array_equal(stream.step(), replay.step())


@pytest.mark.parametrize("coordinates", [1, 40_000])
@pytest.mark.parametrize("name", ["SmoothBinary", "BufferedToeplitz", "SquareRoot", "Optimal", "Unbounded"])
def test_an_interrupted_step_is_made_again(name, coordinates, monkeypatch):
    """Ctrl-C in the middle of a step: t has not moved, and the step comes out as it would have."""
    values = make(name, 130, coordinates).block(100)
    stream = make(name, 130, coordinates)
    stream.block(9)
    calls = 0
    honest = draws_module.Keystream.fill

    def interrupted(self, *args, **kwargs):
        nonlocal calls
        calls += 1
        if calls == 2:
            raise KeyboardInterrupt
        return honest(self, *args, **kwargs)

    with monkeypatch.context() as patch:
        patch.setattr(draws_module.Keystream, "fill", interrupted)
        with pytest.raises(KeyboardInterrupt):
            for _ in range(64):
                stream.block(1)
    t = stream.t
    assert 9 <= t < 73
    np.testing.assert_array_equal(stream.block(100 - t), values[t:])


def test_out_is_filled_in_place():
    stream, other = make("SmoothBinary", 10, (3, 4)), make("SmoothBinary", 10, (3, 4))
    out = np.empty((3, 4), dtype=np.float32)
    assert stream.step(out) is out
    np.testing.assert_array_equal(out, other.step())
    before = out.copy()
    stream.step()
    np.testing.assert_array_equal(out, before)


@pytest.mark.parametrize(
    "out",
    [
        np.empty((3, 5), dtype=np.float32),
        np.empty((3, 4), dtype=np.float64),
        np.empty((4, 3), dtype=np.float32).T,
        np.empty((3, 8), dtype=np.float32)[:, ::2],
        [[0.0] * 4] * 3,
    ],
)
def test_bad_out_changes_nothing(out):
    stream, other = make("SmoothBinary", 10, (3, 4)), make("SmoothBinary", 10, (3, 4))
    for attempt in (stream.step, stream.increment):
        with pytest.raises(OutputMismatch, match="out must be"):
            attempt(out)
    assert stream.t == 0
    np.testing.assert_array_equal(stream.step(), other.step())


def test_read_only_out():
    out = np.empty((3, 4), dtype=np.float32)
    out.flags.writeable = False
    with pytest.raises(OutputMismatch, match="contiguous"):
        make("SmoothBinary", 10, (3, 4)).step(out)


@pytest.mark.parametrize("shape", [0, (3, 0), -1, (2.5,), "abc", None, True, (2**16, 2**15)])
def test_bad_shape(shape):
    with pytest.raises(InvalidArgument, match="shape must be"):
        NoiseStream(Binary(5), 1.0, shape)


def test_too_many_sides():
    with pytest.raises(InvalidArgument, match="shape must be of at most 63 sides"):
        NoiseStream(Binary(5), 1.0, (1,) * 64)
    assert NoiseStream(Binary(5), 1.0, (1,) * 63).block(2).ndim == 64


@pytest.mark.parametrize("state", [None, 7, "DPNS", [1, 2]])
def test_a_state_that_is_no_bytes(state):
    with pytest.raises(StateError, match="state must be the bytes that state\\(\\) returned, got"):
        NoiseStream.from_state(state, Binary(5), 1.0, key=fixed_key("stream"))


@pytest.mark.parametrize("scale", [0, -1, math.nan, math.inf, "1", True])
def test_bad_scale(scale):
    with pytest.raises(InvalidArgument, match="scale must be a positive, finite number"):
        NoiseStream(Binary(5), scale)


@pytest.mark.parametrize("dtype", ["float16", "int32", "complex128", "object", "nonsense", 7])
def test_bad_dtype(dtype):
    with pytest.raises(InvalidArgument, match="dtype must be 'float32', 'float64' or 'int64'"):
        NoiseStream(Binary(5), 1.0, dtype=dtype)


@pytest.mark.parametrize("key", [b"", bytes(31), bytes(33), "0" * 32, 5])
def test_bad_key(key):
    with pytest.raises(KeyLengthError, match="key must be 32 bytes or None"):
        NoiseStream(Binary(5), 1.0, key=key)


@pytest.mark.parametrize("threads", [0, -1, 1.5, True, "2"])
def test_bad_threads(threads):
    with pytest.raises(InvalidArgument, match="threads must be a whole number of at least 1"):
        NoiseStream(Binary(5), 1.0, threads=threads)


def test_laplace_needs_the_exact_lane():
    with pytest.raises(NoiseLawError, match=r"needs dtype='int64' \(the exact lane\), got dtype='float32'"):
        NoiseStream(Binary(5, noise="laplace"), 1.0)


def test_not_a_mechanism():
    with pytest.raises(InvalidArgument, match="mechanism must be a mechanism"):
        NoiseStream("SmoothBinary", 1.0)


@pytest.mark.parametrize("t", [-1, 2.5, True, "3", math.nan])
def test_bad_seek(t):
    stream = make("Binary", 10)
    with pytest.raises(InvalidArgument, match="t must be a whole number of at least 0"):
        stream.seek(t)
    with pytest.raises(HorizonExceeded):
        stream.seek(11)
    assert stream.t == 0


def test_the_key_shows_nowhere():
    key = os.urandom(32)
    stream = NoiseStream(SmoothBinary(10), 1.0, 70, key=key)
    stream.step()
    shown = repr(stream) + str(stream) + repr(stream._draws) + repr(stream._draws.keystream)
    for leak in (pickle.dumps, copy.copy, copy.deepcopy):
        with pytest.raises(TypeError, match="cannot be pickled"):
            leak(stream)
    try:
        stream.block(11)
    except HorizonExceeded as error:
        shown += "".join(traceback.TracebackException.from_exception(error).format())
    for form in (key.hex(), repr(key)[2:-1]):
        assert form not in shown
    assert key not in stream.state()


def test_memory_stays_bounded():
    """A long narrow stream holds a few kilobytes, however long it runs."""
    import tracemalloc

    stream = NoiseStream(SmoothBinary(10**9), 3.0, dtype="int64", key=fixed_key("memory"))
    for _ in range(2000):
        stream.step()
    gc.collect()
    tracemalloc.start()
    for _ in range(20_000):
        stream.step()
    gc.collect()
    held, _ = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert held < 50_000


def test_square_root_keeps_no_history():
    stream = NoiseStream(SquareRoot(2**14), 1.0, 64, key=fixed_key("history"))
    for _ in range(300):
        stream.step()
    assert stream._engine._pending.nbytes <= 256 * 64 * 4
