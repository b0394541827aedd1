"""Compares what this Python, these libraries and this kernel compute with what is written down.

usage: python -m tests.portability.check      (from the project's root; prints one line of JSON; exit status 1: differs)

Needs nothing but dpstream and what it depends on, so that it runs where there is no pytest.
"""

from __future__ import annotations

import importlib
import json
import platform
import sys
import warnings
from importlib.metadata import version
from typing import Any

from dpstream import kernel
from tests.noise.make_known_answers import TARGET, known_answers
from tests.portability import vectors

#: Mechanisms whose numbers come from LAPACK, from Fourier transforms or from integration: another library may compute
#: another last digit, which is another mechanism (its identity, part of every key, says so) with noise of its own.
#: docs/exact-rounding.md, "The same bits everywhere".
OF_LIBRARIES = {"Optimal", "LogMatrix"}
#: Those whose float lane is made by such libraries, up to their rounding errors; the exact lane is not.
FLOATS_OF_LIBRARIES = {"SquareRoot", "SquareRoot.plain", "FromMatrix", "FromCoefficients", "Unbounded-SquareRoot"}


def depends_on_libraries(expected: dict[str, Any], computed: dict[str, Any]) -> bool:
    """Return whether two entries of "lanes" differ only where the documentation says that libraries decide."""
    name = expected["mechanism"]
    if name in OF_LIBRARIES:
        return True
    before, now = expected["digests"], computed["digests"]
    different = {lane for lane in before if before[lane] != now.get(lane)}
    return name in FLOATS_OF_LIBRARIES and all(lane.startswith("float") for lane in different)


def main() -> int:
    """Print what was compared, on what, what differs, and what differs as documented."""
    warnings.simplefilter("ignore", kernel.SlowKernelWarning)
    known, found = json.loads(TARGET.read_text()), json.loads(json.dumps(known_answers()))
    compared, differs, documented = 0, [], []
    for part in ("draws", "streams", "named", "lanes"):
        for expected, computed in zip(known[part], found[part], strict=True):
            compared += 1
            if expected != computed and part == "lanes" and depends_on_libraries(expected, computed):
                documented.append(expected["mechanism"])
            elif expected != computed:
                differs.append(f"{part}: {expected.get('desc') or expected['mechanism']}")
    module = importlib.import_module(f"dpstream.kernel.{'_compiled' if kernel.name == 'compiled' else 'twin'}")
    differs += vectors.replay(module)
    if vectors.digest() != vectors.DIGEST:
        differs.append("the twin's answers to the kernel's vectors")
    print(
        json.dumps(
            {
                "machine": platform.machine(),
                "python": platform.python_version(),
                "libraries": {name: version(name) for name in ("numpy", "scipy", "cryptography", "python-flint")},
                "kernel": kernel.name,
                "module": module.__file__,
                "answers": compared,
                "calls": sum(1 for _ in vectors.calls()),
                "differs": differs,
                "differs as documented": documented,
            }
        )
    )
    return 1 if differs else 0


if __name__ == "__main__":
    sys.exit(main())
