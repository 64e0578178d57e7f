"""A driver that precomputes decisions, and says how much memory it and its Java took at most.

`python -m benchmarks.processes.spark_driver 1000000 1000000`
"""

from __future__ import annotations

import json
import sys
import tempfile
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from time import perf_counter

from authz import Entity, Identity
from benchmarks.workloads.bulk import by_kinds
from sdp_cache.snapshots import Origin
from spark_eval.jobs import PrecomputeJob, precompute_decisions
from spark_eval.runtime import SparkOptions, Steps, open_session

HEAP = "768m"
"""For Java: what tasks need is in Python's workers."""


def main(subjects: int, objects: int) -> dict[str, float]:
    """Decide about all of them, with one action, and write decisions and snapshot."""
    with (
        tempfile.TemporaryDirectory() as folder,
        open_session(SparkOptions("local[2]", memory=HEAP)) as spark,
    ):
        population = by_kinds(Path(folder), subjects, objects)
        inputs = replace(population.inputs(lambda: spark), actions=(Entity("read"),))
        job = PrecomputeJob(
            inputs,
            Origin("default", 1, ""),
            Identity.from_seed(bytes(32)),
            Path(folder) / "out",
            assume_provided=True,
        )
        begin = perf_counter()
        done = precompute_decisions(job, lambda: spark, Steps(None))
        seconds = perf_counter() - begin
        return {
            "decisions": done.manifest.decisions,
            "allowed": done.manifest.allows,
            "seconds": seconds,
            "snapshot_mb": done.snapshot_bytes / 1e6,
            "python_mb": peak("self"),
            "java_mb": max(map(peak, javas())),
            "task_mb": max((peak(each) for each in workers()), default=0.0),
        }


def peak(process: str) -> float:
    """The most memory that a process has had, in MB."""
    lines = Path(f"/proc/{process}/status").read_text().splitlines()
    return next(int(line.split()[1]) * 1024 / 1e6 for line in lines if line.startswith("VmHWM:"))


def javas() -> list[str]:
    """The Java of this driver."""
    return [each for each in children("self") if "java" in Path(f"/proc/{each}/comm").read_text()]


def workers() -> Iterator[str]:
    """The processes below Java, in which tasks run."""
    pending = javas()
    while pending:
        found = children(pending.pop())
        yield from found
        pending += found


def children(process: str) -> list[str]:
    number = Path(f"/proc/{process}").resolve().name
    return Path(f"/proc/{number}/task/{number}/children").read_text().split() + [
        each
        for thread in Path(f"/proc/{number}/task").iterdir()
        if thread.name != number
        for each in (thread / "children").read_text().split()
    ]


if __name__ == "__main__":
    print(json.dumps(main(*map(int, sys.argv[1:]))))
