"""Precomputation: equal to the engine, whole or not at all, and after a change only what has changed."""

from __future__ import annotations

import hashlib
from dataclasses import replace

import msgspec
import pyarrow.parquet as pq
import pytest

from authz import Entity, Identity, Request
from sdp_cache.snapshots.snapshot import Origin, Ruling, SnapshotRefused
from sdp_cache.snapshots.store import open_snapshot
from spark_eval.entities.gathering import InvalidEntities
from spark_eval.jobs import precompute as job
from spark_eval.jobs.precompute import EpochGoesBack, NotProvided, PrecomputeJob, precompute_decisions
from spark_eval.runtime.progress import Steps
from spark_eval.stores.precomputed_store import (
    DECIDED,
    MANIFEST,
    PEOPLE,
    SNAPSHOT,
    THINGS,
    DamagedOutput,
    Manifest,
    read_rows,
)
from tests.spark_eval.jobs.clinic import ABAC, CONTEXTS, ROLES, Clinic, people, things, write_lines

SIGNER = Identity.from_seed(bytes(32))


@pytest.fixture
def clinic(tmp_path, spark):
    return Clinic(tmp_path, spark)


def run(clinic, epoch=1, full=False, signer=SIGNER):
    order = PrecomputeJob(
        clinic.inputs(), Origin("clinic", epoch, "hash"), signer, clinic.folder / "out", full
    )
    return precompute_decisions(order, clinic.session, Steps(None))


def check(clinic, spark, epoch=1):
    """Parquet and snapshot both say what the engine says."""
    out = clinic.folder / "out"
    rows = {(r.subject, r.object, r.action): r.effect for r in read_rows(spark, out).collect()}
    snapshot = open_snapshot(out / SNAPSHOT, [SIGNER.public], Origin("clinic", epoch, "hash"))
    expected = dict(clinic.decisions())
    for case, effect in expected.items():
        assert rows.get(case, "deny") == effect, case
        ruling, _ = snapshot.lookup(*case)
        assert ruling is Ruling.ASK or ruling is Ruling[effect.upper()], case
    manifest = msgspec.json.decode((out / MANIFEST).read_bytes(), type=Manifest)
    effects = list(expected.values())
    assert (manifest.allows, manifest.asks) == (effects.count("allow"), effects.count("ask"))
    assert manifest.decisions == len(effects)
    return manifest


def test_everything_is_decided_as_the_engine_decides(clinic, spark):
    done = run(clinic)
    assert not done.incremental
    manifest = check(clinic, spark)
    assert manifest == done.manifest
    assert manifest.asks > 0
    assert manifest.allows > 0


def test_spark_counts_the_bitmaps_with_its_own_functions(clinic, spark):
    done = run(clinic)
    out = clinic.folder / "out"
    decided = spark.read.parquet(str(out / DECIDED))
    permissions = spark.read.parquet(str(out / THINGS))
    total = permissions.join(decided, "class").selectExpr("sum(bitmap_count(allowed)) as n").first().n
    assert total == done.manifest.allows


def without_spark(clinic, epoch=2):
    """Run again where Spark must not be started."""
    spark, clinic.spark = clinic.spark, None
    try:
        return run(clinic, epoch)
    finally:
        clinic.spark = spark


@pytest.fixture
def small_parts(monkeypatch):
    monkeypatch.setattr(job, "ROWS_IN_PART", 2)


@pytest.mark.usefixtures("small_parts")
def test_after_a_policy_change_only_what_changed_is_computed_without_spark(clinic, spark):
    parts = run(clinic).manifest.parts
    assert parts > 1
    before = {each: each.stat().st_ino for each in (clinic.folder / "out" / DECIDED).rglob("*.parquet")}
    clinic.set_policies(ABAC, ROLES + 'nurse |- privilege(write, "/wards/3")\n')
    done = without_spark(clinic)
    assert done.incremental
    check(clinic, spark, epoch=2)
    kept = [each for each, inode in before.items() if each.exists() and each.stat().st_ino == inode]
    assert 0 < len(kept) < len(before)


