"""The commands that run jobs, on a real fabric: what Spark computes is what PDPs answer."""

from __future__ import annotations

import json

import pytest
from typer.testing import CliRunner

from authfabric.cli import app
from authfabric.fabric import fabric
from authfabric.keys import own_identity
from pep import Enforcer, LeaseRules
from tests.authfabric.test_push import authfabric
from tests.spark_eval.jobs.clinic import ABAC, PROVIDED, ROLES, Clinic


@pytest.fixture
def clinic(tmp_path, spark):
    return Clinic(tmp_path, spark)


def provider_file(clinic):
    """A file from which a PDP learns the attributes of the same entities."""
    known = {
        kind: {each.id: each.attributes for each in clinic.entities(name)}
        for kind, name in (("subjects", "people.jsonl"), ("objects", "things.jsonl"))
    }
    (clinic.folder / "known.json").write_text(json.dumps(known))
    file = clinic.folder / "attributes.yaml"
    file.write_text(json.dumps([{"file": "known.json", "provides": list(PROVIDED)}]))
    return file


async def precompute(clinic, url):
    words = ["--subjects", "people.jsonl", "--objects", "things.jsonl", "--out", "out"]
    paths = [word if word.startswith("-") else str(clinic.folder / word) for word in words]
    return await authfabric("spark", "precompute", *paths, "--actions", "read,write,delete", "--url", url)


def connect(url, **options):
    trust = [own_identity().public]
    return Enforcer.connect(url, trust=trust, lease=LeaseRules(60.0), deadline=20.0, **options)


async def test_a_pep_answers_from_the_snapshot_what_a_pdp_answers(clinic):
    attributes = provider_file(clinic)
    async with fabric(0, policies=None, jetstream=True) as running:
        push = ("policy", "push", str(clinic.policies), "--url", running.url)
        assert (await authfabric(*push))[0] == 0
        code, first = await precompute(clinic, running.url)
        assert (code, first["epoch"], first["incremental"]) == (0, 1, False)
        await answers_alike(clinic, running, attributes, "pdp-1")
        clinic.set_policies(ABAC, ROLES + 'nurse |- privilege(write, "/wards/3")\n')
        assert (await authfabric(*push))[1]["epoch"] == 2
        code, second = await precompute(clinic, running.url)
        assert (code, second["epoch"], second["incremental"]) == (0, 2, True)
        assert second["allowed"] == first["allowed"] + 8
        await answers_alike(clinic, running, attributes, "pdp-2")


async def answers_alike(clinic, running, attributes, name):
    """All that can be known without the context is answered from the snapshot while no PDP runs, and as a PDP would."""
    decided = dict(clinic.decisions())
    known = [case for case, effect in decided.items() if effect != "ask"]
    snapshot = clinic.folder / "out" / "decisions.snapshot"
    async with connect(running.url, snapshot=snapshot) as pep:
        answers = await pep.check_many(known)
    assert {each.inferred and each.inferred.method for each in answers} == {"snapshot"}
    assert [each.effect for each in answers] == [decided[case] for case in known]
    replica = await running.add(name, extra=["--attributes", str(attributes)])
    async with connect(running.url, recycling=None) as pep:
        asked = await pep.check_many(known)
    assert [each.effect for each in asked] == [each.effect for each in answers]
    assert not any(each.inferred for each in asked)
    await replica.stop()


def test_a_folder_needs_the_epoch_under_which_it_is_in_force(clinic):
    words = ["spark", "precompute", "--policies", str(clinic.policies), "--out", str(clinic.folder / "out")]
    result = CliRunner().invoke(app, words)
    assert result.exit_code == 2
    assert "`--epoch` is missing" in result.stderr


def test_whom_to_decide_about_must_be_known(clinic):
    words = ["spark", "precompute", "--policies", str(clinic.policies), "--epoch", "1", "--out", "out"]
    for more, missing in ([], "actions"), (["--actions", "read"], "subjects"):
        result = CliRunner().invoke(app, words + more)
        assert result.exit_code == 3
        assert f"no {missing} are known: give them with `--{missing}`" in result.stderr


def test_what_is_no_policies_is_said_so(clinic):
    result = CliRunner().invoke(app, ["spark", "precompute", "--policies", "nowhere", "--out", "out"])
    assert result.exit_code == 3
    assert "`nowhere` is no folder, no bundle and no release" in result.stderr
