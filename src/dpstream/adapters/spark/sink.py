"""ReleaseFile: an idempotent sink, a file that holds each (name, step) once.

Spark's `foreachBatch` may be called again with a micro-batch that was written already. Rows that are there with the
same values are left as they are; a row with another value is refused, with everything that came with it: two values of
one step would give noise or data away.
"""

from __future__ import annotations

import datetime as dt
import sqlite3
from contextlib import closing
from pathlib import Path
from typing import Any

import polars as pl

from dpstream.errors import InvalidArgument, ReleaseConflict

__all__ = ["ReleaseFile"]


class ReleaseFile:
    """A SQLite file with one table `releases`, keyed by (name, step); the column `start` is in UTC.

    Use ``counts.writeStream.foreachBatch(ReleaseFile("counts.db").write)``. All rows of a micro-batch come to the
    driver; for very many names write to a database that the workers reach, with the same key.

    Parameters
    ----------
    path
        Where the file is, or is made.
    """

    def __init__(self, path: str | Path) -> None:
        self.path = Path(path)

    def write(self, batch: Any, batch_id: int = 0) -> int:
        """Write a micro-batch in one transaction; return how many rows were new.

        Raises
        ------
        ReleaseConflict
            If a step of a name was written before with another value; nothing of the batch is written.
        """
        return self.write_rows(batch.columns, [tuple(row) for row in batch.collect()])

    def write_rows(self, columns: list[str], rows: list[tuple[Any, ...]]) -> int:
        """Write rows whose columns begin with name, step, start and value."""
        quoted = ", ".join(f'"{column}"' for column in columns)
        places = ", ".join("?" * len(columns))
        plain = [(row[0], row[1], _text(row[2]), *row[3:]) for row in rows]
        with closing(sqlite3.connect(self.path, isolation_level=None)) as database:
            database.execute("PRAGMA synchronous = FULL")
            database.execute("BEGIN IMMEDIATE")
            with database:
                database.execute(
                    f"CREATE TABLE IF NOT EXISTS releases ({quoted}, PRIMARY KEY (name, step)) WITHOUT ROWID"
                )
                kept = [row[1] for row in database.execute("PRAGMA table_info(releases)")]
                if kept != columns:
                    raise InvalidArgument(
                        "windows",
                        f"columns {', '.join(columns)}",
                        f"those of this file ({', '.join(kept)}), or another file",
                    )
                before = database.total_changes
                database.executemany(f"INSERT OR IGNORE INTO releases ({quoted}) VALUES ({places})", plain)  # noqa: S608
                new = database.total_changes - before
                if new < len(plain):
                    self._check(database, plain)
        return new

    @staticmethod
    def _check(database: sqlite3.Connection, rows: list[tuple[Any, ...]]) -> None:
        for row in rows:
            kept = database.execute("SELECT * FROM releases WHERE name = ? AND step = ?", row[:2]).fetchone()
            if tuple(kept) != row:
                database.execute("ROLLBACK")
                raise ReleaseConflict(name=row[0], step=row[1], kept=str(kept[3]), given=str(row[3]))

    def read(self) -> pl.DataFrame:
        """Return all releases, by step and name; an empty frame if there are none yet."""
        with closing(sqlite3.connect(self.path)) as database:
            if not database.execute("SELECT name FROM sqlite_master WHERE name = 'releases'").fetchall():
                return pl.DataFrame(schema={"name": pl.String, "step": pl.Int64, "value": pl.Int64})
            found = database.execute("SELECT * FROM releases ORDER BY step, name")
            columns = [one[0] for one in found.description]
            return pl.DataFrame(found.fetchall(), schema=columns, orient="row", infer_schema_length=None)


def _text(moment: Any) -> str:
    """Return a moment, in UTC, as ISO text: SQLite has no type for it. Spark hands moments out in local time."""
    return str(moment.astimezone(dt.UTC).replace(tzinfo=None).isoformat(sep=" "))
