"""Job: everything that driver and workers must agree on, without the secret; Workplace: what a worker makes of it."""

from __future__ import annotations

import datetime as dt
import hashlib
import json
from collections.abc import Mapping
from dataclasses import dataclass, fields
from functools import cached_property, lru_cache
from typing import Any, Literal

from dpstream.adapters.spark.secret import SecretSource
from dpstream.adapters.spark.step_clock import StepClock
from dpstream.errors import CheckpointMismatch
from dpstream.noise.keystream import derive_key
from dpstream.noise.named import NamedNoise
from dpstream.release.change_errors import change_errors
from dpstream.release.named_counter import named_noise
from dpstream.release.open_settings import OpenSettings
from dpstream.release.settings import StreamSettings
from dpstream.store.sealing import Seals, StoreSeals

__all__ = ["Job", "Workplace"]

#: Of checkpoints and of the noise: another format has other noise, and does not go on with the checkpoint of this one.
FORMAT = 2


@dataclass(frozen=True)
class Job:
    """What a query computes, as plain values that can be pickled and compared with those of a checkpoint.

    Attributes
    ----------
    settings
        The settings of the counts as JSON text: of a `NamedCounter`, or of an `OpenCounter`.
    clock
        The arguments of `StepClock`.
    columns
        Which columns of the events are read, and as what.
    rows
        "stream", in which rows can be late, or "table", which is finished.
    shards
        How many shards names (and people) are cut into.
    confidence
        As in `running_counts`.
    names
        How many names were declared, and a digest of them; "" for discovered ones.
    secret
        Where workers find the key.
    private
        False for benchmarks only: the same work on the same state, without noise.
    """

    settings: str
    clock: tuple[str, str, str, int, tuple[str, ...]]
    columns: str
    rows: Literal["stream", "table"]
    shards: int
    confidence: float
    names: str
    secret: SecretSource
    private: bool = True

    @cached_property
    def step_clock(self) -> StepClock:
        """The clock of the steps."""
        return StepClock(*self.clock)

    @cached_property
    def counted(self) -> dict[str, Any]:
        """What decides which rows count, and where: with `settings`, all that the noise depends on beside the key.

        Not what leaves all totals as they are (shards, confidence): other noise for the same totals would only give
        more of the data away.
        """
        return {
            "format": FORMAT,
            **self.step_clock.as_json(),
            "columns": self.columns,
            "rows": self.rows,
            "names": self.names,
        }

    @cached_property
    def as_text(self) -> str:
        """Everything that a checkpoint is bound to, as JSON; it is kept in the checkpoint and holds no secret."""
        bound = {
            **self.counted,
            "windows": list(self.clock[4]),
            "shards": self.shards,
            "confidence": self.confidence,
            "settings": json.loads(self.settings),
            "private": self.private,
        }
        return json.dumps(bound, sort_keys=True)

    @cached_property
    def fingerprint(self) -> bytes:
        """32 bytes that tell jobs apart."""
        return hashlib.blake2b(self.as_text.encode(), digest_size=32).digest()

    def __reduce__(self) -> tuple[Any, ...]:
        # Without what was cached: a clock and a digest are made again on the worker.
        return Job, tuple(getattr(self, field.name) for field in fields(self))


class Workplace:
    """A job on a worker, with its key: clock, noise, seals and error bars. One for each job and process."""

    @staticmethod
    def of(job: Job) -> Workplace:
        """Return the workplace of this process for a job; made once."""
        return _workplace(job)

    def __init__(self, job: Job) -> None:
        self.job, self.clock = job, job.step_clock
        given: Mapping[str, Any] = json.loads(job.settings)
        key = job.secret.key()
        #: The key of the same counts on one machine, by a `NamedCounter` or an `OpenCounter`.
        self.noise_key = derive_key(key, purpose="spark noise", configuration=job.counted)
        self.settings: StreamSettings | OpenSettings
        self.people_noise: NamedNoise | None = None
        if given["lane"] == "names":
            self.settings = OpenSettings.from_json(given)
            self.noise, self.people_noise = self.settings.noise(self.noise_key)
        else:
            self.settings = StreamSettings.from_json(given)
            self.noise = named_noise(self.settings, self.noise_key, job.names)
        self._seals = StoreSeals(key, job.fingerprint)
        # Tells secrets apart whatever the settings are, so that each can be named in an error.
        self.secret_check = StoreSeals(key, b"spark").check().hex()
        self.people_key = derive_key(key, purpose="spark people", configuration={"job": job.fingerprint.hex()})
        self.bars = lru_cache(maxsize=256)(self._bars)
        self.seals = lru_cache(maxsize=1 << 16)(self._shard_seals)

    def _shard_seals(self, shard: int) -> Seals:
        return self._seals.stream(shard.to_bytes(8, "little"))

    def _bars(self, t: int) -> list[tuple[float, int]]:
        """Return standard deviation and half width of the total at step t, and of each window."""
        sinces, confidence = [0, *self.clock.since(t).tolist()], self.job.confidence
        if isinstance(self.settings, StreamSettings):
            stddev, off = change_errors(self.settings, [t] * len(sinces), sinces, confidence)
            return list(zip(stddev.tolist(), off.tolist(), strict=True))
        total = self.settings.stddev(t), self.settings.half_width(t, confidence)
        return [self.settings.change(t, since, confidence) if since else total for since in sinces]

    def check_kept(self, kept: str, check: str) -> None:
        """Refuse a checkpoint of another job or another secret.

        Raises
        ------
        CheckpointMismatch
            With the first setting that differs.
        """
        if check != self.secret_check:
            raise CheckpointMismatch(setting="secret", kept="another one", given="this one")
        if kept != self.job.as_text:
            name, old, new = next(_differences(json.loads(kept), json.loads(self.job.as_text)))
            raise CheckpointMismatch(
                setting=_ARGUMENTS.get(name, name), kept=_shown(name, old), given=_shown(name, new)
            )


@lru_cache(maxsize=8)
def _workplace(job: Job) -> Workplace:
    return Workplace(job)


def _differences(old: Mapping[str, Any], new: Mapping[str, Any]) -> Any:
    """Yield the settings that differ, the ones that people name before those that follow from them."""
    for name in sorted({*old, *new}, key=lambda name: (name in _FOLLOWING, name != "format", name)):
        one, other = old.get(name), new.get(name)
        if one == other:
            continue
        if isinstance(one, dict) and isinstance(other, dict):
            yield from _differences(one, other)
        else:
            yield name, one, other


#: How arguments are called whose settings have other names.
_ARGUMENTS = {"name": "stream"}


def _shown(name: str, value: Any) -> str:
    """A setting as people write it."""
    if name == "start":
        return f"{dt.datetime(1970, 1, 1) + dt.timedelta(microseconds=value)} UTC"
    return str(value).partition(",")[0] if name == "names" else repr(value)


#: Settings that follow from others.
_FOLLOWING = ("settings", "mechanism", "identity", "scale", "people_scale", "threshold")
