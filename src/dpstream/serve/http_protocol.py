"""How HTTP is read and written: by httptools, with limits on heads of requests and on answers that nobody takes."""

from __future__ import annotations

import asyncio
from typing import Any, cast

from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol

__all__ = ["LimitedProtocol"]

#: So long may the address and the headers of a request be.
HEAD_BYTES = 1 << 16
#: So many bytes may come before a head is whole; more than that, because the end of a body may be among them.
WAITING_BYTES = 1 << 20
#: So long may the head of a request take; the first one's, from the connection on.
HEAD_SECONDS = 30.0
#: A client that takes less of its answer than this in this time is gone: 4 kB a second, which any telephone does.
TAKEN_BYTES = 1 << 17
TAKEN_SECONDS = 30.0


class _QuietTransport:
    """A transport that drops what is written for a client who has left; uvloop raises, and uvicorn logs 50 lines."""

    def __init__(self, transport: asyncio.Transport) -> None:
        self._transport = transport

    def __getattr__(self, name: str) -> Any:
        return getattr(self._transport, name)

    def write(self, data: bytes) -> None:
        if not self._transport.is_closing():
            self._transport.write(data)


class LimitedProtocol(HttpToolsProtocol):
    """Refuses a head that is too long (400); closes connections that send a head, or take an answer, too slowly."""

    _in_head = True
    _waiting = _seen = 0
    _head_timer: asyncio.TimerHandle | None = None
    _answer_timer: asyncio.TimerHandle | None = None

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        super().connection_made(cast("asyncio.Transport", _QuietTransport(transport)))
        self._head_timer = self.loop.call_later(HEAD_SECONDS, transport.close)

    def connection_lost(self, exc: Exception | None) -> None:
        self._end_head_timer()
        self._end_answer_timer()
        super().connection_lost(exc)

    # -- requests -----------------------------------------------------------------------------------------------------

    def data_received(self, data: bytes) -> None:
        super().data_received(data)
        if self._in_head:
            self._waiting += len(data)
            if self._waiting > WAITING_BYTES:
                self.send_400_response("The head of the request is too long.")

    def on_message_begin(self) -> None:
        self._in_head, self._waiting, self._seen = True, 0, 0
        if self._head_timer is None:
            self._head_timer = self.loop.call_later(HEAD_SECONDS, self.transport.close)
        super().on_message_begin()

    def on_url(self, url: bytes) -> None:
        self._count(len(url))
        super().on_url(url)

    def on_header(self, name: bytes, value: bytes) -> None:
        self._count(len(name) + len(value) + 4)
        super().on_header(name, value)

    def on_headers_complete(self) -> None:
        self._in_head = False
        self._end_head_timer()
        super().on_headers_complete()

    def _count(self, size: int) -> None:
        self._seen += size
        if self._seen > HEAD_BYTES:
            raise ValueError("the head of the request is too long")  # which the parser turns into a 400

    def _end_head_timer(self) -> None:
        if self._head_timer is not None:
            self._head_timer.cancel()
            self._head_timer = None

    # -- answers ------------------------------------------------------------------------------------------------------

    def pause_writing(self) -> None:
        super().pause_writing()
        self._look_again()

    def resume_writing(self) -> None:
        self._end_answer_timer()
        super().resume_writing()

    def _look_again(self) -> None:
        size = self.transport.get_write_buffer_size()
        self._answer_timer = self.loop.call_later(TAKEN_SECONDS, self._check_taken, size)

    def _check_taken(self, before: int) -> None:
        """Wait on for a client that is slow; drop one that does not read, with what is kept for it."""
        if before - self.transport.get_write_buffer_size() < TAKEN_BYTES:
            self.transport.abort()
        else:
            self._look_again()

    def _end_answer_timer(self) -> None:
        if self._answer_timer is not None:
            self._answer_timer.cancel()
            self._answer_timer = None
