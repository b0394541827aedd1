"""The exceptions of this library, one for each meaning, with the numbers attached.

Every error raised on purpose is a `DpstreamError`. Those that stem from a bad argument are also a `ValueError` (or a
`TypeError`), so that callers who know nothing of dpstream can catch them. They survive pickling, and so process pools.

    DpstreamError
    · InvalidArgument (BudgetError, ParticipationError), NoiseLawError, KeyLengthError, OutputMismatch, StateError
    · CapacityError, DenseTooLarge, MechanismTooShort, NothingFits, SumsTooLarge
    · HorizonExceeded, HorizonRequired, NoReleaseYet, ReleaseNotKept, ForkedStream, StreamInUse, TooManyPeople
    · TooManyPairs, TooManyNames
    · InputTypeError, InputShapeError, InputNotFinite, InputOutOfBound, NameCountOutOfBound
    · StoreError
      · NotAStore, StoreTooNew, StoreDamaged, StoreLost, StoreCopied, StoreOutdated, StoreMismatch
      · StoreFull, StoreReadOnly, StoreNotWritten, StoreClosed, StoreBusy, LeaseLost, ForkedStore (also a ForkedStream)
      · WrongMasterKey, KeyFileMissing, KeyFileDamaged, KeyFileExposed
      · StreamUnknown, TokenUnknown, StreamRetired, StreamContinued, StepsNotReleased, BudgetLimitExceeded
      · PositionGap, PositionConflict, PositionMissing, PositionUnexpected
      · StepClosed, StepTooFar, BatchConflict, StreamHasOpenSteps
    · SourceError
      · SourceMissing, SourceDamaged, ColumnMissing, FileChanged, EventsUnreadable, RowRefused
    · TrainingError
      · TrainingEnded (also a HorizonExceeded), BatchUnexpected, ExampleTooSoon
      · GradientMismatch, GradientNotFinite, ParametersChanged
      · KeyInUse, KeyOfAnotherRun, TrainingKeyMissing, StepsMissing, StepsNotWritten, StepsReleased
    · SettingsError
      · SettingsMissing, SettingsUnreadable, SettingUnknown
    · ReleaseRefused
      · ThroughTooEarly, ThroughInsideStep, ClockWentBack, StreamEnded
      · RowsTooFarAhead
    · MissingExtra, UnsupportedSystem, WriterNotStarted
    · SparkUnsupported, CheckpointMismatch, ReleaseConflict

    FitNotConverged and CountWarning are warnings: the result can be used, and something about it should be known.
"""

from __future__ import annotations

import inspect
import pickle
from typing import Any, ClassVar, dataclass_transform


class DpstreamError(Exception):
    """The base of every error raised on purpose by dpstream."""

    def __reduce__(self) -> tuple[Any, ...]:
        """Rebuild from class, message and fields, without `__init__`; a field that cannot be pickled becomes its repr.

        `Exception.__reduce__` would call the class with the message alone, which kills the worker of a process pool.
        """
        return _without_init, (type(self), self.args), {name: _picklable(value) for name, value in vars(self).items()}


def _without_init(kind: type[DpstreamError], arguments: tuple[object, ...]) -> DpstreamError:
    return kind.__new__(kind, *arguments)


def _picklable(value: object) -> object:
    try:
        pickle.dumps(value)
    except Exception:  # an object that refuses to be pickled says so by whatever exception it likes
        return repr(value)
    return value


