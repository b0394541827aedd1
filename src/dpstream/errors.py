"""One exception per meaning, each carrying its numbers.

Every error of this library is a `DpstreamError`. Those that stem from a bad argument are also `ValueError` (or
`TypeError`), so that callers who know nothing of dpstream can still catch them.
"""

from __future__ import annotations

__all__ = [
    "BudgetError",
    "BudgetLimitExceeded",
    "CapacityError",
    "ColumnMissing",
    "DenseTooLarge",
    "DpstreamError",
    "ForkedStore",
    "ForkedStream",
    "HorizonExceeded",
    "HorizonRequired",
    "InputNotFinite",
    "InputOutOfBound",
    "InputShapeError",
    "InputTypeError",
    "InvalidArgument",
    "KeyFileDamaged",
    "KeyFileExposed",
    "KeyFileMissing",
    "KeyLengthError",
    "LeaseLost",
    "MechanismTooShort",
    "MissingExtra",
    "NoReleaseYet",
    "NoiseLawError",
    "NotAStore",
    "NothingFits",
    "OutputMismatch",
    "ParticipationError",
    "PositionConflict",
    "PositionGap",
    "PositionMissing",
    "PositionUnexpected",
    "RowRefused",
    "SourceDamaged",
    "SourceError",
    "SourceMissing",
    "StateError",
    "StoreBusy",
    "StoreClosed",
    "StoreCopied",
    "StoreDamaged",
    "StoreError",
    "StoreFull",
    "StoreLost",
    "StoreMismatch",
    "StoreNotWritten",
    "StoreOutdated",
    "StoreReadOnly",
    "StoreTooNew",
    "StreamRetired",
    "StreamUnknown",
    "SumsTooLarge",
    "TooManyPeople",
    "WrongMasterKey",
]


class DpstreamError(Exception):
    """The base of every error raised on purpose by dpstream."""


class InvalidArgument(DpstreamError, ValueError):
    """An argument has a value that is not allowed.

    Parameters
    ----------
    argument
        The name of the argument.
    given
        What was given.
    allowed
        What is allowed, in words.
    """

    def __init__(self, argument: str, given: object, allowed: str) -> None:
        super().__init__(f"{argument} must be {allowed}, got {given!r}")
        self.argument = argument
        self.given = given
        self.allowed = allowed


class BudgetError(InvalidArgument):
    """A privacy budget that means nothing: rho, epsilon or delta out of range."""


class ParticipationError(InvalidArgument):
    """A participation pattern that cannot happen."""


class NoiseLawError(DpstreamError, ValueError):
    """A noise law, or a price, that this mechanism does not have."""


class CapacityError(DpstreamError, ValueError):
    """A tree of the given shape holds fewer steps than were asked for."""

    def __init__(self, *, zeros: int, ones: int, holds: int, horizon: int) -> None:
        super().__init__(
            f"a smooth tree with zeros={zeros} and ones={ones} holds {holds} steps, but horizon={horizon} was asked for"
        )
        self.zeros, self.ones, self.holds, self.horizon = zeros, ones, holds, horizon


class HorizonExceeded(DpstreamError):
    """A step past the last one that the privacy guarantee covers."""

    def __init__(self, *, horizon: int, step: int) -> None:
        super().__init__(f"step {step} is past the horizon: this stream was built and priced for {horizon} steps")
        self.horizon, self.step = horizon, step


class HorizonRequired(DpstreamError, TypeError):
    """A mechanism without a horizon was asked for something that needs a number of steps."""

    def __init__(self, *, mechanism: str, method: str) -> None:
        super().__init__(f"{mechanism} has no horizon: say how many steps, as in {method}(steps=1000)")
        self.mechanism, self.method = mechanism, method


class DenseTooLarge(DpstreamError, ValueError):
    """Dense matrices were asked for at a size where they stop being useful."""

    def __init__(self, *, steps: int, limit: int) -> None:
        super().__init__(
            f"factors() builds dense matrices and stops at {limit} steps, but {steps} were asked for;"
            f" pass steps={limit} or less for the leading part, or use variance() and sensitivity()"
        )
        self.steps, self.limit = steps, limit


class KeyLengthError(DpstreamError, ValueError):
    """A key that is not 32 bytes. The message never holds any part of the key."""


class OutputMismatch(DpstreamError, ValueError):
    """An `out` array of the wrong shape, dtype or memory layout."""


