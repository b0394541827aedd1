"""Content: what is answered, with a strong ETag, and the headers that every answer carries."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass
from functools import cached_property

__all__ = ["HEADERS", "Content", "has"]

#: Neither scripts nor styles may be inline, and nothing comes from elsewhere. The chart library sets styles from its
#: script, which is allowed; the rules that it would add to the page stand in page.css.
POLICY = (
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data: blob:;"
    " connect-src 'self'; base-uri 'none'; form-action 'self'; frame-ancestors 'none'"
)
#: What the server adds to every answer, those that never reach the application included.
HEADERS = {
    "content-security-policy": POLICY,
    "x-content-type-options": "nosniff",
    "x-frame-options": "DENY",
    "referrer-policy": "no-referrer",
    "cross-origin-opener-policy": "same-origin",
    "cross-origin-resource-policy": "same-origin",
}


@dataclass(frozen=True)
class Content:
    """What is answered: bytes, their type, a tag that changes when they do, and further headers."""

    body: bytes
    media_type: str
    tag: str
    more: tuple[tuple[str, str], ...] = ()

    @classmethod
    def of(cls, body: bytes, media_type: str, **more: str) -> Content:
        """Tag the bytes; an underscore in the name of a header is a hyphen."""
        tag = f'"{hashlib.sha256(body).hexdigest()[:32]}"'
        return cls(body, media_type, tag, tuple((name.replace("_", "-"), value) for name, value in more.items()))

    @cached_property
    def named(self) -> dict[str, str]:
        """The headers of its own."""
        return {"etag": self.tag, "cache-control": "no-cache", **dict(self.more)}

    @cached_property
    def headers(self) -> list[tuple[bytes, bytes]]:
        """The headers of an answer with it, as they are sent."""
        more = {"content-length": str(len(self.body)), "content-type": self.media_type}
        return [(name.encode(), value.encode()) for name, value in {**self.named, **more}.items()]

    @cached_property
    def headers_of_304(self) -> list[tuple[bytes, bytes]]:
        """The headers of an answer to whoever has it."""
        return [(name.encode(), value.encode()) for name, value in self.named.items()]


def has(known: str, tag: str) -> bool:
    """Return whether an If-None-Match names this tag."""
    given = [one.strip().removeprefix("W/") for one in known.split(",")]
    return tag in given or "*" in given
