"""`dpstream store protect-text`: what to publish beside the figures of a stream."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Annotated

import typer

from dpstream.cli.store_open import AsJson, File, OnlyName, chosen, existing_store, store_app


@store_app.command("protect-text")
def protect_text(
    file: File,
    name: OnlyName = None,
    label: Annotated[str, typer.Option(help="What is counted, in a word: visits.")] = "",
    title: Annotated[str, typer.Option(help="What the figures are called, for the registry.")] = "",
    output: Annotated[
        Path | None, typer.Option(help="Write the paragraph to this file, and the registry's entry beside it (.json).")
    ] = None,
    as_json: AsJson = False,
) -> None:
    """Print a paragraph to publish beside the figures: what is protected, how, and how exact they are.

    --json prints the same as a draft for OpenDP's registry of deployments; (to fill in) is for you to fill in.

    Example: dpstream store protect-text counts.db visits --output protection.txt
    """
    from dpstream.cli.protect_text import check_protect_text, write_protect_text
    from dpstream.events.stored_names import stored_stream

    check_protect_text(output)
    with existing_store(file) as store:
        text = stored_stream(store, chosen(store, name)).protection(label=label)
    if output is not None:
        write_protect_text(text, output, title)
        typer.echo(f"Written: {output} and {output.with_suffix('.json')}")
    elif as_json:
        typer.echo(json.dumps(text.registry_entry(name=title), ensure_ascii=False))
    else:
        typer.echo(text.paragraph())