@dataclass_transform(kw_only_default=True, eq_default=False)
class _ErrorWithFields(DpstreamError):
    """An error that is built from its annotated fields, by keyword, and keeps them as attributes.

    A field that has a value in the class may be left out.

    `message` is a format string over the fields; `describe` replaces it where a format string is not enough.
    """

    message: ClassVar[str] = ""
    field_names: ClassVar[frozenset[str]] = frozenset()

    def __init_subclass__(cls) -> None:
        cls.field_names = cls.field_names.union(inspect.get_annotations(cls))

    def __init__(self, **fields: Any) -> None:
        kind = type(self)
        fields = {name: getattr(kind, name) for name in self.field_names if hasattr(kind, name)} | fields
        if fields.keys() != self.field_names:
            raise TypeError(f"{type(self).__name__} takes {sorted(self.field_names)}, got {sorted(fields)}")
        vars(self).update(fields)
        super().__init__(self.describe())

    def describe(self) -> str:
        """Return the sentence that is shown, with the fields filled in."""
        return self.message.format_map(vars(self))


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
        self.argument, self.given, self.allowed = argument, given, allowed


class BudgetError(InvalidArgument):
    """A privacy budget that means nothing: rho, epsilon or delta out of range."""


class ParticipationError(InvalidArgument):
    """A participation pattern that cannot happen."""


class NoiseLawError(DpstreamError, ValueError):
    """A noise law, or a sensitivity, that this mechanism does not have."""


class KeyLengthError(DpstreamError, ValueError):
    """A key that is not 32 bytes. The message never holds any part of the key."""


class OutputMismatch(DpstreamError, ValueError):
    """An `out` array of the wrong shape, dtype or memory layout."""


class StateError(DpstreamError, ValueError):
    """Saved bytes that are not a state of this stream: damaged, of another stream, or of another version."""


# -- mechanisms and streams -------------------------------------------------------------------------------------------


class CapacityError(_ErrorWithFields, ValueError):
    """A tree of the given shape holds fewer steps than were asked for."""

    message = (
        "a smooth tree with zeros={zeros} and ones={ones} holds {holds} steps, but horizon={horizon} was asked for"
    )
    zeros: int
    ones: int
    holds: int
    horizon: int


class HorizonExceeded(_ErrorWithFields):
    """A step past the last one that the privacy guarantee covers."""

    message = "step {step} is past the horizon: this stream was built for {horizon} steps"
    horizon: int
    step: int


class HorizonRequired(_ErrorWithFields, TypeError):
    """A mechanism without a horizon was asked for something that needs a number of steps."""

    message = "{mechanism} has no horizon: say how many steps, as in {method}(steps=1000)"
    mechanism: str
    method: str


class DenseTooLarge(_ErrorWithFields, ValueError):
    """Dense matrices were asked for at a size where they stop being useful."""

    message = (
        "factors() builds dense matrices and stops at {limit} steps, but {steps} were asked for;"
        " pass steps={limit} or less for the leading part, or use variance() and sensitivity()"
    )
    steps: int
    limit: int


class ForkedStream(_ErrorWithFields):
    """A noise stream was used in a forked child process, where it would repeat its parent's noise."""

    message = (
        "this process was forked while the stream was open: parent and child would publish the same noise under"
        " different data, which gives the difference away. Keep using the stream in the parent, or call"
        " stream.fresh() in the child for a stream of its own (its own key, its own budget, from step 1)"
    )


class StreamInUse(_ErrorWithFields):
    """An object was called again from within one of its own calls, in the same thread."""

    message = (
        "this object is in the middle of a call of this very thread, and was called again from within it: by a signal"
        " handler, a finalizer or a trace function. Nothing was changed by the second call. Let the handler set a flag,"
        " and call when the first call has returned"
    )


class MechanismTooShort(_ErrorWithFields, ValueError):
    """A mechanism is built for fewer steps than were asked for."""

    mechanism: str
    holds: int
    horizon: int | None

    def describe(self) -> str:
        asked = "horizon=None (no last step)" if self.horizon is None else f"horizon={self.horizon}"
        return f"{self.mechanism} is built for {self.holds} steps, but {asked} was asked for"


class SumsTooLarge(_ErrorWithFields, ValueError):
    """Sums and noise of this size might not fit into 64 bits."""

    message = (
        "{horizon} steps of up to {per_step} each, and noise of up to {noise:.3g}, may pass {most}, the most that"
        " int64 sums are allowed to reach; use a shorter horizon, a smaller per_person or per_step, a larger budget"
    )
    horizon: int
    per_step: int
    noise: float
    most: int


