"""`dpstream serve`: shows the releases of a store as a page, live."""

from __future__ import annotations

import ipaddress
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from dpstream.errors import InvalidArgument, MissingExtra

if TYPE_CHECKING:
    from dpstream.serve.writer_link import WriterLink


def serve(
    file: Annotated[Path, typer.Argument(metavar="STORE", help="The store; without --ingest its key is not needed.")],
    host: Annotated[str, typer.Option(help="The address to listen on. The default can be reached from here only.")] = (
        "127.0.0.1"
    ),
    port: Annotated[int, typer.Option(min=0, max=65535, help="The port; 0: one that is free.")] = 8080,
    ingest: Annotated[
        bool, typer.Option("--ingest", help="Also take events over HTTP, and close steps by the clock.")
    ] = False,
    commit_every: Annotated[
        float, typer.Option(help="With --ingest: seconds between commits; a sender waits so long at most.")
    ] = 1.0,
    max_body: Annotated[int, typer.Option(min=1, help="With --ingest: the largest batch, in bytes.")] = 1 << 20,
    max_rate: Annotated[int, typer.Option(min=1, help="With --ingest: requests a second of one token.")] = 500,
    allow_origin: Annotated[
        list[str] | None, typer.Option(help="A site whose pages may read this, https://example.org; may be repeated.")
    ] = None,
    certificate: Annotated[Path | None, typer.Option(help="A certificate, for TLS (PEM).")] = None,
    certificate_key: Annotated[Path | None, typer.Option(help="The key of the certificate (PEM).")] = None,
) -> None:
    """Show the releases of a store as a page, live, with downloads and an API.

    Only releases are read: the page works without the key, and nothing that is secret can be asked for. With --ingest
    a second process, which has the key, takes events of those who have a token (dpstream store token).

    Example: dpstream serve counts.db
    """
    try:
        from dpstream.serve.intake import IntakeLimits
        from dpstream.serve.server import listening_socket, run_server
        from dpstream.serve.writer_settings import WriterSettings
    except ImportError as error:
        raise MissingExtra(extra="serve", needs=str(error.name or "starlette").split(".")[0]) from None
    from dpstream.cli.store_open import check_store_file

    path = check_store_file(file)
    pair = _certificate(certificate, certificate_key)
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

    def ready(link: WriterLink | None) -> None:
        address, used = listening.getsockname()[:2]
        scheme = "https" if pair else "http"
        typer.echo(f"{scheme}://{f'[{address}]' if ':' in address else address}:{used}/  (Ctrl-C ends it)")
        for sentence in warnings_of(address, tls=bool(pair), link=link):
            typer.echo(sentence, err=True)

    with listening:
        run_server(
            path,
            listening,
            writer=WriterSettings(commit_every) if ingest else None,
            limits=IntakeLimits(body_bytes=max_body, requests_a_second=max_rate),
            origins=allow_origin or (),
            certificate=pair,
            ready=ready,
        )


def _certificate(certificate: Path | None, key: Path | None) -> tuple[str, str] | None:
    if certificate is None and key is None:
        return None
    if certificate is None or key is None:
        raise InvalidArgument("certificate", certificate, "given together with --certificate-key")
    import ssl

    try:
        ssl.create_default_context(ssl.Purpose.CLIENT_AUTH).load_cert_chain(certificate, key)
    except (OSError, ssl.SSLError) as error:
        raise InvalidArgument("certificate", str(certificate), f"a certificate and its key, in PEM ({error})") from None
    return str(certificate), str(key)


def warnings_of(address: str, *, tls: bool, link: WriterLink | None) -> list[str]:
    """Return what the operator should know about who can reach the server."""
    found = []
    if not ipaddress.ip_address(address).is_loopback and not tls:
        found.append(
            "Everyone who reaches this address can read the releases, without encryption: give --certificate, or put a"
            " web server that speaks TLS in front of it."
        )
        if link is not None:
            found.append("Tokens and events are sent in clear, too: whoever listens can read them.")
    if link is not None and not link.tokens:
        found.append("There is no token, so nobody can send events: dpstream store token STORE create NAME makes one.")
    if link is not None and not link.columns:
        found.append("No stream takes events: dpstream count --store STORE begins one, also from a file without rows.")
    return found
