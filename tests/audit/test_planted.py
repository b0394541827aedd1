"""The planted bugs of `make planted` fit the code as it is."""

import pytest

from dpstream.audit.discovery import ATTACKS
from tests.audit.planted import BUGS, NAMES, ROOT


@pytest.mark.parametrize("bug", BUGS, ids=lambda bug: bug.title)
def test_what_is_replaced_stands_in_the_code_once(bug):
    text = (ROOT / "src" / "dpstream" / bug.file).read_text()
    assert text.count(bug.right) == 1
    assert all((ROOT / test.split("::")[0]).exists() for test in bug.tests)


def test_attacks_on_names_are_those_of_the_audit():
    titles = {attack.title for attack in ATTACKS}
    assert {bug.audit[1] for bug in BUGS if bug.audit[0] == NAMES} <= titles
