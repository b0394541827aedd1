"""Answers with strong ETags: from memory, or in pieces as clients take them."""

from __future__ import annotations

import asyncio
from collections.abc import Callable

from starlette.concurrency import run_in_threadpool
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import Response
from starlette.types import Receive, Scope, Send

from dpstream.serve.content import Content, has

__all__ = ["UnkeptAnswers", "answer"]

#: An answer that is not kept is sent in pieces of so many bytes, each when the client has taken those before.
PIECE_BYTES = 1 << 16
#: So many bytes of such answers may wait for their clients, and so many are made at a time.
MOST_UNDER_WAY = 1 << 27
MOST_MADE = 4


def answer(request: Request, content: Content) -> Response:
    """Return the content, or 304 if the client has it."""
    if has(request.headers.get("if-none-match", ""), content.tag):
        return Response(status_code=304, headers=content.named)
    return Response(content.body, media_type=content.media_type, headers=content.named)


class UnkeptAnswers:
    """Makes answers that are not kept, because there are as many as clients can think of, in bounded memory."""

    def __init__(self) -> None:
        self._making = asyncio.Semaphore(MOST_MADE)
        self._under_way = 0

    async def answer(self, request: Request, make: Callable[[], Content]) -> Response:
        """Return what `make` returns; refuse (503) while clients take too much too slowly."""
        async with self._making:
            if self._under_way > MOST_UNDER_WAY:
                words = "too many large answers are under way; ask again in a few seconds"
                raise HTTPException(503, words, {"retry-after": "5"})
            content = await run_in_threadpool(make)
        found = answer(request, content)
        return found if found.status_code == 304 else _InPieces(self, content, headers=dict(found.headers))

    def count(self, size: int) -> None:
        """Add the bytes of an answer, or take them away when it is done."""
        self._under_way += size


class _InPieces(Response):
    """An answer of which no more is handed to the connection than the client takes."""

    def __init__(self, answers: UnkeptAnswers, content: Content, headers: dict[str, str]) -> None:
        super().__init__(headers=headers, media_type=content.media_type)
        self._answers, self._content = answers, content.body

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Send it."""
        view, last = memoryview(self._content), len(self._content) - PIECE_BYTES
        self._answers.count(len(view))
        try:
            await send({"type": "http.response.start", "status": 200, "headers": self.raw_headers})
            for at in range(0, max(len(view), 1), PIECE_BYTES):
                piece = bytes(view[at : at + PIECE_BYTES])
                await send({"type": "http.response.body", "body": piece, "more_body": at < last})
        finally:
            self._answers.count(-len(view))
