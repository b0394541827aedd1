"""Files the way publishers have them, made up: offsets, amounts, milliseconds, spreadsheets, semicolons, blanks.

Each maker writes the file of a week and the file of the day after, and returns what happened, so that a count can be
held against it.
"""

import datetime as dt
import json
import random
from pathlib import Path
from typing import NamedTuple
from zoneinfo import ZoneInfo

import polars as pl
import xlsxwriter

#: A week in which clocks change, and a day that may be 4 January.
FIRST = dt.date(2025, 3, 25)
DAYS = 8
VIENNA = ZoneInfo("Europe/Vienna")


class Event(NamedTuple):
    """What happened: when by the clock on the wall, of what kind, worth how much (in hundredths), to whom."""

    when: dt.datetime
    kind: str
    worth: int
    who: int


def events(seed: int, kinds: tuple[str, ...], a_day: int = 300) -> list[Event]:
    """A week and a day of events, in order."""
    chance = random.Random(seed)  # noqa: S311
    found = []
    for day in range(DAYS):
        for _ in range(chance.randint(a_day // 2, a_day)):
            # From five in the morning on: after the hour that is left out when clocks change.
            seconds = chance.randrange(5 * 3600, 86_400)
            when = dt.datetime.combine(FIRST, dt.time()) + dt.timedelta(days=day, seconds=seconds)
            found.append(Event(when, chance.choice(kinds), round(chance.lognormvariate(8, 1)), chance.randint(1, 200)))
    return sorted(found)


def in_two_parts(rows: list[Event]) -> tuple[list[Event], list[Event]]:
    """The events of the week, and those of the day after."""
    last = FIRST + dt.timedelta(days=DAYS - 1)
    return [row for row in rows if row.when.date() < last], [row for row in rows if row.when.date() >= last]


def admissions(folder: Path) -> list[Event]:
    """CSV with offsets, as a hospital's system writes it, and a ward with a comma."""
    rows = events(1, ("A&E", "Surgery, general", "Cardiology"), a_day=120)
    for name, part in zip(("admissions.csv", "admissions-2025-04-01.csv"), in_two_parts(rows), strict=True):
        lines = [f'{row.when.replace(tzinfo=VIENNA).isoformat()},"{row.kind}",p{row.who:04}\n' for row in part]
        (folder / name).write_text("admitted_at,ward,patient\n" + "".join(lines))
    return rows


def sales(folder: Path) -> list[Event]:
    """Amounts such as 28.47, some far above the rest, and a refund."""
    rows = events(2, ("shop", "online"))
    rows[100] = rows[100]._replace(worth=125_000)
    rows[200] = rows[200]._replace(worth=-2847)
    for name, part in zip(("sales.csv", "sales-2025-04-01.csv"), in_two_parts(rows), strict=True):
        lines = [f"{row.when.date()},{row.kind},{row.worth / 100:.2f}\n" for row in part]
        (folder / name).write_text("date,channel,amount\n" + "".join(lines))
    return rows


def web(folder: Path) -> list[Event]:
    """JSON lines with milliseconds since 1970, as a web server logs."""
    rows = events(3, ("200", "200", "200", "404"))
    for name, part in zip(("web.jsonl", "web-2025-04-01.jsonl"), in_two_parts(rows), strict=True):
        lines = [
            json.dumps({"ts": round(row.when.replace(tzinfo=dt.UTC).timestamp() * 1000), "status": int(row.kind)})
            for row in part
        ]
        (folder / name).write_text("\n".join(lines) + "\n")
    return rows


def telemetry(folder: Path) -> list[Event]:
    """Parquet with typed columns; devices report again and again, and their first reports are returned."""
    rows = events(4, ("1.0", "2.0"))
    for name, part in zip(("telemetry.parquet", "telemetry-2025-04-01.parquet"), in_two_parts(rows), strict=True):
        frame = pl.DataFrame({"at": [row.when for row in part], "device": [row.who for row in part]})
        frame.with_columns(pl.col("at").dt.replace_time_zone("UTC")).write_parquet(folder / name)
    return list({row.who: row for row in reversed(rows)}.values())


def offices(folder: Path) -> list[Event]:
    """Semicolons, a byte order mark, decimal commas, dd/mm/yyyy, empty cells: an export made for a spreadsheet."""
    rows = events(5, ("Mitte", "Nord", "Süd"))
    chance = random.Random(5)  # noqa: S311
    counted = []
    for name, part in zip(("offices.csv", "offices-2025-04-01.csv"), in_two_parts(rows), strict=True):
        lines = ["Nr;Datum;Bezirk;Betrag\n"]
        for number, row in enumerate(part, start=1):
            cells = [str(number), f"{row.when:%d/%m/%Y}", row.kind, f"{row.worth / 100:.2f}".replace(".", ",")]
            if chance.random() < 0.02:
                cells[chance.choice((1, 2, 3))] = chance.choice(("", "NA", "-"))
            else:
                counted.append(row)
            lines.append(";".join(cells) + "\n")
        (folder / name).write_bytes("".join(lines).encode("utf-8-sig"))
    return counted


def till(folder: Path) -> list[Event]:
    """A messy one: Windows text, quoted fields, dd.mm.yyyy with times, tests of the till, and one of everything."""
    rows = events(6, ("Währing", "Döbling", "Favoriten; Süd"))
    chance = random.Random(6)  # noqa: S311
    counted = []
    for name, part in zip(("kassa.csv", "kassa-2025-04-01.csv"), in_two_parts(rows), strict=True):
        lines = ['"Zeit";"Filiale";"Art";"Betrag €"\r\n']
        for row in part:
            art = "Test" if chance.random() < 0.1 else "Verkauf"
            betrag = "n/a" if art == "Test" else f"{row.worth / 100:.2f}".replace(".", ",")
            lines.append(f'{row.when:%d.%m.%Y %H:%M:%S};"{row.kind}";{art};{betrag}\r\n')
            if art == "Verkauf":
                counted.append(row)
        (folder / name).write_bytes("".join(lines).encode("cp1252"))
    return counted


def bookings(folder: Path) -> list[Event]:
    """A workbook with a sheet of remarks, cells that are dates, and amounts that were computed."""
    rows = events(7, ("north", "south"))
    for name, part in zip(("bookings.xlsx", "bookings-2025-04-01.xlsx"), in_two_parts(rows), strict=True):
        with xlsxwriter.Workbook(folder / name) as book:
            book.add_worksheet("Remarks").write_row(0, 0, ["Bookings of all houses, by day"])
            sheet = book.add_worksheet("Bookings")
            day = book.add_format({"num_format": "dd/mm/yyyy"})
            sheet.write_row(0, 0, ["Day", "House", "Paid"])
            for line, row in enumerate(part, start=1):
                sheet.write_datetime(line, 0, dt.datetime.combine(row.when.date(), dt.time()), day)
                sheet.write_string(line, 1, row.kind)
                # In binary, as a sum of cells is: 37.800000000000004.
                sheet.write_number(line, 2, row.worth / 100 * 3 - row.worth / 100 * 2)
    return rows
