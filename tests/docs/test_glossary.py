"""Links into the glossary lead somewhere, and the glossary has every word that the design lists."""

import re
from pathlib import Path

import pytest

DOCS = Path(__file__).parents[2] / "docs"
GLOSSARY = DOCS / "glossary.md"
TERMS = re.findall(r"^## (.+)$", GLOSSARY.read_text(), re.MULTILINE)
ANCHORS = {term.lower().replace(" ", "-") for term in TERMS}


@pytest.mark.parametrize("page", sorted(DOCS.rglob("*.md")), ids=lambda page: page.name)
def test_links_to_the_glossary_lead_to_a_word(page):
    text = page.read_text()
    linked = re.findall(r"glossary\.md#([\w-]+)", text)
    if page == GLOSSARY:
        linked += re.findall(r"\]\(#([\w-]+)\)", text)
    assert set(linked) <= ANCHORS


def test_words_are_in_order_and_each_is_explained():
    assert sorted(TERMS, key=str.lower) == TERMS
    explained = re.split(r"^## .+$", GLOSSARY.read_text(), flags=re.MULTILINE)[1:]
    assert [term for term, text in zip(TERMS, explained, strict=True) if len(text.split()) < 5] == []


def test_the_words_of_the_design_are_explained():
    words = (
        "step release horizon budget epsilon delta rho zcdp neighbouring-data per-person per-step sensitivity"
        " mechanism window bar late-row open-step closed-step store key audit participation stream settings"
    )
    assert set(words.split()) <= ANCHORS
