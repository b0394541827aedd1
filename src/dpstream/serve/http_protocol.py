"""How HTTP is read: by httptools, with a limit on the head of a request, and on how long it may take."""

from __future__ import annotations

import asyncio
from typing import Any

__all__ = ["HEAD_BYTES", "http_protocol"]

#: So long may the address and the headers of a request be.
HEAD_BYTES = 1 << 16
#: So many bytes may come before a head is whole; more than that, because the end of a body may be among them.
WAITING_BYTES = 1 << 20
#: So long may a connection stay before the head of its first request is whole.
HEAD_SECONDS = 30.0


def http_protocol() -> Any:
    """Return what uvicorn reads HTTP with: httptools, or h11, which is slower, where that is not installed."""
    try:
        from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol
    except ImportError:
        return "h11"

    class LimitedHead(HttpToolsProtocol):
        """Refuses a request whose head is too long (400), and closes a connection whose first one does not come."""

        _in_head = True
        _waiting = _seen = 0
        _timer: asyncio.TimerHandle | None = None

        def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
            super().connection_made(transport)
            self._timer = self.loop.call_later(HEAD_SECONDS, transport.close)

        def connection_lost(self, exc: Exception | None) -> None:
            self._end_timer()
            super().connection_lost(exc)

        def data_received(self, data: bytes) -> None:
            super().data_received(data)
            if self._in_head:
                self._waiting += len(data)
                if self._waiting > WAITING_BYTES:
                    self.send_400_response("The head of the request is too long.")

        def on_message_begin(self) -> None:
            self._in_head, self._waiting, self._seen = True, 0, 0
            super().on_message_begin()

        def on_url(self, url: bytes) -> None:
            self._count(len(url))
            super().on_url(url)

        def on_header(self, name: bytes, value: bytes) -> None:
            self._count(len(name) + len(value) + 4)
            super().on_header(name, value)

        def on_headers_complete(self) -> None:
            self._in_head = False
            self._end_timer()
            super().on_headers_complete()

        def _count(self, size: int) -> None:
            self._seen += size
            if self._seen > HEAD_BYTES:
                raise ValueError("the head of the request is too long")  # which the parser turns into a 400

        def _end_timer(self) -> None:
            if self._timer is not None:
                self._timer.cancel()
                self._timer = None

    return LimitedHead
