"""One Spark session for each process of the run: starting one takes seconds. Other settings: use `newSession`."""

from __future__ import annotations

import pytest
from pyspark.sql import SparkSession

from spark_eval.session import SparkOptions, open_session


@pytest.fixture(scope="session")
def spark():
    options = SparkOptions(master="local[2]", memory="1g", settings={"spark.sql.shuffle.partitions": "2"})
    with open_session(options) as session:
        yield session


@pytest.fixture
def fresh(spark) -> SparkSession:
    """A session with settings, views and functions of its own on the same engine."""
    return spark.newSession()
