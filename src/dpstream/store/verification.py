"""Every release of a stream, derived once more from the key, and held against what else is known.

A store keeps releases, and neither inputs nor noise. But releases without their noise are the true sums, and the
differences of those are the inputs (`recovered_inputs`), so

* each input must be one that the stream accepts;
* the last sum must be the one that was sealed;
* where inputs have positions, each must be the one whose digest was recorded.

For a counter this is exact, to the last bit. Without positions a release that was changed *together with its seal*, by
someone who has the key, shows only if it makes an input impossible or is the last one. For a running sum, whose
releases are rounded, inputs and sums follow up to the rounding, and digests tell nothing.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from dpstream.errors import InputOutOfBound, StoreDamaged, StreamUnknown
from dpstream.release.open_sums import OpenSums
from dpstream.release.real_inputs import NORM_ERROR
from dpstream.release.secret_state import SecretState
from dpstream.release.settings import StreamSettings
from dpstream.store.ledger import check_ledger
from dpstream.store.names_tables import read_names, releases_of
from dpstream.store.people import read_people
from dpstream.store.published import compare_published, is_published, published_steps
from dpstream.store.published_names import NamedRelease, named_steps, read_named_releases
from dpstream.store.recovered_inputs import RecoveredSteps, recover_inputs
from dpstream.store.sealing import INPUT_BYTES, Seals
from dpstream.store.settings import open_settings_from_row, settings_from_row
from dpstream.store.store_files import StoreFiles
from dpstream.store.tables import StreamRow, find_stream
from dpstream.store.witness import Record

__all__ = ["Report", "Verified", "check_names_kept", "verify"]

#: So many steps are named in one finding; the others are counted.
NAMED_STEPS = 5
#: A release of a running sum is off by half the grid, and by this part of itself.
ROUNDING = {"float32": 2.0**-22, "float64": 2.0**-50}

NOT_ACCEPTED = "a release implies an input that the stream does not accept"
NOT_RECORDED = "a release implies another input than the one recorded under its position"
NO_DIGEST = "an input was not recorded, although it had a position"
NO_POSITION = "an input was recorded, although it had no position"
NOT_OPEN = "an open step adds up to more than the stream accepts"
NOT_PUBLISHED = "a published release is not the sealed one"
OTHER_SUM = "a release implies another sum than the sealed one"

#: Told what part of the work is done, from 0 to 1.
Report = Callable[[float], object]


@dataclass(frozen=True)
class Verified:
    """What `Store.verify` found.

    Attributes
    ----------
    name
        The stream.
    steps
        How many releases there were.
    every_input
        Whether each release was held against the digest of its input. It was not if the stream has no positions, or
        is a running sum: then its inputs were held against what the stream accepts.
    outdated
        None; or in words how the file lags behind its witness, as an old backup does.
    findings
        What is not as it should be: one sentence each, and no secret in any.
    """

    name: str
    steps: int
    every_input: bool
    outdated: str | None
    findings: tuple[str, ...]

    @property
    def ok(self) -> bool:
        """Whether every release is as it should be."""
        return not self.findings


def verify(files: StoreFiles, name: str, report: Report | None = None) -> Verified:
    """Derive every release of a stream once more; see `Store.verify`."""
    # The row is read last: a writer at work can then only make it newer than what it is held against.
    record = files.witness.find(files.seals.name_digest(name))
    last = files.database.rows(
        "SELECT max(first + count - 1) FROM batches WHERE stream = (SELECT id FROM streams WHERE name = ?)", (name,)
    )[0][0]
    try:
        with files.database.snapshot():  # who was counted is sealed to the step that the row stands at
            row = find_stream(files.database, files.seals, name)
            wrong_tables = [] if row is None else _tables(files, row)
    except StoreDamaged as damage:
        return Verified(name, 0, False, None, (damage.what,))
    if row is None:
        raise StreamUnknown(name=name)
    if row.settings["lane"] == "names":
        return Verified(name, row.t, False, _lag(row, record), tuple(wrong_tables))
    settings = settings_from_row(row, str(files.database.path))
    findings = []
    if last is not None and last > row.t:
        findings.append(f"there are releases past its last step {row.t:,}")
    wrong: dict[str, _Steps] = defaultdict(_Steps)
    try:
        _check_releases(files, row, settings, wrong, report or (lambda part: part))
    except StoreDamaged as damage:
        findings.append(damage.what)
    findings += [f"{what}: {steps}" for what, steps in wrong.items()]
    findings += wrong_tables
    every_input = row.first_position is not None and settings.lane == "exact"
    return Verified(name, row.t, every_input, _lag(row, record), tuple(findings))


def _tables(files: StoreFiles, row: StreamRow) -> list[str]:
    """What is wrong with the record of who was counted, with open steps, and with the number of published releases."""
    seals = files.seals.stream(row.tag)
    findings = []
    if row.settings["lane"] == "names":
        try:
            check_names_kept(files, row)
        except StoreDamaged as damage:
            findings.append(damage.what)
        return findings
    try:
        if row.people is not None:
            read_people(files.database, seals, row)
    except StoreDamaged as damage:
        findings.append(damage.what)
    try:
        tallies = check_ledger(files.database, seals, row).tallies
        if len(tallies):
            settings_from_row(row, str(files.database.path)).check_rows(tallies)
    except StoreDamaged as damage:
        findings.append(damage.what)
    except InputOutOfBound:
        findings.append(NOT_OPEN)
    try:
        if is_published(row) and published_steps(files.database.rows, row, str(files.database.path)) > row.t:
            findings.append(f"there are published releases past its last step {row.t:,}")
    except StoreDamaged as damage:
        findings.append(damage.what)
    return findings


def check_names_kept(files: StoreFiles, row: StreamRow) -> None:
    """Compare everything of a stream of names with its seals, and the releases that follow from the sums with them.

    Releases of steps before the last ingest have no sums to be held against: their seals tell.

    Raises
    ------
    StoreDamaged
        If anything is missing, too much, or not as it should be.
    """
    database, seals = files.database, files.seals.stream(row.tag)
    damaged = database.damaged(f"published names of stream {row.name!r} are not those that follow from its sums")
    kept = read_names(database, seals, row)
    done = named_steps(database.rows, row)
    if not kept.base <= done <= row.t:
        raise damaged
    settings = open_settings_from_row(row, str(database.path))
    key = files.seals.noise_key(row.name, row.tag, row.configuration)
    published = list(read_named_releases(database.rows, row, done, str(database.path), seals))
    sums = OpenSums.resume(settings, key, kept.base, kept.texts, kept.sums)
    follow = [] if not kept.base else [NamedRelease(kept.base, sums.names, sums.released)]
    follow += releases_of(sums, kept.cells, row.t)
    for ours in follow:
        theirs = published[ours.step - 1] if ours.step <= done else ours
        if theirs.names != ours.names or not np.array_equal(theirs.values, ours.values):
            raise damaged


def _check_releases(
    files: StoreFiles, row: StreamRow, settings: StreamSettings, wrong: dict[str, _Steps], report: Report
) -> None:
    """Note under `wrong` which steps are not as they should be, and how."""
    seals = files.seals.stream(row.tag)
    sums: NDArray[np.generic] = np.zeros(settings.shape)
    slack: NDArray[np.float64] = np.zeros(settings.shape)
    for piece in recover_inputs(files, row, settings, 1, row.t):
        if settings.lane == "exact":
            refused = _refused_counts(settings, piece)
        else:
            allowed = np.concatenate([slack[None], _slack(settings, piece)])
            refused, slack = _refused_vectors(settings, piece, allowed), allowed[-1]
        differ = compare_published(files.database, row, piece.releases, piece.first)
        for what, steps in (
            (NOT_ACCEPTED, refused),
            (NOT_PUBLISHED, differ),
            *_other_inputs(row, settings, seals, piece),
        ):
            if steps:
                wrong[what].add(steps)
        sums = piece.sums[-1]
        report((piece.first + len(piece.sums) - 1) / row.t)
    kept = SecretState.from_bytes(settings, row.t, row.sums(seals, files.database), None).sums
    if settings.lane == "exact":
        same = np.array_equal(kept[0], sums)
    else:
        # float64 data keeps what its additions lost as a second array.
        total = np.sum(kept, axis=0).reshape(settings.shape)
        same = bool((np.abs(total - sums) <= slack).all())
    if not same:
        wrong[OTHER_SUM].add([row.t])


# -- inputs -----------------------------------------------------------------------------------------------------------


def _refused_counts(settings: StreamSettings, piece: RecoveredSteps) -> list[int]:
    """Return the steps whose input the counter would have refused."""

    def refused(inputs: NDArray[np.int64]) -> bool:
        try:
            settings.check_rows(inputs)
        except InputOutOfBound:
            return True
        return False

    if not refused(piece.inputs):
        return []
    return [piece.first + i for i in range(len(piece.inputs)) if refused(piece.inputs[i : i + 1])]


def _refused_vectors(settings: StreamSettings, piece: RecoveredSteps, slack: NDArray[np.float64]) -> list[int]:
    """Return the steps whose input is longer than a step may be, even if all rounding went one way."""
    inputs = piece.inputs.reshape(len(piece.inputs), -1)
    room = np.linalg.norm(slack.reshape(len(slack), -1), axis=1)
    longest = settings.step_limit * (1 + 2 * NORM_ERROR) + room[1:] + room[:-1]
    # Not >, so that a NaN is refused.
    return [piece.first + int(i) for i in np.flatnonzero(~(np.linalg.norm(inputs, axis=1) <= longest))]


def _slack(settings: StreamSettings, piece: RecoveredSteps) -> NDArray[np.float64]:
    """How far rounding may have taken each release from its sum and noise."""
    size = np.abs(piece.releases.astype(np.float64)) + np.abs(piece.sums)
    return np.asarray(settings.grid / 2 + ROUNDING[settings.dtype] * size)


def _other_inputs(
    row: StreamRow, settings: StreamSettings, seals: Seals, piece: RecoveredSteps
) -> list[tuple[str, list[int]]]:
    """The steps whose input is not the one that was recorded."""
    steps = range(piece.first, piece.first + len(piece.inputs))
    if (piece.digests is None) != (row.first_position is None):
        return [(NO_DIGEST if piece.digests is None else NO_POSITION, list(steps))]
    if piece.digests is None or settings.lane == "float":
        return []
    made = np.frombuffer(seals.input_digests(piece.first, piece.inputs), f"V{INPUT_BYTES}")
    if len(piece.digests) != made.nbytes:
        return [(NO_DIGEST, list(steps))]
    return [(NOT_RECORDED, [steps[i] for i in np.flatnonzero(made != np.frombuffer(piece.digests, made.dtype))])]


# -- in words ---------------------------------------------------------------------------------------------------------


@dataclass
class _Steps:
    """Some steps: the first few by name, the others by number, so that a million of them take no room."""

    named: list[int] = field(default_factory=list)
    count: int = 0

    def add(self, steps: list[int]) -> None:
        self.named += steps[: NAMED_STEPS - len(self.named)]
        self.count += len(steps)

    def __str__(self) -> str:
        named = ", ".join(f"{step:,}" for step in self.named)
        more = f" and {self.count - len(self.named):,} more" if self.count > len(self.named) else ""
        return f"step{'s' * (self.count > 1)} {named}{more}"


def _lag(row: StreamRow, found: tuple[int, Record] | None) -> str | None:
    """How the file is older than its witness, if it is."""
    if found is None:
        return None
    _, record = found
    if row.t < record.last:
        return f"the file stands at step {row.t:,}, but step {record.last:,} was released before"
    if row.generation < record.generation:
        return f"the file is at opening {row.generation:,}, but its witness counted {record.generation:,}"
    if row.ingests < record.ingests:
        return f"rows were ingested {record.ingests:,} times, but the file knows of {row.ingests:,}"
    return None
