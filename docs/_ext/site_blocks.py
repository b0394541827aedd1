"""Sphinx: shows the blocks of `page_runs` with what they printed, and mathematics without a network.

All pages run before Sphinx reads them, two at a time; `kept_pages` keeps what they printed.
"""

from __future__ import annotations

import hashlib
import os
import re
from concurrent.futures import ProcessPoolExecutor
from functools import partial
from pathlib import Path
from typing import Any, ClassVar

from docutils import nodes
from docutils.parsers.rst import directives
from docutils.utils.math import latex2mathml
from kept_pages import Shown, package_fingerprint, results_of, seconds_last_time, write_times
from page_runs import DOCS, ROOT, PageError, Result, pages
from pygments.lexer import RegexLexer, bygroups, using
from pygments.lexers.shell import BashLexer
from pygments.token import Generic
from sphinx.application import Sphinx
from sphinx.errors import ExtensionError
from sphinx.util import logging
from sphinx.util.docutils import SphinxDirective

log = logging.getLogger(__name__)
LANGUAGES = {
    ".py": "python",
    ".toml": "toml",
    ".sh": "bash",
    ".yml": "yaml",
    ".yaml": "yaml",
    ".json": "json",
    ".html": "html",
    ".ini": "ini",
    ".service": "ini",
    ".timer": "ini",
}


def run_all(app: Sphinx) -> None:
    """Run every page; fail with all that went wrong."""
    found = pages()
    wanted = os.environ.get("DPSTREAM_PAGES")  # for writers: only pages whose name has this in it
    if wanted:
        found = [page for page in found if wanted in page.name]
    # For writers: what a page printed is kept until its blocks change, whatever becomes of the package.
    package = "" if os.environ.get("DPSTREAM_KEEP_PAGES") else package_fingerprint()
    found.sort(key=seconds_last_time, reverse=True)
    shown: dict[str, Shown] = {}
    results: dict[str, dict[int, Result]] = {}
    wrong = []
    with ProcessPoolExecutor(2) as workers:
        runs = {page.name: (page, workers.submit(partial(results_of, page, package))) for page in found}
        for name, (page, run) in runs.items():
            try:
                shown[name] = run.result()
                results[name] = dict(zip((block.line for block in page.blocks), shown[name].results, strict=True))
            except PageError as error:
                wrong.append(str(error))
    write_times(shown)
    if wrong:
        raise ExtensionError("\n\n".join(wrong))
    app.dpstream_results = results  # type: ignore[attr-defined]
    for page in found:
        for block in page.blocks:
            if not block.runs:
                log.info("not run: %s:%d: %s", page.name, block.line, block.options["not-run"])


def adjust_source(app: Sphinx, name: str, source: list[str]) -> None:
    """Bring a page into the form that MyST needs.

    Answers leave the heads of blocks, since MyST would read their bars as YAML. Links to files outside docs/ lead to
    the repository or, while it has no address, are their texts. Pages that are listed and not there yet are left out.
    """
    text = re.sub(r"^:answers:.*$", ":answers: given", source[0], flags=re.MULTILINE)
    folder = (DOCS / name).parent
    repository = app.config.html_theme_options.get("source_repository", "")

    def outside(link: re.Match[str]) -> str:
        target = (folder / link[2]).resolve()
        if target.is_relative_to(DOCS) or not target.exists() or not target.is_relative_to(ROOT):
            return link[0]
        return f"[{link[1]}]({repository}blob/main/{target.relative_to(ROOT)})" if repository else link[1]

    text = re.sub(r"\[([^\]\n]+)\]\((\.\./[^)#\s]+)\)", outside, text)
    source[0] = text if (DOCS / "spark.md").exists() else text.replace("\n../spark\n", "\n")


