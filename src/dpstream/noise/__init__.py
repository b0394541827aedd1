"""Where randomness comes from: a pure function of (key, step)."""

# Each engine registers itself for a kind of mechanisms when its module is loaded.
from dpstream.noise import (
    convolution_engine as convolution_engine,
)
from dpstream.noise import (
    dense_engine as dense_engine,
)
from dpstream.noise import (
    epoch_engine as epoch_engine,
)
from dpstream.noise import (
    exact_increment_engine as exact_increment_engine,
)
from dpstream.noise import (
    increment_engine as increment_engine,
)
from dpstream.noise import (
    pure_step_engine as pure_step_engine,
)
from dpstream.noise import (
    recurrence_engine as recurrence_engine,
)
from dpstream.noise import (
    stack_engine as stack_engine,
)
from dpstream.noise.stream import NoiseStream

__all__ = ["NoiseStream"]
