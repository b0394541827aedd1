"""The server cannot reach what is secret: it needs no key, and no byte of an answer depends on what is sealed."""

import shutil
import sqlite3

from dpstream.serve.shown_stream import slug_of

from .conftest import EVIL, Served

NAMES = ("visits", "by ward/2026", EVIL, "x" * 200)
ADDRESSES = (
    "/",
    "/api/streams",
    "/metrics",
    "/healthz",
    "/api/openapi.json",
    "/static/page.js",
    "/static/page.css",
    "/nothing",
    "/api/streams/visits/releases?from=2026-01-05&to=20",
    *(
        f"/streams/{slug_of(name)}.{form}"
        for name in NAMES
        for form in ("html", "csv", "json", "parquet", "registry.json")
    ),
)
#: Columns that hold what is secret, or what is made from the key.
SEALED = {
    "streams": ("sealed", "seal", "tag"),
    "batches": ("sealed",),
    "people": ("sealed",),
    "open_steps": ("sealed",),
    "ingested_batches": ("sealed",),
    "noise_states": ("state",),
    "names": ("sealed",),
    "published_names": ("seal",),
    "about": ("value",),
}


def answers(path):
    with Served(path) as server:
        return {address: server.get(address).content for address in ADDRESSES}


def test_every_byte_is_the_same_without_the_key_and_with_other_secrets(made, tmp_path):
    """Only counts.db is copied, and everything in it that is sealed is replaced by random bytes."""
    shutil.copy2(made / "counts.db", tmp_path / "counts.db")
    connection = sqlite3.connect(tmp_path / "counts.db")
    for table, columns in SEALED.items():
        for column in columns:
            connection.execute(f"UPDATE {table} SET {column} = randomblob(length({column}))")  # noqa: S608
    connection.commit()
    connection.close()
    for suffix in ("-wal", "-shm"):
        (tmp_path / f"counts.db{suffix}").unlink(missing_ok=True)
    (tmp_path / "counts.db").chmod(0o400)
    tmp_path.chmod(0o500)
    try:
        found = answers(tmp_path / "counts.db")
    finally:
        tmp_path.chmod(0o700)
    assert found == answers(made / "counts.db")
    key = (made / "counts.db.key").read_text().split()[1]
    for body in found.values():
        assert key.encode() not in body
        assert bytes.fromhex(key) not in body
        assert str(made).encode() not in body


def test_every_column_of_the_file_was_thought_of(made):
    """What is not in the list above is public: names, settings, numbers of steps, releases."""
    public = {
        "streams": {"id", "name", "configuration", "generation", "t", "first_position", "retired", "people"}
        | {"ingests", "open_last", "holder_pid", "holder_started"},
        "batches": {"stream", "first", "count"},
        "published": {"stream", "part", "released"},
        "about": {"name"},
        "ingested_batches": {"stream", "ingest"},
        "names": {"stream", "kind", "part"},
        "published_names": {"stream", "step", "names", "released"},
    }
    connection = sqlite3.connect(made / "counts.db")
    for (table,) in connection.execute("SELECT name FROM sqlite_master WHERE type = 'table'").fetchall():
        columns = {row[1] for row in connection.execute(f"PRAGMA table_info({table})")}
        known = public.get(table, {"stream", "part", "step"}) | set(SEALED.get(table, ()))
        assert columns <= known, table
    connection.close()
