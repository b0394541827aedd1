from __future__ import annotations

import importlib
from types import ModuleType

import numpy as np
import pytest

from dpstream.kernel import twin


@pytest.fixture
def compiled() -> ModuleType:
    return pytest.importorskip("dpstream.kernel._compiled", reason="the C kernel was not built")


@pytest.fixture(params=["compiled", "twin"])
def kernel(request: pytest.FixtureRequest) -> ModuleType:
    """Each of the two kernels in turn."""
    if request.param == "twin":
        return twin
    try:
        return importlib.import_module("dpstream.kernel._compiled")
    except ImportError:
        pytest.skip("the C kernel was not built")


@pytest.fixture
def rng(request: pytest.FixtureRequest) -> np.random.Generator:
    """Another stream for each test, the same at each run."""
    return np.random.default_rng([ord(c) for c in request.node.nodeid])
