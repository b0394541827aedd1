"""check_distance: holds a way into dpstream, or a pipeline of your own, against neighbouring data.

Noise protects one unit (a row, a person, an example) only if that unit moves the true totals by no more than the noise
is scaled to, and moves nothing else. `check_distance` draws histories of batches, closes, retries and restarts, takes
one unit out, and compares what became of both. It looks at a way in from outside only.

    with      all rows
    without   all rows but those of the unit
    alone     the rows of the unit, and no others

What counts of a unit may depend on its own rows, on the settings and on the clock, so with = without + alone, exactly.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, ClassVar, NamedTuple

from dpstream.errors import MissingExtra

if TYPE_CHECKING:
    from hypothesis.strategies import DrawFn

__all__ = ["Act", "Append", "Cell", "Close", "Outcome", "Restart", "Row", "WayIn", "check_distance"]

#: A step, counted from 1, and a category.
Cell = tuple[int, str]


class Row(NamedTuple):
    """One row of a log.

    Attributes
    ----------
    number
        Which row this is: no two rows of a history have the same number. A way in may write it into a column.
    person, step, category, amount
        Whose row it is, in which step it happened (counted from 1; 0 and less: before the first step), what it says.
    kind
        "plain", or one of the kinds that the way in names: a row that a filter leaves out, an empty cell, a text that
        is no date.
    """

    number: int
    person: str
    step: int
    category: str
    amount: int
    kind: str = "plain"


class Append(NamedTuple):
    """Somebody gives a batch of rows. The same batch once more is a retry."""

    batch: str
    rows: tuple[Row, ...]


class Close(NamedTuple):
    """The owner, or the declared clock, closes every step up to this one."""

    through: int


class Restart(NamedTuple):
    """The process ends, and another one goes on from what is on the disk."""


Act = Append | Close | Restart


@dataclass(frozen=True)
class Outcome:
    """What became of a history.

    Attributes
    ----------
    totals
        The true total of each cell, read with the key. Cells that are not there are 0.
    seen
        Everything that anyone but the owner sees, with the noise taken out: which steps are released, file names,
        statuses, pages.
    answers
        What the sender of each batch is told, by the name of the batch.
    """

    totals: Mapping[Cell, int]
    seen: Mapping[str, object] = field(default_factory=dict)
    answers: Mapping[str, object] = field(default_factory=dict)


class WayIn:
    """A way into a pipeline: derive from this, say what rows look like and what is promised, and write `run`.

    Attributes
    ----------
    most
        The sensitivity that the settings state, in terms of `norm`.
    ordered
        Whether the settings say that the *first* rows of a person count: then the order of that person's rows matters.
    rebatched
        Whether rows may be put into other batches.
    steps, people, categories, amounts, kinds
        Which rows are drawn: steps up to `steps` and two before the first; so many people; amounts from the first to
        the second; kinds besides "plain".
    rows, batches, closes
        How many of each a history has at most.
    retries, restarts
        Whether batches are given again, and whether the process restarts in between.
    """

    most: ClassVar[int] = 1
    ordered: ClassVar[bool] = False
    rebatched: ClassVar[bool] = True
    steps: ClassVar[int] = 5
    people: ClassVar[int] = 4
    categories: ClassVar[Sequence[str]] = ("",)
    amounts: ClassVar[tuple[int, int]] = (1, 1)
    kinds: ClassVar[Sequence[str]] = ()
    rows: ClassVar[int] = 12
    batches: ClassVar[int] = 4
    closes: ClassVar[int] = 3
    retries: ClassVar[bool] = True
    restarts: ClassVar[bool] = True

    def run(self, acts: Sequence[Act]) -> Outcome:
        """Do what the acts say, from nothing, with a fixed key, and return what became of it.

        The last act closes all steps. If a batch is refused for its rows, take those rows out and give it again, as its
        owner would.
        """
        raise NotImplementedError

    def unit(self, row: Row) -> Hashable:
        """Return what is protected: the same value for all rows of one unit. By default each row is one."""
        return row.number

    def norm(self, difference: Mapping[Cell, int]) -> int:
        """Return how far apart two totals are, in the norm that the noise is scaled to: ℓ1 by default."""
        return sum(map(abs, difference.values()))


def check_distance(way: WayIn, *, examples: int = 100, seed: int | None = None, shrink: bool = True) -> None:
    """Hold a way in against neighbouring data; raise AssertionError with the smallest history that breaks the promise.

    For every history that Hypothesis draws, and one unit of it:

    1. Distance: with the unit and without it the true totals differ by at most `way.most`.
    2. Others: the totals of the others are the same, cell by cell, whether the unit is there or not.
    3. Sight: what anyone but the owner sees is the same, and so is the answer to every batch without rows of the unit.
    4. Order, batches, retries and restarts change nothing, as far as the settings do not say so.

    Parameters
    ----------
    way
        What is looked at.
    examples
        How many histories are drawn; each is run four times.
    seed
        Other histories for every seed. None: the same histories in every run.
    shrink
        Whether the smallest history is looked for, or the first that breaks the promise is told.

    Examples
    --------
    >>> from collections import Counter
    >>> class Plain(WayIn):
    ...     def run(self, acts):
    ...         rows = {row for act in acts if isinstance(act, Append) for row in act.rows if row.step > 0}
    ...         return Outcome(Counter((row.step, row.category) for row in rows))
    >>> check_distance(Plain(), examples=20)

    A pipeline that leaves out every step with fewer than two rows looks careful, and lets one row move another:

    >>> class Suppressing(Plain):
    ...     def run(self, acts):
    ...         totals = super().run(acts).totals
    ...         return Outcome({cell: total for cell, total in totals.items() if total >= 2})
    >>> check_distance(Suppressing())
    Traceback (most recent call last):
      ...
    AssertionError: One unit moves the totals by 2, and 1 is promised.
    ...
    """
    try:
        import hypothesis
    except ModuleNotFoundError:
        raise MissingExtra(extra="testing", needs="hypothesis") from None
    settings = hypothesis.settings(
        max_examples=examples,
        deadline=None,
        database=None,
        derandomize=seed is None,
        print_blob=False,
        suppress_health_check=list(hypothesis.HealthCheck),
        phases=(hypothesis.Phase.generate, *([hypothesis.Phase.shrink] if shrink else [])),
        report_multiple_bugs=False,
        verbosity=hypothesis.Verbosity.quiet,
    )

    @settings
    @hypothesis.given(hypothesis.strategies.composite(_drawn)(way))
    def hold(history: _History) -> None:
        _hold(way, history)

    if seed is not None:
        hold = hypothesis.seed(seed)(hold)
    hold()


# -- what is drawn ----------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class _History:
    """Batches between closes, and which rows are the unit's."""

    acts: tuple[Act, ...]
    unit: frozenset[int]

    def but(self, keep: Callable[[Row], bool]) -> tuple[Act, ...]:
        """Return the acts with some of their rows. Batches stay, even if nothing is left in them."""
        return tuple(
            Append(act.batch, tuple(row for row in act.rows if keep(row))) if isinstance(act, Append) else act
            for act in self.acts
        )

    def plainly(self, *, one_batch: bool) -> tuple[Act, ...]:
        """Return the acts without retries and restarts; between two closes in one batch, in another order, if asked."""
        given: set[str] = set()
        acts: list[Act] = []
        waiting: list[Row] = []
        for act in self.acts:
            if isinstance(act, Append) and act.batch not in given:
                given.add(act.batch)
                if one_batch:
                    waiting += act.rows
                else:
                    acts.append(act)
            elif isinstance(act, Close):
                if one_batch:
                    acts.append(Append(f"all-{len(acts)}", tuple(reversed(waiting))))
                    waiting = []
                acts.append(act)
        return tuple(acts)


