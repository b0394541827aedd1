"""Figures 1 to 5: what the paper draws, from the code's own nodes and variances."""

import pytest

from dpstream.paper import figure_1, figure_2, figure_3, figure_4a, figure_4b, figure_5a, figure_5b
from dpstream.paper.parts import PARTS


def ignore(share):
    assert 0 <= share <= 1


def nodes(rows, role):
    return [(row["first"], row["last"]) for row in rows if row["role"] == role]


def test_figure_1_adds_the_paper_s_nodes():
    rows = [row for row in figure_1.compute(True, ignore).rows if row["pane"] == "b"]
    assert nodes(rows, "added") == figure_1.PUBLISHED == [(1, 4), (5, 6)]
    assert nodes(rows, "path") == [(1, 8), (5, 8), (7, 8), (7, 7)]
    assert [row["holds"] for row in rows if row["label"]] == ["x1", "x2", "x3", "x4", "x5", "x6", "x7", "0"]
    read = {(row["first"], row["last"]) for row in rows if row["read"] == "yes"}
    assert read == {(1, 1), (1, 2), (1, 4), (3, 3), (5, 5), (5, 6), (7, 7)}


def test_figure_2_adds_the_paper_s_nodes():
    data = figure_2.compute(True, ignore)
    assert nodes(data.rows, "added") == figure_2.PUBLISHED == [(1, 8), (9, 12)]
    assert nodes(data.rows, "path") == [(1, 16), (9, 16), (13, 16), (13, 14), (13, 13)]
    leaves = {row["label"]: row["holds"] for row in data.rows if row["label"] and row["holds"] != "0"}
    assert leaves == {"0011": "x1", "0101": "x2", "0110": "x3", "1001": "x4", "1010": "x5"}


@pytest.mark.parametrize("figure", [figure_1, figure_2])
def test_other_nodes_than_the_paper_s_are_not_called_the_same(figure, monkeypatch):
    assert "the paper has the same nodes" in figure.compute(True, ignore).findings[0]
    monkeypatch.setattr(figure, "PUBLISHED", [(1, 2)])
    assert "the paper has [(1, 2)]" in figure.compute(True, ignore).findings[0]


def test_figure_3_is_a_step_of_the_label():
    data = figure_3.compute(True, ignore)
    before, after = ([row for row in data.rows if row["label"] == label] for label in ("m(t+1)", "m(t+2)"))
    values = [int("".join(str(row["value"]) for row in rows), 2) for rows in (before, after)]
    assert values[0] < values[1]
    assert values[0].bit_count() == values[1].bit_count()
    assert [row["value"] for row in before if row["role"] == "ones"] == [1, 1, 1]
    assert [row["value"] for row in after if row["role"] == "ones"] == [1, 1]
    assert all(row["value"] == 0 for row in (*before, *after) if row["role"] == "zeros")
    assert "In 922 of the 922 steps" in data.findings[1]


def test_figure_4a_is_flat_for_smooth_trees_only():
    rows = figure_4a.compute(True, ignore).rows
    values = {
        title: [row["V"] for row in rows if row["mechanism"] == title] for title in {r["mechanism"] for r in rows}
    }
    assert values["Smooth binary (the paper's)"] == pytest.approx([25.0] * 250)
    assert values["Binary mechanism"] == pytest.approx([8.0 * t.bit_count() for t in range(1, 251)])
    assert max(values["Leaner smooth tree (ours)"]) == pytest.approx(min(values["Leaner smooth tree (ours)"]))
    assert 16.7 < max(values["Leaner smooth tree (ours)"]) < 16.8


@pytest.mark.heavy
def test_figure_4b_has_the_factor_of_the_paper():
    data = figure_4b.compute(True, ignore)
    last = {row["mechanism"]: row["V"] for row in data.rows if row["T"] == figure_4b.LAST}
    assert last["Binary mechanism"] == pytest.approx(552)
    assert last["Smooth binary (the paper's)"] == pytest.approx(169)
    assert "a factor of 3.27. The paper states 3.27: the same." in data.findings[0]
    for title in last:
        curve = [row["V"] for row in data.rows if row["mechanism"] == title]
        assert curve == sorted(curve)


def test_figure_5a_has_five_runs_of_every_method():
    data = figure_5a.compute(True, ignore)
    for title in figure_5a.METHODS:
        for horizon in (8, 32, 128):
            times = [row["us_per_input"] for row in data.rows if row["method"] == title and row["T"] == horizon]
            assert len(times) == 5
            assert min(times) > 0


def test_figure_5b_counts_what_is_held():
    rows = figure_5b.compute(True, ignore).rows
    held = {(row["method"], row["T"]): row["numbers"] for row in rows}
    assert held[figure_5b.PLAIN, 1024] == 8  # seven nodes and the running total
    assert held["Smooth binary (ours)", 1024] == 8
    assert held["Binary (ours)", 1024] == 10
    assert held["Buffered Toeplitz (ours)", 1024] == 4
    assert held[figure_5b.AT_ONCE, 1024] > 3 * 1024


def test_parts_have_different_names_and_say_what_the_paper_says():
    assert len({part.key for part in PARTS}) == len({part.title for part in PARTS}) == len(PARTS) == 11
    assert all(part.paper and part.caption for part in PARTS)