class NoReleaseYet(_ErrorWithFields):
    """An interval was asked for before the first release."""

    message = "there is no release yet: an interval belongs to the last release, so add something first"


class ReleaseNotKept(_ErrorWithFields):
    """A change was asked for since a release that the stream does not hold any more."""

    message = (
        "release {step} is not kept in memory, so the change since then cannot be told from here: {advice}; or take it"
        " from the releases you published, or use a Store, which keeps all of them"
    )
    step: int
    advice: str


class NothingFits(_ErrorWithFields, ValueError):
    """No mechanism can serve what was asked for."""

    wanted: str
    reasons: dict[str, str]

    def describe(self) -> str:
        listed = "; ".join(f"{name}: {reason}" for name, reason in self.reasons.items())
        return f"no mechanism fits {self.wanted} ({listed or 'none was considered'})"


class TooManyPeople(_ErrorWithFields):
    """A new person appeared when a contribution limit had room for no more."""

    message = (
        "this ContributionLimit has met {capacity} people, its capacity, and cannot count another one; nothing"
        " changed, and people it knows are still served. Build it with a larger capacity"
    )
    capacity: int


class TooManyPairs(_ErrorWithFields):
    """A new pair of a person and a name appeared when there was room to remember no more."""

    message = (
        "{capacity} pairs of a person and a name are remembered, the capacity, and no other can be counted; nothing"
        " changed. Build it with a larger capacity"
    )
    capacity: int


class TooManyNames(_ErrorWithFields):
    """There is no room in a store for more names, longer ones, or more that waits in open steps."""

    message = (
        "there is room for {room} {what}, and no more can be counted; nothing changed. Open the stream with a larger"
        " number of pairs than {pairs}: everything that it keeps grows with it"
    )
    what: str
    room: int
    pairs: int


# -- a step's input ---------------------------------------------------------------------------------------------------


class InputTypeError(_ErrorWithFields, TypeError):
    """A step's input is not made of what this lane adds up: whole numbers (exact) or real numbers (float)."""

    message = "a step's input must be {allowed}, got {given}; nothing was added"
    given: str
    allowed: str


class InputShapeError(_ErrorWithFields, ValueError):
    """A step's input has another shape than the releases."""

    message = "a step's input must have shape {allowed}, got {given}; nothing was added"
    given: tuple[int, ...]
    allowed: str


class InputNotFinite(_ErrorWithFields, ValueError):
    """A step's input holds a NaN or an infinity."""

    message = "a step's input must be finite, but holds a NaN or an infinity; nothing was added"


class InputOutOfBound(_ErrorWithFields, ValueError):
    """A step's input is larger than was declared, or negative where only counts are allowed.

    `given` is what the caller gave; None where it was added to what the stream holds, since a sum is true data.
    """

    given: float | None
    least: float
    most: float
    what: str

    def describe(self) -> str:
        got = "" if self.given is None else f", got {self.given!r}"
        refused = f"{self.what} of a step's input must be from {self.least:g} to {self.most:g}{got}"
        advice = ". If a step may add up to more, build the stream with a larger per_step"
        return f"{refused}; nothing was added{advice if self.given is None or self.given > self.most else ''}"

    def without_number(self) -> InputOutOfBound:
        """Return the same without what was found, which is a sum of data that others gave."""
        return type(self)(given=None, least=self.least, most=self.most, what=self.what)


class NameCountOutOfBound(InputOutOfBound):
    """A name's count is negative, larger than sums can hold, or not one that so many people can have brought."""

    def describe(self) -> str:
        got = "" if self.given is None else f", got {self.given:,}"
        return f"{self.what} must be from {self.least:,} to {self.most:,}{got}; nothing was added"


# -- the durable store ------------------------------------------------------------------------------------------------


