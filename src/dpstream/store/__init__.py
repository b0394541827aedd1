"""What survives a crash: counters and sums in a file, with a key and a witness beside it."""

from dpstream.store.composition import Spent
from dpstream.store.durable_names import DurableNames
from dpstream.store.durable_streams import DurableCounter, DurableSum
from dpstream.store.ledger import Ingested
from dpstream.store.published import PublishedStore
from dpstream.store.published_names import NamedRelease, PublishedNames
from dpstream.store.store import Store
from dpstream.store.tables import Release, StreamInfo

__all__ = [
    "DurableCounter",
    "DurableNames",
    "DurableSum",
    "Ingested",
    "NamedRelease",
    "PublishedNames",
    "PublishedStore",
    "Release",
    "Spent",
    "Store",
    "StreamInfo",
]
