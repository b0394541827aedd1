"""The master key: 32 bytes that everything in a store hangs on, kept apart from it.

It comes from the caller (bytes, or a function that fetches them), from the environment variable DPSTREAM_MASTER_KEY
(64 hexadecimal digits), or from the file `<path>.key`, which is made with the store. Nothing here ever shows it.
"""

from __future__ import annotations

import os
import stat
from collections.abc import Callable
from pathlib import Path

from dpstream.errors import InvalidArgument, KeyFileDamaged, KeyFileExposed, KeyFileMissing, KeyLengthError
from dpstream.noise.keystream import KEY_BYTES, check_key, fresh_key
from dpstream.operating_system.durability import synchronise_file
from dpstream.store.files import Draft, os_error_as_store_error

__all__ = ["ENVIRONMENT", "KeySource", "find_key", "key_from_hex", "key_path", "read_key_file", "write_key_file"]

ENVIRONMENT = "DPSTREAM_MASTER_KEY"
#: The key file: this word, which is also its version, a space, 64 hexadecimal digits and a newline.
VERSION = "dpstream-key-1"

KeySource = bytes | Callable[[], bytes] | None


def key_path(path: Path) -> Path:
    """Where the key file of the store at `path` is."""
    return path.with_name(path.name + ".key")


def find_key(source: KeySource, path: Path, *, create: bool) -> bytes:
    """The master key of the store at `path`; a new one in a new file if `create` and nobody gives one."""
    if source is not None:
        return check_key(source() if callable(source) else source)
    given = os.environ.get(ENVIRONMENT)
    if given is not None:
        return key_from_hex(given, f"the environment variable {ENVIRONMENT}")
    file = key_path(path)
    try:
        return read_key_file(file)
    except FileNotFoundError:
        if not create:
            raise KeyFileMissing(path=str(file)) from None
    write_key_file(file, fresh_key(), keep=True)
    return read_key_file(file)  # what is there counts: another process may have been faster


def read_key_file(file: Path) -> bytes:
    """Return the key in `file`; refuse a file that others can read."""
    try:
        descriptor = os.open(file, os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK)
    except FileNotFoundError:
        raise
    except OSError as error:
        raise KeyFileDamaged(path=str(file), found=f"it cannot be opened ({error.strerror})") from None
    try:
        mode = os.fstat(descriptor).st_mode
        if not stat.S_ISREG(mode):
            raise KeyFileDamaged(path=str(file), found="it is not a plain file")
        if mode & 0o077:
            raise KeyFileExposed(path=str(file), mode=stat.S_IMODE(mode))
        content = os.read(descriptor, 1000)
    finally:
        os.close(descriptor)
    word, _, digits = content.decode("ascii", "replace").partition(" ")
    if word != VERSION:
        raise KeyFileDamaged(path=str(file), found=f"it does not start with {VERSION!r}")
    try:
        return key_from_hex(digits, str(file))
    except KeyLengthError as error:
        raise KeyFileDamaged(path=str(file), found=str(error)) from None


def write_key_file(file: Path, key: bytes, *, keep: bool = False) -> None:
    """Make a key file of mode 0600 that is there as a whole or not at all; one that is there is never written over.

    Raises
    ------
    InvalidArgument
        If there is a file with another key. With `keep` it is kept instead, and the caller reads what is there.
    """
    try:
        with Draft(file) as made:
            with made.path.open("wb") as opened:
                opened.write(f"{VERSION} {key.hex()}\n".encode())
                opened.flush()
                synchronise_file(opened.fileno())
            made.publish()
    except OSError as error:
        raise os_error_as_store_error(error, file) from error
    if not keep and read_key_file(file) != key:
        raise InvalidArgument("file", str(file), "a path where no key is yet: a new key needs a new path")


def key_from_hex(digits: str, where: str) -> bytes:
    """Return the key that 64 hexadecimal digits stand for; `where` they were found is said in the error."""
    try:
        key = bytes.fromhex(digits.strip())
    except ValueError:
        key = b""
    if len(key) != KEY_BYTES:
        raise KeyLengthError(f"{where} must hold {2 * KEY_BYTES} hexadecimal digits, which make {KEY_BYTES} bytes")
    return key