class StoreError(_ErrorWithFields):
    """The base of what can go wrong with a store's files; nothing was released by the call that raised it."""


class NotAStore(StoreError, ValueError):
    """A path that is no dpstream store, and is left as it is."""

    message = "{path} is not a dpstream store: {found}; it was not touched"
    path: str
    found: str


class StoreTooNew(StoreError):
    """A store written by a later version of this library."""

    message = (
        "{path} has store format {found}, but this dpstream knows formats up to {known}; it was not touched."
        " Open it with the dpstream that wrote it, or a later one"
    )
    path: str
    found: int
    known: int


class StoreDamaged(StoreError):
    """Something in the file is not what was written: a seal does not fit, or SQLite cannot read it."""

    message = (
        "{path} is damaged: {what}. Nothing was released. Put the newest backup back, or end each stream"
        " (dpstream store retire FILE NAME; in Python, store.retire(name)) and go on under new names"
    )
    path: str
    what: str


class StoreFull(StoreError):
    """There is no room for the step, so it was not made; it can be tried again."""

    message = "no room on the disk of {path}: the step was not made, and can be tried again"
    path: str


class StoreReadOnly(StoreError):
    """The file, or its directory, may not be written."""

    message = "{path} cannot be written (file, directory or disk is read-only): nothing was changed"
    path: str


class StoreNotWritten(StoreError):
    """The operating system failed to write or to synchronise; whether the step is on the disk is not known."""

    message = (
        "writing {path} failed ({reason}). Nothing was released. The step may or may not be on the disk:"
        " try again with the same position, and it is counted once"
    )
    path: str
    reason: str


class StoreClosed(StoreError):
    """A store, or a stream of it, was used after it was closed."""

    message = "{what} is closed"
    what: str


class StoreBusy(StoreError):
    """Another process (or another object of this one) writes this stream, or holds the file for too long."""

    name: str
    pid: int | None
    started: str | None

    def describe(self) -> str:
        holder = "another process" if self.pid is None else f"process {self.pid}, started {self.started}"
        return f"{self.name} is being written by {holder}; a stream has one writer at a time, and any number of readers"


class LeaseLost(StoreError):
    """The stream moved on without this writer: its file was replaced, or its lease taken, behind its back."""

    message = (
        "the stream {name!r} is no longer as this writer left it: it was retired, or its file was replaced while"
        " it was open. Nothing was released; close this object and open the stream again"
    )
    name: str


class StoreMismatch(StoreError, ValueError):
    """A stream was opened with another setting than it was created with."""

    message = (
        "the stream {name!r} was created with {setting}={stored!r}, but {setting}={given!r} was given. Pass"
        " {setting}={stored!r} to go on with it, or take another name for a new stream with a budget of its own"
    )
    name: str
    setting: str
    stored: object
    given: object


class StoreOutdated(StoreError):
    """The file is older than what was already released from it: a backup put back, or a copy that fell behind."""

    message = (
        "the stream {name!r} in this file {found}, but {known}: this is an old backup or a copy. Going on would"
        " publish used noise under new data, which gives the data away. Safe ways out: put the newest file back;"
        " or end this stream, whose releases are kept (dpstream store retire FILE {name}; in Python,"
        " store.retire({name!r})), and open a new one under another name, with its own noise and its own budget"
    )
    name: str
    found: str
    known: str


class StoreCopied(StoreError):
    """The store's files were copied, or moved to another disk."""

    message = (
        "{path} was copied or moved to another disk, witness and all. If the original goes on too, both publish"
        " the same noise under different data. If it never will, say so once: dpstream store adopt {path}, or"
        " Store(path, adopt=True)"
    )
    path: str


class StoreLost(StoreError):
    """Of the store's two records, the database and its witness, one is missing."""

    message = (
        "{present} is there, but {missing} is missing: it was lost, or only part of the store was copied. Put it"
        " back, or start a new store under another path"
    )
    missing: str
    present: str


