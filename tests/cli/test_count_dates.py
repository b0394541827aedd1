"""`dpstream count` recognises how dates are written, says so, and remembers it with the stream."""

import pytest

from tests.cli.test_count import count, counted, narrow_terminal, same_noise  # noqa: F401
from tests.cli.test_count_refusals import here, refused  # noqa: F401

DAYS = ("--time", "when", "--from", "2026-03-11", "--through", "2026-03-14", "--horizon", "99", "--rho", "0.5")
ISO = "when\n2026-03-11 23:59:00\n2026-03-12 00:00:00\n2026-03-14 12:00:00\n"


@pytest.mark.parametrize(
    ("rows", "said"),
    [
        (("11/03/2026", "12/03/2026", "14/03/2026"), "Times in 'when' are read as dd/mm/yyyy: 14/03/2026 is 14 March"),
        (("3/11/2026 23:59", "3/12/2026 0:00", "3/14/2026 1:00"), "are read as mm/dd/yyyy hh:mm: 3/14/2026 1:00 is 14"),
        (("11.03.2026", "12.03.2026", "14.03.2026"), "are read as dd.mm.yyyy: 11.03.2026 is 11 March 2026."),
        ((1773273540, 1773273600, 1773489600), "are read as seconds since 1970 (--time-format s): 1773273540 is 11"),
        ((1773273540000, 1773273600000, 1773489600000), "are read as milliseconds since 1970 (--time-format ms)"),
    ],
)
def test_recognised_and_said(here, same_noise, rows, said):  # noqa: F811
    (here / "iso.csv").write_text(ISO)
    (here / "log.csv").write_text("when\n" + "".join(f"{row}\n" for row in rows))
    result, iso = count("log.csv", *DAYS), count("iso.csv", *DAYS)
    assert said in " ".join(result.stderr.split())
    assert "are read as" not in iso.stderr
    assert result.stdout == iso.stdout
    assert result.exit_code == 0


def test_tomorrow_the_stream_knows_the_day_from_the_month(here):  # noqa: F811
    (here / "first.csv").write_text("when\n13/03/2026\n")
    (here / "next.csv").write_text("when\n01/04/2026\n")
    days = ("--time", "when", "--from", "2026-03-13", "--horizon", "99", "--rho", "1000000", "--store", "s.db")
    assert count("first.csv", *days, "--through", "2026-03-13").exit_code == 0
    refused(count("next.csv", "--time", "when", "--horizon", "99", "--rho", "1"), "tells the day from the month")
    rows = counted("next.csv", "--store", "s.db", "--through", "2026-04-01")
    assert (rows[-1]["start"], rows[-1]["value"], rows[-2]["value"]) == ("2026-04-01", "2", "1")


def test_offsets_without_a_zone_are_said_with_the_zone_that_is_used(here):  # noqa: F811
    (here / "log.csv").write_text("when\n2026-03-12T00:21:45+01:00\n")
    said = " ".join(count("log.csv", *DAYS).stderr.split())
    assert "offsets and there is no --time-zone: steps are those of UTC. For local days, give a zone, such as" in said
    assert "--time-zone:" not in count("log.csv", *DAYS, "--time-zone", "Europe/Vienna").stderr
