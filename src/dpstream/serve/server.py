"""Runs the application on a socket: `run_server`."""

from __future__ import annotations

import socket
from pathlib import Path

import uvicorn
from starlette.applications import Starlette

from dpstream.serve.app import make_app

__all__ = ["listening_socket", "run_server", "server_settings"]

#: How long open connections may take to end when the server is stopped; live ones would never.
GRACE_SECONDS = 1


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


def run_server(path: str | Path, listening: socket.socket) -> None:
    """Serve the page of a store until the process is told to end.

    Raises
    ------
    NotAStore
        If there is no store.
    """
    uvicorn.Server(server_settings(make_app(path))).run(sockets=[listening])


def server_settings(app: Starlette) -> uvicorn.Config:
    """Return how the application is served."""
    return uvicorn.Config(
        app,
        http="h11",
        log_level="warning",
        server_header=False,
        timeout_graceful_shutdown=GRACE_SECONDS,
        h11_max_incomplete_event_size=1 << 16,
    )
