"""The writer of `dpstream serve --ingest`: a process of its own, the only one that has the key.

The server hands it batches of events through a socket and gets answers back. The writer commits by the clock: all
batches that came since the last commit go into the open steps of their stream in one commit, and each is answered when
that is on the disk. It commits as often when nothing comes, so that the file does not show when and how many events
came. After a commit it closes the steps that have ended. It ends when the server does, however that ends.
"""

from __future__ import annotations

import datetime as dt
import hashlib
import json
import socket
import sys
import time
import traceback
from collections import deque
from dataclasses import asdict
from pathlib import Path
from typing import Any, NamedTuple

import polars as pl

from dpstream.errors import (
    BatchConflict,
    DpstreamError,
    InvalidArgument,
    StoreBusy,
    StoreError,
    StoreFull,
    StoreNotWritten,
    StreamEnded,
    StreamRetired,
    TooManyPeople,
)
from dpstream.events.ingest import Batch, StreamIngest, Taken
from dpstream.operating_system.waiting import wait_until_readable
from dpstream.serve.bodies import read_events
from dpstream.serve.frames import Frames, pack
from dpstream.serve.steady_clock import PROOF_SECONDS, SteadyClock
from dpstream.serve.writer_settings import WriterSettings
from dpstream.store import Store, StreamInfo
from dpstream.store.tokens import Token

__all__ = ["Writer", "main", "say"]

#: A stream whose last writer is just ending is waited for.
PATIENCE_SECONDS = 10.0
#: What may pass: a full disk, another process that holds the file for long. Anything else stops a stream.
PASSING = (StoreFull, StoreNotWritten, StoreBusy)
RETRY_SECONDS = 2
#: A mistake in dpstream or in what it uses; a panic of Polars is no Exception. No batch may end the writer by one.
UNEXPECTED = (Exception, pl.exceptions.PanicException)


class _Waiting(NamedTuple):
    """A batch that is answered with the next commit, and the token under which it came."""

    number: int
    batch: Batch
    token: str


class _Stream:
    """A stream that takes events."""

    def __init__(self, ingest: StreamIngest) -> None:
        self.ingest = ingest
        self.columns = ingest.columns
        self.waiting: deque[_Waiting] = deque()
        self.stopped = False
        self.told = ""


