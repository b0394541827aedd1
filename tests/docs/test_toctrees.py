"""Every page of the site is listed in a table of contents and has a title of its own, or `make docs` would fail."""

import re
from pathlib import Path

DOCS = Path(__file__).parents[2] / "docs"
NOT_PAGES = ("_ext", "_generated", "_static", "recorded")


def unlisted(docs):
    pages = [path for path in docs.rglob("*.md") if path.relative_to(docs).parts[0] not in NOT_PAGES]
    listed = {docs / "index.md"}
    for page in pages:
        for body in re.findall(r"^```\{toctree\}\n(.*?)^```", page.read_text(), re.MULTILINE | re.DOTALL):
            for line in body.splitlines():
                if line and not line.startswith(":"):
                    target = (page.parent / f"{line}.md").resolve()
                    listed.update(target.parent.glob(target.name))
    return sorted(path.relative_to(docs).as_posix() for path in pages if path not in listed)


def test_every_page_is_listed():
    assert [name for name in unlisted(DOCS) if not name.startswith("reference/api/")] == []  # generated at the build


def test_titles_differ():
    titles = {}
    for page in sorted(DOCS.rglob("*.md")):
        if page.relative_to(DOCS).parts[0] not in NOT_PAGES and (
            found := re.search(r"^# (.+)", page.read_text(), re.M)
        ):
            titles.setdefault(found[1], []).append(page.relative_to(DOCS).as_posix())
    assert {title: pages for title, pages in titles.items() if len(pages) > 1} == {}


def test_a_page_that_nobody_lists_is_found(tmp_path):
    (tmp_path / "part").mkdir()
    (tmp_path / "index.md").write_text("# Site\n\n```{toctree}\n:glob:\n:hidden:\n\npart/[ab]*\n```\n")
    for name in ("a", "b", "c"):
        (tmp_path / "part" / f"{name}.md").write_text(f"# {name}\n")
    assert unlisted(tmp_path) == ["part/c.md"]
