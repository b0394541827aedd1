"""How the writer of a server works."""

from __future__ import annotations

import math
from dataclasses import dataclass

from dpstream.errors import InvalidArgument

__all__ = ["WriterSettings"]

#: Batches of one stream for which there is room in a second; those beyond wait for the next commit.
BATCHES_A_SECOND = 512
#: Keys of batches are remembered for so long, while the server runs, and at least those of the last 4,096 commits.
REMEMBERED_SECONDS = 3600


@dataclass(frozen=True)
class WriterSettings:
    """How often is committed, in seconds. All that the file shows of events follows from that."""

    commit_every: float = 1.0

    def __post_init__(self) -> None:
        if not 0.02 <= self.commit_every <= 60:
            raise InvalidArgument("commit_every", self.commit_every, "0.02 to 60 seconds")

    @property
    def places(self) -> int:
        """For how many batches of a stream one commit has room."""
        return max(16, math.ceil(BATCHES_A_SECOND * self.commit_every))

    @property
    def kept(self) -> int:
        """The batches of so many commits are remembered."""
        return math.ceil(REMEMBERED_SECONDS / self.commit_every)