class ForkedStream(DpstreamError):
    """A noise stream was used in a forked child process, where it would repeat its parent's noise."""

    def __init__(self) -> None:
        super().__init__(
            "this process was forked while the stream was open: parent and child would publish the same noise under"
            " different data, which gives the difference away. Keep using the stream in the parent, or call"
            " stream.fresh() in the child for a stream of its own (its own key, its own budget, from step 1)"
        )


class StateError(DpstreamError, ValueError):
    """Saved bytes that are not a state of this stream: damaged, of another stream, or of another version."""


class InputTypeError(DpstreamError, TypeError):
    """A step's input is not made of what this lane adds up: whole numbers (exact) or real numbers (float)."""

    def __init__(self, *, given: str, allowed: str) -> None:
        super().__init__(f"a step's input must be {allowed}, got {given}; nothing was added")
        self.given, self.allowed = given, allowed


class InputShapeError(DpstreamError, ValueError):
    """A step's input has another shape than the releases."""

    def __init__(self, *, given: tuple[int, ...], allowed: str) -> None:
        super().__init__(f"a step's input must have shape {allowed}, got {given}; nothing was added")
        self.given, self.allowed = given, allowed


class InputNotFinite(DpstreamError, ValueError):
    """A step's input holds a NaN or an infinity."""

    def __init__(self) -> None:
        super().__init__("a step's input must be finite, but holds a NaN or an infinity; nothing was added")


class InputOutOfBound(DpstreamError, ValueError):
    """A step's input is larger than was declared, or negative where only counts are allowed."""

    def __init__(self, *, given: float, least: float, most: float, what: str) -> None:
        super().__init__(
            f"{what} of a step's input must be from {least:g} to {most:g}, got {given!r}; nothing was added."
            " clip=True makes such inputs fit, and counts them"
        )
        self.given, self.least, self.most = given, least, most


class MechanismTooShort(DpstreamError, ValueError):
    """A mechanism is built and priced for fewer steps than were asked for."""

    def __init__(self, *, mechanism: str, holds: int, horizon: int | None) -> None:
        asked = "horizon=None (no last step)" if horizon is None else f"horizon={horizon}"
        super().__init__(f"{mechanism} is built and priced for {holds} steps, but {asked} was asked for")
        self.mechanism, self.holds, self.horizon = mechanism, holds, horizon


class SumsTooLarge(DpstreamError, ValueError):
    """Sums and noise of this size might not fit into 64 bits."""

    def __init__(self, *, horizon: int, largest: int, noise: float, most: int) -> None:
        super().__init__(
            f"{horizon} steps of up to {largest} each, and noise of up to {noise:.3g}, may pass {most}, the most that"
            " int64 sums are allowed to reach; use a shorter horizon, a smaller bound or a larger budget"
        )
        self.horizon, self.largest, self.noise, self.most = horizon, largest, noise, most


class NoReleaseYet(DpstreamError):
    """An interval was asked for before the first release."""

    def __init__(self) -> None:
        super().__init__("there is no release yet: an interval belongs to the last release, so add something first")


class NothingFits(DpstreamError, ValueError):
    """No mechanism can serve what was asked for."""

    def __init__(self, *, wanted: str, reasons: dict[str, str]) -> None:
        listed = "; ".join(f"{name}: {reason}" for name, reason in reasons.items())
        super().__init__(f"no mechanism fits {wanted} ({listed or 'none was considered'})")
        self.wanted, self.reasons = wanted, reasons


class TooManyPeople(DpstreamError):
    """A new person appeared when a contribution limit had room for no more."""

    def __init__(self, *, capacity: int) -> None:
        super().__init__(
            f"this ContributionLimit has met {capacity} people, its capacity, and cannot count another one; nothing"
            " changed, and people it knows are still served. Build it with a larger capacity"
        )
        self.capacity = capacity


# -- the durable store ------------------------------------------------------------------------------------------------


class StoreError(DpstreamError):
    """The base of what can go wrong with a store's files; nothing was released by the call that raised it."""


class NotAStore(StoreError, ValueError):
    """A path that is no dpstream store, and is left as it is."""

    def __init__(self, *, path: str, found: str) -> None:
        super().__init__(f"{path} is not a dpstream store: {found}; it was not touched")
        self.path, self.found = path, found


class StoreTooNew(StoreError):
    """A store written by a later version of this library."""

    def __init__(self, *, path: str, found: int, known: int) -> None:
        super().__init__(
            f"{path} has store format {found}, but this dpstream knows formats up to {known}; it was not touched."
            " Open it with the dpstream that wrote it, or a later one"
        )
        self.path, self.found, self.known = path, found, known