def test_a_condition_on_an_attribute_is_evaluated_over_the_entities_again(clinic, spark):
    run(clinic)
    clinic.set_policies(ABAC.replace("value: 2", "value: 4"), ROLES)
    assert run(clinic, 2).incremental
    check(clinic, spark, epoch=2)


@pytest.mark.parametrize(
    "changed",
    [
        [*people()[:-1], {**people()[-1], "roles": ["chief"]}],
        [*people(), {"id": "aaron", "roles": ["doctor"], "level": 1}],
        people()[1:],
    ],
)
def test_after_an_entity_change_decisions_are_right_again(clinic, spark, changed):
    run(clinic)
    write_lines(clinic.folder / "people.jsonl", changed)
    write_lines(clinic.folder / "things.jsonl", things(13))
    assert run(clinic, 2).incremental
    check(clinic, spark, epoch=2)
    order = pq.read_table(clinic.folder / "out" / PEOPLE).column("subject").to_pylist()
    assert order[0] == changed[0]["id"]  # those who were there keep their places


def test_a_change_too_large_is_computed_anew_in_spark(clinic, spark, monkeypatch):
    monkeypatch.setattr("spark_eval.stores.precomputed_store.MAX_CELLS", 1)
    run(clinic)
    clinic.set_policies(ABAC.replace("own-department", "other").replace("allow", "deny", 1), ROLES)
    assert not run(clinic, 2).incremental
    check(clinic, spark, epoch=2)


def content(folder):
    return {
        str(each.relative_to(folder)): hashlib.sha256(each.read_bytes()).hexdigest()
        for each in folder.rglob("*")
        if each.is_file()
    }


def test_nothing_is_written_for_entities_that_cannot_be_used(clinic):
    (clinic.folder / "things.jsonl").write_text("nonsense")
    with pytest.raises(InvalidEntities, match=r"things.jsonl`: 1 row cannot be read"):
        run(clinic)
    assert not (clinic.folder / "out").exists()


def test_attributes_that_no_pdp_looks_up_are_named_before_anything_is_computed(clinic):
    (clinic.policies / "bundle.yaml").write_text("provided: [subject.roles, object.dept, object.state]")
    with pytest.raises(NotProvided, match=r"PDPs do not look up `subject.dept`, `subject.level`, so"):
        run(clinic)
    assert not (clinic.folder / "out").exists()
    order = PrecomputeJob(
        clinic.inputs(), Origin("clinic", 1, "hash"), SIGNER, clinic.folder / "out", assume_provided=True
    )
    assert precompute_decisions(order, clinic.session, Steps(None)).manifest.allows > 0


SESSIONS = """
role doctor
role nurse
[principal(u)] |- user(u)
user(u)*, appointment employed(u, "nurse")* |- nurse
doctor |- privilege(read|write, "/wards/*")
nurse |- privilege(read, "/wards/*")
"""
BY_ROLE = """
- uid: no-nurses
  effect: deny
  targets: {resource_id: /public/1, action_id: read}
  rules:
    subject: {$.roles: {condition: AnyIn, values: [nurse]}}
"""


@pytest.mark.parametrize("assume", [False, True])
def test_roles_that_sessions_give_and_take_are_left_to_the_pdp(clinic, spark, assume):
    """Whatever the entities say, and whatever the manifest says of who looks roles up: sessions end within seconds."""
    clinic.set_policies(ABAC + BY_ROLE, SESSIONS)
    order = PrecomputeJob(
        clinic.inputs(), Origin("clinic", 1, "hash"), SIGNER, clinic.folder / "out", assume_provided=assume
    )
    precompute_decisions(order, clinic.session, Steps(None))
    snapshot = open_snapshot(clinic.folder / "out" / SNAPSHOT, [SIGNER.public], Origin("clinic", 1, "hash"))
    rows = {(r.subject, r.object, r.action): r.effect for r in read_rows(spark, order.output).collect()}
    engine, roles = clinic.policy_set.engine(), [[], ["doctor"], ["nurse"], ["doctor", "nurse"]]
    asked = set()
    for subject, object_, action in clinic.cases():
        possible = {
            engine.evaluate(
                Request(Entity(subject.id, {**subject.attributes, "roles": each}), object_, action, c)
            ).effect
            for each in roles
            for c in CONTEXTS
        }
        case = (subject.id, object_.id, action.id)
        expected = possible.pop() if len(possible) == 1 else "ask"
        asked |= {object_.id.split("/")[1]} if expected == "ask" else set()
        assert rows.get(case, "deny") in (expected, "ask"), case
        assert snapshot.lookup(*case)[0] in (Ruling[expected.upper()], Ruling.ASK), case
        if expected == "ask":
            assert rows[case] == "ask", case
    assert asked == {"wards", "public"}
    assert rows["user000", "/public/4", "read"] == "allow"  # the rest is decided as ever


