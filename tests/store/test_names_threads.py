"""Threads share a stream of names: nobody counts for more than is allowed, nothing is lost, each step is made once."""

from collections import Counter

import numpy as np
import pytest

import dpstream as dp
from dpstream.errors import StepClosed
from dpstream.store.names_tables import read_names

from .test_names import BUDGET, as_dicts
from .test_threads import at_once, eager_threads  # noqa: F401

HORIZON, NAMES_PER_PERSON, PER_NAME = 5, 2, 3


def test_ingesting_and_releasing_at_once(path):
    """Every thread brings all people, with names of which most are too many, while others release and look.

    Without the turns of `StoreFiles.turn` each of three runs failed, in the middle of another thread's work.
    """
    taken, made, looked = [], [], []
    with dp.Store(path) as store:
        terms = store.open_names(
            "terms", HORIZON, BUDGET, names_per_person=NAMES_PER_PERSON, per_name=PER_NAME, pairs=1000
        )

        def bring(thread):
            for turn in range(6):
                chance = np.random.default_rng([thread, turn])
                people = chance.permutation(80).tolist()
                names = [f"name {n}" for n in chance.integers(0, 3, 80) + thread % 2]
                while True:
                    step = terms.t + 1
                    try:
                        terms.ingest([step] * 80, people, names, batch=b"%d %d" % (thread, turn % 5))
                    except StepClosed:  # released in the meantime
                        continue
                    break
                if turn < 5:  # the last one is a batch that was ingested before
                    taken.append((people, names))

        def release():
            for step in range(1, HORIZON):
                made.extend(terms.release_through(step))
                looked.append((terms.dropped, terms.published))

        at_once(*(lambda thread=thread: bring(thread) for thread in range(4)), release, release)
        made.extend(terms.release_through(HORIZON))
        row = store._row("terms")
        kept = read_names(store._files.database, store._files.seals.stream(row.tag), row)
        counted = int(kept.sums.counts.sum() + kept.cells.counts.sum())
        assert sorted(one.step for one in made) == list(range(1, HORIZON + 1))
        assert as_dicts(sorted(made, key=lambda one: one.step)) == as_dicts(terms.releases())
        assert counted + terms.dropped == sum(len(people) for people, _ in taken) == 20 * 80
        assert store.verify("terms").ok
    of_people = Counter(kept.pairs.people.tolist())
    assert len(of_people) == 80
    assert set(of_people.values()) == {NAMES_PER_PERSON}
    assert int(kept.pairs.events.max()) <= PER_NAME
    assert counted == int(kept.pairs.events.sum())
    assert int(kept.sums.people.sum() + kept.cells.people.sum()) == len(kept.pairs.people)
    assert len(terms_published := as_dicts(made)[-1]) > 1, terms_published
    assert len(looked) == 2 * (HORIZON - 1)


@pytest.fixture(autouse=True)
def _switching(eager_threads):  # noqa: F811
    """Threads interrupt each other as often as they can."""
