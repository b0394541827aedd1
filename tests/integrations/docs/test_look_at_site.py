"""What looks at the built site sees what is wrong with a page, and nothing wrong with a good one."""

import sys
from pathlib import Path

import pytest

DOCS = Path(__file__).parents[3] / "docs"
sys.path.insert(0, str(DOCS / "_ext"))

from look_at_site import look, read_site  # noqa: E402

GOOD = (
    '<!doctype html><html lang="en"><head><title>{title}</title><meta name="viewport" content="width=device-width">'
    '<link rel="icon" href="data:,"></head>'
    '<body style="background: white; color: black"><article><h1 id="top">{title}</h1>{body}</article></body></html>'
)
SEARCH = '<div id="search-results"><ul><li>found</li></ul></div>'


@pytest.fixture
def site(tmp_path):
    def make(body):
        (tmp_path / "index.html").write_text(GOOD.format(title="Good", body='<p><a href="page.html#top">on</a></p>'))
        (tmp_path / "page.html").write_text(GOOD.format(title="Page", body=body))
        (tmp_path / "search.html").write_text(GOOD.format(title="Search", body=SEARCH))
        return tmp_path

    return make


@pytest.mark.parametrize(
    ("body", "said"),
    [
        ('<a href="gone.html">x</a>', "page.html: leads nowhere: gone.html"),
        ('<a href="index.html#gone">x</a>', "page.html: no such place: index.html#gone"),
        ('<img src="search.html">', "page.html: a picture without a text"),
        ("<h1>again</h1>", "page.html: 2 main headings"),
        ('<p style="color: #aaa">pale</p>', "page.html (wide): contrast 2.32"),
        ('<p style="width: 900px; background: #eee">wide</p>', "page.html (narrow): wider than the screen"),
        ("<script>console.error('oh')</script>", "page.html (wide): oh"),
        ('<img src="http://127.0.0.2:9/x.png" alt="from elsewhere">', "asks another host: http://127.0.0.2:9/x.png"),
    ],
)
def test_what_is_wrong_is_seen(site, body, said):
    folder = site(body)
    _, wrong, _ = read_site(folder)
    wrong += look(folder, ["page.html"], None)
    assert [problem for problem in wrong if said in problem], wrong


def test_good_pages_pass(site):
    folder = site('<p>Text, <a href="https://example.org/">outside</a>.</p>')
    pages, wrong, outside = read_site(folder)
    assert (sorted(pages), wrong, outside) == (["index.html", "page.html", "search.html"], [], {"https://example.org/"})
    assert look(folder, ["index.html", "page.html"], None) == []
