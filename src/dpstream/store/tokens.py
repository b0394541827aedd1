"""Tokens: who may send events to which streams of a store. The file keeps digests of them, sealed.

A token is 32 random bytes, so that a plain SHA-256 of it tells nothing: there is nothing to guess. The list of tokens
stands in the table `about` behind a keyed digest: whoever changes it without the key is found out.
"""

from __future__ import annotations

import datetime as dt
import hashlib
import hmac
import json
import secrets
from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass
from typing import Any

from dpstream.errors import InvalidArgument, StreamUnknown, TokenUnknown
from dpstream.store.store_files import StoreFiles
from dpstream.store.tables import read_all_streams

__all__ = ["Token", "Tokens", "find_token"]

#: What every token begins with, so that one that leaks is recognised by whoever searches for it.
PREFIX = "dpst_"
LONGEST_NAME = 200


@dataclass(frozen=True)
class Token:
    """A token as the store keeps it.

    Attributes
    ----------
    name
        What the operator calls it.
    streams
        To which streams it may send events; None: to all.
    expires
        From when on it is refused, in seconds since 1970; None: never.
    digest
        SHA-256 of the token, in hexadecimal digits.
    """

    name: str
    streams: tuple[str, ...] | None
    expires: float | None
    digest: str

    def allows(self, stream: str) -> bool:
        """Return whether events may be sent to this stream."""
        return self.streams is None or stream in self.streams

    def expired(self, now: dt.datetime) -> bool:
        """Return whether the token is refused at this moment because of its age."""
        return self.expires is not None and now.timestamp() >= self.expires

    def as_json(self) -> dict[str, Any]:
        """Return the fields; `from_json` undoes it."""
        return asdict(self)

    @classmethod
    def from_json(cls, fields: dict[str, Any]) -> Token:
        """Undo `as_json`."""
        streams = fields["streams"]
        return cls(**fields | {"streams": None if streams is None else tuple(streams)})


def find_token(tokens: Iterable[Token], given: str) -> Token | None:
    """Return the token that was given, if it is one of these; in a time that tells nothing of where they differ."""
    digest = hashlib.sha256(given.encode("utf-8", "surrogateescape")).hexdigest()
    found = None
    for token in tokens:
        if hmac.compare_digest(token.digest, digest):
            found = token
    return found


class Tokens:
    """The tokens of a store: `Store.tokens`.

    Examples
    --------
    >>> import tempfile, dpstream as dp
    >>> folder = tempfile.TemporaryDirectory()
    >>> with dp.Store(folder.name + "/counts.db") as store:
    ...     visits = store.counter("visits", horizon=3650, budget=dp.zcdp(rho=0.5))
    ...     secret = store.tokens.create("web shop", streams=["visits"])
    ...     secret[:5], [(token.name, token.streams) for token in store.tokens.all()]
    ('dpst_', [('web shop', ('visits',))])
    >>> folder.cleanup()
    """

    def __init__(self, files: StoreFiles) -> None:
        self._files = files

    def all(self) -> list[Token]:
        """Return every token, oldest first.

        Raises
        ------
        StoreDamaged
            If the list is not as it was written.
        """
        with self._files.turn():
            return self._read()

    def create(self, name: str, streams: Sequence[str] | None = None, *, expires: dt.datetime | None = None) -> str:
        """Make a token and return it; it cannot be read again, because the store keeps a digest of it only.

        Parameters
        ----------
        name
            What to call it: 1 to 200 characters that no other token is called.
        streams
            The streams that it may send events to; None: all of them.
        expires
            From when on it is refused, with a time zone; None: never.

        Raises
        ------
        StreamUnknown
            If there is no such stream.
        InvalidArgument
            If the name is taken, or `expires` has no time zone.
        """
        if not isinstance(name, str) or not 1 <= len(name) <= LONGEST_NAME or not name.isprintable():
            raise InvalidArgument("name", name, f"1 to {LONGEST_NAME} characters that can be printed")
        if expires is not None and expires.tzinfo is None:
            raise InvalidArgument("expires", expires, "a moment with a time zone")
        files, secret = self._files, PREFIX + secrets.token_urlsafe(32)
        with files.turn(), files.database.atomic():
            there = {row.name for row in read_all_streams(files.database, files.seals)}
            for stream in streams or ():
                if stream not in there:
                    raise StreamUnknown(name=stream)
            tokens = self._read()
            if any(token.name == name for token in tokens):
                raise InvalidArgument("name", name, "one that no other token has: revoke that one first")
            made = Token(
                name,
                None if streams is None else tuple(streams),
                None if expires is None else expires.timestamp(),
                hashlib.sha256(secret.encode()).hexdigest(),
            )
            self._write([*tokens, made])
        return secret

    def revoke(self, name: str) -> None:
        """Take a token away; a server that runs refuses it from its next commit on.

        Raises
        ------
        TokenUnknown
            If none is called so.
        """
        with self._files.turn(), self._files.database.atomic():
            tokens = self._read()
            left = [token for token in tokens if token.name != name]
            if len(left) == len(tokens):
                raise TokenUnknown(name=name)
            self._write(left)

    def _read(self) -> list[Token]:
        found = self._files.database.rows("SELECT value FROM about WHERE name = 'tokens'")
        if not found:
            return []
        sealed = found[0][0]
        kept = self._files.seals.open_text("tokens", sealed) if isinstance(sealed, bytes) else None
        if kept is None:
            raise self._files.database.damaged("the list of tokens is not as it was written")
        return [Token.from_json(fields) for fields in json.loads(kept)]

    def _write(self, tokens: Sequence[Token]) -> None:
        """Inside a transaction: keep these tokens."""
        sealed = self._files.seals.seal_text("tokens", json.dumps([token.as_json() for token in tokens]))
        self._files.database.connection.execute("INSERT OR REPLACE INTO about VALUES ('tokens', ?)", (sealed,))
