"""Every claim, computed once for all tests of this folder."""

import pytest

from dpstream.paper.claims import CLAIMS


@pytest.fixture(scope="session")
def claims():
    return {maker.key: maker.compute(True) for maker in CLAIMS}
