"""Where streams live: the open files of one store, shared by everything that reads or writes it in this process."""

from __future__ import annotations

import ctypes
import os
import sqlite3
import threading
import weakref
from contextlib import suppress

from dpstream.errors import StoreClosed
from dpstream.store.database import Database
from dpstream.store.files import refuse_open_files
from dpstream.store.process import OfThisProcess
from dpstream.store.sealing import StoreSeals
from dpstream.store.witness import Witness

__all__ = ["Home"]

_homes: weakref.WeakSet[Home] = weakref.WeakSet()


class Home(OfThisProcess):
    """The database, the witness and the keys of a store, and the lock of its threads.

    The files are closed with `close`, or when nobody uses them any more.
    """

    def __init__(self, database: Database, witness: Witness, seals: StoreSeals) -> None:
        super().__init__()
        self.database, self.witness, self.seals = database, witness, seals
        self.lock = threading.RLock()
        self.closed = False
        self._end = weakref.finalize(self, _close, database, witness)
        _homes.add(self)

    def check(self, what: str) -> None:
        """Refuse in a forked child, and after close."""
        self.check_process()
        if self.closed:
            raise StoreClosed(what=what)

    def close(self) -> None:
        """Close the files; every lock ends with them."""
        self.closed = True
        self._end()


def _close(database: Database, witness: Witness) -> None:
    witness.close()
    with suppress(sqlite3.Error):
        database.close()


def _after_fork() -> None:
    """In the child: let go of the parent's locks without closing its database.

    SQLite's files may not be used, nor closed, across a fork, so the connection is kept for ever, and its file may not
    be opened again: SQLite would think it held the parent's locks. The descriptor of the streams' locks must be closed,
    or the child would hold them when the parent is gone.
    """
    refuse_open_files()
    for home in list(_homes):
        home._end.detach()
        ctypes.pythonapi.Py_IncRef(ctypes.py_object(home.database.connection))
        home.witness.close()
    _homes.clear()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_after_fork)
