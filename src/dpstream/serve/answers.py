"""Answers with strong ETags, and the headers that every answer carries."""

from __future__ import annotations

import hashlib
from typing import NamedTuple

from starlette.requests import Request
from starlette.responses import Response
from starlette.types import ASGIApp, Message, Receive, Scope, Send

__all__ = ["Content", "StrictHeaders", "answer"]

#: Styles may be inline, which the chart library needs; scripts may not, and nothing comes from elsewhere.
POLICY = (
    "default-src 'none'; script-src 'self'; style-src 'self' 'unsafe-inline'; img-src 'self' data: blob:;"
    " connect-src 'self'; base-uri 'none'; form-action 'self'; frame-ancestors 'none'"
)
HEADERS = {
    "content-security-policy": POLICY,
    "x-content-type-options": "nosniff",
    "x-frame-options": "DENY",
    "referrer-policy": "no-referrer",
    "cross-origin-opener-policy": "same-origin",
    "cross-origin-resource-policy": "same-origin",
}


_RAW = [(name.encode(), value.encode()) for name, value in HEADERS.items()]


class Content(NamedTuple):
    """What is answered: bytes, their type, and a tag that changes when they do."""

    body: bytes
    media_type: str
    tag: str

    @classmethod
    def of(cls, body: bytes, media_type: str) -> Content:
        """Tag the bytes."""
        return cls(body, media_type, f'"{hashlib.sha256(body).hexdigest()[:32]}"')


def answer(request: Request, content: Content, **headers: str) -> Response:
    """Return the content, or 304 if the client has it."""
    headers = {"etag": content.tag, "cache-control": "no-cache", **{k.replace("_", "-"): v for k, v in headers.items()}}
    known = [tag.strip().removeprefix("W/") for tag in request.headers.get("if-none-match", "").split(",")]
    if content.tag in known or "*" in known:
        return Response(status_code=304, headers=headers)
    return Response(content.body, media_type=content.media_type, headers=headers)


class StrictHeaders:
    """Adds the headers to every answer, also to errors."""

    def __init__(self, app: ASGIApp) -> None:
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Pass the request on."""

        async def with_headers(message: Message) -> None:
            if message["type"] == "http.response.start":
                message["headers"] = [*message.get("headers", ()), *_RAW]
            await send(message)

        await self._app(scope, receive, with_headers if scope["type"] == "http" else send)
