"""Plants bugs in a scratch copy of the library, one at a time, and sees whether tests and the audit notice.

    python -m tests.audit.planted [--only WORD] [--trials N]

Each bug is a small, plausible mistake that keeps the program running and its output looking right. It is written into a
copy of `src`; then the tests of that room run against the copy, and `dpstream audit` on the door or mechanism
concerned.
Prints a table (docs/guarantees.md has it) and fails if a test misses one, or if the audit catches fewer than nine.
"""

from __future__ import annotations

import argparse
import os
import re
import shutil
import subprocess
import sys
import tempfile
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).parents[2]
#: The audit must catch at least so many; a bug that biases or delays, but reveals nothing, is for the tests.
LEAST_BY_AUDIT = 9
THREADS = "threads"
NAMES = "names"
#: Lines that count what one of these checks finds; of names, one attack.
CHECKS = {
    THREADS: "from dpstream.audit.threads import check_threads as c; print(sum(x.repeated for x in c()))",
    NAMES: "from dpstream.audit.discovery import ATTACKS, check_names as c\n"
    'print(sum(x.violated for x in c(attacks=[one for one in ATTACKS if one.title == "TITLE"])))',
}
CAUGHT = ("violated", "wasteful")
#: The exit status of a command that was refused: another check noticed the bug before the audit came to a verdict.
REFUSED = 2


@dataclass(frozen=True)
class Bug:
    """A mistake: in `file`, `right` becomes `wrong`. `tests` and `audit` are where it should be noticed."""

    title: str
    file: str
    right: str
    wrong: str
    tests: tuple[str, ...]
    audit: tuple[str, ...]


