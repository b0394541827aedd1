"""What survives a crash: counters and sums in a file, with a key and a witness beside it."""

from dpstream.store.composition import Spent
from dpstream.store.durable_counter import DurableCounter
from dpstream.store.durable_sum import DurableSum
from dpstream.store.releases import Release
from dpstream.store.store import Store, StreamInfo

__all__ = ["DurableCounter", "DurableSum", "Release", "Spent", "Store", "StreamInfo"]
