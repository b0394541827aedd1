"""Runs the application on a socket: `run_server`."""

from __future__ import annotations

import socket
from collections.abc import Callable, Sequence
from pathlib import Path

import uvicorn
from starlette.types import ASGIApp

from dpstream.operating_system.open_files import allow_open_files
from dpstream.serve.app import make_app
from dpstream.serve.content import HEADERS
from dpstream.serve.http_protocol import LimitedProtocol
from dpstream.serve.intake import IntakeLimits
from dpstream.serve.writer_link import WriterLink
from dpstream.serve.writer_settings import WriterSettings

__all__ = ["listening_socket", "run_server", "server_settings"]

#: How long open connections may take to end when the server is stopped; live ones would never.
GRACE_SECONDS = 1
#: Each connection is an open file: there may be 2,000 live ones, and others.
OPEN_FILES = 8192


def listening_socket(host: str, port: int) -> socket.socket:
    """Return a socket that listens on this address; port 0 is any that is free.

    Raises
    ------
    OSError
        If the port is taken, or the address is not one of this machine.
    """
    family = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)[0][0]
    made = socket.socket(family, socket.SOCK_STREAM)
    try:
        made.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        made.bind((host, port))
        made.listen(1024)
    except BaseException:
        made.close()
        raise
    return made


def run_server(
    path: str | Path,
    listening: socket.socket,
    *,
    writer: WriterSettings | None = None,
    limits: IntakeLimits | None = None,
    origins: Sequence[str] = (),
    certificate: tuple[str, str] | None = None,
    ready: Callable[[WriterLink | None], object] = lambda _: None,
) -> None:
    """Serve the page of a store until the process is told to end.

    Parameters
    ----------
    path, listening
        The store's database, and the socket to listen on.
    writer, limits, origins
        How events are taken, if they are; see `make_app`.
    certificate
        The files of a certificate and of its key, for TLS.
    ready
        Called when the server can begin.

    Raises
    ------
    NotAStore
        If there is no store.
    WriterNotStarted
        If events are to be taken, and cannot: another process writes a stream, or the key is missing.
    """
    allow_open_files(OPEN_FILES)
    link = None if writer is None else WriterLink(path, writer)
    if link is not None:
        link.start()
    try:
        ready(link)
        app = make_app(path, writer=link, limits=limits, origins=origins)
        uvicorn.Server(server_settings(app, certificate)).run(sockets=[listening])
    finally:
        if link is not None:
            link.end()


def server_settings(app: ASGIApp, certificate: tuple[str, str] | None = None) -> uvicorn.Config:
    """Return how the application is served."""
    file, key = certificate or (None, None)
    return uvicorn.Config(
        app,
        http=LimitedProtocol,
        log_level="warning",
        access_log=False,
        server_header=False,
        headers=list(HEADERS.items()),
        proxy_headers=False,  # anybody can send X-Forwarded-For
        ssl_certfile=file,
        ssl_keyfile=key,
        timeout_graceful_shutdown=GRACE_SECONDS,
    )
