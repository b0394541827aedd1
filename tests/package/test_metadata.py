"""What an index and a packager see: the version, the text, the files of the sdist."""

import importlib.util
import re
import tomllib
from pathlib import Path

import pytest

import dpstream

ROOT = Path(__file__).parents[2]
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
RELATIVE_LINK = re.compile(r"\]\((?!\w+:|#)")


def test_one_version():
    assert PROJECT["version"] == dpstream.__version__
    assert f"\n## [{dpstream.__version__}] - 20" in (ROOT / "CHANGELOG.md").read_text()


@pytest.fixture
def setup():
    spec = importlib.util.spec_from_file_location("setup_of_dpstream", ROOT / "setup.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_the_text_for_indexes_has_no_relative_links(setup):
    assert RELATIVE_LINK.search((ROOT / "README.md").read_text()), "nothing to replace"
    text = setup.text_for_indexes()
    assert not RELATIVE_LINK.search(text)
    assert len(text.splitlines()) == len((ROOT / "README.md").read_text().splitlines())


def test_links_lead_to_the_repository_where_one_is_named(setup, tmp_path, monkeypatch):
    monkeypatch.setattr(setup, "HERE", tmp_path)
    (tmp_path / "README.md").write_text("[a](docs/a.md#b), [docs/a.md](docs/a.md), [c](https://c), ![d](d.svg)\n")
    (tmp_path / "pyproject.toml").write_text("[project]\n")
    assert setup.text_for_indexes() == "a (`docs/a.md`), `docs/a.md`, [c](https://c), d (`d.svg`)\n"
    (tmp_path / "pyproject.toml").write_text('[project.urls]\nRepository = "https://host/dpstream/"\n')
    at = "https://host/dpstream/blob/main/docs/a.md"
    assert (
        setup.text_for_indexes()
        == f"[a]({at}#b), [docs/a.md]({at}), [c](https://c), ![d](https://host/dpstream/raw/main/d.svg)\n"
    )


def test_a_learners_installation_is_four_libraries():
    names = {re.match(r"[\w-]+", text)[0] for text in PROJECT["dependencies"]}
    assert names == {"numpy", "scipy", "cryptography", "python-flint"}


def test_every_file_of_the_project_is_in_the_sdist():
    """MANIFEST.in grafts whole folders: a new folder at the top has to be named there."""
    manifest = (ROOT / "MANIFEST.in").read_text()
    made = {"build", "dist", "output"}
    folders = {path.name for path in ROOT.iterdir() if path.is_dir() and not path.name.startswith((".", "_"))} - made
    assert {"docs", "src", "tests"} <= folders
    assert {folder for folder in folders if f"graft {folder}\n" not in manifest} == set()
