"""Makes the files that tutorials and how-to pages begin with: python -m tests.docs.make_files.

All of it is made up, by a generator with a fixed seed, so that the files are the same whenever they are made.
"""

import datetime as dt
import random
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

ROOT = Path(__file__).parents[2]

FIRST = dt.date(2026, 3, 2)  # a Monday
WEEK = (1.3, 1.1, 1.0, 1.0, 1.1, 0.7, 0.6)
WARDS = {"emergency": 45, "maternity": 10, "outpatient": 35, "surgery": 10}
HOURS = (1, 1, 1, 1, 1, 2, 3, 6, 9, 10, 10, 9, 8, 8, 8, 7, 7, 6, 6, 5, 4, 3, 2, 1)


class Visit(NamedTuple):
    """Somebody came: when, where, who, and what was paid in cents."""

    when: dt.datetime
    ward: str
    patient: str
    paid: int


def visits(seed: int, *, days: int = 7, a_day: int = 110) -> Iterator[list[Visit]]:
    """Make up the visits of each day, in order."""
    chance = random.Random(seed)  # noqa: S311
    for day in range(days):
        found = []
        for _ in range(round(a_day * WEEK[day % 7] * chance.uniform(0.9, 1.1))):
            hour = chance.choices(range(24), HOURS)[0]
            when = dt.datetime.combine(FIRST + dt.timedelta(days=day), dt.time(hour, chance.randrange(60)))
            ward = chance.choices(list(WARDS), list(WARDS.values()))[0]
            patient = f"p{int(3000 * chance.random() ** 1.7):04}"
            found.append(Visit(when, ward, patient, round(chance.lognormvariate(8, 0.8))))
        yield sorted(found)


def files() -> dict[Path, str]:
    """Return every file: its path and what is in it."""
    made = {}
    for rows in visits(1, a_day=300):
        lines = [f"{row.when:%d.%m.%Y %H:%M};{row.ward};{row.patient}\n" for row in rows]
        name = f"visits-{rows[0].when:%Y-%m-%d}.csv"
        made[ROOT / "docs" / "tutorials" / "first-week" / name] = "arrived;ward;patient\n" + "".join(lines)
    everything = []
    for rows in visits(2):
        lines = [f"{row.when.isoformat()},{row.ward},{row.patient}\n" for row in rows]
        everything += lines
        name = f"visits-{rows[0].when:%Y-%m-%d}.csv"
        made[ROOT / "docs" / "how-to" / "files" / name] = "when,ward,patient\n" + "".join(lines)
    made[ROOT / "docs" / "how-to" / "files" / "visits.csv"] = "when,ward,patient\n" + "".join(everything)
    amounts = [
        f"{row.when:%d/%m/%Y};{row.ward};{row.paid // 100},{row.paid % 100:02}\n" for rows in visits(3) for row in rows
    ]
    made[ROOT / "docs" / "how-to" / "files" / "payments.csv"] = "date;ward;paid\n" + "".join(amounts)
    chance = random.Random(4)  # noqa: S311
    terms = ["weather", "flu", "bus 42", "late pharmacy", "my own diary"]
    searches = []
    for day in range(3):
        for _ in range(500):
            when = dt.datetime.combine(FIRST + dt.timedelta(days=day), dt.time(chance.randrange(24)))
            term = chance.choices(terms, [50, 30, 15, 4.9, 0.1])[0]
            searches.append(f"{when.isoformat()},u{chance.randrange(900):03},{term}\n")
    made[ROOT / "docs" / "how-to" / "files" / "searches.csv"] = "when,user,term\n" + "".join(sorted(searches))
    return made


def main() -> None:
    """Write all files."""
    for path, text in files().items():
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)


if __name__ == "__main__":
    main()
