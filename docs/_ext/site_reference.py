"""Sphinx: writes the generated part of the reference, docs/reference/api, before the pages are read.

* One page for every public name of `dpstream` and every mechanism, one page for each other public module; which names
  are public is read from docs/public-names.md, and a name without a docstring is an error.
* One page for every command, from what the command itself says.
* The errors, from dpstream/errors.py.
"""

from __future__ import annotations

import importlib
import inspect
import re
import sys
import textwrap
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Literal, get_args, get_origin

from sphinx.application import Sphinx
from sphinx.errors import ExtensionError

DOCS = Path(__file__).resolve().parent.parent
TARGET = DOCS / "reference" / "api"
#: What users import from a module that is not in the table of public names, because its libraries may be missing.
ADAPTERS = {
    "dpstream.adapters.torch": "PyTorch and Opacus",
    "dpstream.adapters.jax": "JAX and optax",
    "dpstream.adapters.spark": "Spark",
}

#: What such a module imports only when it is asked for, which the directive for a module does not see.
LATE = {
    "dpstream.adapters.torch": (
        "autofunction:: dpstream.adapters.torch_opacus.make_private",
        "autoclass:: dpstream.adapters.torch_opacus.CorrelatedNoise\n"
        "   :members: spent, get_epsilon, describe, close, state_dict, load_state_dict",
    )
}


def promised() -> dict[str, list[str]]:
    """Every module of docs/public-names.md with its names."""
    text = (DOCS / "public-names.md").read_text()
    rows = dict(re.findall(r"^\| `(dpstream[\w.]*)` \| (.*) \|$", text, re.MULTILINE))
    found = {}
    for module, told in rows.items():
        names = re.findall(r"`(\w+)`", told)
        if "every" in told:
            names = sorted({*names, *importlib.import_module(module).__all__})
        found[module] = names
    return found


def first_line(item: Any, path: str) -> str:
    """The first paragraph of a docstring, in Markdown; an item without one is refused."""
    told = inspect.getdoc(item)
    if not told:
        raise ExtensionError(f"{path} is public and has no docstring")
    return " ".join(told.split("\n\n")[0].split()).replace("|", "\\|")


def documented(path: str, item: Any) -> str:
    """The directive that shows a name with its docstring, its types and its members."""
    if inspect.isclass(item):
        kind = "autoexception" if issubclass(item, BaseException) else "autoclass"
        options = "   :members:\n   :show-inheritance:\n"
    elif callable(item):
        kind, options = "autofunction", ""
    else:
        kind, options = "autodata", "   :no-value:\n"
    return f"```{{eval-rst}}\n.. {kind}:: {path}\n{options}```\n"


def api_pages() -> Iterator[tuple[str, str]]:
    """Yield the name and the text of every page of the API."""
    public = promised()
    main = importlib.import_module("dpstream")
    own_pages: dict[str, str] = {}
    overview = ["# API\n\nEvery name that is a [promise](../../public-names.md), with its types.\n"]
    overview.append("```python\nimport dpstream as dp\n```\n")
    for module, names in public.items():
        if module in ("dpstream.errors",):
            continue
        found = importlib.import_module(module)
        overview.append(f"## {module}\n\n{first_line(found, module)}\n\n| name | |\n|---|---|")
        pages = []
        for name in names:
            item = getattr(found, name)
            path = f"{module}.{name}"
            if inspect.ismodule(item):
                target = {"errors": "errors.md", "mechanisms": "#dpstreammechanisms"}[name]
                overview.append(f"| [`{name}`]({target}) | {first_line(item, path)} |")
                continue
            # A name that stands in two modules is shown once, where it is imported from in examples.
            if name not in own_pages:
                own_pages[name] = path
                pages.append(name)
            # Of a mechanism the table tells what it is; its own page begins with its formula.
            told = sys.modules[item.__module__] if module == "dpstream.mechanisms" else item
            overview.append(f"| [`{name}`]({own_pages[name]}.md) | {first_line(told, path)} |")
        overview.append("")
        for name in pages:
            item = getattr(found, name)
            text = f"# {name}\n\n" + documented(f"{module}.{name}", item)
            yield f"{module}.{name}", text
    overview.append("## Adapters\n\n| module | for |\n|---|---|")
    for module, what in ADAPTERS.items():
        place = Path(main.__file__).parent / "adapters" / module.split(".")[-1]
        if not (place.is_dir() or place.with_suffix(".py").exists()):
            continue
        overview.append(f"| [`{module}`]({module}.md) | {what} |")
        text = f"# {module}\n\n```{{eval-rst}}\n.. automodule:: {module}\n   :members:\n```\n"
        for directive in LATE.get(module, ()):
            text += f"\n```{{eval-rst}}\n.. {directive}\n```\n"
        yield module, text
    overview.append("\n```{toctree}\n:hidden:\n:glob:\n\ndpstream.*\n```\n")
    yield "index", "\n".join(overview)