class StoreDamaged(StoreError):
    """Something in the file is not what was written: a seal does not fit, or SQLite cannot read it."""

    def __init__(self, *, path: str, what: str) -> None:
        super().__init__(
            f"{path} is damaged: {what}. Nothing was released. Put the newest backup back, or end the streams"
            " with store.retire(name) and go on under new names"
        )
        self.path, self.what = path, what


class StoreFull(StoreError):
    """There is no room for the step, so it was not made; it can be tried again."""

    def __init__(self, *, path: str) -> None:
        super().__init__(f"no room on the disk of {path}: the step was not made, and can be tried again")
        self.path = path


class StoreReadOnly(StoreError):
    """The file, or its directory, may not be written."""

    def __init__(self, *, path: str) -> None:
        super().__init__(f"{path} cannot be written (file, directory or disk is read-only): the step was not made")
        self.path = path


class StoreNotWritten(StoreError):
    """The operating system failed to write or to synchronise; whether the step is on the disk is not known."""

    def __init__(self, *, path: str, reason: str) -> None:
        super().__init__(
            f"writing {path} failed ({reason}). Nothing was released. The step may or may not be on the disk:"
            " try again with the same position, and it is counted once"
        )
        self.path, self.reason = path, reason


class StoreClosed(StoreError):
    """A store, or a stream of it, was used after it was closed."""

    def __init__(self, *, what: str) -> None:
        super().__init__(f"{what} is closed")
        self.what = what


class StoreBusy(StoreError):
    """Another process (or another object of this one) writes this stream, or holds the file for too long."""

    def __init__(self, *, name: str, pid: int | None, started: str | None) -> None:
        holder = "another process" if pid is None else f"process {pid}, started {started}"
        super().__init__(f"{name} is being written by {holder}; a stream has one writer at a time. Reading is free")
        self.name, self.pid, self.started = name, pid, started


class LeaseLost(StoreError):
    """The stream moved on without this writer: its file was replaced, or its lease taken, behind its back."""

    def __init__(self, *, name: str) -> None:
        super().__init__(
            f"the stream {name!r} is no longer as this writer left it: it was retired, or its file was replaced while"
            " it was open. Nothing was released; close this object and open the stream again"
        )
        self.name = name


class StoreMismatch(StoreError, ValueError):
    """A stream was opened with another setting than it was created with."""

    def __init__(self, *, name: str, setting: str, stored: object, given: object) -> None:
        super().__init__(
            f"the stream {name!r} was created with {setting}={stored!r}, but {setting}={given!r} was given. Pass"
            f" {setting}={stored!r} to go on with it, or take another name for a new stream with a budget of its own"
        )
        self.name, self.setting, self.stored, self.given = name, setting, stored, given


class StoreOutdated(StoreError):
    """The file is older than what was already released from it: a backup put back, or a copy that fell behind."""

    def __init__(self, *, name: str, found: str, known: str) -> None:
        super().__init__(
            f"the stream {name!r} in this file {found}, but {known}: this is an old backup or a copy. Going on would"
            " publish used noise under new data, which gives the data away. Safe ways out: put the newest file back;"
            " or store.retire(name), which ends the stream and keeps its releases, and a new stream under another"
            " name, with its own noise and its own budget"
        )
        self.name, self.found, self.known = name, found, known


class StoreCopied(StoreError):
    """The store's files were copied, or moved to another disk."""

    def __init__(self, *, path: str) -> None:
        super().__init__(
            f"{path} was copied or moved to another disk, witness and all. If the original goes on too, both publish"
            " the same noise under different data. If it never will, open this one once with Store(path, adopt=True)"
        )
        self.path = path


class StoreLost(StoreError):
    """Of the store's two records, the database and its witness, one is missing."""

    def __init__(self, *, missing: str, present: str) -> None:
        super().__init__(
            f"{present} is there, but {missing} is missing: it was lost, or only part of the store was copied. Put it"
            " back, or start a new store under another path"
        )
        self.missing, self.present = missing, present


class WrongMasterKey(StoreError):
    """The master key is not the one this store was created with."""

    def __init__(self, *, path: str) -> None:
        super().__init__(f"the master key given does not belong to {path} (or the file's first page is damaged)")
        self.path = path


class KeyFileMissing(StoreError):
    """A store exists, its key file does not, and no key was given."""

    def __init__(self, *, path: str) -> None:
        super().__init__(
            f"the key file {path} is missing: put it back, or give the key as master_key or in DPSTREAM_MASTER_KEY."
            " Without it the stream cannot go on; its releases are still in the database"
        )
        self.path = path


