"""The report as one HTML file that needs nothing else: style and pictures are inside."""

from __future__ import annotations

import base64
from collections.abc import Callable, Sequence
from html import escape

from dpstream.paper.content import VERDICTS
from dpstream.paper.document import Block, Data, Heading, Judgement, Paragraph, Picture, Points, Quote, Table

__all__ = ["as_html"]

STYLE = """
:root { color-scheme: light; }
body { max-width: 54rem; margin: 0 auto; padding: 1rem; font: 1rem/1.55 system-ui, sans-serif; color: #222;
  background: #fff; }
h1 { font-size: 1.7rem; line-height: 1.2; } h2 { margin-top: 2.5rem; border-bottom: 1px solid #ccc; }
h3 { margin-top: 2rem; }
nav { columns: 2 16rem; font-size: .9rem; } nav a { display: block; }
nav a.sub { padding-left: 1rem; }
a { color: #00598c; }
blockquote { margin: .8rem 0; padding: .1rem 1rem; border-left: 4px solid #bbb; color: #444; background: #f7f7f7; }
figure { margin: 1rem 0; } figure img { display: block; max-width: 100%; height: auto; margin: 0 auto; }
figcaption { font-size: .85rem; color: #555; }
.wide { overflow-x: auto; } table { border-collapse: collapse; font-size: .85rem; margin: .6rem 0; }
caption { text-align: left; font-weight: 600; padding: .2rem 0; }
th, td { padding: .25rem .6rem; border-bottom: 1px solid #ddd; text-align: left; vertical-align: top; }
th { border-bottom: 2px solid #888; vertical-align: bottom; }
.number { text-align: right; font-variant-numeric: tabular-nums; }
.verdict { display: inline-block; padding: .1rem .6rem; border: 1px solid; border-radius: .3rem; font-weight: 600; }
.agrees { color: #00593f; background: #e3f5ee; } .sharpened { color: #003f66; background: #e1f0fa; }
.differs { color: #7a3500; background: #fdebdf; }
.data { font-size: .85rem; }
@media print { nav { display: none; } body { max-width: none; font-size: 10pt; }
  figure, table, blockquote { break-inside: avoid; } h2, h3 { break-after: avoid; } .wide { overflow: visible; } }
"""


def as_html(blocks: Sequence[Block], svg: Callable[[str], bytes]) -> str:
    """One page; `svg` gives the picture of a key."""
    title = next(block.text for block in blocks if isinstance(block, Heading))
    contents = "\n".join(
        f'<a{" class=sub" if block.level == 3 else ""} href="#{escape(block.key)}">{escape(block.text)}</a>'
        for block in blocks
        if isinstance(block, Heading) and block.level > 1
    )
    body = [_block(block, svg) for block in blocks]
    return (
        '<!DOCTYPE html>\n<html lang="en">\n<head>\n<meta charset="utf-8">\n'
        '<meta name="viewport" content="width=device-width, initial-scale=1">\n'
        f"<title>{escape(title)}</title>\n<style>{STYLE}</style>\n</head>\n<body>\n"
        f"{body[0]}\n<nav>\n{contents}\n</nav>\n" + "\n".join(body[1:]) + "\n</body>\n</html>\n"
    )


def _block(block: Block, svg: Callable[[str], bytes]) -> str:
    match block:
        case Heading(text, level, key):
            return f'<h{level} id="{escape(key)}">{escape(text)}</h{level}>'
        case Paragraph(text):
            return f"<p>{escape(text)}</p>"
        case Quote(text):
            return f"<blockquote><p><b>The paper.</b> {escape(text)}</p></blockquote>"
        case Points(texts):
            return "<ul>\n" + "\n".join(f"<li>{escape(text)}</li>" for text in texts) + "\n</ul>"
        case Table():
            return _table(block)
        case Picture(key, caption):
            # An image by itself, not markup in the page: the names inside several drawings would clash.
            source = base64.b64encode(svg(key)).decode()
            text = escape(caption)
            image = f'<img alt="{text}" src="data:image/svg+xml;base64,{source}">'
            return f"<figure>{image}<figcaption>{text}</figcaption></figure>"
        case Data(key):
            name = escape(key)
            return f'<p class="data">Data: <a href="{name}.csv">{name}.csv</a></p>'
        case Judgement(verdict):
            mark, words = VERDICTS[verdict]
            return f'<p><span class="verdict {verdict}">{mark} {words}</span></p>'


def _table(table: Table) -> str:
    grid = table.grid
    sides = [' class="number"' if grid.of_numbers(column) else "" for column in range(len(grid.headings))]
    caption = f"<caption>{escape(table.title)}</caption>" if table.title else ""
    head = _cells('th scope="col"', sides, grid.headings)
    lines = "\n".join(f"<tr>{_cells('td', sides, line)}</tr>" for line in grid.lines)
    return f'<div class="wide"><table>{caption}<thead><tr>{head}</tr></thead>\n<tbody>\n{lines}\n</tbody></table></div>'


def _cells(tag: str, sides: list[str], texts: list[str]) -> str:
    end = tag.split()[0]
    return "".join(f"<{tag}{side}>{escape(text)}</{end}>" for side, text in zip(sides, texts, strict=True))
