"""Precompute: entities and policies in, decisions out, for caches and for whoever wants to ask many at once."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import msgspec
from pyspark.sql import SparkSession

from authz import Identity
from pdp.bundle import PolicySet
from sdp_cache.snapshots import Origin, Snapshot, open_snapshot, save_snapshot, write_snapshot
from spark_eval.entities import Inputs, Population, populate
from spark_eval.errors import EvaluationError
from spark_eval.evaluation import BUCKET, Decisions, Names, class_ids, precomputation, turn, workers_of
from spark_eval.plans import Classes, Part, part_of
from spark_eval.runtime import Sessions, Steps, whole_folder
from spark_eval.stores import (
    DECIDED,
    MANIFEST,
    SNAPSHOT,
    Earlier,
    Manifest,
    changed_buckets,
    read_earlier,
    totals,
    write_changes,
    write_names,
)

ROWS_IN_PART = 256
MAX_PARTS = 64


@dataclass(frozen=True, slots=True)
class PrecomputeJob:
    """What to compute, from which policies, signed by whom, and where it goes."""

    inputs: Inputs
    origin: Origin
    signer: Identity
    output: Path
    full: bool = False
    """Whether to compute everything anew, even if an earlier output could be gone on from."""
    expires: float | None = None
    """When caches must stop using the snapshot."""
    assume_provided: bool = False
    """Whether PDPs know all attributes of entities, though the manifest does not say that they look them up."""


class NotProvided(EvaluationError):
    """Attributes that policies look at and requests bring: nobody can decide in advance what those will say."""

    def __init__(self, attributes: Sequence[str]) -> None:
        listed = ", ".join(f"`{each}`" for each in attributes)
        super().__init__(
            f"PDPs do not look up {listed}, so a snapshot would answer otherwise than they do: list what they"
            " look up as `provided` in bundle.yaml, or say `--assume-provided` if they know what the entities say"
        )
        self.attributes = tuple(attributes)


class EpochGoesBack(EvaluationError):
    """Decisions of an earlier epoch than those that are there: `there` and `asked` are the epochs."""

    def __init__(self, output: Path, there: int, asked: int) -> None:
        super().__init__(
            f"`{output}` holds decisions of epoch {there}, and epoch {asked} is earlier: give the epoch that is in"
            " force, another folder, or `--full` to begin anew"
        )
        self.output = output
        self.there = there
        self.asked = asked


@dataclass(frozen=True, slots=True)
class Done:
    """What was computed, and how much of it was taken over from an earlier run."""

    manifest: Manifest
    incremental: bool
    snapshot_bytes: int
    warnings: tuple[str, ...] = ()
    """What is probably a mistake in what was asked."""


def precompute_decisions(job: PrecomputeJob, session: Sessions, steps: Steps) -> Done:
    """Compute all decisions. The output appears whole or not at all; Spark is started when it is needed."""
    if not job.assume_provided:
        _check_provided(job.inputs.policies)
    earlier = None if job.full else read_earlier(job.output)
    if earlier is not None and job.origin.epoch < earlier.manifest.origin.epoch:
        raise EpochGoesBack(job.output, earlier.manifest.origin.epoch, job.origin.epoch)
    with steps.step("evaluating policies over entities", 1) as advance:
        # Sessions begin and end within seconds: what they say of roles is nothing to remember for a day.
        inputs = replace(job.inputs, ask_roles=job.inputs.policies.governed)
        population = populate(inputs, earlier.before if earlier else None)
        advance(1)
    classes = population.permissions.side.classes(population.plan)
    ids = class_ids(population.plan, classes.side)
    subjects = turn(population.subjects.side, len(population.plan.bits))
    decisions = Decisions(population.plan, subjects, classes.side, ids)
    previous = _previous_snapshot(job, earlier)
    with whole_folder(job.output, MANIFEST) as folder:
        parts = earlier.manifest.parts if earlier else _parts(decisions)
        taken_over = earlier is not None and write_changes(
            folder, decisions, earlier, changed_buckets(population, earlier.before)
        )
        if not taken_over:
            parts = _parts(decisions)
            _write_all(folder / DECIDED, decisions, parts, session(), steps)
        snapshot = _write_snapshot(folder / SNAPSHOT, job, population, decisions, classes, previous)
        write_names(folder, population, ids[classes.members], earlier)
        manifest = _manifest(job, population, decisions, parts, totals(folder, ids[classes.members]))
        (folder / MANIFEST).write_bytes(msgspec.json.format(msgspec.json.encode(manifest)))
    return Done(manifest, taken_over, snapshot, population.warnings)


def _check_provided(policies: PolicySet) -> None:
    """Raise NotProvided if the decision about a request without attributes is not the decision about the entities."""
    used = {path for _, paths in policies.uses() for path in paths if part_of(path) is not Part.ASK}
    missing = sorted(map(str, used - policies.provided))
    if missing:
        raise NotProvided(missing)


def _parts(decisions: Decisions) -> int:
    """Into how many parts the decisions go: a change touches few of them, and none is tiny."""
    rows = decisions.classes.rows * -(-decisions.subjects.count // BUCKET)
    return max(1, min(MAX_PARTS, rows // ROWS_IN_PART))


def _write_all(place: Path, decisions: Decisions, parts: int, spark: SparkSession, steps: Steps) -> None:
    workers = workers_of(spark)
    frame = decisions.frame(spark, workers).selectExpr("*", f"pmod(class, {parts}) as part")
    # A file for each part at once, instead of sorting the rows by part first.
    spark.conf.set("spark.sql.maxConcurrentOutputFileWriters", str(MAX_PARTS))
    with steps.watch(spark, "computing decisions", len(decisions.tiles(workers))):
        frame.write.partitionBy("part").option("compression", "zstd").parquet(str(place.absolute()))


def _previous_snapshot(job: PrecomputeJob, earlier: Earlier | None) -> Snapshot | None:
    """The snapshot beside the earlier decisions. Raises SnapshotRefused if it is not of their epoch."""
    if earlier is None:
        return None
    path = earlier.folder / SNAPSHOT
    return open_snapshot(path, [job.signer.public], earlier.manifest.origin)


def _write_snapshot(
    path: Path,
    job: PrecomputeJob,
    population: Population,
    decisions: Decisions,
    classes: Classes,
    previous: Snapshot | None,
) -> int:
    names = Names(population.subjects.names, population.permissions.names, population.actions)
    computed = precomputation(population.plan, names, decisions.subjects, classes, job.origin)
    data = write_snapshot(replace(computed, expires=job.expires), job.signer, previous)
    save_snapshot(path, data)
    return len(data)


def _manifest(
    job: PrecomputeJob, population: Population, decisions: Decisions, parts: int, sums: tuple[int, int]
) -> Manifest:
    return Manifest(
        job.origin,
        len(population.subjects.names),
        len(population.permissions.names),
        population.actions,
        decisions.classes.rows,
        parts,
        *sums,
        population.marks,
    )
