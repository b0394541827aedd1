"""How the suite is cut: `pytest --quick` for a change in progress, everything for `make test`, `heavy` for the rest.

* `--quick` keeps two cases of every parametrised test and leaves out whole folders that take long (`NOT_QUICK`): what
  remains is meant to take under a minute on two cores, and touches most modules.
* Tests marked `heavy` run with DPSTREAM_HEAVY=1 only (`make heavy`): they say something that cheaper tests say too,
  with more power or at full size.
"""

import gc
import os
from collections import defaultdict
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent
#: Of every parametrised test, `--quick` runs so many cases: the first, the last, and in between at equal distances.
CASES = 2
#: What `--quick` leaves out. Audits and the paper take minutes; tests of commands start processes; the rest takes a
#: second or more each, at sizes where nothing new happens.
NOT_QUICK = (
    "src/dpstream/audit",
    "src/dpstream/paper",
    "src/dpstream/mechanisms/anytime_toeplitz.py",
    "src/dpstream/testing.py",
    "tests/adapters",
    "tests/audit",
    "tests/fuzz",
    "tests/paper",
    "tests/test_docs.py::test_examples_print_what_the_page_says",
    "tests/cli/test_audit.py",
    "tests/cli/test_bench.py",
    "tests/cli/test_compare.py",
    "tests/cli/test_count.py::test_pieces_do_not_show",
    "tests/cli/test_count_files.py",
    "tests/cli/test_count_flights.py",
    "tests/cli/test_count_processes.py",
    "tests/cli/test_count_picture.py",
    "tests/cli/test_count_store.py",
    "tests/cli/test_examples.py",
    "tests/cli/test_paper.py",
    "tests/cli/test_start_up.py",
    "tests/kernel/test_choice.py",
    "tests/serve",
    "tests/cli/test_count_windows.py",
    "tests/cli/test_count_daily.py",
    "tests/cli/test_count_append.py",
    "tests/cli/test_count_continue.py",
    "tests/cli/test_count_money.py",
    "tests/cli/test_init.py",
    "tests/cli/test_windows.py",
    "tests/test_transcripts.py",
    "tests/store/test_ledger_faults.py",
    "tests/release/test_discovery_example.py",
    "tests/release/test_change_errors.py",
    "tests/release/test_open_counter.py",
    "tests/noise/test_named.py",
    "tests/cli/test_plan.py::test_windows_of_time_are_told_in_their_words",
    "src/dpstream/serve",
    "tests/mechanisms/test_anytime_toeplitz.py",
    "tests/mechanisms/test_balanced_toeplitz.py",
    "tests/mechanisms/test_buffered_toeplitz.py",
    "tests/mechanisms/test_catalogue.py",
    "tests/mechanisms/test_contributing.py",
    "tests/mechanisms/test_contract.py::test_any_horizon",
    "tests/mechanisms/test_contract.py::test_any_number_of_steps_without_a_horizon",
    "tests/mechanisms/test_fitted_toeplitz.py",
    "tests/mechanisms/test_from_numbers.py",
    "tests/mechanisms/test_identity.py",
    "tests/mechanisms/test_log_matrix.py",
    "tests/mechanisms/test_optimal.py",
    "tests/mechanisms/test_square_root.py",
    "tests/noise/test_distribution.py",
    "tests/noise/test_exact.py::test_long_recurrences_stay_exact",
    "tests/noise/test_exact.py::test_the_proven_error_bound_holds_with_room_to_spare",
    "tests/noise/test_pure_step_engine.py::test_the_bound_holds_whatever_is_computed",
    "tests/noise/test_stream.py::test_damaged_states_are_refused",
    "tests/release/test_contribution_limit.py::test_keeps_the_first_and_drops_the_rest",
    "tests/release/test_plan.py",
    "tests/release/test_statistics.py",
    "tests/store/test_faults.py",
    "tests/store/test_torture.py",
    "tests/store/test_verification.py",
    "tests/store/test_what_files_show.py",
    "tests/cli/test_count_text.py::test_a_terminal_gets_a_table",
    "tests/cli/test_demo.py",
    "tests/cli/test_plan.py::test_a_picture_of_many_steps_and_one_of_budgets",
    "tests/cli/test_store.py::test_while_another_process_writes",
    "tests/kernel/test_transform.py::test_normals_are_within_the_proven_error",
)


def pytest_addoption(parser):
    parser.addoption("--quick", action="store_true", help="two cases of every test, and nothing that takes long")


def pytest_ignore_collect(collection_path, config):
    """Do not even import what `--quick` leaves out as a whole."""
    if config.getoption("--quick") and collection_path.is_relative_to(ROOT):
        return True if collection_path.relative_to(ROOT).as_posix() in NOT_QUICK else None
    return None


def pytest_collection_modifyitems(config, items):
    chosen = items if os.environ.get("DPSTREAM_HEAVY") else [item for item in items if "heavy" not in item.keywords]
    if config.getoption("--quick"):
        chosen = _quick(chosen)
    left_out = set(items) - set(chosen)
    if left_out:
        config.hook.pytest_deselected(items=[item for item in items if item in left_out])
        items[:] = [item for item in items if item not in left_out]


def _quick(items: list[pytest.Item]) -> list[pytest.Item]:
    """Two cases of every test that does not lie in one of the folders left out."""
    cases = defaultdict(list)
    for item in items:
        path = item.path.relative_to(ROOT).as_posix()
        test = item.nodeid.split("::", 1)[-1]
        if not f"{path}::{test}".startswith(NOT_QUICK):
            cases[item.nodeid.split("[")[0]].append(item)
    kept = []
    for same in cases.values():
        spread = {round(i * (len(same) - 1) / max(CASES - 1, 1)) for i in range(CASES)}
        kept += [same[i] for i in sorted(spread)]
    return kept


@pytest.fixture
def no_collection():
    """Collect no garbage: Hypothesis watches that in Python, and what a signal raises there is swallowed."""
    gc.disable()
    yield
    gc.enable()