class Writer:
    """Takes batches from a socket, commits them by the clock, and closes steps."""

    def __init__(self, store: Store, link: socket.socket, settings: WriterSettings) -> None:
        self._store, self._link, self._settings = store, link, settings
        self._clock = SteadyClock(say=say)
        self._frames = Frames()
        self._streams: dict[str, _Stream] = {}
        self._without: dict[str, str] = {}
        self._tokens: list[Token] = []
        for info in store.streams():
            self._open(info)

    def _open(self, info: StreamInfo) -> None:
        until = time.monotonic() + PATIENCE_SECONDS
        while True:
            try:
                opened = StreamIngest(self._store, info.name, places=self._settings.places, kept=self._settings.kept)
            except (InvalidArgument, StreamRetired) as error:
                self._without[info.name] = str(error)
            except StoreBusy:
                if time.monotonic() < until:
                    time.sleep(0.1)
                    continue
                raise
            else:
                self._streams[info.name] = _Stream(opened)
            return

    def run(self) -> None:
        """Serve until the other side is gone."""
        self._tokens = self._store.tokens.all()
        columns = {name: stream.columns for name, stream in self._streams.items()}
        self._send({"ready": {"streams": columns, "without": self._without, "tokens": self._tokens_as_json()}})
        following = time.monotonic() + self._settings.commit_every
        while True:
            if wait_until_readable(self._link.fileno(), max(0.0, following - time.monotonic())):
                received = self._link.recv(1 << 18)
                if not received:
                    return
                for header, body in self._frames.feed(received):
                    self._take(header, body)
            if time.monotonic() >= following:
                self._commit_all()
                following = max(following + self._settings.commit_every, time.monotonic())

    def close(self) -> None:
        """Give the streams back."""
        for stream in self._streams.values():
            stream.ingest.close()

    # -- batches ------------------------------------------------------------------------------------------------------

    def _take(self, header: dict[str, Any], body: bytes) -> None:
        """Read a batch; answer at once if it cannot be read, and else with the next commit."""
        stream = self._streams.get(header["stream"])
        if stream is None:
            self._refuse(header["id"], 409, "StreamWithoutEvents", self._without.get(header["stream"], "it is new"))
            return
        try:
            frame = read_events(body, header["form"], stream.columns)
        except DpstreamError as error:
            self._refuse(header["id"], 422, type(error).__name__, str(error))
            return
        except UNEXPECTED as error:
            self._refuse_unexpected(header["id"], header["stream"], stream, error)
            return
        # The key of one sender is not that of another.
        name = hashlib.sha256(json.dumps([header["token"], header["key"]]).encode()).digest()
        content = hashlib.sha256(header["form"].encode() + b"\0" + body).digest()
        stream.waiting.append(_Waiting(header["id"], Batch(frame, name, content), header["token"]))

    def _commit_all(self) -> None:
        now = self._clock.now()
        self._look_at_tokens()
        valid = {token.name for token in self._tokens if not token.expired(now)}
        for name, stream in self._streams.items():
            group = [stream.waiting.popleft() for _ in range(min(self._settings.places, len(stream.waiting)))]
            for one in group:
                if one.token not in valid:
                    self._refuse(one.number, 401, "TokenRefused", "the token was revoked or has expired")
            group = [one for one in group if one.token in valid]
            if self._store_group(name, stream, group, now):
                self._close_steps(name, stream, now)

    def _store_group(self, name: str, stream: _Stream, group: list[_Waiting], now: dt.datetime) -> bool:
        """Store batches in one commit and answer each; return whether steps may close after that."""
        if stream.stopped:
            self._refuse_group(group)
            return False
        try:
            taken = stream.ingest.take([one.batch for one in group], now=now)
        except PASSING as error:
            self._tell(name, stream, f"nothing can be stored now: {error}")
            self._refuse_group(group)
            return False
        except StoreError as error:
            self._stop(name, stream, error)
            self._refuse_group(group)
            return False
        except UNEXPECTED as error:
            if len(group) > 1:  # nothing of them is stored: each half by itself, to find the one that fails
                middle = len(group) // 2
                halves = [self._store_group(name, stream, half, now) for half in (group[:middle], group[middle:])]
                return all(halves)
            for one in group:
                self._refuse_unexpected(one.number, name, stream, error)
            if not group:
                self._stop(name, stream, error)
            return bool(group)
        for one, result in zip(group, taken, strict=True):
            self._answer(one.number, result)
        full = next((result.error for result in taken if isinstance(result.error, TooManyPeople)), None)
        if full is not None:
            self._stop(name, stream, full)
        return full is None

    def _close_steps(self, name: str, stream: _Stream, now: dt.datetime) -> None:
        overdue = stream.ingest.ended(now - dt.timedelta(seconds=PROOF_SECONDS)) > stream.ingest.released
        if overdue and not self._clock.proven:
            words = f"steps that ended more than {PROOF_SECONDS / 60:g} minutes ago are not released yet: the clock may"
            self._tell(name, stream, f"{words} be wrong at the start; they are once it has gone on evenly for as long")
            return
        try:
            stream.ingest.close_steps(now)
            stream.told = ""
        except PASSING as error:
            self._tell(name, stream, f"steps that have ended are not released: {error}")
        except UNEXPECTED as error:  # a StoreError among them
            self._stop(name, stream, error)

    def _stop(self, name: str, stream: _Stream, error: BaseException) -> None:
        """Take nothing more and release nothing more: what would come after depends on what was left out."""
        stream.stopped = True
        reason = str(error) if isinstance(error, DpstreamError) else _place(error)
        say(f"{name}: takes no events and releases nothing until the server is started again: {reason}")

    def _tell(self, name: str, stream: _Stream, what: str) -> None:
        """Say something once, and not at every commit."""
        if stream.told != what:
            stream.told = what
            say(f"{name}: {what}")

    # -- answers ------------------------------------------------------------------------------------------------------

    def _answer(self, number: int, taken: Taken) -> None:
        """Answer with what follows from the sender's own rows and the clock, and with nothing else."""
        error = taken.error
        if error is None and taken.new:
            numbers = {key: value for key, value in asdict(taken).items() if key not in ("new", "error")}
            self._send({"id": number, "status": 200, "answer": {"repeated": False, **numbers}})
        elif error is None:
            self._send({"id": number, "status": 200, "answer": {"repeated": True, "rows": taken.rows}})
        elif isinstance(error, TooManyPeople):
            self._refuse_busy(number)
        elif isinstance(error, BatchConflict):
            words = "this Idempotency-Key came with other events before; give each batch a key of its own"
            self._refuse(number, 422, "BatchConflict", words)
        elif isinstance(error, StreamEnded):
            self._refuse(number, 410, "StreamEnded", str(error))
        else:
            self._refuse(number, 422, type(error).__name__, str(error))

    def _refuse_group(self, group: list[_Waiting]) -> None:
        for one in group:
            self._refuse_busy(one.number)

    def _refuse_busy(self, number: int) -> None:
        words = "events cannot be stored now; send the batch again, with the same Idempotency-Key"
        self._send(
            {
                "id": number,
                "status": 503,
                "answer": {"error": "NotStored", "message": words},
                "retry": RETRY_SECONDS,
            }
        )

    def _refuse_unexpected(self, number: int, name: str, stream: _Stream, error: BaseException) -> None:
        """Refuse a batch over which dpstream stumbled, for good: it would stumble over it again."""
        what = f"a batch was refused because of a mistake in dpstream; please report it: {_place(error)}"
        self._tell(name, stream, what)  # a sender could fill the log
        words = "dpstream cannot count this batch, and sending it again does not help; ask the owner of the server"
        self._refuse(number, 422, "BatchNotCounted", words)

    def _refuse(self, number: int, status: int, error: str, message: str) -> None:
        self._send({"id": number, "status": status, "answer": {"error": error, "message": message}})

    def _look_at_tokens(self) -> None:
        try:
            tokens = self._store.tokens.all()
        except StoreError as error:
            say(f"no token is accepted: {error}")
            tokens = []
        if tokens != self._tokens:
            self._tokens = tokens
            self._send({"tokens": self._tokens_as_json()})

    def _tokens_as_json(self) -> list[dict[str, Any]]:
        return [token.as_json() for token in self._tokens]

    def _send(self, header: dict[str, Any]) -> None:
        self._link.sendall(pack(header))


def _place(error: BaseException) -> str:
    """Return the kind of an error and where it was raised; its words may hold what somebody sent."""
    last = traceback.extract_tb(error.__traceback__)[-1]
    return f"{type(error).__name__} in {Path(last.filename).name}, line {last.lineno}"


def say(what: str) -> None:
    """Tell the operator."""
    sys.stderr.write(f"dpstream serve: {what}\n")
    sys.stderr.flush()


def main(path: str, link: socket.socket, settings: WriterSettings) -> None:
    """Open the store and serve; what goes wrong before that is said through the socket."""
    try:
        store = Store(Path(path))
        writer = Writer(store, link, settings)
    except DpstreamError as error:
        link.sendall(pack({"failed": str(error), "error": type(error).__name__}))
        return
    try:
        writer.run()
    except (BrokenPipeError, ConnectionResetError):  # the server is gone
        pass
    finally:
        writer.close()
        store.close()


if __name__ == "__main__":
    # Standard input is the socket.
    main(sys.argv[1], socket.socket(fileno=0), WriterSettings(float(sys.argv[2])))
