"""The web application: pages, downloads, the API and live events of one store, read without its key."""

from __future__ import annotations

import asyncio
import contextlib
import json
from collections.abc import AsyncIterator, Callable, Sequence
from pathlib import Path

from starlette.applications import Starlette
from starlette.concurrency import run_in_threadpool
from starlette.exceptions import HTTPException
from starlette.middleware import Middleware
from starlette.middleware.cors import CORSMiddleware
from starlette.requests import Request
from starlette.responses import JSONResponse, RedirectResponse, Response, StreamingResponse
from starlette.routing import Route
from starlette.types import ASGIApp

from dpstream.errors import DpstreamError, InvalidArgument, StoreError, StreamUnknown
from dpstream.serve.answers import UnkeptAnswers, answer
from dpstream.serve.content import Content
from dpstream.serve.downloads import MEDIA_TYPES, REGISTRY, as_file, registry_file, stream_summary
from dpstream.serve.figures import Figures
from dpstream.serve.front import KeptFirst
from dpstream.serve.intake import EventIntake, IntakeLimits, Refused
from dpstream.serve.live import LiveReleases
from dpstream.serve.metrics import MEDIA_TYPE, metrics_text
from dpstream.serve.openapi import openapi_document
from dpstream.serve.pages import error_page, overview_page, stream_page
from dpstream.serve.shown_stream import thinned
from dpstream.serve.static_files import static_file
from dpstream.serve.writer_link import WriterLink

__all__ = ["make_app"]

HTML = "text/html; charset=utf-8"


def make_app(
    path: str | Path,
    *,
    most_live: int = 2000,
    writer: WriterLink | None = None,
    limits: IntakeLimits | None = None,
    origins: Sequence[str] = (),
) -> ASGIApp:
    """Return the application that shows the store at a path.

    Parameters
    ----------
    path
        The store's database. Neither its key nor its witness is read, and nothing is written.
    most_live
        How many connections may wait for new releases.
    writer, limits
        The process that takes events, started; and how much is taken. None: no events are taken.
    origins
        The other sites whose pages may read what is served, and send events ("https://example.org"); usually none.

    Guarantee
    ---------
    Whatever is asked, the answer is a function of what `PublishedStore` reads: releases, and settings, which are
    public. Answers to those who send events depend on what they send, on the clock and on whether the writer can
    store anything at all.

    Raises
    ------
    NotAStore
        If there is no store.
    """
    intake = None if writer is None else EventIntake(writer, limits or IntakeLimits())
    site = _Site(Figures(path), most_live, intake, writer)
    app = site.app(origins)
    return app if origins else KeptFirst(app, site.at_hand)  # other sites need headers of their own