def error_page() -> str:
    """Return the page of errors: what each means, what it says, what else it can be caught as, its fields."""
    errors = importlib.import_module("dpstream.errors")
    parts = [
        "# Errors\n\nEvery error that is raised on purpose is a `dpstream.errors.DpstreamError`, one class for each"
        " meaning. A refused call has changed nothing: the state is what it was before the call. On the command line"
        " the same sentence is printed in one line, with exit status 2.\n\nUnder each error: when it is raised, then"
        " what it says, which ends with what to do. Words in braces are the error's fields, which are attributes of the"
        " exception.\n"
    ]
    for name in errors.__all__:
        kind = getattr(errors, name)
        bases = [base.__name__ for base in kind.__mro__[1:-1] if base.__name__[0] != "_"]
        bases = [base for base in bases if base not in ("Exception", "BaseException", "Warning")]
        parts.append(f"## {name}\n\n{first_line(kind, name)}\n")
        if said := _message(kind):
            parts.append("```text\n" + "\n".join(textwrap.wrap(said, 92)) + "\n```\n")
        caught = ", ".join(f"`{base}`" for base in bases)
        if caught:
            parts.append(f"Is also caught as {caught}.\n")
    return "\n".join(parts)


def _message(kind: Any) -> str:
    """What an error says: its fields in braces, or an example where a sentence depends on them."""
    message = getattr(kind, "message", "")
    if message:
        return re.sub(r"\{(\w+)(?:![ra])?(?::[^}]*)?\}", r"{\1}", message)
    if "describe" not in vars(kind):
        return ""
    fields = {name: _sample(name, str(told)) for name, told in _annotations(kind).items()}
    return str(kind(**fields))


def _annotations(kind: Any) -> dict[str, Any]:
    fields: dict[str, Any] = {}
    for base in reversed(kind.__mro__):
        fields |= {n: told for n, told in inspect.get_annotations(base).items() if n in kind.field_names}
    return fields


def _sample(name: str, told: str) -> object:
    """A value for a field of this annotation."""
    if name == "missing":  # names of settings, which the sentence explains
        return ["time", "end"]
    if told.startswith("dict"):
        return {"Binary": "too long"}
    if told.startswith(("list", "tuple[str", "Sequence")):
        return ["a", "b"]
    if told.startswith(("int", "float")):
        return 7
    return True if told.startswith("bool") else f"{{{name}}}"


def command_pages() -> Iterator[tuple[str, str]]:
    """Yield the name and the text of the page of every command."""
    app = importlib.import_module("dpstream.cli.app")
    overview = [
        "# Commands\n\nWhat `dpstream COMMAND --help` says. [The command line](../../command-line.md) explains how the"
        " commands work together and what `count` needs to know.\n\n| command | |\n|---|---|"
    ]
    pages = []
    for name, what in app.COMMANDS.items():
        overview.append(f"| [`dpstream {name}`](command-{name}.md) | {what} |")
        command = app.load(name)
        pages.append((f"command-{name}", _command(f"dpstream {name}", command)))
    overview.append("\n## Exit status\n\n| status | means |\n|---|---|")
    for status, meaning in exit_statuses(app):
        overview.append(f"| {status} | {meaning} |")
    overview.append("\n```{toctree}\n:hidden:\n:glob:\n\ncommand-*\n```\n")
    yield "commands", "\n".join(overview)
    yield from pages


def exit_statuses(app: Any) -> list[tuple[int, str]]:
    """Return every exit status and its meaning, as app.py has them."""
    return [
        (0, "done"),
        (app.FOUND_WRONG, "something that was checked is wrong (`audit`, `store verify`)"),
        (app.BAD_INPUT, "something was refused, in one line on standard error; nothing was written or spent"),
        (app.FEW_STEPS_LEFT, "done, but fewer steps are left than `--warn-below`"),
        (
            app.NOT_WRITTEN,
            "steps were released, but the result could not be written (a full disk); the message says how to read"
            " them again",
        ),
        (app.INTERRUPTED, "interrupted (Ctrl-C); the message says what is safe and how to go on"),
    ]


def _command(name: str, command: Any) -> str:
    parts = [f"# {name}\n"]
    if hasattr(command, "commands"):
        parts.append(f"{command.help or ''}\n")
        for word, sub in command.commands.items():
            parts.append(_described(f"{name} {word}", sub, "##"))
    else:
        parts.append(_described(name, command, ""))
    return "\n".join(parts)


