"""Files of events of any bytes: they are counted, or refused by a `DpstreamError`; no row is lost on the way."""

import io
import sys
from unittest import mock

from dpstream.errors import DpstreamError
from dpstream.events.file_options import FileOptions
from dpstream.events.measure import Measure
from dpstream.events.row_rules import RowFilter, RowRules
from dpstream.events.tables import tables
from dpstream.events.tally import TimeTally
from dpstream.events.timestamps import Timestamps

from .targets import damaged

LOGS = (
    b"when,ward,n\n2026-01-01,a,1\n2026-01-02,b,2\n,a,3\n2026-01-03,NA,4\n",
    '\ufeffwhen;ward;n\r\n31/01/2026 10:30;"a; x";12,50\r\n01/02/2026 23:59;b;1.234,50\r\n'.encode(),
    '"when"|"ward"|"n"\n1767225600000|"a"|0.05\n1767225700000|"b\n"|-\n'.encode("utf-16"),
    b'{"when": "2026-01-01T00:00:00+01:00", "ward": "a", "n": 1}\n{"when": null, "ward": "b", "n": 2.5}\n',
)


def any_file(data: bytes) -> None:
    """The first byte chooses a log and how it is read, the others damage it."""
    choice = data[0] if data else 0
    content = damaged(LOGS[choice % 4], data[1:])
    missing = ("refuse", "skip", "0")[choice // 4 % 3]
    comma = bool(choice // 16 % 2)
    measure = Measure("n", 2000, "0.01", "," if comma else ".", clip=True)
    rules = RowFilter(RowRules(("ward=a", "ward=b") if choice // 32 % 2 else (), missing), measure, "when")
    tally = TimeTally(measure, None, 10**6, Timestamps("when"), "1d", any_order=True, row_filter=rules)
    files = FileOptions(
        "jsonl" if choice % 4 == 3 else "csv", encoding=(None, "cp1252", "utf-16", "latin-1")[choice // 64 % 4]
    )
    read, refused = 0, ""
    with mock.patch.object(sys, "stdin", io.TextIOWrapper(io.BytesIO(content))):
        try:
            for table in tables(["-"], tally.columns, files=files):
                read += table.frame.height
                tally.take(table)
        except DpstreamError as error:
            refused = str(error)
    assert "\n" not in refused, "a refusal is one line"
    assert refused or tally.rows_read == read, "a row was neither counted nor said to be left out"
