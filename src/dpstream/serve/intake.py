"""POST /api/streams/NAME/events: who may send, how much and how often; the writer does the rest."""

from __future__ import annotations

import asyncio
import re
import time
from collections import OrderedDict
from dataclasses import dataclass

from starlette.requests import ClientDisconnect, Request
from starlette.responses import JSONResponse, Response

from dpstream.events import last_step
from dpstream.serve.bodies import TYPES
from dpstream.serve.writer_link import WriterLink
from dpstream.store.tokens import find_token

__all__ = ["EventIntake", "IntakeLimits", "Refused"]

#: A key of a batch: 1 to 200 characters that can be seen.
_KEY = re.compile(r"[\x21-\x7e]{1,200}")
#: Addresses of senders with wrong tokens that are remembered.
MOST_ADDRESSES = 4096


@dataclass(frozen=True)
class IntakeLimits:
    """How much is taken.

    Attributes
    ----------
    body_bytes
        The largest batch.
    body_seconds
        How long a sender may take to send it.
    requests_a_second
        Of one token, over a second.
    failures_a_second
        Requests of one address without a good token, over ten seconds.
    answer_seconds
        How long the writer may take to answer.
    """

    body_bytes: int = 1 << 20
    body_seconds: float = 30.0
    requests_a_second: float = 500.0
    failures_a_second: float = 1.0
    answer_seconds: float = 120.0


class Refused(Exception):
    """An answer that is not 200."""

    def __init__(self, status: int, error: str, message: str, **headers: str) -> None:
        super().__init__(message)
        self.status, self.error, self.message = status, error, message
        self.headers = {name.replace("_", "-"): value for name, value in headers.items()}


class _Bucket:
    """Lets so many through in a second, and as many as in `seconds` at once."""

    def __init__(self, rate: float, seconds: float) -> None:
        self._rate, self._most = rate, rate * seconds
        self._left, self._at = self._most, time.monotonic()

    def wait(self) -> float:
        """Take one; return 0, or how many seconds too early it is."""
        now = time.monotonic()
        self._left = min(self._most, self._left + (now - self._at) * self._rate)
        self._at = now
        if self._left < 1:
            return (1 - self._left) / self._rate
        self._left -= 1
        return 0.0


class EventIntake:
    """Checks a request to send events, and hands it to the writer."""

    def __init__(self, link: WriterLink, limits: IntakeLimits) -> None:
        self._link, self._limits = link, limits
        self._buckets: OrderedDict[tuple[str, str], _Bucket] = OrderedDict()

    async def post(self, request: Request, name: str) -> Response:
        """Answer a request; 200 when its events are on the disk.

        Raises
        ------
        Refused
            With a status and words that say what to do.
        """
        token = self._token(request, name)
        form, key = _form(request), _key(request)
        body = await self._body(request)
        header = {"stream": name, "form": form, "key": key, "token": token}
        try:
            reply = await asyncio.wait_for(self._link.send(header, body), self._limits.answer_seconds)
        except TimeoutError:
            words = "the events may be stored or not; send the batch again, with the same Idempotency-Key"
            raise Refused(503, "NotAnswered", words, retry_after="5") from None
        headers = {"cache-control": "no-store"}
        if reply.retry is not None:
            headers["retry-after"] = str(reply.retry)
        return JSONResponse(reply.answer, reply.status, headers=headers)

    def _token(self, request: Request, name: str) -> str:
        """Return the name of the token under which events may be sent to this stream."""
        scheme, _, given = request.headers.get("authorization", "").partition(" ")
        token = find_token(self._link.tokens, given.strip()) if scheme.lower() == "bearer" else None
        if token is None or token.expired(last_step.now()):
            address = request.client.host if request.client else ""
            self._limit(("address", address), self._limits.failures_a_second, 10.0)
            if not given:
                words = "send a token: Authorization: Bearer dpst_...; `dpstream store token` makes one"
            elif token is None:
                words = "the token is not one of this store; `dpstream store token` makes one"
            else:
                words = f"the token {token.name!r} has expired; `dpstream store token` makes another"
            raise Refused(401, "TokenRefused", words, www_authenticate='Bearer realm="dpstream"')
        if not token.allows(name):
            raise Refused(
                403, "TokenWithoutRight", f"the token {token.name!r} may not send events to this stream; ask its owner"
            )
        if name not in self._link.columns:
            if name in self._link.without:
                raise Refused(409, "StreamWithoutEvents", f"this stream takes no events: {self._link.without[name]}")
            words = "there is no such stream; /api/streams lists them; a new one is known once the server is restarted"
            raise Refused(404, "StreamUnknown", words)
        self._limit(("token", token.name), self._limits.requests_a_second, 1.0)
        return token.name

    def _limit(self, who: tuple[str, str], rate: float, seconds: float) -> None:
        bucket = self._buckets.pop(who, None) or _Bucket(rate, seconds)
        self._buckets[who] = bucket
        if len(self._buckets) > MOST_ADDRESSES:
            self._buckets.popitem(last=False)
        wait = bucket.wait()
        if wait:
            after = str(max(1, round(wait + 0.5)))
            raise Refused(
                429, "TooManyRequests", f"send fewer requests, larger batches; wait {after} s", retry_after=after
            )

    async def _body(self, request: Request) -> bytes:
        most = self._limits.body_bytes
        too_large = Refused(
            413, "BodyTooLarge", f"a batch has at most {most:,} bytes; send several, each with a key of its own"
        )
        length = request.headers.get("content-length", "")
        if length.isdecimal() and int(length[:18]) > most:
            raise too_large
        found = bytearray()

        async def read() -> None:
            async for piece in request.stream():
                found.extend(piece)
                if len(found) > most:
                    raise too_large

        try:
            await asyncio.wait_for(read(), self._limits.body_seconds)
        except TimeoutError:
            raise Refused(
                408, "TooSlow", "the batch did not come in time; send a smaller one", connection="close"
            ) from None
        except ClientDisconnect:
            raise Refused(400, "Disconnected", "the batch did not come to its end") from None
        return bytes(found)


def _form(request: Request) -> str:
    kind = request.headers.get("content-type", "").partition(";")[0].strip().lower()
    if kind not in TYPES:
        words = "send Content-Type: application/json (a list of objects), application/x-ndjson or text/csv"
        raise Refused(415, "MediaTypeUnknown", words)
    if request.headers.get("content-encoding", "identity").lower() != "identity":
        raise Refused(415, "MediaTypeUnknown", "send the events as they are, without a Content-Encoding")
    return TYPES[kind]


def _key(request: Request) -> str:
    """Return the batch's key, with quotes or without."""
    given = request.headers.get("idempotency-key", "").strip()
    if len(given) > 1 and given[0] == given[-1] == '"':
        given = given[1:-1]
    if not _KEY.fullmatch(given):
        words = (
            "send an Idempotency-Key of 1 to 200 letters and digits, such as a UUID: a new one for each batch, and the"
            " same one when a batch is sent again"
        )
        raise Refused(400, "IdempotencyKeyMissing", words)
    return given
