"""Warnings of other libraries that are about nothing here."""

from pathlib import Path

import pytest

#: PyTorch warns about hooks of the first layer, whose inputs need no gradient; Opacus about noise that is not used.
IGNORED = ("ignore:Full backward hook", "ignore:Secure RNG", "ignore::DeprecationWarning", "ignore::FutureWarning")


def pytest_collection_modifyitems(items):
    for item in items:
        if Path(__file__).parent in item.path.parents:
            for message in IGNORED:
                item.add_marker(pytest.mark.filterwarnings(message))
