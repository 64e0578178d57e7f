from __future__ import annotations

import os
import zipfile
from pathlib import Path

import pyarrow as pa
import pytest
from pyspark.sql import SparkSession

from spark_eval.errors import SessionFailed
from spark_eval.runtime.session import (
    PACKAGES,
    SparkOptions,
    open_session,
    pack,
    settings,
    start_session,
    to_frame,
)


def test_a_session_that_runs_is_used_and_left_running(spark):
    with open_session(SparkOptions(master="local[7]")) as again:
        assert again is spark
    assert SparkSession.getActiveSession() is spark


def test_starting_leaves_the_environment_as_it_was(spark):
    assert "PYSPARK_PYTHON" not in os.environ
    assert "authfabric" not in os.environ.get("JAVA_HOME", "")


def test_tasks_run_in_this_python(spark):
    def name(batches):
        import sys

        import pyarrow as pa

        for batch in batches:
            yield pa.RecordBatch.from_pydict({"python": [sys.executable] * batch.num_rows})

    import sys

    assert [r.python for r in spark.range(1).mapInArrow(name, "python string").collect()] == [sys.executable]


def test_settings_given_win():
    told = settings(SparkOptions(settings={"spark.sql.shuffle.partitions": "64"}), "")
    assert told["spark.sql.shuffle.partitions"] == "64"


def test_local_masters_stay_on_the_loopback_interface():
    assert settings(SparkOptions("local"), "")["spark.driver.host"] == "127.0.0.1"
    assert "spark.driver.host" not in settings(SparkOptions("spark://host:7077"), "")


def test_python_tasks_are_spoken_to_through_a_folder_that_is_closed_to_others():
    folder = settings(SparkOptions("local"), "")["spark.python.unix.domain.socket.dir"]
    assert Path(folder).stat().st_mode & 0o077 == 0
    assert "spark.python.unix.domain.socket.dir" not in settings(SparkOptions("spark://host:7077"), "")


def test_a_master_that_makes_no_sense_is_a_clear_error():
    with pytest.raises(SessionFailed, match="no Spark session on `sc://`"):
        start_session(SparkOptions("sc://"))


def test_a_table_with_an_empty_part_is_read_to_the_end(spark):
    part = pa.table({"n": [1, 2]})
    table = pa.concat_tables([part.slice(0, 0), part, part.slice(0, 0), part])
    assert [row.n for row in to_frame(spark, table).collect()] == [1, 2, 1, 2]


def test_what_is_shipped_holds_every_package_that_tasks_import(tmp_path):
    archive = pack(tmp_path)
    with zipfile.ZipFile(archive) as zipped:
        packages = {name.partition("/")[0] for name in zipped.namelist()}
    assert packages == set(PACKAGES)
    assert pack(tmp_path) == archive
