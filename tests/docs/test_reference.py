"""The generated reference has every public name, every command with every option, and every error.

The generator needs Sphinx for its types only, and `make test` has no Sphinx: what it imports of it is replaced here.
"""

import sys
import types
from pathlib import Path

import pytest

from dpstream import errors
from dpstream.cli.app import COMMANDS, load

EXTENSIONS = Path(__file__).parents[2] / "docs" / "_ext"


@pytest.fixture(scope="module")
def reference():
    replaced = {"sphinx": {}, "sphinx.application": {"Sphinx": object}, "sphinx.errors": {"ExtensionError": ValueError}}
    with pytest.MonkeyPatch.context() as patch:
        for name, content in replaced.items():
            module = types.ModuleType(name)
            vars(module).update(content)
            patch.setitem(sys.modules, name, module)
        patch.syspath_prepend(str(EXTENSIONS))
        patch.delitem(sys.modules, "site_reference", raising=False)
        import site_reference

        yield site_reference
        sys.modules.pop("site_reference")


def test_every_public_name_has_a_place(reference):
    pages = dict(reference.api_pages())
    for module, names in reference.promised().items():
        for name in names:
            if module != "dpstream.errors":
                assert f"[`{name}`](" in pages["index"], (module, name)
    assert "autoclass:: dpstream.Counter" in pages["dpstream.Counter"]
    assert "autofunction:: dpstream.plan" in pages["dpstream.plan"]


def test_a_public_name_without_a_docstring_is_refused(reference):
    with pytest.raises(ValueError, match=r"dpstream\.nameless is public and has no docstring"):
        reference.first_line(lambda: None, "dpstream.nameless")


def test_every_error_says_something(reference):
    page = reference.error_page()
    in_one_line = " ".join(page.split())
    for name in errors.__all__:
        assert f"## {name}\n" in page
    assert "step {step} is past the horizon: this stream was built for {horizon} steps" in in_one_line
    assert "no mechanism fits {wanted}" in in_one_line


@pytest.mark.parametrize("name", COMMANDS)
def test_every_option_of_a_command_is_on_its_page(reference, name):
    page = dict(reference.command_pages())[f"command-{name}"]
    command = load(name)
    for sub in getattr(command, "commands", {"": command}).values():
        for parameter in sub.params:
            if parameter.name != "help" and parameter.param_type_name == "option":
                assert all(f"`{option}`" in page for option in parameter.opts), parameter.name


def test_docstrings_become_good_text(reference):
    lines = ["As in:", "", "    x = 1", "", "* one", "  more", "* two", "Then |d| is small, `|e|` not.", ">>> a |d| b"]
    reference.mend_docstring(None, "", "", None, None, lines)
    assert lines == [
        "As in::", "", "    x = 1", "", "* one", "  more", "* two", "",
        "Then \\|d| is small, `|e|` not.", ">>> a |d| b",
    ]  # fmt: skip
