"""`dpstream export`: writes the pages of a store as files."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer


def export(
    file: Annotated[Path, typer.Argument(metavar="STORE", help="The file of the store; its key is not needed.")],
    folder: Annotated[Path, typer.Argument(metavar="FOLDER", help="Where the files go.")],
) -> None:
    """Write the pages of a store as files, with CSV, JSON and Parquet, to put on any web server.

    Files that would not change are left alone.

    Example: dpstream export counts.db site
    """
    from dpstream.cli.store_open import check_store_file
    from dpstream.events.number_words import number
    from dpstream.serve.export import export_site

    done = export_site(check_store_file(file), folder)
    typer.echo(
        f"{folder}/index.html: {number(done.streams, 'stream')}, {number(done.written, 'file')} written,"
        f" {done.unchanged:,} as they were."
    )
