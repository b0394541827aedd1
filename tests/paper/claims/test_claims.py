"""All claims together: complete, serialisable, drawn from their rows alone, and with the verdicts known today."""

import json
import math
from dataclasses import asdict

import pytest

from dpstream.paper.claims import CLAIMS
from dpstream.paper.model import Claim, column, judge

VERDICTS = {
    "unbounded": "sharpened",
    "theorem-1.1": "sharpened",
    "table-1": "sharpened",
    "honaker-time": "sharpened",
    "lemma-2.5": "agrees",
    "zcdp-to-approx-dp": "sharpened",
    "binary-costs": "agrees",
    "factorisation": "sharpened",
    "proposition-3.1": "sharpened",
    "proposition-3.2": "agrees",
    "theorem-3.3": "agrees",
    "algorithm-2": "sharpened",
    "sensitivity-of-releases": "sharpened",
    "choice-of-k": "sharpened",
    "height": "sharpened",
    "lemma-3.4": "differs",
    "lemma-3.5": "sharpened",
    "lemma-3.6": "sharpened",
    "same-law": "sharpened",
    "figure-4": "sharpened",
    "fresh-noise": "sharpened",
    "pure-dp": "sharpened",
    "appendix-b": "sharpened",
}


def test_verdicts(claims):
    assert {key: claim.verdict for key, claim in claims.items()} == VERDICTS


@pytest.mark.parametrize("maker", CLAIMS, ids=lambda maker: maker.key)
def test_a_claim_is_whole(maker, claims):
    claim = claims[maker.key]
    assert (claim.key, claim.title) == (maker.key, maker.title)
    assert claim.statement.endswith((".", ")"))
    assert claim.computed.endswith(".")
    assert (claim.verdict == "agrees") == (claim.sharper == "")
    assert "nan" not in claim.computed + claim.sharper
    assert len({tuple(row) for row in claim.rows}) == 1, "rows of one table have the same columns"
    types = [{type(row[name]) for row in claim.rows} for name in claim.rows[0]]
    assert all(len(found) == 1 and found <= {str, int, float} for found in types)
    assert all(math.isfinite(value) for row in claim.rows for value in row.values() if isinstance(value, float))


@pytest.mark.parametrize("maker", [maker for maker in CLAIMS if maker.draw], ids=lambda maker: maker.key)
def test_a_picture_needs_the_rows_alone(maker, claims):
    stored = json.loads(json.dumps(asdict(claims[maker.key]), allow_nan=False))
    figure = maker.draw(Claim(**stored | {"statement": "", "computed": "", "sharper": ""}))
    axes = figure.axes[0]
    assert axes.lines
    assert axes.get_xlabel()
    assert axes.get_ylabel()


def test_judging():
    assert judge(True) == "agrees"
    assert judge(True, "more") == "sharpened"
    assert judge(False) == judge(False, "instead") == "differs"
    assert column([{"a": 1, "b": "x"}, {"a": 2.5, "b": "y"}], "a") == [1.0, 2.5]
