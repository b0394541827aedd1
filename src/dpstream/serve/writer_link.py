"""The server's side of the writer: starts its process, hands batches over, and starts it again if it dies."""

from __future__ import annotations

import asyncio
import contextlib
import itertools
import socket
import subprocess
import sys
from pathlib import Path
from typing import Any, NamedTuple

from starlette.concurrency import run_in_threadpool

from dpstream.errors import WriterNotStarted
from dpstream.serve.frames import Frames, pack
from dpstream.serve.writer_settings import WriterSettings
from dpstream.store.tokens import Token

__all__ = ["Reply", "WriterLink"]

#: Bytes of batches that may wait for the writer; more are refused, to be sent again.
MOST_WAITING = 64 << 20
RESTART_SECONDS = 1.0
#: How long the writer may take to end by itself when the server ends: one commit.
END_SECONDS = 30.0


class Reply(NamedTuple):
    """What the writer says of a batch."""

    status: int
    answer: dict[str, Any]
    retry: int | None


class WriterLink:
    """A process that writes, and what it last said.

    Parameters
    ----------
    path
        The store's database.
    settings
        How the writer works.

    Attributes
    ----------
    tokens
        Those of the store, as of the last commit.
    columns
        The columns that events of each stream have.
    without
        The streams that take no events, and why.
    """

    def __init__(self, path: str | Path, settings: WriterSettings) -> None:
        self._path, self._settings = str(path), settings
        self.tokens: list[Token] = []
        self.columns: dict[str, list[str]] = {}
        self.without: dict[str, str] = {}
        self._numbers = itertools.count(1)
        self._asked: dict[int, tuple[asyncio.Future[Reply], int]] = {}
        self._waiting = 0
        self._stream: asyncio.StreamWriter | None = None
        self._link: socket.socket | None = None
        self._process: subprocess.Popen[bytes] | None = None
        self._ending = False

    def start(self) -> None:
        """Start the process, and wait until it has opened the store.

        Raises
        ------
        WriterNotStarted
            If it cannot: another process writes a stream, the key is missing.
        """
        ours, theirs = socket.socketpair()
        self._begin(theirs)
        frames, found = Frames(), None
        while found is None:
            received = ours.recv(1 << 16)
            if not received:
                ours.close()
                raise WriterNotStarted(reason="the process that writes the store ended at once")
            found = next(iter(frames.feed(received)), None)
        header = found[0]
        if "failed" in header:
            ours.close()
            raise WriterNotStarted(reason=header["failed"])
        self.columns, self.without = header["ready"]["streams"], header["ready"]["without"]
        self.tokens = [Token.from_json(fields) for fields in header["ready"]["tokens"]]
        self._link = ours

    def _begin(self, theirs: socket.socket) -> None:
        """Start the process; this side of the socket is its own."""
        with theirs:
            # In a session of its own: a Ctrl-C is for the server, which ends the writer by closing the socket.
            self._process = subprocess.Popen(  # noqa: S603 - this very program
                [sys.executable, "-m", "dpstream.serve.writer", self._path, repr(self._settings.commit_every)],
                stdin=theirs.fileno(),
                stdout=subprocess.DEVNULL,
                start_new_session=True,
            )

    async def follow(self) -> None:
        """Read what the writer says until the server ends; start another one if it dies."""
        while not self._ending:
            assert self._link is not None  # noqa: S101
            self._link.setblocking(False)
            reader, self._stream = await asyncio.open_unix_connection(sock=self._link)
            await self._read(reader)
            self._stream.close()
            self._stream = None
            self._forget()
            while not self._ending:
                try:
                    await run_in_threadpool(self.start)
                    break
                except WriterNotStarted as error:
                    sys.stderr.write(f"dpstream serve: no events are taken now: {error}\n")
                    await asyncio.sleep(RESTART_SECONDS)

    async def _read(self, reader: asyncio.StreamReader) -> None:
        frames = Frames()
        with contextlib.suppress(ConnectionError):
            while received := await reader.read(1 << 16):
                for header, _ in frames.feed(received):
                    if "tokens" in header:
                        self.tokens = [Token.from_json(fields) for fields in header["tokens"]]
                        continue
                    future, size = self._asked.pop(header["id"], (None, 0))
                    self._waiting -= size
                    if future is not None and not future.done():
                        future.set_result(Reply(header["status"], header["answer"], header.get("retry")))

    def _forget(self) -> None:
        """Tell everyone who waits that nobody knows whether their batch is stored."""
        asked, self._asked, self._waiting = self._asked, {}, 0
        for future, _ in asked.values():
            if not future.done():
                future.set_result(_NOT_NOW)

    async def send(self, header: dict[str, Any], body: bytes) -> Reply:
        """Hand a batch over and wait until it is stored or refused."""
        if self._stream is None or self._waiting + len(body) > MOST_WAITING:
            return _NOT_NOW
        number = next(self._numbers)
        future: asyncio.Future[Reply] = asyncio.get_running_loop().create_future()
        self._asked[number] = future, len(body)
        self._waiting += len(body)
        self._stream.write(pack({"id": number, **header}, body))
        return await future

    def end(self) -> None:
        """Let the writer end: it finishes its commit, and gives the streams back."""
        self._ending = True
        if self._link is not None:
            with contextlib.suppress(OSError):  # it is gone already
                self._link.shutdown(socket.SHUT_RDWR)
        if self._process is not None:
            with contextlib.suppress(subprocess.TimeoutExpired):
                self._process.wait(END_SECONDS)


_NOT_NOW = Reply(
    503,
    {
        "error": "NotStored",
        "message": "events cannot be stored now; send the batch again, with the same Idempotency-Key",
    },
    2,
)
