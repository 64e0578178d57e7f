"""One Spark session for each process of the run: starting one takes seconds. Other settings: use `newSession`."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from spark_eval.runtime.session import SparkOptions, open_session
from tests.spark_eval.bare import bare_path

ROOT = Path(__file__).parents[2]


@pytest.fixture(scope="session")
def started_in(tmp_path_factory) -> Path:
    """The empty folder that Spark is started in."""
    return tmp_path_factory.mktemp("here")


@pytest.fixture(scope="session")
def spark(started_in, tmp_path_factory):
    """Started with a path on which there is no java: as on a machine that has none."""
    options = SparkOptions(master="local[2]", memory="1g", settings={"spark.sql.shuffle.partitions": "2"})
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("PATH", bare_path(tmp_path_factory.mktemp("tools")))
        patch.setenv("PYTHONPATH", str(ROOT), prepend=os.pathsep)  # tasks import what tests define
        patch.delenv("JAVA_HOME", raising=False)
        patch.chdir(started_in)
        session = open_session(options)
        started = session.__enter__()
    yield started
    session.__exit__(None, None, None)


@pytest.fixture
def fresh(spark) -> SparkSession:
    """A session with settings, views and functions of its own on the same engine."""
    return spark.newSession()
