"""A program that runs the same simulation twice on a cluster and says, line by line, what came out.

In the second job it says `busy` when some tasks are done and others are not, and goes on whatever happens then.
"""

from __future__ import annotations

import hashlib
import sys
import threading

import pyarrow as pa

from spark_eval.experiment.cell import Cell, Population
from spark_eval.experiment.plan import Availability, Sweep
from spark_eval.experiment.simulation import simulate, tasks
from spark_eval.schemas import TRACE
from spark_eval.session import SparkOptions, open_session

PLAN = Availability(
    population=Population(requests=2_000),
    simulated_runs=160,
    block=10,
    sweeps={"pdps": Sweep(pdps=(2, 16, 32), overlap=(0.1, 0.5))},
)
TASKS = tasks(PLAN, seed=3)


def digest(trace):
    """What a trace says, whatever the order of its rows."""
    keys = [(name, "ascending") for name in (*Cell.__struct_fields__, "run", "variant")]
    ordered = trace.cast(TRACE).sort_by(keys).combine_chunks()
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, TRACE) as writer:
        writer.write_table(ordered)
    return hashlib.sha256(sink.getvalue()).hexdigest()


def say_when_busy(spark, failed):
    """Say `busy` in the middle of a job; then count the attempts that fail."""
    tracker = spark.sparkContext.statusTracker()
    busy = False
    while not failed["stop"].wait(0.02):
        for stage in tracker.getActiveStageIds():
            info = tracker.getStageInfo(stage)
            if info is None or info.numTasks != len(TASKS):
                continue
            failed["count"] = max(failed["count"], info.numFailedTasks)
            if not busy and 4 <= info.numCompletedTasks < info.numTasks // 2:
                busy = True
                print("busy", flush=True)


def main(master):
    settings = {"spark.driver.host": "127.0.0.1", "spark.executor.memory": "512m"}
    settings["spark.executor.extraJavaOptions"] = "-XX:TieredStopAtLevel=1"
    with open_session(SparkOptions(master, settings=settings)) as spark:
        print(digest(simulate(spark, TASKS, 8).toArrow()), flush=True)
        failed = {"count": 0, "stop": threading.Event()}
        watcher = threading.Thread(target=say_when_busy, args=(spark, failed), daemon=True)
        watcher.start()
        result = digest(simulate(spark, TASKS, len(TASKS)).toArrow())
        failed["stop"].set()
        watcher.join()
        print(result, failed["count"], flush=True)


if __name__ == "__main__":
    main(sys.argv[1])