class RunBlock(SphinxDirective):
    """Shows a block and what it printed."""

    has_content = True
    optional_arguments = 1
    final_argument_whitespace = True
    option_spec: ClassVar[dict[str, Any]] = {
        "fails": directives.unchanged,
        "answers": directives.unchanged,
        "hide": directives.flag,
        "hide-code": directives.flag,
        "hide-output": directives.flag,
        "lines": directives.nonnegative_int,
        "image": directives.unchanged,
        "alt": directives.unchanged,
        "background": directives.unchanged,
        "not-run": directives.unchanged,
    }

    def run(self) -> list[nodes.Node]:
        """Return the nodes that are shown."""
        found: dict[int, Result] = self.env.app.dpstream_results.get(self.env.docname, {})  # type: ignore[attr-defined]
        result = found.get(self.lineno, Result([], []))
        if "hide" in self.options:
            return []
        shown = [] if "hide-code" in self.options else self.shown(result)
        if result.picture is not None:
            shown.append(self.picture(result.picture))
        return shown

    def shown(self, result: Result) -> list[nodes.Node]:
        raise NotImplementedError

    def printed(self, text: str) -> str:
        """What is shown of an output."""
        if "hide-output" in self.options:
            return ""
        lines = text.splitlines(keepends=True)
        most = self.options.get("lines")
        return text if most is None or len(lines) <= most else "".join(lines[:most]) + "…\n"

    def literal(self, text: str, language: str, kind: str) -> nodes.literal_block:
        """A block of code or of output."""
        return nodes.literal_block(text.rstrip("\n"), text.rstrip("\n"), language=language, classes=[kind])

    def picture(self, content: bytes) -> nodes.Node:
        """The picture that the block made."""
        name = f"{self.env.docname.replace('/', '-')}-{self.lineno}{Path(self.options['image']).suffix}"
        target = DOCS / "_generated" / name
        target.parent.mkdir(exist_ok=True)
        target.write_bytes(content)
        return nodes.image(uri=f"/_generated/{name}", alt=self.options["alt"], classes=["made"])


class SessionLexer(RegexLexer):
    """Colours what is typed; all else was printed, also lines that begin like a prompt of another kind."""

    name = "session"
    tokens: ClassVar[dict[str, Any]] = {
        "root": [
            (r"^(\$ |> )((?:.*\\\n)*.*\n)", bygroups(Generic.Prompt, using(BashLexer))),
            (r".*\n", Generic.Output),
        ]
    }


class Shell(RunBlock):
    """Commands with their prompts, each followed by what it printed."""

    def shown(self, result: Result) -> list[nodes.Node]:
        """Return one console session."""
        lines = []
        for i, command in enumerate(result.commands or ["\n".join(self.content)]):
            prompted = "$ " + command.replace("\n", "\n> ")
            # Lines that a backslash continues are shown as they are typed.
            lines.append(re.sub(r"(\\\n)> ", r"\1", prompted) + "\n")
            lines += [self.printed(one) for one in result.outputs[i : i + 1]]
        return [self.literal("".join(lines), "session", "session")]


class Python(RunBlock):
    """Python as it is typed into a file or a notebook, and under it what it printed."""

    def shown(self, result: Result) -> list[nodes.Node]:
        """Return the code and the output."""
        code: list[nodes.Node] = [self.literal("\n".join(self.content), "python", "code")]
        printed = self.printed("".join(result.outputs))
        return [*code, self.literal(printed, "text", "printed")] if printed else code


class File(RunBlock):
    """A file and its name."""

    def shown(self, result: Result) -> list[nodes.Node]:
        """Return the file with its name above it."""
        name = self.arguments[0]
        wrapper = nodes.container("", literal_block=True, classes=["literal-block-wrapper"])
        wrapper += nodes.caption("", "", nodes.literal(name, name))
        wrapper += self.literal("\n".join(self.content), LANGUAGES.get(Path(name).suffix, "text"), "file")
        return [wrapper]


def inline_mathematics(self: Any, node: nodes.math) -> None:
    """Write a formula as MathML, which browsers show by themselves."""
    self.body.append(_mathml(node.astext(), block=False))
    raise nodes.SkipNode


def block_mathematics(self: Any, node: nodes.math_block) -> None:
    """Write a formula on a line of its own as MathML."""
    self.body.append(f'<div class="math">{_mathml(node.astext(), block=True)}</div>')
    raise nodes.SkipNode


def _mathml(formula: str, *, block: bool) -> str:
    tree = latex2mathml.tex2mathml(formula, as_block=block)
    return str(tree)


def setup(app: Sphinx) -> dict[str, Any]:
    """Register the directives, and the writer of formulas."""
    app.add_lexer("session", SessionLexer)
    app.add_directive("shell", Shell)
    app.add_directive("python", Python)
    app.add_directive("file", File)
    app.add_html_math_renderer("mathml", (inline_mathematics, None), (block_mathematics, None))
    app.connect("builder-inited", run_all)
    app.connect("source-read", adjust_source)
    # Every page is made anew when something in this folder has changed.
    programs = b"".join(path.read_bytes() for path in sorted(Path(__file__).parent.glob("*.py")))
    changed = int.from_bytes(hashlib.sha256(programs).digest()[:4]) + 1
    return {"parallel_read_safe": True, "parallel_write_safe": True, "env_version": changed}
