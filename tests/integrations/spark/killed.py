"""Runs a declared and a discovered query over the files of a folder until all is done, or until it is killed.

usage: python -m tests.integrations.spark.killed FOLDER [POINT[:TIMES]] [--fresh]

POINT is where driver and JVM are killed: "declared before publishing", "declared published", "declared state commit",
the same for "discovered", or "people"; the first two in the first micro-batch from number TIMES on, the others when the
point is come to for that time. Only the query that is to be killed is started then. What is published goes to
FOLDER/published, one file for each call, never overwritten.
"""

import json
import os
import sys
import uuid
from pathlib import Path

from dpstream.adapters.spark import local_session, processors
from tests.integrations.spark import sabotage, streams

ROOT = Path(__file__).parents[3]


def publish(folder, kind, number, rows):
    made = folder / "published" / f"{kind}-{number}-{uuid.uuid4().hex}.json"
    with made.with_suffix(".draft").open("w") as file:
        json.dump([(row.name, row.step, row.value) for row in rows], file)
        file.flush()
        os.fsync(file.fileno())
    made.with_suffix(".draft").rename(made)


def main(folder: Path, point: str, *, fresh: bool) -> None:
    os.environ |= {
        sabotage.POINT: point,
        sabotage.DRIVER: str(os.getpid()),
        sabotage.COUNTER: str(folder / f"counter-{uuid.uuid4().hex}"),
        "DPSTREAM_SPARK_TEST": streams.KEY.hex(),
        "PYTHONPATH": f"{ROOT}:{ROOT / 'src'}",
    }
    spark = local_session()
    spark.sparkContext.setLogLevel("INFO")  # the test looks through all that Spark says
    jvm = spark.sparkContext._gateway.proc.pid
    processors.DeclaredProcessor = sabotage.FreshNoise if fresh else sabotage.KilledDeclared
    processors.DiscoveredProcessor, processors.PeopleProcessor = sabotage.KilledDiscovered, sabotage.KilledPeople
    where, _, least = point.partition(":")

    def sink(kind):
        def write(batch, number):
            if where == f"{kind} before publishing" and number >= int(least):
                sabotage.kill_everything(jvm)
            rows = batch.collect()
            if rows:
                publish(folder, kind, number, rows)
            if rows and where == f"{kind} published" and number >= int(least):
                sabotage.kill_everything(jvm)

        return write

    events, clock = streams.read(spark, folder / "in"), streams.clock(spark, folder / "clock")
    settings = {"shards": 2, "windows": ()}
    make = {
        "declared": lambda: streams.declared(events, streams.names(300), clock, **settings),
        "discovered": lambda: streams.discovered(events, clock, **settings),
    }
    if fresh or where.startswith("declared"):
        del make["discovered"]
    elif where:
        del make["declared"]
    started = [
        query().writeStream.foreachBatch(sink(kind)).option("checkpointLocation", str(folder / f"cp-{kind}")).start()
        for kind, query in make.items()
    ]
    for query in started:
        query.processAllAvailable()
    for query in started:
        query.stop()
    spark.stop()


if __name__ == "__main__":
    arguments = [one for one in sys.argv[1:] if one != "--fresh"]
    main(Path(arguments[0]), arguments[1] if len(arguments) > 1 else "", fresh="--fresh" in sys.argv)
