"""The files that pages begin with are those that their generator makes."""

import pytest

from tests.docs.make_files import files


@pytest.mark.parametrize("path", files(), ids=lambda path: f"{path.parent.name}/{path.name}")
def test_a_file_is_as_it_is_made(path):
    """If this fails: python -m tests.docs.make_files."""
    assert path.read_text() == files()[path]
