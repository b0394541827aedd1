"""One Spark session for all tests of this folder; Java is looked for first, and named if it is missing."""

from pathlib import Path

import pytest

from dpstream.adapters.spark import local_session
from tests.integrations.spark.streams import KEY

#: Of PySpark's own: sockets to the JVM, and threads that outlive a query.
IGNORED = ("ignore::ResourceWarning", "ignore::UserWarning", "ignore::pytest.PytestUnraisableExceptionWarning")


def pytest_collection_modifyitems(items):
    for item in items:
        if Path(__file__).parent in item.path.parents:
            for message in IGNORED:
                item.add_marker(pytest.mark.filterwarnings(message))


@pytest.fixture(scope="session")
def spark():
    patch = pytest.MonkeyPatch()
    # Workers are forked from a process that starts with the session, so the secret is there before it.
    patch.setenv("DPSTREAM_SPARK_TEST", KEY.hex())
    root = Path(__file__).parents[3]
    patch.setenv("PYTHONPATH", f"{root}:{root / 'src'}")  # of this tree, whatever is installed
    session = local_session(settings={"spark.log.level": "ERROR", "spark.sql.session.timeZone": "America/New_York"})
    yield session
    session.stop()
    patch.undo()
