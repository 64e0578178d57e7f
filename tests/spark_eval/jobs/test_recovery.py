"""The whole fabric struck, on a plan so small that it takes a minute: three servers, PDPs and brokers are killed."""

from __future__ import annotations

import msgspec
import pyarrow.parquet as pq
import pytest

from authfabric.chaos import whole_fabric
from authfabric.commands.scale.experiment_fabric import shipped_fabric
from spark_eval.experiment import variants
from spark_eval.experiment.plan import Part, load, shipped
from spark_eval.experiment.recovery import (
    ALL_PDPS,
    ALL_SERVERS,
    EVENTS_ONE,
    FIGURE,
    ONE_BROKER,
    STRUCK,
    Recovery,
)
from spark_eval.jobs.experiment import REPORT, TRACES, ExperimentJob, run_experiment
from spark_eval.runtime.progress import Steps
from spark_eval.runtime.session import SparkOptions

pytestmark = pytest.mark.cluster

PLAN = msgspec.structs.replace(
    load(shipped("quick")), recovery=Recovery(times=1, pace=50.0, away=1.0, all_away=2.0, learned=100)
)


@pytest.fixture(scope="module")
def struck(spark, tmp_path_factory):
    out = tmp_path_factory.mktemp("out") / "recovery"
    parts = frozenset([Part.RECOVERY])
    job = ExperimentJob(PLAN, parts, out, "command", SparkOptions(), shipped_fabric, whole_fabric)
    return run_experiment(job, Steps(None)), out


def test_what_is_killed_answers_nothing_and_what_a_cache_knows_is_answered(struck):
    result, out = struck
    points = {(each.struck, each.asker): each for each in result.recovery}
    assert {name for name, _ in points} == set(STRUCK)
    for name in (ALL_PDPS, ALL_SERVERS):
        # A question asked a moment before the kill may be answered, and so may one that waits for the start.
        assert points[name, variants.NOTHING].answered < points[name, variants.NOTHING].asked / 2
    assert (
        points[ALL_PDPS, variants.CERTIFICATES].recycled > points[ALL_PDPS, variants.CERTIFICATES].asked / 2
    )
    assert {points[name, variants.NOTHING].recycled for name in STRUCK} == {0}
    assert points[ONE_BROKER, EVENTS_ONE].failed_last[0] > 0
    assert "Who is answered while something is away" in (out / REPORT).read_text()


def test_it_is_watched_until_all_is_answered_again(struck):
    trace = pq.read_table(struck[1] / TRACES / "live.parquet").to_pylist()
    for name in STRUCK:
        mine = [row for row in trace if row["figure"] == f"{FIGURE}{name}"]
        last = max(row["at"] for row in mine)
        assert not any(row["failed"] for row in mine if row["at"] > last - 2)
        assert min(row["at"] for row in mine) < 0
