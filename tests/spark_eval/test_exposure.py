"""Who could have read a large history, counted by tasks of Spark."""

from __future__ import annotations

from authfabric.exposure import count_on_spark
from tests.authfabric.exposure.test_counting import in_parts


async def test_spark_counts_what_one_process_counts(spark, tmp_path):
    whole, task = await in_parts(f"sqlite:///{tmp_path / 'past.db'}", 2)
    assert count_on_spark(lambda: spark, task) == whole
