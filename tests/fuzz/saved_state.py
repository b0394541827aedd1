"""Coverage-guided fuzzing of the parsers, by atheris (extra `fuzz`); not collected by pytest.

python -m tests.fuzz.saved_state -max_total_time=20     # any libFuzzer option
"""

import sys

import atheris

with atheris.instrument_imports(include=["dpstream.noise.saved_state", "json"]):
    from tests.fuzz import targets


def one_input(data: bytes) -> None:
    """The first byte chooses the target."""
    if data:
        targets.TARGETS[data[0] % len(targets.TARGETS)](data[1:])


def main() -> None:
    atheris.Setup(sys.argv, one_input)
    atheris.Fuzz()


if __name__ == "__main__":
    main()
