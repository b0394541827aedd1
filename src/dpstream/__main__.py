"""The command `dpstream`, also as `python -m dpstream`: says what is missing where only the library is installed."""

from __future__ import annotations

import sys
from importlib.util import find_spec

__all__ = ["main"]

#: What the extra `cli` installs.
NEEDED = ("polars", "rich", "typer")


def main() -> None:
    """Run the command, or say in one sentence how to install what it needs."""
    missing = [name for name in NEEDED if find_spec(name) is None]
    if missing:
        names = " and ".join(filter(None, (", ".join(missing[:-1]), missing[-1])))
        sys.stderr.write(f"dpstream: the command needs {names}; to install: pip install 'dpstream[cli]'\n")
        sys.exit(2)
    from dpstream.cli.app import main as run

    run()


if __name__ == "__main__":
    main()