class _Site:
    """The answers to all requests."""

    def __init__(
        self, figures: Figures, most_live: int, intake: EventIntake | None = None, writer: WriterLink | None = None
    ) -> None:
        self._figures = figures
        self._live = LiveReleases(figures, most_live)
        self._intake, self._writer = intake, writer
        self._unkept = UnkeptAnswers()

    def app(self, origins: Sequence[str] = ()) -> Starlette:
        """Return what serves them."""
        routes = [
            Route("/", self._overview),
            Route("/index.html", self._overview),
            Route("/streams/{file}", self._stream_file),
            Route("/static/{file}", _static),
            Route("/favicon.ico", _no_content),
            Route("/api", _to_document),
            Route("/api/openapi.json", self._document),
            Route("/api/streams", self._list),
            Route("/api/events-stream", self._all_events),
            Route("/api/streams/{name:path}/releases", self._releases),
            Route("/api/streams/{name:path}/events-stream", self._events),
            Route("/api/streams/{name:path}/events", self._take_events, methods=["POST"]),
            Route("/metrics", self._metrics),
            Route("/healthz", self._health),
        ]
        handlers = {DpstreamError: _refused, HTTPException: _http_error, Refused: _not_taken, Exception: _broken}
        across = Middleware(
            CORSMiddleware,
            allow_origins=list(origins),
            allow_methods=["GET", "POST"] if self._intake else ["GET"],
            allow_headers=["Authorization", "Content-Type", "Idempotency-Key"],
        )
        made = Starlette(
            routes=routes,
            middleware=[across] if origins else [],
            exception_handlers=handlers,  # type: ignore[arg-type]
            lifespan=self._lifespan,
        )
        made.router.redirect_slashes = False  # which would lead to whatever host the request names
        return made

    @contextlib.asynccontextmanager
    async def _lifespan(self, _: Starlette) -> AsyncIterator[None]:
        """Listen to the writer as long as the server runs."""
        following = None if self._writer is None else asyncio.create_task(self._writer.follow())
        yield
        if self._writer is not None and following is not None:
            await run_in_threadpool(self._writer.end)
            following.cancel()

    async def _take_events(self, request: Request) -> Response:
        if self._intake is None:
            raise Refused(404, "EventsNotTaken", "this server takes no events: start it with --ingest")
        return await self._intake.post(request, request.path_params["name"])

    def at_hand(self, name: str) -> Content | None:
        """Return what is kept under this name, if it is of now."""
        found = self._figures.at_hand(name)
        return found if isinstance(found, Content) else None

    async def _kept(self, name: str, make: Callable[[], Content]) -> Content:
        found = self.at_hand(name)
        return await run_in_threadpool(self._figures.kept, name, make) if found is None else found

    # -- pages --------------------------------------------------------------------------------------------------------

    async def _overview(self, request: Request) -> Response:
        made = await self._kept("/", lambda: Content.of(overview_page(self._figures.streams(), live=True), HTML))
        return answer(request, made)

    async def _stream_file(self, request: Request) -> Response:
        file = request.path_params["file"]
        slug, _, form = file.partition(".")  # names in addresses have no dots
        if form not in ("html", REGISTRY, *MEDIA_TYPES):
            raise HTTPException(404)
        find = request.query_params.get("find", "").strip()
        if form == "html" and find:  # as many as people can think of, so they are not kept
            return await self._unkept.answer(request, lambda: self._found_page(slug, find))

        def make() -> Content:
            stream = self._figures.stream_of(slug)
            if form == "html":
                return Content.of(stream_page(stream, live=True), HTML)
            if form == REGISTRY:
                return Content.of(registry_file(stream), "application/json")
            return Content.of(as_file(stream, stream.table, form), MEDIA_TYPES[form])

        return answer(request, await self._kept(f"/streams/{file}", make))

    def _found_page(self, slug: str, find: str) -> Content:
        return Content.of(stream_page(self._figures.stream_of(slug), live=True, find=find), HTML)

    # -- the API ------------------------------------------------------------------------------------------------------

    async def _document(self, request: Request) -> Response:
        return answer(
            request,
            Content.of(json.dumps(openapi_document(ingest=self._intake is not None)).encode(), "application/json"),
        )

    async def _list(self, request: Request) -> Response:
        def make() -> Content:
            found = {"streams": [stream_summary(stream) for stream in self._figures.streams()]}
            return Content.of(json.dumps(found, ensure_ascii=False).encode("utf-8", "replace"), "application/json")

        return answer(request, await self._kept("/api/streams", make))

    async def _releases(self, request: Request) -> Response:
        name, query = request.path_params["name"], request.query_params
        accepts = "csv" if "text/csv" in request.headers.get("accept", "") else "json"
        form = query.get("format", accepts)
        if form not in MEDIA_TYPES:
            raise InvalidArgument("format", form[:100], "csv, json or parquet")

        def make() -> Content:
            stream = self._figures.stream(name)
            frame = stream.between(query.get("from"), query.get("to"), query.get("category"))
            frame = thinned(frame, query.get("points"))
            return Content.of(as_file(stream, frame, form), MEDIA_TYPES[form], vary="Accept")

        if {"from", "to", "category", "points"} & set(query):  # as many as clients can think of, so they are not kept
            return await self._unkept.answer(request, make)
        # JSON, which most ask for, by its address.
        return answer(request, await self._kept(request.scope["path"] if form == "json" else f"{form} of {name}", make))

    async def _metrics(self, request: Request) -> Response:
        made = await self._kept("/metrics", lambda: Content.of(metrics_text(self._figures.streams()), MEDIA_TYPE))
        return answer(request, made)

    async def _health(self, request: Request) -> Response:
        await asyncio.to_thread(self._figures.store.check)  # whose threads no slow page can take
        return Response("ok\n", media_type="text/plain", headers={"cache-control": "no-store"})

    # -- live ---------------------------------------------------------------------------------------------------------

    async def _events(self, request: Request) -> Response:
        name = request.path_params["name"]
        stream = await run_in_threadpool(self._figures.stream, name)
        return self._streaming(request, lambda after: self._live.of_stream(name, after), stream.t)

    async def _all_events(self, request: Request) -> Response:
        streams = await run_in_threadpool(self._figures.streams)
        return self._streaming(request, self._live.of_all, sum(stream.t for stream in streams))

    def _streaming(self, request: Request, follow: Callable[[int], object], now: int) -> Response:
        given = request.headers.get("last-event-id") or request.query_params.get("after") or str(now)
        if not given.isdecimal() or len(given) > 18:
            raise InvalidArgument("after", given[:100], "the number of a step")
        if self._live.full:
            raise HTTPException(503, "there are too many live connections; the page works without one")
        headers = {"cache-control": "no-store", "x-accel-buffering": "no"}
        return StreamingResponse(follow(int(given)), media_type="text/event-stream", headers=headers)  # type: ignore[arg-type]