BUGS = (
    Bug(
        "participation ignored in the scale",
        "release/settings.py",
        "per_person=self.distance, participation=self.participation)",
        "per_person=self.distance)",
        ("tests/release/test_counter.py", "tests/audit/test_table.py"),
        ("--door", "3 steps of a person, Binary"),
    ),
    Bug(
        "μ of a zCDP budget 5 % too large",
        "budget.py",
        "return math.sqrt(2 * self.rho)",
        "return 1.05 * math.sqrt(2 * self.rho)",
        ("tests/test_budget.py",),
        ("--mechanism", "SmoothBinary", "--rho", "4.5"),
    ),
    Bug(
        "δ of an (ε, δ) budget ten times too large",
        "budget.py",
        "return gaussian_mu(self.epsilon, self.delta)",
        "return gaussian_mu(self.epsilon, min(10 * self.delta, 0.9))",
        ("tests/test_budget.py",),
        ("--mechanism", "SmoothBinary", "--epsilon", "6", "--delta", "1e-6"),
    ),
    Bug(
        "a replaced histogram treated as an added one",
        "release/settings.py",
        'return distance * (2.0 if self.budget.noise == "laplace" else ROOT_2)',
        "return distance",
        ("tests/release/test_counter.py",),
        ("--door", "moved to another category"),
    ),
    Bug(
        "a move to another day treated as a change within one",
        "release/settings.py",
        'if self.neighbours == "replace-anywhere" or (self.neighbours == "replace" and self.lane == "float"):',
        'if self.neighbours == "replace" and self.lane == "float":',
        ("tests/audit/test_table.py::test_every_door_keeps_its_promise",),
        ("--door", "moved to another day"),
    ),
    Bug(
        "the Laplace scale of a tree from its ℓ2 sensitivity",
        "mechanisms/one_node_trees.py",
        'return float(total) if noise == "laplace" else float(total) ** 0.5',
        "return float(total) ** 0.5",
        ("tests/mechanisms/test_binary.py", "tests/mechanisms/test_contract.py"),
        ("--mechanism", "Binary", "--epsilon", "1"),
    ),
    Bug(
        "a tree one level short when the horizon is a power of two",
        "mechanisms/binary.py",
        "for i in range(self.horizon.bit_length())]\n        return level_sensitivity",
        "for i in range(max(1, (self.horizon - 1).bit_length()))]\n        return level_sensitivity",
        ("tests/mechanisms/test_binary.py", "tests/mechanisms/test_contract.py"),
        ("--door", "a store, opened twice"),
    ),
    Bug(
        "the horizon missing in a stream's key",
        "release/settings.py",
        'del settings["name"]\n',
        'del settings["name"], settings["horizon"]\n',
        ("tests/audit/test_shared_noise.py",),
        ("--door", "other streams under its key"),
    ),
    Bug(
        "a store's noise key without the stream's tag and name",
        "store/sealing.py",
        "stream=tag.hex(), name=name, settings=json.loads(configuration))",
        'settings=json.loads(configuration) | {"name": ""})',
        ("tests/store/test_keys.py", "tests/store/test_store.py"),
        ("--door", "a store, opened twice"),
    ),
    Bug(
        "people not restored from a store",
        "store/durable_streams.py",
        "limit.restore_all(self._people.fingerprints, self._people.events)",
        "pass",
        ("tests/store/test_contributions.py",),
        ("--door", "count, two runs and a store"),
    ),
    Bug(
        "a contribution limit keeps one event too many",
        "release/contribution_limit.py",
        "left = max(self._times - before, 0)",
        "left = max(self._times + 1 - before, 0)",
        ("tests/release/test_contribution_limit.py",),
        ("--door", "people under a limit"),
    ),
    Bug(
        "the last category has the noise of the first",
        "release/histogram.py",
        "noise.step(release)\n",
        "noise.step(release)\n        release[-1:] = release[:1]\n",
        ("tests/release/test_counter.py",),
        ("--door", "three categories"),
    ),
    Bug(
        "the noise of step 2 once more at step 3",
        "release/counter.py",
        "                ahead[i] = release = shifted + ahead[i]\n",
        "                if self._base + i == 1 and i + 1 < len(ahead):\n"
        "                    ahead[i + 1] = ahead[i]\n"
        "                ahead[i] = release = shifted + ahead[i]\n",
        ("tests/release/test_counter.py",),
        ("--door", "one number, add by add"),
    ),
    Bug(
        "threads do not take turns",
        "release/counter.py",
        "                    del turn[0]\n                    break",
        "                    break",
        ("tests/release/test_threads.py",),
        (THREADS,),
    ),
    Bug(
        "noise one step late after seek",
        "noise/stream.py",
        "self._seek_engine(t)\n        self._t = t",
        "self._seek_engine(max(t - 1, 0))\n        self._t = t",
        ("tests/noise/test_stream.py",),
        ("--door", "noise saved, restored, moved"),
    ),
    Bug(
        "count: what one person adds without their number of rows",
        "events/counting.py",
        "per_person=options.measure.most * options.max_contributions,",
        "per_person=options.measure.most,",
        ("tests/cli/test_count.py", "tests/cli/test_count_store.py"),
        ("--door", "count, three rows on a day"),
    ),
    Bug(
        "noise rounded towards zero",
        "noise/exact_rounding.py",
        "        flat = out.reshape(-1)\n        for index",
        "        flat = out.reshape(-1)\n        scaled = np.trunc(scaled)\n        for index",
        ("tests/noise/test_exact.py", "tests/release/test_statistics.py"),
        ("--mechanism", "Binary", "--steps", "3"),
    ),
    Bug(
        "float releases off their grid",
        "release/running_sum.py",
        "self._grid = settings.grid\n",
        "self._grid = settings.grid * 2.0**-30\n",
        ("tests/release/test_running_sum.py",),
        ("--mechanism", "Binary", "--steps", "2", "--lane", "float64"),
    ),
    Bug(
        "names: a threshold for one step instead of all",
        "release/open_settings.py",
        "reached = float((times * ndtr((1.5 - threshold) / sigma)).sum())",
        "reached = float(ndtr((1.5 - threshold) / sigma).max())",
        ("tests/release/test_open_counter.py",),
        (NAMES, "a term of one person"),
    ),
    Bug(
        "names: a threshold for one name of a person instead of all",
        "release/open_settings.py",
        "self.delta_threshold / self.names_per_person / (1 + TAIL_ERROR)",
        "self.delta_threshold / (1 + TAIL_ERROR)",
        ("tests/release/test_open_counter.py",),
        (NAMES, "all terms of one person"),
    ),
    Bug(
        "names: noise for one name of a person instead of all",
        "release/open_settings.py",
        "moved = per_name * math.nextafter(math.sqrt(self.names_per_person), math.inf)",
        "moved = float(per_name)",
        ("tests/release/test_open_counter.py",),
        (NAMES, "counts of all terms of one person"),
    ),
    Bug(
        "names: a threshold a tenth too low",
        "release/open_settings.py",
        "return _threshold_of(tuple(sigmas.tolist()), tuple(counts.tolist()), most)",
        "return round(1.5 + 0.9 * (_threshold_of(tuple(sigmas.tolist()), tuple(counts.tolist()), most) - 1.5))",
        ("tests/release/test_open_counter.py",),
        (NAMES, "all terms of one person"),
    ),
    Bug(
        "names: noise a tenth too small",
        "release/open_settings.py",
        "return noise_scale(self.mechanism, zcdp(self.rho * share), per_person=moved)",
        "return 0.9 * noise_scale(self.mechanism, zcdp(self.rho * share), per_person=moved)",
        ("tests/release/test_open_counter.py",),
        (NAMES, "counts of events"),
    ),
    Bug(
        "names: a name seen through a dropped contribution",
        "release/open_counter.py",
        "step = self._tally(names, kept)",
        "step = self._tally(names, kept | True)",
        ("tests/release/test_open_counter.py",),
        (NAMES, "more terms than are allowed"),
    ),
    Bug(
        "names: noise that restarts when a name is first seen",
        "noise/named.py",
        "self._walk(slice(start, start + len(new)), after)",
        "self._high[:, start : start + len(new)] = 0.0",
        ("tests/noise/test_named.py", "tests/release/test_open_counter.py"),
        (NAMES, "a term that others bring later"),
    ),
    Bug(
        "names: noise alone publishes a name that came with a count of 0",
        "release/open_sums.py",
        "reached = (chosen_by >= settings.threshold) & (brought > 0)",
        "reached = chosen_by >= settings.threshold",
        ("tests/release/test_open_counter.py",),
        (NAMES, "a term of one person"),
    ),
    Bug(
        "names: those of one step in the order in which they were brought",
        "release/open_sums.py",
        "found = sorted((everyone[row], row) for row in new.tolist())",
        "found = [(everyone[row], row) for row in new.tolist()]",
        ("tests/release/test_open_counter.py",),
        (NAMES, "a term's place among those of its step"),
    ),
)


