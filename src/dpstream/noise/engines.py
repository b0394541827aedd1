"""Which engine streams which mechanism."""

from __future__ import annotations

from dpstream.mechanisms.base import Mechanism
from dpstream.mechanisms.convolution import ConvolutionMechanism
from dpstream.mechanisms.optimal import Optimal
from dpstream.mechanisms.recurrence import RecurrenceMechanism
from dpstream.mechanisms.stack import StackMechanism
from dpstream.mechanisms.unbounded import Unbounded
from dpstream.noise.convolution_engine import ConvolutionEngine
from dpstream.noise.draws import Draws
from dpstream.noise.engine import Chunks, Engine
from dpstream.noise.epoch_engine import EpochEngine
from dpstream.noise.recurrence_engine import RecurrenceEngine
from dpstream.noise.rows_engine import RowsEngine
from dpstream.noise.stack_engine import StackEngine

__all__ = ["make_engine"]


def make_engine(mechanism: Mechanism, draws: Draws, chunks: Chunks, gain: float = 1.0) -> Engine:
    """The engine for this mechanism's streaming kind."""
    if isinstance(mechanism, StackMechanism):
        return StackEngine(mechanism, draws, chunks, gain)
    if isinstance(mechanism, RecurrenceMechanism):
        return RecurrenceEngine(mechanism, draws, chunks, gain)
    if isinstance(mechanism, ConvolutionMechanism):
        return ConvolutionEngine(mechanism, draws, chunks, gain)
    if isinstance(mechanism, Optimal):
        return RowsEngine(mechanism, draws, chunks, gain)
    if isinstance(mechanism, Unbounded):
        return EpochEngine(mechanism, draws, chunks, gain, make_engine)
    raise TypeError(f"no engine streams a {type(mechanism).__name__}: it is of no known streaming kind")
