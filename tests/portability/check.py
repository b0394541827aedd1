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

from dpstream import kernel
from tests.noise.make_known_answers import TARGET, known_answers
from tests.portability import vectors


def main() -> int:
    """Print what was compared, on what, and what differs."""
    warnings.simplefilter("ignore", kernel.SlowKernelWarning)
    known, found = json.loads(TARGET.read_text()), json.loads(json.dumps(known_answers()))
    compared, differs = 0, []
    for part in ("draws", "streams", "named", "lanes"):
        for expected, computed in zip(known[part], found[part], strict=True):
            compared += 1
            if expected != computed:
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
            }
        )
    )
    return 1 if differs else 0


if __name__ == "__main__":
    sys.exit(main())
