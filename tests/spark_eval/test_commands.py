"""The commands that run jobs, on a real fabric: what Spark computes is what PDPs answer."""

from __future__ import annotations

import json
import shutil
from collections import Counter
from pathlib import Path

import msgspec
import pytest
from typer.testing import CliRunner

from authfabric.cli import app
from authfabric.files.keys import own_identity
from authfabric.processes.launcher import fabric
from pep import Enforcer, LeaseRules
from spark_eval.analysis.diff import Diff
from tests.authfabric.pushing import authfabric
from tests.spark_eval.jobs.clinic import ABAC, PROVIDED, ROLES, Clinic, write_lines


@pytest.fixture
def clinic(tmp_path, spark):
    return Clinic(tmp_path, spark)


def provider_file(clinic):
    """What tells a PDP to learn attributes from the very files that the job reads."""
    known = [
        {"file": name, "provides": [each for each in PROVIDED if each.startswith(kind)]}
        for kind, name in (("subject", "people.jsonl"), ("object", "things.jsonl"))
    ]
    file = clinic.folder / "attributes.yaml"
    file.write_text(json.dumps(known))
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
    async with fabric(0, policies=None, jetstream=True, root=own_identity()) as running:
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
    async with connect(running.url, snapshot=str(snapshot)) as pep:
        answers = await pep.check_many(known)
    assert {each.inferred and each.inferred.method for each in answers} == {"snapshot"}
    assert [each.effect for each in answers] == [decided[case] for case in known]
    replica = await running.add(name, extra=["--attributes", str(attributes)])
    async with connect(running.url, recycling=None) as pep:
        asked = await pep.check_many(known)
    assert [each.effect for each in asked] == [each.effect for each in answers]
    assert not any(each.inferred for each in asked)
    await replica.stop()


def diff(clinic, *words, abac=ABAC, roles=ROLES, rules=None):
    """Compare the clinic's policies with these."""
    new = Path(shutil.copytree(clinic.policies, clinic.folder / "new", dirs_exist_ok=True))
    (new / "abac.yaml").write_text(abac)
    (new / "clinic.oasis").write_text(roles)
    if rules is not None:
        (new / "t.rules").write_text(rules)
    entities = [
        "--subjects",
        str(clinic.folder / "people.jsonl"),
        "--objects",
        str(clinic.folder / "things.jsonl"),
    ]
    return CliRunner().invoke(app, ["policy", "diff", str(clinic.policies), str(new), *entities, *words])


def changes(clinic):
    """What the engines of both folders say differently of everyone and everything."""
    before = dict(clinic.decisions())
    clinic.policies = clinic.folder / "new"
    after = dict(clinic.decisions())
    return Counter(f"{before[case]} to {after[case]}" for case in before if before[case] != after[case])


FEWER = {
    "abac": ABAC.replace("value: 2", "value: 3").replace("/public/*", "/public/1*"),
    "roles": ROLES + 'nurse |- privilege(write, "/wards/*")\n',
}
ALL = ("--actions", "read,write,delete")


def test_a_diff_finds_what_the_engines_decide_differently(clinic):
    result = diff(clinic, *ALL, "--json", **FEWER)
    assert result.exit_code == 1, result.stderr
    found = msgspec.json.decode(result.stdout, type=Diff)
    assert found.changes == changes(clinic)
    assert {each.name for each in found.by_policy} == {"public", "roles#4"}
    assert {each.name for each in found.by_role} == {"chief", "doctor", "nurse"}


def test_a_diff_for_people_has_a_report(clinic):
    file = clinic.folder / "report.html"
    result = diff(clinic, *ALL, "--report", str(file), "--fail-on", "never", **FEWER)
    assert result.exit_code == 0, result.stderr
    assert "decisions change" in result.stdout
    assert "user001" in result.stdout
    page = file.read_text()
    assert page.count("<svg") == 4
    assert "Which policies bring it about" in page


def test_the_exit_code_says_whether_something_changes_that_matters(clinic):
    assert diff(clinic, *ALL, "--fail-on", "gained", roles=FEWER["roles"]).exit_code == 1
    assert diff(clinic, *ALL, "--fail-on", "lost", roles=FEWER["roles"]).exit_code == 0
    same = diff(clinic, *ALL, roles=ROLES + 'nurse |- privilege(write, "/x")\n')
    assert (same.exit_code, "nothing changes" in same.stdout) == (0, True)


def test_a_diff_names_rules_that_oblige_to_something_else(clinic):
    rule = clinic.policies / "t.rules"
    rule.write_text("a: ALLOW SUBSCRIPTION TO t\nb: RESTRICT DELIVERY OF t FILTER x = 1\n")
    changed = "a: ALLOW SUBSCRIPTION TO t\nb: RESTRICT DELIVERY OF t FILTER x = 2\n"
    result = diff(clinic, *ALL, "--json", rules=changed)
    assert result.exit_code == 1, result.output
    found = msgspec.json.decode(result.stdout, type=Diff)
    assert (found.total, found.obliging) == (0, ("b",))
    assert diff(clinic, *ALL, "--fail-on", "lost", rules=changed).exit_code == 0


