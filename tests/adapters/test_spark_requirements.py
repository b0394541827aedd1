"""What Spark needs is looked for before anything starts; here nothing of it need be installed."""

import types

import pytest

from dpstream.adapters.spark import requirements
from dpstream.errors import MissingExtra, SparkUnsupported

VERSIONS = {"pyspark": "4.3.0", "pandas": "2.3.3", "pyarrow": "26.0", "google.protobuf": "7.1"}


def installed(monkeypatch, **changed):
    """Pretend that these versions are installed; None: missing."""
    versions = VERSIONS | {name.replace("_", "."): version for name, version in changed.items()}

    def import_module(name):
        if versions[name] is None:
            raise ImportError(name)
        return types.SimpleNamespace(__version__=versions[name])

    monkeypatch.setattr(requirements, "import_module", import_module)


def test_all_is_there(monkeypatch):
    installed(monkeypatch)
    assert requirements.check_libraries() is None


@pytest.mark.parametrize("missing", ["pyspark", "pandas", "pyarrow", "google_protobuf"])
def test_a_missing_library_is_named_with_what_to_type(monkeypatch, missing):
    installed(monkeypatch, **{missing: None})
    with pytest.raises(MissingExtra, match=rf"needs {missing.rpartition('_')[2]}, .*dpstream\[spark\]"):
        requirements.check_libraries()


@pytest.mark.parametrize(
    ("library", "version", "needs"), [("pandas", "3.0.1", "pandas 2, below 3"), ("pyspark", "3.5.4", "pyspark 4")]
)
def test_a_library_of_the_wrong_version_is_named(monkeypatch, library, version, needs):
    installed(monkeypatch, **{library: version})
    with pytest.raises(SparkUnsupported, match=f"needs {needs}; found: {library} {version}"):
        requirements.check_libraries()


def java_that_says(tmp_path, monkeypatch, text):
    java = tmp_path / "bin" / "java"
    java.parent.mkdir()
    java.write_text(f"#!/bin/sh\necho '{text}' >&2\n")
    java.chmod(0o755)
    monkeypatch.setenv("JAVA_HOME", str(tmp_path))


@pytest.mark.parametrize("version", ["17.0.15", "21", "17"])
def test_a_java_that_serves(tmp_path, monkeypatch, version):
    java_that_says(tmp_path, monkeypatch, f'openjdk version "{version}" 2025-04-15')
    assert requirements.check_java() is None


@pytest.mark.parametrize("said", ['java version "1.8.0_402"', 'openjdk version "11.0.2"', "what?"])
def test_a_java_that_is_too_old(tmp_path, monkeypatch, said):
    java_that_says(tmp_path, monkeypatch, said)
    with pytest.raises(SparkUnsupported, match="Java 17 or later; found"):
        requirements.check_java()


def test_no_java(tmp_path, monkeypatch):
    monkeypatch.setenv("JAVA_HOME", str(tmp_path / "nowhere"))
    with pytest.raises(SparkUnsupported, match="apt-get install openjdk-17-jre-headless"):
        requirements.check_java()
    monkeypatch.delenv("JAVA_HOME")
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(SparkUnsupported, match="no java on the path"):
        requirements.check_java()


@pytest.mark.parametrize(
    "provider", ["", "org.apache.spark.sql.execution.streaming.state.HDFSBackedStateStoreProvider"]
)
def test_a_state_store_that_cannot_keep_shards(provider):
    session = types.SimpleNamespace(conf=types.SimpleNamespace(get=lambda name, default: provider))
    with pytest.raises(SparkUnsupported, match=r"Set spark\.sql\.streaming\.stateStore\.providerClass to"):
        requirements.check_session(session)
