"""The planted bugs of `make planted` fit the code as it is."""

import pytest

from tests.audit.planted import BUGS, ROOT


@pytest.mark.parametrize("bug", BUGS, ids=lambda bug: bug.title)
def test_what_is_replaced_stands_in_the_code_once(bug):
    text = (ROOT / "src" / "dpstream" / bug.file).read_text()
    assert text.count(bug.right) == 1
    assert all((ROOT / test.split("::")[0]).exists() for test in bug.tests)
