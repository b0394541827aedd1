"""Answers with strong ETags, and the headers that every answer carries."""

from __future__ import annotations

from starlette.requests import Request
from starlette.responses import Response
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from dpstream.serve.content import RAW_HEADERS, Content, has

__all__ = ["StrictHeaders", "answer"]


def answer(request: Request, content: Content) -> Response:
    """Return the content, or 304 if the client has it."""
    if has(request.headers.get("if-none-match", ""), content.tag):
        return Response(status_code=304, headers=content.named)
    return Response(content.body, media_type=content.media_type, headers=content.named)


class StrictHeaders:
    """Adds the headers to every answer, also to errors."""

    def __init__(self, app: ASGIApp) -> None:
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Pass the request on."""

        async def with_headers(message: Message) -> None:
            if message["type"] == "http.response.start":
                message["headers"] = [*message.get("headers", ()), *RAW_HEADERS]
            await send(message)

        await self._app(scope, receive, with_headers if scope["type"] == "http" else send)
