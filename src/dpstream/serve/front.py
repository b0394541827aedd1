"""KeptFirst: answers a page that is in memory at once, without routing, threads or a look into the store."""

from __future__ import annotations

from collections.abc import Callable

from starlette.types import ASGIApp, Receive, Scope, Send

from dpstream.serve.content import Content, has

__all__ = ["KeptFirst"]


class KeptFirst:
    """Answers requests for what is in memory, and hands all others to the application.

    Most requests are for pages that have not changed since somebody asked for them last.

    Parameters
    ----------
    app
        What answers all other requests.
    at_hand
        What is kept under an address, if that is known to be of now; else None.
    """

    def __init__(self, app: ASGIApp, at_hand: Callable[[str], Content | None]) -> None:
        self._app, self._at_hand = app, at_hand

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer one request."""
        found = None
        if scope["type"] == "http" and scope["method"] == "GET" and not scope["query_string"]:
            found = self._at_hand(scope["path"])
        if found is None:
            await self._app(scope, receive, send)
            return
        known = b""
        for name, value in scope["headers"]:
            if name == b"if-none-match":
                known = value
            elif name == b"accept" and b"text/csv" in value:  # which chooses another form of releases
                await self._app(scope, receive, send)
                return
        if known and has(known.decode("latin-1"), found.tag):
            await send({"type": "http.response.start", "status": 304, "headers": found.headers_of_304})
            await send({"type": "http.response.body"})
            return
        await send({"type": "http.response.start", "status": 200, "headers": found.headers})
        await send({"type": "http.response.body", "body": found.body})