class WrongMasterKey(StoreError):
    """The master key is not the one this store was created with."""

    message = "the master key given does not belong to {path} (or the file's first page is damaged)"
    path: str


class KeyFileMissing(StoreError):
    """A store exists, its key file does not, and no key was given."""

    message = (
        "the key file {path} is missing: put it back, or give the key as master_key or in DPSTREAM_MASTER_KEY."
        " Without it the stream cannot go on; its releases are still in the database"
    )
    path: str


class KeyFileDamaged(StoreError):
    """A key file that does not hold a key. The message never holds any part of it."""

    message = "{path} is not a dpstream key file: {found}"
    path: str
    found: str


class KeyFileExposed(StoreError):
    """A key file that others can read."""

    message = "others can read the key file (mode {mode:04o}); mend it with: chmod 600 {path}"
    path: str
    mode: int


class StreamUnknown(StoreError, LookupError):
    """There is no stream of this name in the store."""

    message = "there is no stream {name!r} in this store"
    name: str


class TokenUnknown(StoreError, LookupError):
    """A token that the store does not have."""

    message = "the store has no token {name!r}; dpstream store token STORE lists them"
    name: str


class StreamRetired(StoreError):
    """The stream was ended for good; its releases can still be read."""

    message = "the stream {name!r} was retired: its releases can be read, but it takes no further step"
    name: str


class PositionGap(StoreError, ValueError):
    """A position that does not follow the last one: something in between is missing, or it is before the first."""

    message = (
        "position {position} does not fit: this stream knows positions from {first} on, and {following} is next;"
        " nothing was added"
    )
    position: int
    first: int
    following: int


class PositionConflict(StoreError, ValueError):
    """An old position came back with another value."""

    message = (
        "position {position} was counted at step {step} with another value; what was released stays, and nothing"
        " was added"
    )
    position: int
    step: int


class PositionMissing(StoreError, ValueError):
    """A stream that was fed with positions was given an input without one."""

    message = "this stream is fed with positions, and {following} is next: give it; nothing was added"
    following: int


class PositionUnexpected(StoreError, ValueError):
    """A stream that has steps without positions was given one."""

    message = (
        "this stream has {step} steps without positions, so position {position} has no place in it; nothing was"
        " added. Positions are for streams that have them from their first step"
    )
    position: int
    step: int


class StepClosed(StoreError, ValueError):
    """Rows for a step that is released already, and never changes again."""

    message = "step {step} is released already; {first_open} is the first step that is open; nothing was added"
    step: int
    first_open: int


class StepTooFar(StoreError, ValueError):
    """Rows for a step further ahead than the stream has room for."""

    message = (
        "step {step} is too far ahead: steps are open up to {last_open}, {open_steps} after the present one; nothing"
        " was added. Ingest it later, or create the stream with a larger open_steps"
    )
    step: int
    last_open: int
    open_steps: int


class BatchConflict(StoreError):
    """A batch under a name that another batch had."""

    message = (
        "a batch with other rows was ingested under this name before; nothing was added. Give each batch a name of its"
        " own, and the same name only to the same rows, sent again"
    )


class StreamHasOpenSteps(StoreError):
    """A step added directly to a stream that takes its steps from what was ingested."""

    message = (
        "the stream {name!r} has open steps, because rows were ingested; nothing was added. Call ingest(...) and"
        " release_through(step) instead of add and extend"
    )
    name: str


class StreamContinued(StoreError):
    """A step, or a second successor, of a stream that another one goes on with."""

    message = "the stream {name!r} is continued by {by!r}: go on with that one"
    name: str
    by: str


class StepsNotReleased(StoreError):
    """A stream that would end while rows wait in its open steps."""

    message = (
        "the stream {name!r} holds rows for steps that are not released yet, from step {first} to step {last}; nothing"
        " was changed. Release them first"
    )
    name: str
    first: int
    last: int


