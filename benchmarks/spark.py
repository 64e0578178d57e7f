"""What deciding in bulk costs on Spark: against DuckDB, Polars and a function per row, and after a change.

What is timed against others starts from the same masks, or the same tables, in memory, and ends with the same counts:
for each permission, how many subjects are allowed it. Before anything is timed, all must have counted alike.

Ours is always a job on Spark, from taking equal subjects together to the counts. Commands spare themselves the job
where little is left to count: `rbac_here_millions_per_s` is the same work done by the same functions in this process.
"""

from __future__ import annotations

import json
import random
import subprocess
import sys
import tempfile
from collections.abc import Callable
from dataclasses import replace
from functools import partial
from pathlib import Path
from time import perf_counter

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from pyspark.sql import SparkSession

from authz import Identity
from benchmarks.harness import at_least, at_most, best, best_of_each, main
from benchmarks.rivals import bulk_engines as rivals
from benchmarks.rivals.bulk_engines import Counts, Way, Words, agree
from benchmarks.workloads.bulk import ACTIONS, ROLES, Population, by_attributes, by_roles, role_rules
from sdp_cache.snapshots import Origin, open_snapshot
from spark_eval.entities import Population as Evaluated
from spark_eval.entities import populate
from spark_eval.evaluation import HERE, Decisions, count_tiles, turn
from spark_eval.jobs import PrecomputeJob, precompute_decisions
from spark_eval.plans import Side
from spark_eval.runtime import SparkOptions, Steps, open_session
from spark_eval.stores import SNAPSHOT

PROMISES = {
    "rbac_vs_duckdb": at_least(1),
    "rbac_vs_polars": at_least(1),
    "abac_vs_duckdb": at_least(50),
    "abac_vs_polars": at_least(50),
    "masks_vs_udf": at_least(100),
    "incremental_ratio": at_most(0.1),
    "snapshot_bytes_per_million": at_most(10_000),
    "growth": at_most(1.2),
    "driver_mb_1e12": at_most(2_000),
}
SUBJECTS, OBJECTS = 100_000, 1_000
MILLION = 1_000_000
SAMPLE = 2_000
"""Subjects over which others evaluate a hundred policies: their time grows with the pairs, and is minutes for all."""
UDF_SAMPLE = 50
ROUNDS = 9
WARMING = 20
"""Jobs before any is timed: Java first interprets what it compiles once it has run often enough."""
DISAGREE = "they do not count alike: nothing is measured"
SIGNER = Identity.from_seed(bytes(32))


def run() -> dict[str, float]:
    """How many times longer others take for 100,000 subjects, 1,000 objects and 4 actions, and what it is made of.

    And what a driver takes for a million million decisions.
    """
    return {**measure_driver(), **measure(*PARTS)}


def measure(*names: str) -> dict[str, float]:
    """These parts, in one session."""
    figures: dict[str, float] = {}
    begin = perf_counter()
    with open_session(SparkOptions("local[2]")) as spark, tempfile.TemporaryDirectory() as folder:
        start = perf_counter() - begin
        for name in names:
            figures |= PARTS[name](spark, Path(folder))
    return {**figures, "start_s": start}


def _roles(spark: SparkSession, root: Path) -> dict[str, float]:
    population = by_roles(root / "rbac", SUBJECTS, OBJECTS)
    evaluated = populate(population.inputs(lambda: spark))
    masks = [_words(each.side) for each in (evaluated.subjects, evaluated.permissions)]
    duck, polars = rivals.duckdb_masks(*masks), rivals.polars_masks(*masks)
    ways: dict[str, Way] = {
        "ours": partial(_count, spark, evaluated),
        "here": partial(_count, spark, evaluated, here=HERE),
        **_named("duckdb", duck),
        **_named("polars", polars),
    }
    for _ in range(WARMING):
        ways["ours"]()
    times = _race(ways)
    return {
        "rbac_vs_duckdb": _best(times, "duckdb") / times["ours"],
        "rbac_vs_polars": _best(times, "polars") / times["ours"],
        **{f"rbac_{name}_millions_per_s": population.decisions / times[name] / 1e6 for name in times},
    }


