from __future__ import annotations

import importlib
import shutil
from types import ModuleType

import numpy as np
import pytest

from dpstream.kernel import twin


@pytest.fixture
def compiled() -> ModuleType:
    """The C kernel. It may be missing only where nothing could have built it: a silent build failure is a failure."""
    if shutil.which("gcc") is None:
        return pytest.importorskip("dpstream.kernel._compiled", reason="no gcc, so no C kernel")
    return importlib.import_module("dpstream.kernel._compiled")


@pytest.fixture(params=["compiled", "twin"])
def kernel(request: pytest.FixtureRequest) -> ModuleType:
    """Each of the two kernels in turn."""
    if request.param == "twin":
        return twin
    module: ModuleType = request.getfixturevalue("compiled")
    return module


@pytest.fixture
def rng(request: pytest.FixtureRequest) -> np.random.Generator:
    """Another stream for each test, the same at each run."""
    return np.random.default_rng([ord(c) for c in request.node.nodeid])
