"""Every claim, computed once for all tests of this folder."""

import fcntl
import pickle

import pytest

from dpstream.paper.claims import CLAIMS


@pytest.fixture(scope="session")
def claims(tmp_path_factory, worker_id):
    """Computed by the worker that comes first; the others wait for it and read what it found."""
    own = tmp_path_factory.getbasetemp()
    shared = own if worker_id == "master" else own.parent
    with (shared / "claims.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        found = shared / "claims.pickle"
        if not found.exists():
            found.write_bytes(pickle.dumps({maker.key: maker.compute(True) for maker in CLAIMS}))
        return pickle.loads(found.read_bytes())  # noqa: S301