class BudgetLimitExceeded(StoreError):
    """A new stream would take the store's total above its limit."""

    message = (
        "the stream {name!r} was not created: with it all streams together would promise {total}, and the store's limit"
        " is {limit}; {spent} is promised already. Take a smaller budget, or change the limit"
    )
    name: str
    total: str
    limit: str
    spent: str


class ForkedStore(StoreError, ForkedStream):
    """A store was used in a forked child of the process that had it open."""

    message = (
        "this process was forked while the store was open, and neither locks nor SQLite's connections survive that."
        " Keep using the store in the parent, or start the child as a new process (spawn instead of fork)"
    )


# -- private training ------------------------------------------------------------------------------------------------


class TrainingError(_ErrorWithFields):
    """Something is wrong with a step of private training; nothing was stepped."""


class TrainingEnded(HorizonExceeded, TrainingError):
    """A step after the last one of a training; the model is finished, and can be used and shown."""

    message = (
        "step {step} is past the end of this training: its noise and its budget are for {horizon} steps. Nothing was"
        " stepped. To train longer, begin again with another key file, and a budget that adds to the one that is spent:"
        " make_private(..., epochs=...), PrivateGradients(..., horizon=...), or in JAX a mechanism of more steps"
    )


class GradientMismatch(TrainingError, ValueError):
    """A gradient has another shape or dtype than its parameter, or is missing, or belongs to no parameter."""

    message = "the gradient sum of {name!r} must be {allowed}, got {given}; nothing was stepped"
    name: str
    given: str
    allowed: str


class GradientNotFinite(TrainingError, ValueError):
    """A gradient holds a NaN or an infinity, which no noise would hide."""

    message = (
        "the gradient sum of {name!r} holds a NaN or an infinity, which noise cannot hide; nothing was stepped."
        " Look for an overflow in the loss, or leave the example out before the loss is computed"
    )
    name: str


class ParametersChanged(TrainingError, ValueError):
    """The parameters are no longer those that the noise was started for."""

    message = (
        "the parameters changed after the noise was started: {what}; nothing was stepped. Add, freeze and reshape"
        " parameters before make_private, PrivateGradients, or in JAX the optimizer's init"
    )
    what: str


class BatchUnexpected(TrainingError):
    """A step was asked for with other examples than those of its batch."""

    message = "step {step} expects {expected}, but {found}; nothing was stepped. {advice}"
    step: int
    expected: str
    found: str
    advice: str


class ExampleTooSoon(TrainingError, ValueError):
    """An example comes back sooner, or more often, than the guarantee covers."""

    message = (
        "example {example} would be used at step {step} {found}, but the guarantee covers examples that come at most"
        " {times} times, at least {separation} steps apart; nothing was stepped. Keep the same order of batches in"
        " every epoch (make_private does so unless it is given a participation)"
    )
    example: int
    step: int
    found: str
    times: int
    separation: int


class KeyInUse(TrainingError):
    """Another optimizer, in this process or another, adds this noise to its gradients."""

    message = (
        "the key {what} is in use by another optimizer or process: the same noise under two gradients gives their"
        " difference away. Close the other one, or take another key for another run"
    )
    what: str


class KeyOfAnotherRun(TrainingError, ValueError):
    """The key file was made for a training with other settings."""

    message = (
        "the key file {path} belongs to a training with other settings (mechanism, noise scale or parameters):"
        " give those again, or take another key file, which starts a run with a budget of its own"
    )
    path: str


class TrainingKeyMissing(KeyFileMissing, TrainingError):
    """Steps were released under the key of a training, and its key file is not there."""

    message = (
        "the key file {path} of this training is missing, and steps were released under it. Put it back to go on, or"
        " take another key file, which starts a run with a budget of its own"
    )


class StepsMissing(TrainingError):
    """The count of released steps that belongs to a key file is missing or damaged."""

    message = (
        "{path}, which counts the steps released under the key beside it, {found}. Put it back, or take another key"
        " file, which starts a run with a budget of its own"
    )
    path: str
    found: str


