import os
import shutil
import tempfile
from pathlib import Path

import pytest

import dpstream as dp
from dpstream.mechanisms import SmoothBinary

RAM = Path("/dev/shm")  # noqa: S108
BUDGET = dp.zcdp(0.5)
TREE = SmoothBinary(1000)


@pytest.fixture
def path():
    """Where a store may be made; in memory if possible, where synchronising takes no time."""
    folder = Path(tempfile.mkdtemp(dir=RAM if os.access(RAM, os.W_OK) else None))
    yield folder / "counts.db"
    shutil.rmtree(folder)


def visits(store, name="visits", **settings):
    return store.counter(
        name, **({"horizon": 1000, "budget": BUDGET, "mechanism": TREE, "per_person": 3, "per_step": 3} | settings)
    )


def everything(path):
    """The bytes of every file in the store's folder; not those of -shm, which is shared memory and holds locks."""
    return {f.name: f.read_bytes() for f in path.parent.iterdir() if f.is_file() and not f.name.endswith("-shm")}


def copy_of(path, to):
    """Copy a store's files, as a backup would."""
    to.mkdir(exist_ok=True)
    for file in path.parent.glob(path.name + "*"):
        shutil.copy2(file, to / file.name)
    return to / path.name
