from __future__ import annotations

import subprocess
import sys

import pyarrow as pa
import pytest

from spark_eval.experiment.simulation import simulate_task
from tests.spark_eval.cluster import ROOT, cluster
from tests.spark_eval.cluster_driver import TASKS, digest


@pytest.mark.cluster
@pytest.mark.timeout(300)
def test_a_cluster_gives_the_same_result_also_when_a_worker_is_killed_in_the_middle(tmp_path):
    expected = digest(pa.concat_tables(map(simulate_task, TASKS)))
    with cluster(tmp_path, workers=2) as running:
        driver = subprocess.Popen(
            [sys.executable, "-m", "tests.spark_eval.cluster_driver", running.url],
            cwd=ROOT, stdout=subprocess.PIPE, text=True,
        )  # fmt: skip
        try:
            assert driver.stdout.readline().split() == [expected]
            assert driver.stdout.readline() == "busy\n"
            running.workers[0].kill()
            result, failed = driver.stdout.readline().split()
            assert result == expected
            assert int(failed) >= 1, "the worker was killed when it had nothing to do"
        finally:
            driver.stdout.close()
            driver.terminate()
            driver.wait()
