"""Opening a store: its database, its key and its witness, found or made, and held against each other."""

from __future__ import annotations

import os
from pathlib import Path

from dpstream.errors import InvalidArgument, StoreLost, WrongMasterKey
from dpstream.store.database import MIGRATIONS, Database, create_database
from dpstream.store.files import check_file, sweep, unwritten
from dpstream.store.home import Home
from dpstream.store.master_key import KeySource, find_key
from dpstream.store.sealing import StoreSeals
from dpstream.store.witness import Witness, witness_path

__all__ = ["check_path", "open_home"]


def open_home(path: Path, source: KeySource, *, adopt: bool) -> Home:
    """The files of the store at `path`, made if there are none.

    They are made in the order key, witness, database. Whichever of them a crash leaves behind is taken up again.
    """
    beside = witness_path(path)
    exists = check_file(path, newest=len(MIGRATIONS))
    known = Witness.store_id(beside)
    if exists and known is None:
        raise StoreLost(missing=str(beside), present=str(path))
    if not exists and known is not None and beside.stat().st_size > 64:
        raise StoreLost(missing=str(path), present=str(beside))
    master = find_key(source, path, create=known is None)
    if not exists:
        store = known or os.urandom(16)
        if known is None:
            Witness.create(beside, StoreSeals(master, store).witness_key, store)
            store = Witness.store_id(beside) or store
        create_database(path, {"store": store, "check": StoreSeals(master, store).check()})
    if not exists or path.stat().st_nlink > 1:
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
            raise unwritten(error, beside) from error
    except BaseException:
        database.close()
        raise
    return Home(database, witness, seals)


def check_path(path: object) -> Path:
    """An absolute path."""
    if not isinstance(path, (str, os.PathLike)):
        raise InvalidArgument("path", path, "a path")
    text = os.fspath(path)
    if not isinstance(text, str) or not text or "\0" in text:
        raise InvalidArgument("path", path, "a path: text without NUL")
    return Path(text).absolute()