def _policies(spark: SparkSession, root: Path) -> dict[str, float]:
    population = by_attributes(root / "abac", SUBJECTS, OBJECTS)
    evaluated = populate(population.inputs(lambda: spark))
    ours = best(partial(_count, spark, evaluated), ROUNDS) / population.decisions
    people, permissions = _tables(population)
    policies = population.policies.policies
    some, few = people.slice(0, SAMPLE), people.slice(0, UDF_SAMPLE)
    ways: dict[str, Way] = {
        "ours": partial(_count, spark, _first(evaluated, SAMPLE)),
        "duckdb": rivals.duckdb_policies(policies, some, permissions),
        "polars": rivals.polars_policies(policies, some, permissions),
    }
    times = _race(ways, rounds=1)
    pairs = SAMPLE * len(permissions)
    row_function = rivals.row_function(spark, policies, few, permissions)
    if not agree([row_function(), _count(spark, _first(evaluated, UDF_SAMPLE))]):
        raise SystemExit(DISAGREE)
    udf = best(row_function, 2) / (UDF_SAMPLE * len(permissions))
    return {
        "abac_vs_duckdb": times["duckdb"] / pairs / ours,
        "abac_vs_polars": times["polars"] / pairs / ours,
        "masks_vs_udf": udf / ours,
        "abac_ours_millions_per_s": 1 / ours / 1e6,
        "abac_duckdb_millions_per_s": pairs / times["duckdb"] / 1e6,
        "abac_polars_millions_per_s": pairs / times["polars"] / 1e6,
        "abac_udf_millions_per_s": 1 / udf / 1e6,
    }


def _changes(spark: SparkSession, root: Path) -> dict[str, float]:
    """What is computed after one role has got one more permission, against computing everything; and the snapshot."""
    population = by_roles(root / "rbac", SUBJECTS, OBJECTS)
    inputs = population.inputs(lambda: spark)
    order = PrecomputeJob(
        inputs, Origin("default", 1, ""), SIGNER, root / "out", full=True, assume_provided=True
    )
    compute = partial(precompute_decisions, session=lambda: spark, steps=Steps(None))
    full = best(lambda: compute(order), 3)
    chance, grants, times = random.Random(3), population.grants, []
    for epoch in range(2, 2 + ROUNDS):
        grants += ((f"role{chance.randrange(ROLES)}", chance.choice(ACTIONS), chance.randrange(OBJECTS)),)
        change = replace(
            order,
            inputs=replace(inputs, policies=role_rules(grants)),
            origin=Origin("default", epoch, ""),
            full=False,
        )
        begin = perf_counter()
        assert compute(change).incremental
        times.append(perf_counter() - begin)
    snapshot = root / "out" / SNAPSHOT
    load = best(lambda: open_snapshot(snapshot, [SIGNER.public], Origin("default", epoch, "")))
    opened = open_snapshot(snapshot, [SIGNER.public], Origin("default", epoch, ""))
    cases = [
        (f"user{chance.randrange(SUBJECTS)}", f"/files/{chance.randrange(OBJECTS)}", chance.choice(ACTIONS))
        for _ in range(10_000)
    ]
    look_up = best(lambda: [opened.lookup(*case) for case in cases]) / len(cases)
    return {
        "incremental_ratio": min(times) / full,
        "full_s": full,
        "incremental_s": min(times),
        "snapshot_bytes_per_million": snapshot.stat().st_size / (population.decisions / 1e6),
        "snapshot_load_ms": load * 1e3,
        "snapshot_lookup_us": look_up * 1e6,
    }