class StepsNotWritten(StoreNotWritten, TrainingError):
    """The count of released steps could not be written, so no step may be released."""

    message = (
        "{path}, which counts the steps released under the key of a training, could not be written ({reason}); nothing"
        " was stepped. See that its folder is there, that you may write to it and that its disk has room; then go on"
    )


class StepsReleased(TrainingError):
    """Training stands at an older step than was released under its key."""

    message = (
        "this training stands after step {step}, but up to {released} steps were released under its key: going on would"
        " put used noise on other gradients. To go on, load the newest checkpoint; for a new training, give another key"
        " file. If nothing that depends on the steps after {step} was or will be shown to anybody (after a crash, say),"
        " go on with optimizer.load_state_dict(state, discard_later_steps=True), or in JAX with private_noise(...,"
        " discard_later_steps=True)"
    )
    step: int
    released: int


# -- files of events, and what is not installed ----------------------------------------------------------------------


class WriterNotStarted(_ErrorWithFields):
    """The process that takes events for a server could not begin."""

    message = "{reason}"
    reason: str


class MissingExtra(_ErrorWithFields, ImportError):
    """An optional part of dpstream is not installed."""

    message = "this needs {needs}, which is not installed: pip install 'dpstream[{extra}]'"
    extra: str
    needs: str


class UnsupportedSystem(_ErrorWithFields, NotImplementedError):
    """The operating system lacks something that cannot be done safely without."""

    message = (
        "{what} needs locks on files as Linux and macOS have them, which {system} has not: run it there, or in the"
        " Windows Subsystem for Linux. Counters, sums and noise without a store work everywhere"
    )
    what: str
    system: str


class SparkUnsupported(_ErrorWithFields):
    """Spark, Java, a library or a setting of Spark's is not one that counting in Spark works with."""

    message = "counting in Spark needs {needs}; found: {found}. {advice}"
    needs: str
    found: str
    advice: str


class CheckpointMismatch(_ErrorWithFields, ValueError):
    """A query was started again from its checkpoint with other settings or another secret."""

    message = (
        "this checkpoint was written with {setting} {kept}, and now it is {given}: nothing is published. Start the"
        " query as it was, or begin a new stream with a new checkpoint, a new secret and a budget of its own"
    )
    setting: str
    kept: str
    given: str


class ReleaseConflict(_ErrorWithFields):
    """A step of a name was published before with another value: two values give noise or data away."""

    message = (
        "step {step} of {name!r} was published as {kept}, and now it would be {given}: nothing was written. This"
        ' happens when a stream runs again without its checkpoint; see docs/spark.md, "After a lost checkpoint"'
    )
    name: str
    step: int
    kept: str
    given: str


class SourceError(_ErrorWithFields, ValueError):
    """Something is wrong with a file of events."""


class SourceMissing(SourceError):
    """A file of events cannot be opened, or holds no events."""

    message = "{source}: {reason}"
    source: str
    reason: str


class SourceDamaged(SourceError):
    """A file of events cannot be read to its end."""

    message = "{where}: {what}"
    where: str
    what: str


class FileChanged(SourceError):
    """A file that was counted before is given again and holds something else."""

    message = (
        "{source} was counted before and holds something else now; nothing was counted. If it holds new rows only, give"
        " it a name of its own with batch=..., or another file name"
    )
    source: str


class ColumnMissing(SourceError):
    """A file of events has no such column; `remedy` says what to type if it is elsewhere."""

    source: str
    column: str
    columns: list[str]
    remedy: str = ""

    def describe(self) -> str:
        columns = ", ".join(map(repr, self.columns))
        remedy = f"; {self.remedy}" if self.remedy else ""
        return f"{self.source} has no column {self.column!r}; its columns are {columns}{remedy}"


class EventsUnreadable(SourceError, ValueError):
    """Events that were sent in a form that cannot be read."""

    message = "{form} cannot be read: {reason}"
    form: str
    reason: str


