"""`dpstream count FILE --store s.db`: the stream in the store knows its settings."""

import dpstream as dp
from tests.cli.test_count import count, counted, narrow_terminal  # noqa: F401
from tests.cli.test_count_refusals import refused
from tests.cli.test_count_store import folder, path, state  # noqa: F401

FIRST = "when,ward,who,n\n01/01/2026,north,ann,1\n01/01/2026,south,bob,2\n02/01/2026,south,bob,2\n"
SECOND = "when,ward,who,n\n03/01/2026,north,cid,1\n03/01/2026,south,bob,2\n03/01/2026,west,dan,3\n"
SETTINGS = (
    *("--time", "when", "--time-format", "%d/%m/%Y", "--time-zone", "Europe/Vienna", "--from", "2026-01-01"),
    *("--value", "n", "--per-person", 3, "--by", "ward", "--values", "north,south", "--undeclared", "other"),
    *("--user", "who", "--max-contributions", 2, "--max-users", 70, "--confidence", 0.8),
    *("--epsilon", 1, "--delta", 1e-6, "--until", "2026-12-31", "--mechanism", "SmoothBinary"),
)


def test_continuing_needs_no_options(folder):  # noqa: F811
    for store in ("all.db", "none.db"):
        log = folder / f"first of {store}.csv"
        log.write_text(FIRST)
        arguments = (log, "--store", folder / store, "--through", "2026-01-02")
        assert len(counted(*arguments, *SETTINGS, "--name", "visits")) == 6
        log = folder / f"second of {store}.csv"
        log.write_text(SECOND)
        again = (*SETTINGS, "--name", "visits") if store == "all.db" else ()
        rows = counted(log, "--store", folder / store, "--through", "2026-01-03", *again)
        assert [row["start"] for row in rows] == ["2026-01-03"] * 3  # only what is new
        # Bob's limit was used up.
        assert state(folder / store, "visits")[0].tolist() == [[1, 2, 0], [0, 2, 0], [1, 0, 3]]
        with dp.Store(folder / store) as opened:
            (info,) = opened.streams()
            kept = opened.settings("visits")
        if store == "all.db":
            given = info.source, kept
    assert (info.source, kept) == given


def test_an_option_that_disagrees_is_refused_with_both_values(folder):  # noqa: F811
    store, log = folder / "s.db", folder / "log.csv"
    log.write_text(FIRST)
    counted(log, "--store", store, "--through", "2026-01-02", *SETTINGS)
    log = folder / "second.csv"
    log.write_text(SECOND)
    for options, message in (
        (("--values", "north,east"), "created with --values north,south, but --values north,east was given"),
        (("--max-contributions", 3), "created with --max-contributions 2, but --max-contributions 3 was given"),
        (("--per-person", 4), "created with --per-person 3, but --per-person 4 was given"),
        (("--rho", 1), "created with --epsilon 1.0 --delta 1e-06, but --rho 1"),
        (("--epsilon", 2), "created with --epsilon 1.0 --delta 1e-06, but --epsilon 2"),
        (("--horizon", 3), "created with --horizon 365, but --horizon 3 was given"),
        (("--unbounded",), "created with --horizon 365, but --unbounded was given"),
    ):
        refused(count(log, "--store", store, "--through", "2026-01-03", *options), message)
    assert len(state(store)[1]) == 2
    # What says how files are read and results are shown may be given anew.
    assert counted(log, "--store", store, "--through", "2026-01-03", "--time-format", "%d/%m/%Y", "--confidence", 0.9)


def test_several_streams_need_a_name(folder):  # noqa: F811
    store, log = folder / "s.db", folder / "log.csv"
    log.write_text(FIRST)
    through = ("--store", store, "--through", "2026-01-02")
    for name in ("a", "b"):
        counted(log, *through, *SETTINGS, "--name", name)
    refused(count(log, *through), "--name must be given where there are several streams: a, b, or a new one")
    assert len(counted(log, *through, "--name", "b", "--all")) == 6
    message = "three things are missing: which column says when a row happened"
    refused(count(log, *through, "--name", "c"), message)


def test_a_store_without_streams_says_what_is_missing(folder):  # noqa: F811
    dp.Store(folder / "s.db").close()
    (folder / "log.csv").write_text(FIRST)
    refused(count(folder / "log.csv", "--store", folder / "s.db"), "three things are missing")