def test_a_diff_over_a_log_counts_what_was_asked(clinic):
    asked = [
        {"subject": "user001", "object": "/wards/3", "action": "write"},
        {"subject": "user001", "object": "/wards/3", "action": "write", "context": '{"shift": "night"}'},
        {"subject": "user002", "object": "/wards/3", "action": "write", "context": '{"shift": "night"}'},
        {
            "subject": "guest",
            "object": "/wards/3",
            "action": "write",
            "subject_attributes": '{"roles": ["nurse"]}',
        },
    ]
    log = clinic.folder / "log.jsonl"
    write_lines(log, asked[:1] * 3 + asked[1:])
    result = diff(clinic, "--seen", str(log), "--json", roles=FEWER["roles"])
    assert result.exit_code == 1, result.stderr
    found = msgspec.json.decode(result.stdout, type=Diff)
    assert (found.decisions, found.changes) == (6, {"deny to allow": 5})
    assert [(each.name, each.total) for each in found.by_subject] == [("user001", 4), ("guest", 1)]
    assert [(each.name, each.total) for each in found.by_role] == [("nurse", 5)]


@pytest.mark.parametrize(
    ("line", "problem"),
    [
        (
            '{"subject": "a", "object": "b"}',
            "1 request without subject or object or action, or with attributes that are no JSON object (1 row read)",
        ),
        (
            '{"subject": "a", "object": "b", "action": "c", "context": "[1]"}',
            "or with attributes that are no JSON object",
        ),
        ("", "there is no request in it (0 rows read)"),
    ],
)
def test_a_log_that_cannot_be_read_is_refused(clinic, line, problem):
    log = clinic.folder / "log.jsonl"
    log.write_text(line)
    result = diff(clinic, "--seen", str(log))
    assert result.exit_code == 3
    assert problem in result.stderr


def test_a_review_names_conflicts_by_its_exit_code_and_writes_a_report(clinic):
    duties, page = clinic.folder / "duties.yaml", clinic.folder / "review.html"
    duties.write_text("- name: both\n  duties: [{action: write}, {action: delete}]\n")
    log = clinic.folder / "log.jsonl"
    write_lines(log, [{"subject": "user002", "object": "/wards/3", "action": "write"}])
    words = [
        "spark",
        "review",
        "--policies",
        clinic.policies,
        *ALL,
        "--subjects",
        clinic.folder / "people.jsonl",
    ]
    words += ["--objects", clinic.folder / "things.jsonl", "--report", page, "--log", log]
    result = CliRunner().invoke(app, [*map(str, words), "--duties", str(duties)])
    assert result.exit_code == 1, result.stderr
    assert "separation `both`: does not hold\n  8 subjects can have all of it: user002" in result.stdout
    assert page.read_text().count("<svg") == 2
    assert "Duties that should be separate" in page.read_text()
    assert CliRunner().invoke(app, [*map(str, words), "--json"]).exit_code == 0


def test_what_is_probably_mistyped_is_warned_of(clinic):
    duties = clinic.folder / "duties.yaml"
    duties.write_text("- name: both\n  duties: [{action: wirte}, {action: write}]\n")
    files = [str(clinic.folder / name) for name in ("people.jsonl", "things.jsonl")]
    who = ["--subjects", files[0], "--objects", files[1], "--actions", "raed,write,approve"]
    words = ["spark", "review", "--policies", str(clinic.policies), *who, "--may-lack", "subject.depp"]
    result = CliRunner().invoke(app, [*words, "--duties", str(duties)])
    assert result.exit_code == 0, result.stderr
    assert result.stderr.splitlines()[-4:] == [
        "warning: no policy applies to the action `raed` with any of the objects: is `read` meant?",
        "warning: no policy applies to the action `approve` with any of the objects; they name `delete`, `read`,"
        " `write`",
        "warning: no policy looks at `subject.depp`, which `--may-lack` names",
        "warning: no permission is `wirte *`, which the separation `both` names",
    ]
    compared = diff(clinic, "--actions", "raed", "--json", "--fail-on", "never")
    assert "is `read` meant?" in msgspec.json.decode(compared.stdout)["warnings"][0]


def test_a_file_of_duties_that_is_not_there_is_named(clinic):
    result = CliRunner().invoke(app, ["spark", "review", "--duties", "nowhere.yaml"])
    assert result.exit_code == 3
    assert "`nowhere.yaml` cannot be read: No such file" in result.stderr


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