class RowRefused(SourceError):
    """A row of a file of events cannot be counted; `remedy` says what to type if the row is as it should be."""

    where: str
    column: str
    given: object
    allowed: str
    remedy: str = ""

    def describe(self) -> str:
        given = "an empty cell" if self.given is None else repr(self.given)
        remedy = f"; {self.remedy}" if self.remedy else ""
        return f"{self.where}, column {self.column!r}: expected {self.allowed}, got {given}{remedy}"


# -- the settings of a count -----------------------------------------------------------------------------------------


class SettingsError(_ErrorWithFields, ValueError):
    """Something is wrong with the settings of a count."""


class SettingsMissing(SettingsError):
    """A count was asked for without settings that nobody can guess: `missing` names them."""

    missing: list[str]

    def describe(self) -> str:
        words = {
            "time": "`time` (the column that says when a row happened)",
            "end": "one of `horizon` (365 for a year of days), `until` (a date) and `unbounded`",
            "budget": "`budget` (dpstream.approx_dp(epsilon=1, delta=1e-6) is a usual choice)",
        }
        return f"settings are missing: {'; '.join(words[name] for name in self.missing)}"


class SettingsUnreadable(SettingsError):
    """A settings file cannot be read."""

    message = "{path}: {reason}"
    path: str
    reason: str


class SettingUnknown(SettingsError):
    """A settings file names a setting that there is not."""

    path: str
    key: str
    near: str
    known: list[str]

    def describe(self) -> str:
        advice = f"did you mean {self.near}?" if self.near else f"there are {', '.join(self.known)}"
        return f"{self.path}: there is no setting {self.key!r}; {advice}"


# -- before a release ------------------------------------------------------------------------------------------------


class ReleaseRefused(_ErrorWithFields, ValueError):
    """A count stopped before anything was written or released; a stored stream is as it was."""


class ThroughTooEarly(ReleaseRefused):
    """Releases were asked for up to a step before the last that was released."""

    message = (
        "through={through!r} is before the last release, which is that of {last}: released steps stay. Give a later"
        " date, or leave `through` out"
    )
    through: str
    last: str


class ThroughInsideStep(ReleaseRefused):
    """The date through which is released lies inside a step of several days."""

    message = (
        "through={through!r} lies inside the step from {first} to {last}: released now, it would be without the rows of"
        " the days that are missing, for ever. through={before!r} releases the steps before it; through={last!r}"
        " releases it, when it is over"
    )
    through: str
    first: str
    last: str
    before: str


class ClockWentBack(ReleaseRefused):
    """By the clock fewer steps have ended than were released."""

    message = (
        "the step of {last} was released, but by this machine's clock ({now}) it has not ended yet: set the clock"
        " right, or name the last step to release by `through`"
    )
    last: str
    now: str


class RowsTooFarAhead(ReleaseRefused):
    """There are rows of steps further ahead than a store keeps open."""

    message = (
        "there are rows of {step}, but the store keeps rows for at most {room:,} steps after that of {last}: is a date"
        " wrong? Otherwise give them later, or release through a later date"
    )
    step: str
    last: str
    room: int


class StreamEnded(ReleaseRefused):
    """A stream has released its last step, and there are rows for it."""

    message = (
        "the stream {name!r} ended with its step {horizon:,}, that of {last}: nothing more can be counted in it. Start"
        " a successor that carries the total over: dpstream store extend"
    )
    name: str
    horizon: int
    last: str


class CountWarning(UserWarning):
    """What a count left out, counted elsewhere or took from the data, or what is dangerous about its settings."""


class FitNotConverged(UserWarning):
    """A fitted mechanism may not be the best of its kind. It is as private as any other; only its error is larger."""


__all__ = sorted(
    name
    for name, kind in globals().items()
    if isinstance(kind, type) and issubclass(kind, DpstreamError) and not name.startswith("_")
)
