"""The open files of one store: database, witness and keys, found or made, and held against each other."""

from __future__ import annotations

import contextlib
import ctypes
import os
import sqlite3
import threading
import weakref
from collections.abc import Iterator
from pathlib import Path

from dpstream.errors import StoreClosed, StoreLost, StreamInUse, WrongMasterKey
from dpstream.operating_system.forks import in_forked_children
from dpstream.store.database import MIGRATIONS, Database, create_database
from dpstream.store.files import check_file, os_error_as_store_error, refuse_open_files, sweep
from dpstream.store.master_key import KeySource, find_key
from dpstream.store.process import OfThisProcess
from dpstream.store.sealing import StoreSeals
from dpstream.store.witness import SLOT, Witness, witness_path

__all__ = ["StoreFiles", "open_store_files"]

_opened: weakref.WeakSet[StoreFiles] = weakref.WeakSet()


class StoreFiles(OfThisProcess):
    """The database, the witness and the keys of a store, and the lock by which threads take turns.

    The files are closed with `close`, or when nobody uses them any more.
    """

    def __init__(self, database: Database, witness: Witness, seals: StoreSeals) -> None:
        super().__init__()
        self.database, self.witness, self.seals = database, witness, seals
        self.lock = threading.RLock()
        self.closed = False
        self._in_use = False
        self._end = weakref.finalize(self, _close, database, witness)
        _opened.add(self)

    @contextlib.contextmanager
    def turn(self) -> Iterator[None]:
        """Let threads take turns: what is done inside is done alone. Refuse in a forked child, and after close.

        Raises
        ------
        StreamInUse
            If this very thread has the turn already: a signal handler or a finalizer that came in the middle of a call.
        """
        self.check_process()  # before the lock, which another thread may have held at the fork
        with self.lock:
            if self._in_use:
                raise StreamInUse
            try:
                self._in_use = True
                self.check("the store")
                yield
            finally:
                self._in_use = False

    def check(self, what: str) -> None:
        """Refuse in a forked child, and after close."""
        self.check_process()
        if self.closed:
            raise StoreClosed(what=what)

    def close(self) -> None:
        """Close the files; every lock ends with them."""
        self.closed = True
        self._end()

    def abandon(self) -> None:
        """In a forked child: let go of the parent's locks without closing its database.

        SQLite's files may not be used, nor closed, across a fork, so the connection is kept for ever, and its file may
        not be opened again: SQLite would think it held the parent's locks. The descriptor of the streams' locks must
        be closed, or the child would hold them when the parent is gone.
        """
        self._end.detach()
        ctypes.pythonapi.Py_IncRef(ctypes.py_object(self.database.connection))
        self.witness.close()


def open_store_files(path: Path, source: KeySource, *, limit: str, adopt: bool) -> StoreFiles:
    """Open the files of the store at `path`; make them, with this limit, if there are none.

    They are made in the order key, witness, database. Whichever of them a crash leaves behind is taken up again.
    """
    beside = witness_path(path)
    exists = check_file(path, newest=len(MIGRATIONS))
    known = Witness.store_id(beside)
    if exists and known is None:
        raise StoreLost(missing=str(beside), present=str(path))
    if not exists and known is not None and beside.stat().st_size > SLOT:
        raise StoreLost(missing=str(path), present=str(beside))
    master = find_key(source, path, create=known is None)
    if not exists:
        store = known or os.urandom(16)
        if known is None:
            Witness.create(beside, StoreSeals(master, store).witness_key, store)
            store = Witness.store_id(beside) or store
        seals = StoreSeals(master, store)
        create_database(path, {"store": store, "check": seals.check(), "limit": seals.seal_text("limit", limit)})
    sweep(path)
    database = Database(path)
    try:
        about = dict(database.rows("SELECT name, value FROM about"))
        store = about.get("store", b"")
        if not isinstance(store, bytes) or StoreSeals(master, store).check() != about.get("check"):
            raise WrongMasterKey(path=str(path))
        seals = StoreSeals(master, store)
        try:
            witness = Witness(beside, seals.witness_key, store, adopt=adopt)
        except OSError as error:
            raise os_error_as_store_error(error, beside) from error
    except BaseException:
        database.close()
        raise
    return StoreFiles(database, witness, seals)


def _close(database: Database, witness: Witness) -> None:
    witness.close()
    with contextlib.suppress(sqlite3.Error):
        database.close()


def _after_fork() -> None:
    refuse_open_files()
    for files in list(_opened):
        files.abandon()
    _opened.clear()


in_forked_children(_after_fork)
