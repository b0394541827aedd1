"""What counting in Spark needs, checked before a query starts: Java, PySpark, pandas, pyarrow, protobuf, RocksDB."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from collections.abc import Mapping
from importlib import import_module
from typing import Any

from dpstream.errors import MissingExtra, SparkUnsupported

__all__ = ["ROCKSDB", "check_java", "check_libraries", "check_session", "local_session"]

ROCKSDB = "org.apache.spark.sql.execution.streaming.state.RocksDBStateStoreProvider"
_PROVIDER = "spark.sql.streaming.stateStore.providerClass"
#: Spark 4 runs on these and later.
LEAST_JAVA = 17


def check_java() -> None:
    """Refuse to go on without a Java that Spark 4 runs on; it looks where Spark looks.

    Raises
    ------
    SparkUnsupported
        If there is none, or one that is too old.
    """
    home = os.environ.get("JAVA_HOME")
    java = f"{home}/bin/java" if home else shutil.which("java")
    advice = "Install one (Debian: apt-get install openjdk-17-jre-headless) and set JAVA_HOME if it is not found."
    needs = f"Java {LEAST_JAVA} or later"
    if java is None or not os.access(java, os.X_OK):
        raise SparkUnsupported(needs=needs, found=f"no {java or 'java on the path'}", advice=advice)
    said = subprocess.run([java, "-version"], capture_output=True, text=True, check=False).stderr  # noqa: S603
    version = re.search(r'version "(\d+)(?:\.(\d+))?', said)
    number = int(version[2] or 0) if version and version[1] == "1" else int(version[1]) if version else 0
    if number < LEAST_JAVA:
        raise SparkUnsupported(needs=needs, found=said.partition("\n")[0] or "an unknown version", advice=advice)


def check_libraries() -> None:
    """Refuse to go on without PySpark 4, pandas below 3, pyarrow and protobuf.

    Raises
    ------
    MissingExtra, SparkUnsupported
        If one is missing, or not of a version that works.
    """
    versions: dict[str, str] = {}
    for module, library in (
        ("pyspark", "pyspark"),
        ("pandas", "pandas"),
        ("pyarrow", "pyarrow"),
        ("google.protobuf", "protobuf"),
    ):
        try:
            versions[library] = str(import_module(module).__version__)
        except ImportError:
            raise MissingExtra(extra="spark", needs=library) from None
    for library, least, below in (("pyspark", 4, None), ("pandas", 2, 3)):
        major = int(re.match(r"\d+", versions[library])[0])  # type: ignore[index]
        if major < least or (below is not None and major >= below):
            wanted = f"{library} {least}" + ("" if below is None else f", below {below}")
            raise SparkUnsupported(
                needs=wanted,
                found=f"{library} {versions[library]}",
                advice="Type: pip install 'dpstream[spark]', here and on all workers.",
            )


def check_session(spark: Any) -> None:
    """Refuse a session whose state store cannot keep shards.

    Raises
    ------
    SparkUnsupported
        If it is not RocksDB.
    """
    provider = spark.conf.get(_PROVIDER, "")
    if provider != ROCKSDB:
        raise SparkUnsupported(
            needs="RocksDB as the state store", found=provider or "none", advice=f"Set {_PROVIDER} to {ROCKSDB}."
        )


def local_session(
    cores: int = 2, *, memory: str = "2g", partitions: int | None = None, settings: Mapping[str, str] | None = None
) -> Any:
    """Return a Spark session on this machine that counting works in; for trying things out and for tests.

    Parameters
    ----------
    cores, memory
        How many tasks run at once, and how much memory the driver has.
    partitions
        How many partitions a shuffle has, and so the state; None: as many as cores. A checkpoint remembers it.
    settings
        Further settings of Spark's.

    Raises
    ------
    SparkUnsupported, MissingExtra
        If Java or a library is missing or of the wrong version.
    """
    check_libraries()
    check_java()
    from pyspark.sql import SparkSession

    os.environ.setdefault("PYSPARK_PYTHON", sys.executable)  # workers would take the first python3 of the path
    chosen = {
        "spark.driver.memory": memory,
        "spark.ui.enabled": "false",
        "spark.python.authenticate.socketTimeout": "2m",  # workers of a busy machine take longer than 15 seconds
        "spark.ui.showConsoleProgress": "false",
        "spark.sql.shuffle.partitions": str(partitions or cores),
        _PROVIDER: ROCKSDB,
        "spark.sql.streaming.stateStore.rocksdb.changelogCheckpointing.enabled": "true",
        **(settings or {}),
    }
    builder = SparkSession.builder.master(f"local[{cores}]").appName("dpstream")
    for name, value in chosen.items():
        builder = builder.config(name, value)
    return builder.getOrCreate()
