"""The server: batches over HTTP, many in one commit, while the clock closes steps."""

import contextlib
import time
from concurrent.futures import ThreadPoolExecutor
from unittest import mock

import dpstream as dp
from dpstream.distance import Append, Close
from dpstream.events import last_step
from dpstream.serve import steady_clock
from tests.distance.ways import Counted, begin, cells, folder, moment, public, readable, released_rows
from tests.serve.ingesting import Ingesting

#: Longer than a commit takes, so that batches sent together are stored together.
COMMIT_SECONDS = 0.05


class Http(Counted):
    """A real server, its writer in a thread: senders send at the same time, and try again."""

    batches, closes = 5, 2

    def run(self, acts):
        with folder() as home, ThreadPoolExecutor(8) as senders, contextlib.ExitStack() as stack:
            clock = stack.enter_context(mock.patch.object(last_step, "now", return_value=moment(1)))
            stack.enter_context(mock.patch.object(steady_clock, "PROOF_SECONDS", 0.0))
            begin(home, self)
            with dp.Store(home / "counts.db") as store:
                token = store.tokens.create("sender", ["count"])
            answers, seen, waiting = {}, {}, []
            server = Ingesting(home / "counts.db", token, commit_every=COMMIT_SECONDS)

            def send(act):
                answer = server.post([event(row) for row in act.rows], act.batch, stream="count")
                if answer.status_code == 422:
                    server.post([event(row) for row in readable(act.rows)], act.batch + "-mended", stream="count")
                return act.batch, (answer.status_code, answer.text)

            def send_all():
                # The same key is not in flight twice: a sender tries again when it has its answer.
                for group in (first_of_each(waiting), again(waiting)):
                    for batch, answer in senders.map(send, group):
                        answers.setdefault(batch, answer)
                waiting.clear()

            try:
                for act in acts:
                    if isinstance(act, Append):
                        waiting.append(act)
                        continue
                    send_all()
                    if isinstance(act, Close):
                        clock.return_value = moment(act.through + 1)
                        self.wait_for(server, act.through)
                        seen[f"statuses at step {act.through}"] = statuses(server)
                    else:
                        server.stop()
                        server = Ingesting(home / "counts.db", token, commit_every=COMMIT_SECONDS)
            finally:
                server.stop()
            with dp.Store(home / "counts.db") as store:
                released = released_rows(store)
            return self.outcome(released, seen | {"releases": public(released)}, answers)

    def wait_for(self, server, steps):
        until = time.monotonic() + 30
        while len(server.get("/api/streams/count/releases").json()["releases"]) < steps:
            assert time.monotonic() < until, "the clock closed nothing"
            time.sleep(COMMIT_SECONDS / 2)


def event(row):
    when, who, ward, amount, note, number = cells(row)
    return {"when": when, "who": who, "ward": ward, "amount": amount, "note": note, "id": number}


def first_of_each(acts):
    return list({act.batch: act for act in reversed(acts)}.values())[::-1]


def again(acts):
    first = first_of_each(acts)
    return [act for act in acts if not any(act is one for one in first)]


def statuses(server):
    """What strangers see besides the figures: the statuses and types of all kinds of addresses."""
    addresses = ("/", "/healthz", "/metrics", "/streams/count.html", "/api/streams", "/api/streams/count")
    answers = [server.get(address) for address in addresses]
    return tuple((answer.status_code, answer.headers["content-type"]) for answer in answers)
