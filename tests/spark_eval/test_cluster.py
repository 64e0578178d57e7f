"""The jobs elsewhere: on a standalone cluster of a master and two workers, and over Spark Connect."""

from __future__ import annotations

import subprocess
import sys

import pytest

from spark_eval.experiment.plan import Part, parse
from spark_eval.jobs.experiment import PLAN, TRACES, ExperimentJob, run_experiment
from spark_eval.runtime.progress import Steps
from spark_eval.runtime.session import SparkOptions
from tests.spark_eval.cluster import ROOT, cluster, connect_server

EXPERIMENT = """
seed: 3
availability:
  population: {requests: 2000}
  simulated_runs: 160
  block: 10
  live_runs: 0
  sweeps:
    pdps: {pdps: [2, 16, 32], overlap: [0.1, 0.5]}
response_time: {}
"""

pytestmark = [pytest.mark.cluster, pytest.mark.timeout(600)]


def unstarted(*_, **__):
    raise AssertionError("nothing live is part of this")


def simulated(folder):
    return (folder / TRACES / "simulation.parquet").read_bytes()


@pytest.fixture(scope="module")
def local(spark, tmp_path_factory):
    """What comes out on this machine alone."""
    out = tmp_path_factory.mktemp("local") / "out"
    parts = frozenset([Part.AVAILABILITY])
    run_experiment(
        ExperimentJob(parse(EXPERIMENT), parts, out, "", SparkOptions(), unstarted, unstarted), Steps(None)
    )
    return out


@pytest.fixture
def running(tmp_path):
    with cluster(tmp_path, workers=2) as running:
        yield running


def test_a_cluster_gives_the_same_result_also_when_a_worker_is_killed_in_the_middle(local, running, tmp_path):
    driver = subprocess.Popen(
        [sys.executable, "-m", "tests.spark_eval.cluster_driver", running.url, local / PLAN, tmp_path],
        cwd=ROOT, stdout=subprocess.PIPE, text=True,
    )  # fmt: skip
    try:
        assert driver.stdout.readline() == "done\n"
        assert simulated(tmp_path / "undisturbed") == simulated(local)
        assert driver.stdout.readline() == "busy\n"
        running.workers[0].kill()
        done, failed = driver.stdout.readline().split()
        assert done == "done"
        assert int(failed) >= 1, "the worker was killed when it had nothing to do"
        assert simulated(tmp_path / "disturbed") == simulated(local)
    finally:
        driver.stdout.close()
        driver.terminate()
        driver.wait()


def experiment(master, plan, out):
    """What the command prints, run as from a terminal."""
    words = ["--plan", plan, "--master", master, "--out", out]
    done = subprocess.run(
        [sys.executable, "-m", "authfabric", "experiment", "availability", *words],
        cwd=ROOT, capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    assert "WARN" not in done.stderr
    return done.stdout


def test_the_command_runs_on_a_cluster_as_it_does_here(local, running, tmp_path):
    printed = experiment(running.url, local / PLAN, tmp_path / "out")
    assert "6 of 6 points agree" in printed
    assert simulated(tmp_path / "out") == simulated(local)


def test_the_command_runs_over_spark_connect_as_it_does_here(local, tmp_path):
    with connect_server(tmp_path) as url:
        printed = experiment(url, local / PLAN, tmp_path / "out")
    assert "6 of 6 points agree" in printed
    assert simulated(tmp_path / "out") == simulated(local)


COUNTING = """
import sys
import pyarrow as pa
from spark_eval.runtime import SparkOptions, open_session
from spark_eval.runtime import collect_rows

SCHEMA = pa.schema([pa.field("square", pa.int64())])

def squares(batches):
    for batch in batches:
        yield pa.RecordBatch.from_pydict({"square": [n * n for n in batch.column(0).to_pylist()]}, SCHEMA)

with open_session(SparkOptions(sys.argv[1])) as spark:
    found = collect_rows(spark, squares, 5, SCHEMA)
    assert found.schema.equals(SCHEMA), found.schema
    print(sorted(found.column("square").to_pylist()))
"""


def test_tasks_of_numbers_hand_back_their_rows_over_spark_connect_too(tmp_path):
    with connect_server(tmp_path) as url:
        done = subprocess.run(
            [sys.executable, "-c", COUNTING, url], cwd=ROOT, capture_output=True, text=True, check=False
        )
    assert done.stdout == "[0, 1, 4, 9, 16]\n", done.stderr


DECIDING = """
import sys
import spark_eval
from spark_eval.runtime import SparkOptions, open_session

with open_session(SparkOptions(sys.argv[1])) as spark:
    rows = [("ann", "/a", "read"), ("ann", "/a", "write")]
    requests = spark.createDataFrame(rows, "subject string, object string, action string")
    print([row.effect for row in spark_eval.decide(requests, sys.argv[2]).orderBy("action").collect()])
    spark_eval.register_decide(spark, sys.argv[2])
    print(spark.sql("SELECT authz_decide('ann', '/a', 'read').policies AS policies").first().policies)
"""


def test_requests_are_decided_over_spark_connect_in_frames_and_in_sql(tmp_path):
    policies = tmp_path / "policies"
    policies.mkdir()
    (policies / "all.yaml").write_text(
        "- {uid: readers, effect: allow, targets: {action_id: read}, rules: {}}\n"
    )
    with connect_server(tmp_path) as url:
        done = subprocess.run(
            [sys.executable, "-c", DECIDING, url, str(policies)],
            cwd=ROOT,
            capture_output=True,
            text=True,
            check=False,
        )
    assert done.stdout == "['allow', 'deny']\n['readers']\n", done.stderr