def _growth(spark: SparkSession, root: Path) -> dict[str, float]:
    """Time per decision at ten times the decisions, against that at one; they take turns."""
    works: dict[str, Callable[[], object]] = {}
    decisions: dict[str, int] = {}
    for name, subjects in (("one", SUBJECTS), ("ten", 10 * SUBJECTS)):
        population = by_roles(root / f"growth-{name}", subjects, OBJECTS)
        evaluated = populate(population.inputs(lambda: spark))
        works[name], decisions[name] = partial(_count, spark, evaluated), population.decisions
    for _ in range(WARMING):
        works["one"]()
    each = {name: seconds / decisions[name] for name, seconds in best_of_each(works, ROUNDS).items()}
    return {
        "growth": each["ten"] / each["one"],
        "growth_one_millions_per_s": 1 / each["one"] / 1e6,
        "growth_ten_millions_per_s": 1 / each["ten"] / 1e6,
    }


def measure_driver() -> dict[str, float]:
    """What a driver and its Java take at most while a million million decisions are made and their snapshot written.

    It is a process of its own, so that nothing else is counted.
    """
    words = [sys.executable, "-m", "benchmarks.processes.spark_driver", str(MILLION), str(MILLION)]
    done = subprocess.run(words, check=True, stdout=subprocess.PIPE)
    found = json.loads(done.stdout)
    return {
        "driver_mb_1e12": found["python_mb"] + found["java_mb"],
        "driver_python_mb_1e12": found["python_mb"],
        "driver_java_mb_1e12": found["java_mb"],
        "task_mb_1e12": found["task_mb"],
        "snapshot_mb_1e12": found["snapshot_mb"],
        "seconds_1e12": found["seconds"],
    }


def _count(spark: SparkSession, evaluated: Evaluated, here: int = 0) -> Counts:
    """All decisions, counted for each permission; more than `here` by a job on Spark."""
    plan = evaluated.plan
    people, classes = (each.side.classes(plan) for each in (evaluated.subjects, evaluated.permissions))
    subjects = turn(people.side, len(plan.bits))
    decisions = Decisions(plan, subjects, classes.side, np.arange(classes.side.rows), people.sizes)
    found = count_tiles(decisions.bare(), "", lambda: spark, Steps(None), here)
    counts = np.zeros(classes.side.rows, np.int64)
    np.add.at(counts, found.column("class").to_numpy(), found.column("allows").to_numpy())
    return counts[classes.members]


def _race(ways: dict[str, Way], rounds: int = ROUNDS) -> dict[str, float]:
    if not agree(way() for way in ways.values()):
        raise SystemExit(DISAGREE)
    works: dict[str, Callable[[], object]] = {**ways}
    return best_of_each(works, rounds)


def _named(rival: str, ways: dict[str, Way]) -> dict[str, Way]:
    return {f"{rival}_{name}": way for name, way in ways.items()}


def _best(times: dict[str, float], rival: str) -> float:
    return min(seconds for name, seconds in times.items() if name.startswith(rival))


def _words(side: Side) -> Words:
    """Masks as two words each; there are as many bits as roles."""
    padded = np.zeros((side.rows, 16), np.uint8)
    padded[:, : side.masks.shape[1]] = side.masks
    return padded.view(np.uint64)


def _first(evaluated: Evaluated, subjects: int) -> Evaluated:
    """The same about the first subjects only."""
    side = evaluated.subjects.side.take(slice(0, subjects))
    return replace(evaluated, subjects=replace(evaluated.subjects, side=side))


def _tables(population: Population) -> tuple[pa.Table, pa.Table]:
    """Subjects, and permissions: each object with each action, in the order of their names."""
    people, things = (
        pq.read_table(population.folder / f"{name}.parquet").sort_by("id") for name in ("people", "things")
    )
    rows = np.repeat(np.arange(len(things)), len(ACTIONS))
    crossed = things.take(pa.array(rows)).append_column("action", pa.array(list(ACTIONS) * len(things)))
    return people, crossed.append_column("row", pa.array(np.arange(len(crossed))))


PARTS: dict[str, Callable[[SparkSession, Path], dict[str, float]]] = {
    "roles": _roles,
    "policies": _policies,
    "changes": _changes,
    "growth": _growth,
}

if __name__ == "__main__":
    main(run, parts={"driver": measure_driver, **{name: partial(measure, name) for name in PARTS}})
