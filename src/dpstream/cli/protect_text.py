"""Files that tell how figures are protected: a paragraph for readers, and an entry for OpenDP's registry."""

from __future__ import annotations

import json
from pathlib import Path

from dpstream.cli.targets import NotWritten, Target, check_target
from dpstream.errors import InvalidArgument
from dpstream.release.protection import ProtectionText

__all__ = ["check_protect_text", "protect_text_files", "write_protect_text"]

OPTION = "--protect-text"


def check_protect_text(path: Path | None) -> None:
    """Refuse a path whose two files could not be written."""
    if path is None:
        return
    if path.suffix.lower() == ".json":
        raise InvalidArgument(
            OPTION, str(path), "a file for the text, such as protection.txt: JSON is written beside it"
        )
    for file in protect_text_files(path):
        check_target(OPTION, file)


def protect_text_files(path: Path) -> tuple[Path, Path]:
    """Return the file of the text and, beside it, the file of the registry's entry."""
    return path, path.with_suffix(".json")


def write_protect_text(text: ProtectionText, path: Path, name: str = "") -> None:
    """Write both files; each appears when it is complete.

    Raises
    ------
    NotWritten
        If the disk does not take them.
    """
    entry = json.dumps(text.registry_entry(name=name), indent=2, ensure_ascii=False)
    for file, content in zip(protect_text_files(path), (text.paragraph(), entry), strict=True):
        target = Target(OPTION, file)
        try:
            target.file.write(f"{content}\n".encode())
            target.finish()
        except OSError as error:
            raise NotWritten(f"{OPTION} {file}", error.strerror or str(error)) from None
        finally:
            target.discard()
