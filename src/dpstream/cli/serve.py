"""`dpstream serve`: shows the releases of a store as a page, live."""

from __future__ import annotations

import ipaddress
from pathlib import Path
from typing import Annotated

import typer

from dpstream.errors import InvalidArgument, MissingExtra


def serve(
    file: Annotated[Path, typer.Argument(metavar="STORE", help="The file of the store; its key is not needed.")],
    host: Annotated[str, typer.Option(help="The address to listen on. The default can be reached from here only.")] = (
        "127.0.0.1"
    ),
    port: Annotated[int, typer.Option(min=0, max=65535, help="The port; 0: one that is free.")] = 8080,
) -> None:
    """Show the releases of a store as a page, live, with downloads and an API.

    Only releases are read: the page works without the key, and nothing that is secret can be asked for.

    Example: dpstream serve counts.db
    """
    try:
        from dpstream.serve.server import listening_socket, run_server
    except ImportError as error:
        raise MissingExtra(extra="serve", needs=str(error.name or "starlette").split(".")[0]) from None
    from dpstream.cli.store_open import check_store_file

    path = check_store_file(file)
    try:
        listening = listening_socket(host, port)
    except OSError as error:
        raise InvalidArgument(
            "port" if error.errno != 99 else "host",
            port if error.errno != 99 else host,
            f"a port that is free, such as --port 0 ({error.strerror or error})"
            if error.errno != 99
            else "an address of this machine",
        ) from None
    with listening:
        address, used = listening.getsockname()[:2]
        typer.echo(f"http://{f'[{address}]' if ':' in address else address}:{used}/  (Ctrl-C ends it)")
        if not ipaddress.ip_address(address).is_loopback:
            typer.echo(
                "Everyone who reaches this address can read the releases, without encryption: put a web server that"
                " speaks TLS in front of it.",
                err=True,
            )
        run_server(path, listening)