def _described(name: str, command: Any, heading: str) -> str:
    parts = [f"{heading} {name}\n"] if heading else []
    for paragraph in (command.help or "").strip().split("\n\n"):
        words = paragraph.strip()
        if example := re.match(r"Example: (.*)", words, re.DOTALL):
            lines = [line.strip() for line in example[1].splitlines()]
            joined = " ".join(line.removesuffix("\\").strip() for line in lines)
            parts.append("```console\n$ " + " \\\n    ".join(_wrapped(joined)) + "\n```\n")
        else:
            parts.append(_escaped(" ".join(words.split())) + "\n")
    panels: dict[str, list[str]] = {}
    for parameter in command.params:
        if parameter.name == "help":
            continue
        panel = getattr(parameter, "rich_help_panel", None) or (
            "Arguments" if parameter.param_type_name == "argument" else "Options"
        )
        panels.setdefault(panel, []).append(_parameter(parameter))
    for panel, lines in panels.items():
        parts.append(f"**{panel}**\n\n" + "\n".join(lines))
    return "\n".join(parts)


def _wrapped(example: str) -> list[str]:
    """An example in pieces of at most 84 characters, cut before an option."""
    pieces = [""]
    for word in re.split(r" (?=--)", example):
        if pieces[-1] and len(pieces[-1]) + len(word) > 84:
            pieces.append(word)
        else:
            pieces[-1] = f"{pieces[-1]} {word}".strip()
    return pieces


def _parameter(parameter: Any) -> str:
    named = ", ".join(f"`{option}`" for option in [*parameter.opts, *parameter.secondary_opts])
    if parameter.param_type_name == "argument":
        named = f"`{(parameter.metavar or parameter.name).upper()}`"
    elif not getattr(parameter, "is_flag", False) and parameter.type_descriptor.annotation is not bool:
        metavar = parameter.metavar or _kind(parameter)
        named += f" `{metavar}`"
    told = _escaped(" ".join((parameter.help or "").split()))
    default = parameter.default
    if default not in (None, False, (), []) and not callable(default) and parameter.param_type_name == "option":
        told += f" Default: `{default}`."
    return f"{named}\n: {told}\n"


def _kind(parameter: Any) -> str:
    """What is to be typed after an option: N, NUMBER, FILE, TEXT, or one of several words."""
    kind = parameter.type_descriptor.annotation
    if get_origin(kind) is Literal:
        return "|".join(map(str, get_args(kind)))
    inner = next((one for one in get_args(kind) if one is not type(None)), kind)
    return {int: "N", float: "NUMBER", Path: "FILE"}.get(inner, "TEXT")


def _escaped(words: str) -> str:
    """Help texts are plain text: what Markdown would take for markup is escaped, and --options are code."""
    words = re.sub(r"([\\*_<>\[\]])", r"\\\1", words)
    return re.sub(r"(?<![\w`-])(--[a-z][a-z-]*)", lambda found: f"`{found[1]}`", words)


def write_reference(_app: Sphinx) -> None:
    """Write all generated pages, and remove those that are no more."""
    pages = {**dict(api_pages()), "errors": error_page(), **dict(command_pages())}
    TARGET.mkdir(parents=True, exist_ok=True)
    for name, text in pages.items():
        target = TARGET / f"{name}.md"
        if not target.exists() or target.read_text() != text:
            target.write_text(text)
    for path in TARGET.glob("*.md"):
        if path.stem not in pages:
            path.unlink()


def mend_docstring(_app: Sphinx, _what: str, _name: str, _item: Any, _options: Any, lines: list[str]) -> None:
    """Make a docstring good reStructuredText: code after a colon, an end for lists, |x| is no substitution."""
    mended: list[str] = []
    in_list = False
    for line, after, later in zip(lines, [*lines[1:], ""], [*lines[2:], "", ""], strict=True):
        if line.endswith(":") and not line.endswith("::") and not after and later.startswith("    "):
            line += ":"  # what is indented after a colon is code
        starts = re.match(r"\s*(\*|-|·) ", line)
        if in_list and line.strip() and not starts and not line.startswith("  "):
            mended.append("")
            in_list = False
        in_list = bool(starts) or (in_list and bool(line.strip()))
        in_code = line.lstrip().startswith((">>>", "..."))
        mended.append(line if in_code else re.sub(r"(?<![`\\])\|(?=\w+\|)", r"\\|", line))
    lines[:] = mended


def setup(app: Sphinx) -> dict[str, Any]:
    """Write the pages before Sphinx looks for them."""
    app.connect("builder-inited", write_reference, priority=100)
    app.connect("autodoc-process-docstring", mend_docstring, priority=100)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
