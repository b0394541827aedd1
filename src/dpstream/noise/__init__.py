"""Where randomness comes from: a pure function of (key, step)."""

from dpstream.noise.stream import NoiseStream

__all__ = ["NoiseStream"]
