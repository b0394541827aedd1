"""What strangers and other senders see does not depend on what somebody sends, before it is released with noise."""

import datetime as dt
import json
import shutil
import time

import pytest

import dpstream as dp
from dpstream.events import last_step
from dpstream.serve import steady_clock

from .ingesting import Ingesting, begin

AT = dt.datetime(2026, 1, 1, 0, 30, tzinfo=dt.UTC)
OURS = [
    ([{"when": "2026-01-01T05:00Z", "who": "ann", "ward": "north"}], "application/json"),
    ([{"when": "2025-12-31T05:00Z", "who": "ann", "ward": "north"}], "application/json"),  # before the first step
    ([{"when": "2026-01-01T00:10Z", "who": "ann", "ward": "north"}], "application/json"),  # late
    (b"when,who,ward\n01.01.2026 07:00,ann,north\n", "text/csv"),
    ([{"when": "2026-06-01", "who": "ann", "ward": "north"}], "application/json"),  # too far ahead
    (b"nonsense", "application/json"),
]
CROWD = [{"when": f"2026-01-01T0{i % 9}:0{i % 7}Z", "who": f"p{i}", "ward": "south"} for i in range(300)]
THEIRS = [
    CROWD,
    [CROWD[0] | {"when": "1999-01-01"}],
    [CROWD[0] | {"when": "13/01/2026"}],
    json.dumps([CROWD[0] | {"who": "\ud83d"}]).encode(),
    b'[{"when":',
    CROWD[:40],
]
PUBLIC = ("/", "/streams/visits.html", "/streams/visits.csv", "/api/streams", "/api/streams/visits/releases")
PUBLIC += ("/metrics", "/healthz", "/api/openapi.json", "/api/streams/visits/releases?from=1", "/streams/nobody.html")


def seen(answer):
    """All that an answer shows: status, headers, body."""
    return answer.status_code, sorted((k, v) for k, v in answer.headers.items() if k != "date"), answer.content


@pytest.mark.filterwarnings("ignore::dpstream.errors.CountWarning")
@pytest.mark.parametrize("limits", [{}, {"user": "who", "max_contributions": 2, "max_users": 1000}])
def test_others_change_nothing_that_anybody_sees(tmp_path, monkeypatch, limits):
    """Two copies of one store, and one more sender at the second."""
    monkeypatch.setattr(steady_clock, "PROOF_SECONDS", 0.0)
    made = tmp_path / "made.db"
    ours = begin(made, **limits)
    with dp.Store(made) as store:
        theirs = store.tokens.create("others", ["visits"])
    found = []
    for name, crowded in (("without.db", False), ("with.db", True)):
        path = tmp_path / name
        for suffix in ("", ".key", ".witness"):
            shutil.copy2(f"{made}{suffix}", f"{path}{suffix}")
        with dp.Store(path, adopt=True):
            pass
        monkeypatch.setattr(last_step, "now", lambda: AT)
        answers = []
        with Ingesting(path, ours) as server:
            for i, (events, kind) in enumerate(OURS):
                if crowded:
                    server.post(THEIRS[i], f"{i}", token=theirs)
                answers.append(seen(server.post(events, f"{i}", kind=kind)))
                answers += [seen(server.get(address)) for address in PUBLIC]
            monkeypatch.setattr(last_step, "now", lambda: AT + dt.timedelta(hours=3))
            for _ in range(1000):
                released = server.get("/api/streams/visits/releases").json()["releases"]
                if len(released) == 3:
                    break
                time.sleep(0.01)
            answers += [[{"step": one["step"], "stddev": one["stddev"]} for one in released]]
            answers.append(seen(server.post(OURS[2][0], "later")))
        found.append(answers)
    assert found[0] == found[1]
    statuses = {answer[0] for answer in found[0][:-2]}
    assert {200, 404, 422} <= statuses