class KeyFileDamaged(StoreError):
    """A key file that does not hold a key. The message never holds any part of it."""

    def __init__(self, *, path: str, found: str) -> None:
        super().__init__(f"{path} is not a dpstream key file: {found}")
        self.path, self.found = path, found


class KeyFileExposed(StoreError):
    """A key file that others can read."""

    def __init__(self, *, path: str, mode: int) -> None:
        super().__init__(f"others can read the master key (mode {mode:04o}); mend it with: chmod 600 {path}")
        self.path, self.mode = path, mode


class StreamUnknown(StoreError, LookupError):
    """There is no stream of this name in the store."""

    def __init__(self, *, name: str) -> None:
        super().__init__(f"there is no stream {name!r} in this store")
        self.name = name


class StreamRetired(StoreError):
    """The stream was ended for good; its releases can still be read."""

    def __init__(self, *, name: str) -> None:
        super().__init__(f"the stream {name!r} was retired: its releases can be read, but it takes no further step")
        self.name = name


class PositionGap(StoreError, ValueError):
    """A position that does not follow the last one: something in between is missing, or it is before the first."""

    def __init__(self, *, position: int, first: int, following: int) -> None:
        super().__init__(
            f"position {position} does not fit: this stream knows positions from {first} on, and {following} is next;"
            " nothing was added"
        )
        self.position, self.first, self.following = position, first, following


class PositionConflict(StoreError, ValueError):
    """An old position came back with another value."""

    def __init__(self, *, position: int, step: int) -> None:
        super().__init__(
            f"position {position} was counted at step {step} with another value; what was released stays, and nothing"
            " was added"
        )
        self.position, self.step = position, step


class PositionMissing(StoreError, ValueError):
    """A stream that was fed with positions was given an input without one."""

    def __init__(self, *, following: int) -> None:
        super().__init__(f"this stream is fed with positions, and {following} is next: give it; nothing was added")
        self.following = following


class PositionUnexpected(StoreError, ValueError):
    """A stream that has steps without positions was given one."""

    def __init__(self, *, position: int, step: int) -> None:
        super().__init__(
            f"this stream has {step} steps without positions, so position {position} has no place in it; nothing was"
            " added. Positions are for streams that have them from their first step"
        )
        self.position, self.step = position, step


class BudgetLimitExceeded(StoreError):
    """A new stream would take the store's total above its limit."""

    def __init__(self, *, name: str, limit: object, spent: object, asked: object) -> None:
        super().__init__(
            f"a new stream {name!r} with {asked!r} would exceed the store's limit {limit!r}: {spent} is promised"
            " already. It was not created"
        )
        self.name, self.limit, self.spent, self.asked = name, limit, spent, asked


class ForkedStore(StoreError, ForkedStream):
    """A store was used in a forked child of the process that had it open."""

    def __init__(self) -> None:
        DpstreamError.__init__(
            self,
            "this process was forked while the store was open, and neither locks nor SQLite's connections survive that."
            " Keep using the store in the parent, or start the child as a new process (spawn instead of fork)",
        )


class MissingExtra(DpstreamError, ImportError):
    """An optional part of dpstream is not installed."""

    def __init__(self, *, extra: str, needs: str) -> None:
        super().__init__(f"this needs {needs}, which is not installed: pip install 'dpstream[{extra}]'")
        self.extra = extra


class SourceError(DpstreamError, ValueError):
    """Something is wrong with a file of events."""


class SourceMissing(SourceError):
    """A file of events cannot be opened, or holds no events."""

    def __init__(self, *, source: str, reason: str) -> None:
        super().__init__(f"{source}: {reason}")
        self.source = source


class SourceDamaged(SourceError):
    """A file of events cannot be read to its end."""

    def __init__(self, *, where: str, what: str) -> None:
        super().__init__(f"{where}: {what}")
        self.where = where


class ColumnMissing(SourceError):
    """A file of events has no such column."""

    def __init__(self, *, source: str, column: str, columns: list[str]) -> None:
        super().__init__(f"{source} has no column {column!r}; its columns are {', '.join(map(repr, columns))}")
        self.column, self.columns = column, columns


class RowRefused(SourceError):
    """A row of a file of events cannot be counted."""

    def __init__(self, *, where: str, column: str, given: object, allowed: str) -> None:
        super().__init__(f"{where}, column {column!r}: expected {allowed}, got {given!r}")
        self.where, self.column, self.given = where, column, given
