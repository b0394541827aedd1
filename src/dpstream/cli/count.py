"""`dpstream count`: its options. What they do is in count_run.py, which is loaded when they make sense."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import typer

from dpstream.cli.budget_options import Delta, Epsilon, Rho
from dpstream.cli.whole_command import what_is_missing
from dpstream.errors import DpstreamError
from dpstream.events.count_settings import ENDS, continued, missing, read_settings

__all__ = ["count"]

READ, STEPS, PEOPLE, WRITE = "What is counted", "Steps and releases", "People", "Where it goes"
DAILY = "Day by day, with a store"


def count(
    files: Annotated[
        list[str] | None,
        typer.Argument(help="CSV, JSON lines, Parquet or Excel files; - or none: standard input."),
    ] = None,
    value: Annotated[
        str | None,
        typer.Option(help="Sum this column of amounts instead of counting rows.", rich_help_panel=READ),
    ] = None,
    per_person: Annotated[
        str | None,
        typer.Option(
            help="The largest size of a --value, such as 200; larger ones are refused. With --user: of each row that is"
            " counted.",
            rich_help_panel=READ,
        ),
    ] = None,
    unit: Annotated[
        str | None,
        typer.Option(
            help="The smallest difference between amounts: 0.01 for cents; 1 if left out.", rich_help_panel=READ
        ),
    ] = None,
    decimal: Annotated[
        str | None,
        typer.Option(help="What stands before the fraction of an amount: . (if left out) or ,", rich_help_panel=READ),
    ] = None,
    clip: Annotated[
        bool, typer.Option("--clip", help="Count larger amounts as --per-person.", rich_help_panel=READ)
    ] = False,
    by: Annotated[
        str | None, typer.Option(help="One total for each category in this column.", rich_help_panel=READ)
    ] = None,
    categories: Annotated[
        str | None,
        typer.Option("--values", help="The categories there are: a,b,c or 'a,\"b, c\"'.", rich_help_panel=READ),
    ] = None,
    values_file: Annotated[
        Path | None, typer.Option(help="The categories there are, one a line.", rich_help_panel=READ)
    ] = None,
    undeclared: Annotated[
        str | None,
        typer.Option(
            help="Other categories: refuse them (if left out), or count them as other. Empty cells: see --missing.",
            rich_help_panel=READ,
        ),
    ] = None,
    discover: Annotated[
        bool,
        typer.Option(
            "--discover",
            help="With --by: count by names that nobody listed beforehand, each published once enough users have"
            " brought it; --values are names that are public. Needs --user, --names-per-person and a --delta.",
            rich_help_panel=READ,
        ),
    ] = False,
    where: Annotated[
        list[str] | None,
        typer.Option(
            metavar="COLUMN=VALUE",
            help="Count only rows that have this value; may be given several times. A rule that everybody may know.",
            rich_help_panel=READ,
        ),
    ] = None,
    missing: Annotated[
        str | None,
        typer.Option(
            help="Rows with an empty cell (also NA, null, -): refuse them (if left out), skip them, or a category or"
            " an amount to count them as.",
            rich_help_panel=READ,
        ),
    ] = None,
    file_format: Annotated[
        str | None,
        typer.Option(
            "--format",
            help="csv, tsv, jsonl, parquet or xlsx; by default the file's ending says it.",
            rich_help_panel=READ,
        ),
    ] = None,
    delimiter: Annotated[
        str | None,
        typer.Option(
            help="What stands between fields: ; or tab, ...; by default it is recognised.", rich_help_panel=READ
        ),
    ] = None,
    encoding: Annotated[
        str | None,
        typer.Option(
            help="How characters are written: utf-8 (by default), cp1252, latin-1, utf-16.", rich_help_panel=READ
        ),
    ] = None,
    sheet: Annotated[
        str | None, typer.Option(help="The sheet of an Excel file; the first if left out.", rich_help_panel=READ)
    ] = None,
    time: Annotated[
        str | None,
        typer.Option(help="The column that says when a row happened.", rich_help_panel=STEPS),
    ] = None,
    every: Annotated[
        str | None,
        typer.Option(help="How long a step is: 15m, 1h, 1d, 1w, 1mo, ...; 1d if left out.", rich_help_panel=STEPS),
    ] = None,
    time_format: Annotated[
        str | None,
        typer.Option(
            help="How timestamps are written: dd/mm/yyyy, 'mm/dd/yyyy hh:mm', %d/%m/%Y; s, ms or us for numbers since"
            " 1970. By default it is recognised.",
            rich_help_panel=STEPS,
        ),
    ] = None,
    time_zone: Annotated[
        str | None,
        typer.Option(
            help="Whose days and whose clock: Europe/Vienna, UTC, ... Of an hour that the clock shows twice, a time"
            " without an offset is taken to be in the first.",
            rich_help_panel=STEPS,
        ),
    ] = None,
    start: Annotated[
        str | None,
        typer.Option(
            "--from",
            help="The date of the first step. If left out, the first row's, which tells something about the data.",
            rich_help_panel=STEPS,
        ),
    ] = None,
    through: Annotated[
        str | None,
        typer.Option(
            help="Release every step up to this date (or yesterday, or now), with or without rows. If left out: with"
            " --store nothing is released; else, with --until, the last step that has ended, or the last row's, which"
            " tells something about the data.",
            rich_help_panel=STEPS,
        ),
    ] = None,
    any_order: Annotated[
        bool, typer.Option("--any-order", help="Rows may come in any order.", rich_help_panel=STEPS)
    ] = False,
    horizon: Annotated[
        int | None, typer.Option(help="How many steps there will ever be.", rich_help_panel=STEPS)
    ] = None,
    until: Annotated[
        str | None, typer.Option(help="The date of the last step there will ever be.", rich_help_panel=STEPS)
    ] = None,
    unbounded: Annotated[
        bool, typer.Option("--unbounded", help="There is no last step.", rich_help_panel=STEPS)
    ] = False,
    mechanism: Annotated[
        str | None,
        typer.Option(help="How noise is shared over time; the best is taken if left out.", rich_help_panel=STEPS),
    ] = None,
    confidence: Annotated[
        float | None,
        typer.Option(
            help="The chance that the number without noise is between low and high; 0.95 by default.",
            rich_help_panel=STEPS,
        ),
    ] = None,
    windows: Annotated[
        str | None,
        typer.Option(
            metavar="LENGTH,LENGTH,…",
            help="Also what was counted in the last so many days, weeks, months or steps up to each release: 1d,7d,1mo."
            " From the same releases, without further budget; the noise is fitted to them.",
            rich_help_panel=STEPS,
        ),
    ] = None,
    total: Annotated[
        bool,
        typer.Option(
            "--total",
            help="With --by: also the sum of all categories, as the category total.",
            rich_help_panel=READ,
        ),
    ] = False,
    non_negative: Annotated[
        bool,
        typer.Option(
            "--non-negative",
            help="Also a column in which values below 0 are 0. Its error bars are not exact.",
            rich_help_panel=STEPS,
        ),
    ] = False,
    monotone: Annotated[
        bool,
        typer.Option(
            "--monotone",
            help="Also a column with the largest total released so far, which never falls. Its error bars are not"
            " exact.",
            rich_help_panel=STEPS,
        ),
    ] = False,
    rho: Rho = None,
    epsilon: Epsilon = None,
    delta: Delta = None,
    user: Annotated[
        str | None,
        typer.Option(
            help="The column of user ids: protect people, not rows. White space around an id does not matter, 7.0 is"
            " 7, letter case does matter.",
            rich_help_panel=PEOPLE,
        ),
    ] = None,
    fold_case: Annotated[
        bool,
        typer.Option(
            "--user-fold-case", help="Ids that differ in letter case only are one user.", rich_help_panel=PEOPLE
        ),
    ] = False,
    max_contributions: Annotated[
        int | None,
        typer.Option(
            help="The number of rows of one user that are counted in the whole stream; further rows are not counted, so"
            " figures fall behind as users use up their limit.",
            rich_help_panel=PEOPLE,
        ),
    ] = None,
    names_per_person: Annotated[
        int | None,
        typer.Option(
            help="With --discover: the number of names of one user that count, over all steps.", rich_help_panel=PEOPLE
        ),
    ] = None,
    per_name: Annotated[
        int | None,
        typer.Option(
            help="With --discover: the number of rows of one user that count for one name; 1 if left out: people are"
            " counted.",
            rich_help_panel=PEOPLE,
        ),
    ] = None,
    max_pairs: Annotated[
        int | None,
        typer.Option(
            help="With --discover and --store: the number of pairs of a user and a name there is room for, 35 bytes"
            " each, and an eighth as many names; a million if left out.",
            rich_help_panel=PEOPLE,
        ),
    ] = None,
    max_users: Annotated[
        int | None,
        typer.Option(
            help="With --store: the number of users there is room for, 10 bytes each; a million if left out.",
            rich_help_panel=PEOPLE,
        ),
    ] = None,
    report_dropped: Annotated[
        float | None,
        typer.Option(help="Spend this much more ρ to say how many users had rows left out.", rich_help_panel=PEOPLE),
    ] = None,
    output: Annotated[
        Path | None,
        typer.Option(help="Write the releases to this .csv, .jsonl or .parquet file.", rich_help_panel=WRITE),
    ] = None,
    form: Annotated[
        str | None,
        typer.Option("--as", help="Standard output as csv, json, jsonl, parquet or table.", rich_help_panel=WRITE),
    ] = None,
    as_json: Annotated[
        bool, typer.Option("--json", help="Standard output as JSON lines.", rich_help_panel=WRITE)
    ] = False,
    plot: Annotated[
        Path | None,
        typer.Option(
            help="Draw what was counted in each day, week or month, with error bars, above the running total: .png,"
            " .svg, .pdf, or .html with a table.",
            rich_help_panel=WRITE,
        ),
    ] = None,
    protect_text: Annotated[
        Path | None,
        typer.Option(
            help="Write a paragraph to publish beside the figures: what is protected, how, how exact; and beside it"
            " the same as .json for OpenDP's registry of deployments.",
            rich_help_panel=WRITE,
        ),
    ] = None,
    title: Annotated[str | None, typer.Option(help="What stands above the picture.", rich_help_panel=WRITE)] = None,
    label: Annotated[
        str | None,
        typer.Option(help="What is counted, in a word for the picture: visits.", rich_help_panel=WRITE),
    ] = None,
    compare_with_truth: Annotated[
        bool,
        typer.Option(
            "--compare-with-truth",
            help="Draw the true figures as well. Never publish that picture.",
            rich_help_panel=WRITE,
        ),
    ] = False,
    store: Annotated[
        Path | None,
        typer.Option(
            help="A file that remembers the rows, the releases and the settings: tomorrow, give a file of new rows,"
            " --store and --through.",
            rich_help_panel=DAILY,
        ),
    ] = None,
    name: Annotated[
        str | None,
        typer.Option(help="The stream's name in the store, if it has several.", rich_help_panel=DAILY),
    ] = None,
    batch: Annotated[
        str | None,
        typer.Option(
            help="The name of a single file, or of what comes on standard input. dpstream counts each name once;"
            " default: the file's own name.",
            rich_help_panel=DAILY,
        ),
    ] = None,
    late: Annotated[
        str | None,
        typer.Option(
            help="Rows of steps that were released before: next (if left out) counts them in the next step, refuse"
            " stops, drop leaves them out.",
            rich_help_panel=DAILY,
        ),
    ] = None,
    whole_log: Annotated[
        bool,
        typer.Option(
            "--whole-log",
            help="Every run gets the whole log, not only new rows: rows of released steps are those counted before."
            " Needs --through.",
            rich_help_panel=DAILY,
        ),
    ] = False,
    everything: Annotated[
        bool,
        typer.Option("--all", help="Write all releases, not only those of this run.", rich_help_panel=DAILY),
    ] = False,
    warn_below: Annotated[
        int | None,
        typer.Option(help="Exit with status 3 if fewer steps than this are left.", rich_help_panel=DAILY),
    ] = None,
    settings_file: Annotated[
        Path | None,
        typer.Option(
            "--settings",
            help="A TOML file of options, such as dpstream init writes; those on the command line win.",
            rich_help_panel=WRITE,
        ),
    ] = None,
    quiet: Annotated[
        bool, typer.Option("--quiet", "-q", help="Print releases, warnings and errors only.", rich_help_panel=WRITE)
    ] = False,
    verbose: Annotated[
        bool, typer.Option("--verbose", "-v", help="Say how the mechanism was chosen.", rich_help_panel=WRITE)
    ] = False,
) -> None:
    """Publish private running totals of the events in a log.

    Each step (a day, an hour) releases the total so far with noise; all releases together keep the budget. Nothing is
    released before the whole input was read and found in order. Without --store every run draws fresh noise and spends
    the budget again.

    With --store, tomorrow's command is dpstream count FILE --store STORE --through now: the settings are kept. A file
    alone releases nothing: its rows wait in the store until --through releases their steps. There are two ways to work.
    Only new rows: give each file once, it is known by its name; late rows count in the next step. Or the whole log
    every time, with --whole-log: rows of released steps are left out.

    Exit status: 0 done; 2 refused, nothing written and nothing spent; 3 done, and fewer steps are left than
    --warn-below; 4 steps were released but the result could not be written; 130 interrupted.

    Example: dpstream count visits.csv --time when --from 2026-01-01 --until 2026-12-31 --epsilon 1 --delta 1e-6
    --store visits.db --through 2026-02-28

    Example: dpstream count visits.csv --time when --from 2026-01-01 --through 2026-02-28 --epsilon 1 --delta 1e-6
    --horizon 365

    Example: dpstream count visits.csv --time when --by ward --values north,south --rho 0.5 --from 2026-01-01
    --until 2026-12-31

    Example: dpstream count visits.csv --time when --from 2026-01-01 --through 2026-02-28 --user patient
    --max-contributions 3 --epsilon 1 --horizon 365

    Example: dpstream count visits.csv --time when --from 2026-01-01 --through 2026-02-28 --epsilon 1 --delta 1e-6
    --horizon 365 --windows 1d,7d,1mo

    Example: dpstream count visits.csv --time when --from 2026-01-01 --through 2026-02-28 --by ward --discover
    --user patient --names-per-person 2 --epsilon 2 --delta 1e-6 --horizon 365
    """
    given = {name: value for name, value in locals().items() if value is not None and value is not False}
    if settings_file is not None:
        given = with_settings_file(given, read_settings(settings_file))
    _check_complete(given)
    from dpstream.cli.count_run import CountCommand

    CountCommand.of(given).run()


def with_settings_file(given: dict[str, Any], read: dict[str, Any]) -> dict[str, Any]:
    """Return the options that were given, and of the settings file what they leave open."""
    own = {name: value for name, value in given.items() if name != "settings_file"}
    paths = {"store": Path(read["store"])} if "store" in read else {}
    if "values_file" in own:
        read = {name: value for name, value in read.items() if name != "categories"}
    return continued(own, read | paths)


def _check_complete(given: dict[str, Any]) -> None:
    """Refuse a command that lacks something, and name everything that it lacks."""
    ends = [f"--{end}" for end in ENDS if end in given]
    if len(ends) > 1:
        raise DpstreamError(f"give one of --horizon, --until and --unbounded, not {' and '.join(ends)}")
    if "store" in given and given["store"].exists():
        return  # which has the settings of a stream that is there
    lacking = missing(given)
    if lacking:
        raise DpstreamError(what_is_missing(lacking, given))
