"""DiscoveryRun: from a log of events to private running counts of names that nobody listed beforehand."""

from __future__ import annotations

import json
from collections.abc import Iterator
from functools import cached_property

import numpy as np
import polars as pl
from numpy.typing import NDArray

from dpstream.events.counting import CountRun
from dpstream.events.discovery import Discovery
from dpstream.events.discovery_table import NamesTable
from dpstream.events.kept_stream import check_same
from dpstream.events.people import People
from dpstream.events.released_names import ReleasedNames, released_names
from dpstream.events.windows import fitting_lengths
from dpstream.release.contribution_limit import ContributionLimit
from dpstream.release.names_protection import NamesProtection
from dpstream.release.open_counter import OpenCounter
from dpstream.release.open_settings import OpenSettings
from dpstream.store import DurableNames, NamedRelease, Store, StreamInfo
from dpstream.store.published_names import in_pieces

__all__ = ["DiscoveryRun"]

#: Without a store, so many pairs of a person and a name can be remembered.
MOST_PAIRS = 100_000_000


class DiscoveryRun(CountRun):
    """A run that counts by names nobody listed beforehand; its parts are those of `CountRun`.

    Guarantee
    ---------
    That of `OpenCounter` (or `DurableNames`) for every user, of whom at most `names_per_person` names count and at most
    `per_name` rows of each. Which steps are released depends on the data no more than in `CountRun`.
    """

    counter: OpenCounter | DurableNames | None  # type: ignore[assignment]  # names have counters of their own

    @property
    def discovery(self) -> Discovery:
        """How names are found."""
        assert self.options.discovery is not None  # noqa: S101
        return self.options.discovery

    @cached_property
    def _made_here(self) -> list[NamedRelease]:
        """The releases of a run without a store, if they are kept."""
        return []

    def _is_known(self, name: bytes, content: bytes) -> bool:
        return isinstance(self.counter, DurableNames) and self.counter.knows_batch(name, content)

    def _limit_people(self) -> None:
        """Tell the tally whose names are whose; how many count is limited where they are counted."""
        assert self.options.user is not None  # noqa: S101
        self.tally.people = People(self.options.user, ContributionLimit(1), fold_case=self.options.fold_case)

    def _open_counter(self, info: StreamInfo | None = None) -> None:
        options, horizon, discovery = self.options, self.horizon, self.discovery
        if info is not None:
            check_same(info.name, {"horizon": info.horizon}, {"horizon": horizon})
            check_same(info.name, {"budget": info.budget}, {"budget": options.budget})
        assert horizon is not None  # noqa: S101
        settings = {
            "names_per_person": discovery.names_per_person,
            "per_name": discovery.per_name,
            "windows": self._lengths(info),
            "mechanism": self._mechanism(horizon),
            "declared": options.measure.categories,
        }
        if options.store is None:
            self.counter = OpenCounter(horizon, options.budget, **settings, capacity=MOST_PAIRS)  # type: ignore[arg-type]
            return
        OpenSettings.of(horizon, options.budget, **settings)  # type: ignore[arg-type]
        # Only now: what is refused leaves no store behind.
        self.store = self.store or Store(options.store)
        self.counter = self.store.open_names(
            options.name,
            horizon,
            options.budget,
            **settings,  # type: ignore[arg-type]
            source=json.dumps(options.kept(), ensure_ascii=False) if info is None else info.source,
            pairs=discovery.pairs,
        )
        self.created = info is None

    def _lengths(self, info: StreamInfo | None) -> tuple[int, ...]:
        if info is not None and self.store is not None:
            return self.store.open_settings(info.name).windows
        return fitting_lengths(self.options.windows, self.options.every, self.horizon)

    def _check_steps(self, settings: object) -> None:
        """Steps of names are as large as they like."""

    @property
    def settings(self) -> OpenSettings:  # type: ignore[override]  # names have settings of their own
        """The settings of the counter."""
        assert self.counter is not None  # noqa: S101
        return self.counter.settings

    def rows_waiting(self, first: int, last: int) -> NDArray[np.int64]:
        """**Secret**: how many rows wait in each of these open steps."""
        if not isinstance(self.counter, DurableNames):
            return np.zeros(last - first + 1, dtype=np.int64)
        return self.counter.events_waiting(first, last)

    def ingest(self) -> None:
        """Put the events into the open steps of the store, a commit for each file; nothing is released."""
        if not self.in_ledger:
            return
        assert isinstance(self.counter, DurableNames)  # noqa: S101
        parts, self.tally.parts = self.tally.parts, []
        for part, named in zip(parts, self.intake.take_names(), strict=True):
            self.waiting += int(part.rows[max(self.closed - part.first, 0) :].sum())
            events, (name, content) = part.contributions, named or (None, b"")
            steps, users, names = events["step"].to_numpy() + 1, events["user"].to_list(), events["name"].to_list()
            self.counter.ingest(steps, users, names, batch=name, content=content)

    def release_names(self, closed: int) -> Iterator[list[NamedRelease]]:
        """Release the steps up to `closed`, piece by piece. Steps of a store are durable when they come out of here."""
        counter = self.counter
        assert counter is not None  # noqa: S101
        if isinstance(counter, DurableNames):
            self.ingest()  # nothing, if that was done
            made = counter.release_through(closed)
            self.published = max(closed, self.published)
            yield from in_pieces(made)
            return
        events = self.tally.contributions.sort("step", maintain_order=True)
        ends = np.searchsorted(events["step"].to_numpy(), np.arange(closed + 1))

        def added() -> Iterator[NamedRelease]:
            while self.published < closed:
                now = events[int(ends[self.published]) : int(ends[self.published + 1])]
                released = counter.add_events(now["user"].to_list(), now["name"].to_list())
                self.published += 1
                values = np.fromiter(released.values(), np.int64, len(released))
                made = NamedRelease(self.published, tuple(released), values)
                if self.keeps_values:
                    self._made_here.append(made)
                yield made

        yield from in_pieces(added())

    # -- tables -------------------------------------------------------------------------------------------------------

    def protection(self, label: str) -> NamesProtection:
        """What to publish beside the figures: how they are protected, how exact they are."""
        options = self.options
        return NamesProtection(
            self.settings,
            label,
            rows_per_person=self.discovery.per_name,
            confidence=options.confidence,
            windows={window.words: window.longest(options.every) for window in options.windows},
            dates_from_data=self._dates_from_data,
        )

    def released(self) -> ReleasedNames:
        """Return all releases with what they are of, those before this run too; only with `keeps_values`."""
        made = self.counter.releases() if isinstance(self.counter, DurableNames) else self._made_here
        return released_names(self.settings, made, self.names_table.calendar)

    @cached_property
    def names_table(self) -> NamesTable:
        """What makes tables of the releases, once the counter is open."""
        options = self.options
        return NamesTable(
            self.settings,
            self.tally.calendar,
            confidence=options.confidence,
            windows=options.windows,
            non_negative=options.non_negative,
        )

    def frames(self, closed: int, *, everything: bool = False) -> Iterator[pl.DataFrame]:
        table = self.names_table
        if isinstance(self.counter, DurableNames) and self.seen:
            first = 1 if everything else max(self.seen - table.needs + 1, 1)
            before = self.counter.releases(first, self.seen) if everything or table.needs else []
            if everything:
                for piece in in_pieces(before):
                    yield table.rows(piece)
            else:
                table.skip(before)
        yield table.rows([])
        for piece in self.release_names(closed):
            yield table.rows(piece)
