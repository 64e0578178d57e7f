"""A program that runs the same experiment twice on a cluster, and says how far it is.

In the second run it says `busy` when some tasks are done and others are not, and goes on whatever happens then.
"""

from __future__ import annotations

import sys
import threading
from pathlib import Path

from spark_eval.experiment.plan import Part, load
from spark_eval.experiment.simulation import tasks
from spark_eval.jobs.experiment import PARTITIONS, ExperimentJob, run_experiment
from spark_eval.runtime.progress import Steps
from spark_eval.runtime.session import SparkOptions, open_session

POLL_SECONDS = 0.02


class Watch:
    """Looks at the simulation's stage: says when it is in the middle, and counts the tasks that fail."""

    def __init__(self, spark, parts):
        self.failed = 0
        self._parts = parts
        self._tracker = spark.sparkContext.statusTracker()
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._look, daemon=True)

    def __enter__(self):
        self._thread.start()
        return self

    def __exit__(self, *_):
        self._stop.set()
        self._thread.join()

    def _look(self):
        said = False
        while not self._stop.wait(POLL_SECONDS):
            for info in map(self._tracker.getStageInfo, self._tracker.getActiveStageIds()):
                if info is None or info.numTasks != self._parts:
                    continue
                self.failed = max(self.failed, info.numFailedTasks)
                if not said and 4 <= info.numCompletedTasks < info.numTasks // 2:
                    said = True
                    print("busy", flush=True)


def main(master, plan, out):
    experiment = load(Path(plan))
    settings = {
        "spark.driver.host": "127.0.0.1",
        "spark.executor.extraJavaOptions": "-XX:TieredStopAtLevel=1",
    }
    options = SparkOptions(master, settings=settings)
    parts = min(PARTITIONS, len(tasks(experiment.availability, experiment.seed)))

    def unshipped(*_, **__):
        raise AssertionError("response times are no part of this")

    def order(name):
        return ExperimentJob(
            experiment, frozenset([Part.AVAILABILITY]), Path(out) / name, "", options, unshipped, unshipped
        )

    with open_session(options) as spark:
        run_experiment(order("undisturbed"), Steps(None))
        print("done", flush=True)
        with Watch(spark, parts) as watch:
            run_experiment(order("disturbed"), Steps(None))
        print("done", watch.failed, flush=True)


if __name__ == "__main__":
    main(*sys.argv[1:])
