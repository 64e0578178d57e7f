"""What a log says of how policies are used."""

from __future__ import annotations

import msgspec
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from typer.testing import CliRunner

from authfabric.cli import app
from spark_eval.analysis.usage import PolicyUse, Usage, Use
from spark_eval.schemas import AUDITED

POLICIES = """
- {uid: readers, effect: allow, targets: {action_id: read}, rules: {}}
- {uid: nobody, effect: allow, targets: {subject_id: nobody}, rules: {}}
- {uid: frozen, effect: deny, targets: {resource_id: /x}, rules: {}}
"""
DECIDED = [
    ("ann", "/a", "read", "allow", "policy", ["readers"]),
    ("ann", "/a", "read", "allow", "policy", ["readers"]),
    ("bob", "/a", "read", "allow", "policy", ["readers"]),
    ("ann", "/b", "read", "allow", "policy", ["readers"]),
    ("eve", "/x", "read", "deny", "policy", ["frozen"]),
    ("eve", "/x", "write", "deny", "no-policy", []),
    ("bob", "/a", "read", "deny", "no-pdp", []),
]


@pytest.fixture
def log(tmp_path):
    names = ("subject", "object", "action", "effect", "reason", "policies")
    rows = [
        {"page": 1, "place": place, "writer": "w", **dict(zip(names, each, strict=True))}
        for place, each in enumerate(DECIDED)
    ]
    rows.append({"page": 2, "place": 0, "writer": "w"})  # a record that is no decision
    (tmp_path / "decisions").mkdir()
    pq.write_table(pa.Table.from_pylist(rows, AUDITED), tmp_path / "decisions" / "0.parquet")
    (tmp_path / "policies").mkdir()
    (tmp_path / "policies" / "policies.yaml").write_text(POLICIES)
    return tmp_path


def run(log, *words):
    where = ["--log", str(log / "decisions"), "--policies", str(log / "policies")]
    return CliRunner().invoke(app, ["spark", "usage", *where, *words])


@pytest.mark.usefixtures("spark")
def test_everything_in_the_log_is_counted(log):
    result = run(log, "--json")
    assert result.exit_code == 0, result.stderr
    found = msgspec.json.decode(result.stdout, type=Usage)
    assert (found.decisions, found.allowed, found.refused, found.undecided) == (7, 4, 3, 1)
    assert found.subjects[0] == Use("ann", 3, 0, 2)
    assert found.permissions[0] == Use("read /a", 3, 1, 2)
    assert found.refusals == (Use("eve", 0, 2, 2), Use("bob", 1, 1, 1))
    assert found.alone == (Use("read /b", 1, 0, 1, "ann"),)
    assert found.policies == (PolicyUse("frozen", 0, 1), PolicyUse("readers", 4, 0))
    assert found.idle == ("nobody",)


@pytest.mark.usefixtures("spark")
def test_people_are_told_and_given_a_report(log):
    result = run(log, "--report", str(log / "usage.html"))
    assert "subject eve: 2 refused, 0 allowed" in result.stdout
    assert "permission read /b: ann alone uses it, 1 time" in result.stdout
    assert "1 policy decides nothing: nobody" in result.stdout
    page = (log / "usage.html").read_text()
    assert page.count("<svg") == 3
    assert "Which policies decide nothing" in page


@pytest.mark.usefixtures("spark")
def test_a_log_without_decisions_is_refused_with_what_would_be_right(log):
    (log / "log.jsonl").write_text('{"subject": "ann", "object": "/a", "action": "read"}')
    result = CliRunner().invoke(
        app, ["spark", "usage", "--log", str(log / "log.jsonl"), "--policies", str(log / "policies")]
    )
    assert (result.exit_code, "that `spark audit` wrote" in result.stderr) == (3, True)