def _drawn(draw: DrawFn, way: WayIn) -> _History:
    from hypothesis import strategies as st

    kinds = ("plain",) * (2 + 2 * len(way.kinds)) + tuple(way.kinds)
    low, high = way.amounts
    cells = st.tuples(
        st.integers(0, way.people - 1),
        st.integers(-1, way.steps),
        st.sampled_from(list(way.categories)),
        st.sampled_from([low, high]) | st.integers(low, high),
        st.sampled_from(kinds),
    )
    # A batch is drawn by itself, or has the rows of the one before and perhaps more: equal content is no accident.
    several = max(way.rows // way.batches, 1)
    batches = draw(
        st.lists(st.tuples(st.booleans(), st.lists(cells, max_size=several)), min_size=1, max_size=way.batches)
    )
    rows: list[list[Row]] = []
    drawn: list[Any] = []
    number = 0
    for copied, more in batches:
        drawn = (drawn if copied else []) + more
        rows.append([])
        for person, step, category, amount, kind in drawn:
            rows[-1].append(Row(number, f"p{person}", step, category, amount, kind))
            number += 1
    ends = sorted(draw(st.sets(st.integers(1, way.steps), max_size=way.closes - 1)) | {way.steps})
    when = sorted(draw(st.lists(st.integers(0, len(ends) - 1), min_size=len(rows), max_size=len(rows))))
    appends = [Append(f"b{i}", tuple(one)) for i, one in enumerate(rows)]
    acts: list[Act] = []
    for i, through in enumerate(ends):
        acts += [append for append, at in zip(appends, when, strict=True) if at == i]
        acts.append(Close(through))
    if way.retries:
        for again in draw(st.lists(st.sampled_from(appends), max_size=2)):
            acts.insert(draw(st.integers(acts.index(again) + 1, len(acts) - 1)), again)
    if way.restarts:
        for _ in range(draw(st.integers(0, 2))):
            acts.insert(draw(st.integers(1, len(acts) - 1)), Restart())
    every = [row for one in rows for row in one]
    if not every:
        return _History(tuple(acts), frozenset())
    pivot = way.unit(draw(st.sampled_from(every)))
    return _History(tuple(acts), frozenset(row.number for row in every if way.unit(row) == pivot))


# -- what is held -----------------------------------------------------------------------------------------------------


def _hold(way: WayIn, history: _History) -> None:
    def fail(what: str) -> None:
        raise AssertionError(f"{what}\n{_shown(history)}")

    complete = way.run(history.acts)
    without = way.run(history.but(lambda row: row.number not in history.unit))
    alone = way.run(history.but(lambda row: row.number in history.unit))
    moved = _difference(complete.totals, without.totals)
    distance = way.norm(moved)
    if distance > way.most:
        fail(f"One unit moves the totals by {distance}, and {way.most} is promised.")
    own = _difference(alone.totals, {})
    if moved != own:
        fail(f"The unit moves the totals by {moved}, and by itself it adds {own}: rows of others count differently.")
    _compare_seen(complete, without, fail)
    touched = {
        act.batch for act in history.acts if isinstance(act, Append) for r in act.rows if r.number in history.unit
    }
    for batch in complete.answers.keys() - touched:
        if complete.answers[batch] != without.answers.get(batch):
            said = f"{complete.answers[batch]!r} with the unit, {without.answers.get(batch)!r} without it"
            fail(f"The answer to {batch}, which has no row of the unit, is {said}.")
    plainly = way.run(history.plainly(one_batch=way.rebatched and not way.ordered))
    if _difference(plainly.totals, complete.totals):
        other = "another order, other batches, " if way.rebatched and not way.ordered else ""
        by = _difference(plainly.totals, complete.totals)
        fail(f"With {other}no retries and no restarts the totals are others, by {by}.")
    _compare_seen(complete, plainly, fail)


def _compare_seen(one: Outcome, other: Outcome, fail: Callable[[str], None]) -> None:
    for what in sorted(one.seen.keys() | other.seen.keys()):
        if one.seen.get(what) != other.seen.get(what):
            fail(f"Anyone can see that {what} is {one.seen.get(what)!r} or {other.seen.get(what)!r}.")


def _difference(one: Mapping[Cell, int], other: Mapping[Cell, int]) -> dict[Cell, int]:
    cells: Iterable[Cell] = sorted(one.keys() | other.keys())
    moved = {cell: int(one.get(cell, 0)) - int(other.get(cell, 0)) for cell in cells}
    return {cell: by for cell, by in moved.items() if by}


def _shown(history: _History) -> str:
    """Return the acts, one a line, with the rows of the unit marked."""
    lines = []
    for act in history.acts:
        if isinstance(act, Append):
            lines.append(f"  append {act.batch}:")
            lines += [f"    {'unit →' if row.number in history.unit else '      '} {row}" for row in act.rows]
        else:
            lines.append(f"  close through step {act.through}" if isinstance(act, Close) else "  restart")
    return "\n".join(lines)
