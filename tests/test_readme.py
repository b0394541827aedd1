"""The README says only what the code does."""

import doctest
from pathlib import Path


def test_readme_examples():
    result = doctest.testfile(
        str(Path(__file__).parent.parent / "README.md"),
        module_relative=False,
        optionflags=doctest.NORMALIZE_WHITESPACE | doctest.ELLIPSIS,
    )
    assert result.attempted > 0
    assert result.failed == 0