def main() -> int:
    """Plant every bug, print the table, and return 1 if one went unnoticed."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--only", default="", help="bugs whose title holds this text")
    parser.add_argument("--trials", default="100000", help="trials of an audit")
    given = parser.parse_args()
    print("| planted | caught by a test | `dpstream audit` says |\n|---|---|---|", flush=True)
    tested, audited, planted = 0, 0, 0
    for bug in BUGS:
        if given.only in bug.title:
            with tempfile.TemporaryDirectory(prefix="planted-") as folder:
                copy = plant(bug, Path(folder))
                test, audit = failing_test(bug, copy), verdict(bug, copy, given.trials)
            planted, tested, audited = planted + 1, tested + bool(test), audited + audit.startswith(CAUGHT)
            print(f"| {bug.title} | {test or '**none**'} | {audit} |", flush=True)
    print(f"\n{planted} planted, {tested} caught by a test, {audited} by the audit.")
    return int(tested < planted or (not given.only and audited < LEAST_BY_AUDIT))


def plant(bug: Bug, folder: Path) -> Path:
    """Copy the library and its tests, and write the bug into the copy."""
    for part in ("src", "tests", "docs"):
        shutil.copytree(ROOT / part, folder / part, ignore=shutil.ignore_patterns("__pycache__"))
    for name in ("pyproject.toml", "README.md", "CONTRIBUTING.md"):
        shutil.copy(ROOT / name, folder / name)
    path = folder / "src" / "dpstream" / bug.file
    text = path.read_text()
    if text.count(bug.right) != 1:
        raise SystemExit(
            f"{bug.title}: {bug.file} holds what is to be replaced {text.count(bug.right)} times, not once"
        )
    path.write_text(text.replace(bug.right, bug.wrong))
    return folder


def failing_test(bug: Bug, copy: Path) -> str | None:
    """Return the first test that fails, None if all pass."""
    done = run(copy, "-m", "pytest", "-x", "-q", "-p", "no:cacheprovider", *bug.tests)
    found = re.search(r"^(?:FAILED|ERROR) \S*?::(\w+)", done.stdout, flags=re.MULTILINE)
    if done.returncode == 0:
        return None
    return f"`{found.group(1)}`" if found else f"(pytest: {done.stdout[-300:]} {done.stderr[-300:]})"


def verdict(bug: Bug, copy: Path, trials: str) -> str:
    """Return what the audit says, in one word."""
    if bug.audit[0] in CHECKS:
        done = run(copy, "-c", CHECKS[bug.audit[0]].replace("TITLE", bug.audit[-1]))
        if done.returncode:
            return f"crashed: {done.stderr[-200:]}"
        return "violated" if int(done.stdout) else "kept"
    done = run(copy, "-m", "dpstream", "audit", *bug.audit, "--trials", trials)
    if done.returncode == REFUSED:
        return f"refused: {' '.join(done.stderr.split())}"
    crashed = done.returncode not in (0, 1) or "Traceback" in done.stderr
    return f"crashed: {done.stderr[-200:]}" if crashed else done.stdout.split(".")[0].lower()


def run(copy: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    """Run Python on the copy."""
    environment = os.environ | {"PYTHONPATH": str(copy / "src"), "PYTHONDONTWRITEBYTECODE": "1"}
    return subprocess.run(  # noqa: S603
        [sys.executable, *arguments],
        cwd=copy,
        env=environment,
        capture_output=True,
        text=True,
        timeout=900,
        check=False,
    )


if __name__ == "__main__":
    sys.exit(main())
