"""Coverage-guided fuzzing of the parsers, by atheris (extra `fuzz`); not collected by pytest.

python -m tests.fuzz.with_atheris -max_total_time=20     # any libFuzzer option
"""

import atexit
import sys

import atheris

with atheris.instrument_imports(include=["dpstream.noise.saved_state", "dpstream.store", "dpstream.events"]):
    from tests.fuzz.file_target import any_file
    from tests.fuzz.store_target import DamagedStore
    from tests.fuzz.targets import TARGETS


def main() -> None:
    store = DamagedStore()
    targets = (*TARGETS, store, any_file)

    def one_input(data: bytes) -> None:
        """The first byte chooses the target."""
        if data:
            targets[data[0] % len(targets)](data[1:])

    atexit.register(store.close)
    atheris.Setup(sys.argv, one_input)
    atheris.Fuzz()


if __name__ == "__main__":
    main()