# -- small answers --------------------------------------------------------------------------------------------------


async def _static(request: Request) -> Response:
    packed = "gzip" in request.headers.get("accept-encoding", "")
    found = await run_in_threadpool(static_file, request.path_params["file"], packed)
    if found is None:
        raise HTTPException(404)
    return answer(request, found)


async def _no_content(_: Request) -> Response:
    return Response(status_code=204)


async def _to_document(_: Request) -> Response:
    return RedirectResponse("/api/openapi.json")


# -- errors -----------------------------------------------------------------------------------------------------------


async def _refused(request: Request, error: DpstreamError) -> Response:
    if isinstance(error, StreamUnknown):
        return _problem(request, 404, "StreamUnknown", "there is no such stream; /api/streams lists them")
    if isinstance(error, StoreError):  # whose words name files of this machine
        return _problem(request, 503, type(error).__name__, "the store cannot be read now; try again")
    if isinstance(error, InvalidArgument):
        return _problem(request, 400, type(error).__name__, str(error))
    return _problem(request, 500, type(error).__name__, "the server cannot answer this; its log says why")


async def _http_error(request: Request, error: HTTPException) -> Response:
    message = "there is nothing at this address" if error.status_code == 404 else error.detail
    return _problem(request, error.status_code, "HTTPError", message, error.headers)


async def _not_taken(request: Request, error: Refused) -> Response:
    return _problem(request, error.status, error.error, error.message, error.headers)


async def _broken(request: Request, _: Exception) -> Response:
    return _problem(request, 500, "Error", "the server cannot answer this; its log says why")


def _problem(request: Request, status: int, kind: str, message: str, headers: object = None) -> Response:
    more = dict(headers) if isinstance(headers, dict) else {}
    more["cache-control"] = "no-store"
    if request.url.path.startswith(("/api", "/metrics", "/healthz")):
        return JSONResponse({"error": kind, "message": message}, status, headers=more)
    return Response(error_page(status, message), status, media_type=HTML, headers=more)
