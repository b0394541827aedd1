"""Elements of a page, built as a tree: whatever a stream or a category is called, it is text and never markup.

The standard library's ElementTree escapes every text and every attribute, which is all that a template engine would
be needed for here.
"""

from __future__ import annotations

import re
from xml.etree import ElementTree as ET

__all__ = ["Element", "element", "html_text", "svg_text"]

Element = ET.Element
#: What neither HTML nor SVG may hold.
_FORBIDDEN = re.compile("[\x00-\x08\x0b\x0c\x0e-\x1f\x7f\ud800-\udfff\ufffe\uffff]")


def element(tag: str, *children: Element | str | None, **attributes: str | float | None) -> Element:
    """Return an element; attributes that are None are left out, and a trailing underscore of their names, too.

    >>> html_text(element("p", "a < b", element("b", "c"), class_="note"))
    '<p class="note">a &lt; b<b>c</b></p>'
    """
    made = ET.Element(tag)
    for name, value in attributes.items():
        if value is not None:
            shown = f"{value:.7g}" if isinstance(value, float) else str(value)
            made.set(name.removesuffix("_").replace("_", "-"), _clean(shown))
    last: Element | None = None
    for child in children:
        if isinstance(child, ET.Element):
            made.append(child)
            last = child
        elif child is not None and last is None:
            made.text = (made.text or "") + _clean(child)
        elif child is not None and last is not None:
            last.tail = (last.tail or "") + _clean(child)
    return made


def _clean(text: str) -> str:
    return _FORBIDDEN.sub("\N{REPLACEMENT CHARACTER}", text)


def html_text(root: Element) -> str:
    """Return an element as HTML."""
    return ET.tostring(root, encoding="unicode", method="html")


def svg_text(root: Element) -> str:
    """Return an element as XML, for a picture in a file of its own."""
    return ET.tostring(root, encoding="unicode", method="xml")
