"""A part of a stream has the values of the whole, whatever the mechanism, lane, dtype and cut."""

import numpy as np
import pytest

from dpstream import NoiseStream, mechanisms
from dpstream.errors import InvalidArgument, StateError
from dpstream.testing import fixed_key

KEY = fixed_key("part")
SIZE = 20_000
MECHANISMS = [
    mechanisms.SmoothBinary(70),
    mechanisms.Honaker(70),
    mechanisms.WeightedTree(70),
    mechanisms.BufferedToeplitz(70),
    mechanisms.BalancedToeplitz(70),
    mechanisms.GrowingSmooth(),
    mechanisms.Unbounded(),
]


@pytest.mark.parametrize("dtype", ["float32", "float64", "int64"])
@pytest.mark.parametrize("mechanism", MECHANISMS, ids=lambda mechanism: type(mechanism).__name__)
def test_a_part_has_the_values_of_the_whole(mechanism, dtype):
    size = SIZE if dtype == "float32" else 300
    whole = NoiseStream(mechanism, 3.0, (size // 100, 100), dtype=dtype, key=KEY).block(5).reshape(5, -1)
    for low, high in ((0, 64), (64, size), (128, 137), (0, size)):
        part = NoiseStream(mechanism, 3.0, (size // 100, 100), dtype=dtype, key=KEY, part=(low, high))
        made = np.array([part.step() for _ in range(5)])
        assert part.shape == (high - low,)
        assert np.array_equal(made, whole[:, low:high])


@pytest.mark.parametrize(
    "mechanism", [mechanisms.SquareRoot(70), mechanisms.Optimal(16)], ids=["SquareRoot", "Optimal"]
)
def test_a_part_of_a_dense_product_is_the_whole_up_to_rounding(mechanism):
    """BLAS adds up in an order that depends on where a column stands."""
    whole = NoiseStream(mechanism, 3.0, 300, key=KEY).block(16)
    made = NoiseStream(mechanism, 3.0, 300, key=KEY, part=(64, 300)).block(16)
    np.testing.assert_allclose(made, whole[:, 64:], atol=1e-4)


def test_increments_seeking_and_saving_a_part():
    whole = NoiseStream(mechanisms.BufferedToeplitz(70), 3.0, 300, key=KEY)
    expected = np.array([whole.increment() for _ in range(9)])[:, 128:]
    settings = {"mechanism": mechanisms.BufferedToeplitz(70), "scale": 3.0, "shape": 300, "key": KEY}
    part = NoiseStream(**settings, part=(128, 300))
    assert np.array_equal([part.increment() for _ in range(4)], expected[:4])
    again = NoiseStream.from_state(part.state(), **settings, part=(128, 300))
    assert np.array_equal([again.increment() for _ in range(5)], expected[4:])
    part.seek(2)
    assert np.array_equal(part.increment(), expected[2])
    assert part.fresh(KEY).shape == (172,)
    for other in ((64, 300), None):
        with pytest.raises(StateError, match="its part is"):
            NoiseStream.from_state(part.state(), **settings, part=other)
    with pytest.raises(StateError, match="its part is None"):
        NoiseStream.from_state(whole.state(), **settings, part=(128, 300))


@pytest.mark.parametrize(
    ("part", "size"),
    [((1, 64), 100), ((64, 64), 100), ((64, 101), 100), ((-64, 64), 100), ((0, 10), 63), ((0,), 100), ("ab", 100)],
)
def test_parts_that_cannot_be_cut(part, size):
    with pytest.raises(InvalidArgument, match="part must be"):
        NoiseStream(mechanisms.SmoothBinary(70), 3.0, size, key=KEY, part=part)
