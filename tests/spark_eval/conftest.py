"""One Spark session for the whole run: starting one takes seconds. Tests that need other settings use `newSession`."""

from __future__ import annotations

from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from spark_eval.session import SparkOptions, open_session

HERE = Path(__file__).parent


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Where tests run in several processes, those with Spark share one."""
    for item in items:
        if HERE in item.path.parents:
            item.add_marker(pytest.mark.xdist_group("spark"))


@pytest.fixture(scope="session")
def spark():
    options = SparkOptions(master="local[2]", memory="1g", settings={"spark.sql.shuffle.partitions": "2"})
    with open_session(options) as session:
        yield session


@pytest.fixture
def fresh(spark) -> SparkSession:
    """A session with settings, views and functions of its own on the same engine."""
    return spark.newSession()