def test_sessions_need_not_be_said_to_be_looked_up(clinic):
    (clinic.policies / "bundle.yaml").write_text(
        "provided: [subject.dept, subject.level, object.dept, object.state]"
    )
    with pytest.raises(NotProvided, match=r"`subject.roles`"):
        run(clinic)
    clinic.set_policies(ABAC, SESSIONS)
    assert run(clinic).manifest.asks


def test_a_join_that_nothing_meets_is_an_error_with_both_columns(clinic):
    write_lines(clinic.folder / "people.jsonl", [{**each, "dept": f"no {each['dept']}"} for each in people()])
    problem = (
        r"people.jsonl`, column `dept`: no value is also in column `dept` of `.*things.jsonl` \(12 rows\), so the"
        r" policy `own-department` would never apply \(40 rows read\)"
    )
    with pytest.raises(InvalidEntities, match=problem):
        run(clinic)
    assert not (clinic.folder / "out").exists()
    inputs = replace(clinic.inputs(), may_lack=("subject.dept",))
    assert precompute_decisions(
        PrecomputeJob(inputs, Origin("clinic", 1, "hash"), SIGNER, clinic.folder / "out"),
        clinic.session,
        Steps(None),
    )


def test_the_earlier_output_stays_when_a_run_fails(clinic, monkeypatch):
    run(clinic)
    before = content(clinic.folder / "out")
    clinic.set_policies(ABAC, "")

    def fail(*_):
        raise OSError("disk full")

    monkeypatch.setattr(job, "save_snapshot", fail)
    with pytest.raises(OSError, match="disk full"):
        run(clinic, 2)
    assert content(clinic.folder / "out") == before
    assert [each.name for each in clinic.folder.iterdir() if each.name.startswith(".")] == []


def test_decisions_of_an_earlier_epoch_do_not_take_the_place_of_later_ones(clinic):
    run(clinic, epoch=2)
    manifest = clinic.folder / "out" / MANIFEST
    before = manifest.read_bytes()
    with pytest.raises(
        EpochGoesBack, match=r"holds decisions of epoch 2, and epoch 1 is earlier: .* `--full`"
    ):
        run(clinic, epoch=1)
    assert manifest.read_bytes() == before
    assert run(clinic, epoch=1, full=True).manifest.origin.epoch == 1


def test_a_snapshot_of_another_epoch_beside_the_decisions_is_refused(clinic):
    run(clinic, 1)
    manifest = clinic.folder / "out" / MANIFEST
    manifest.write_text(manifest.read_text().replace('"epoch": 1', '"epoch": 5'))
    with pytest.raises(SnapshotRefused, match=r"made under epoch 1 of `clinic` .* stand at epoch 5"):
        run(clinic, 6)
    assert not run(clinic, 6, full=True).incremental


def test_a_damaged_output_is_named_and_can_be_replaced(clinic, spark):
    run(clinic)
    (clinic.folder / "out" / PEOPLE).write_bytes(b"rubbish")
    with pytest.raises(DamagedOutput, match=r"out` is damaged: .*; compute it anew with `--full`"):
        run(clinic, 2)
    run(clinic, 2, full=True)
    check(clinic, spark, epoch=2)


def test_roles_that_become_policy_later_are_looked_up(clinic, spark):
    clinic.set_policies(ABAC, "")
    assert run(clinic).manifest.marks.roles is None
    clinic.set_policies(ABAC, ROLES)
    run(clinic, 2)
    assert check(clinic, spark, epoch=2).marks.roles == ("chief", "doctor", "nurse")
    assert replace(run(clinic, 2)).incremental
