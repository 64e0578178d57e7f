"""The page about jobs on Spark: the entities it shows can be read, and its commands run."""

from __future__ import annotations

import re
from pathlib import Path

import pyarrow as pa
import pyarrow.csv
import pyarrow.parquet as pq
import pytest
from pyspark.sql.functions import expr
from typer.testing import CliRunner

from authfabric.cli import app
from spark_eval.schemas import AUDITED

PAGE = Path(__file__).parents[2] / "docs" / "spark.md"
BLOCKS = re.findall(r"^```(\w*)\n(.*?)^```$", PAGE.read_text(), re.MULTILINE | re.DOTALL)
POLICY = """
- uid: clerks
  effect: allow
  targets: {action_id: [read, write]}
  rules: {subject: {$.dept: {condition: EqualsAttribute, ace: resource, path: $.dept}}}
"""


@pytest.fixture
def _folder(tmp_path, monkeypatch):
    """What the page speaks of."""
    monkeypatch.chdir(tmp_path)
    (csv,) = [text for kind, text in BLOCKS if not kind and text.startswith("id,")]
    (tmp_path / "people.csv").write_text(csv)
    (tmp_path / "things.csv").write_text("id,dept\n/orders/1,sales\n/payments/1,tax\n")
    (tmp_path / "policies").mkdir()
    (tmp_path / "policies" / "bundle.yaml").write_text("provided: [subject.dept, object.dept]")
    (tmp_path / "policies" / "policy.yaml").write_text(POLICY)


@pytest.mark.usefixtures("_folder", "spark")
def test_the_csv_it_shows_is_read():
    words = "spark review --policies policies --subjects people.csv --objects things.csv --actions read"
    result = CliRunner().invoke(app, words.split())
    assert result.exit_code == 0, result.stderr
    assert "2 decisions: 1 allow" in result.stdout


def run(*words):
    result = CliRunner().invoke(app, words)
    assert result.exit_code in (0, 1), result.stderr
    return result.stdout


@pytest.mark.usefixtures("_folder")
def test_the_commands_it_shows_run_in_order(spark, tmp_path):
    """With the policies of a folder, where the page speaks of those in force, and without the stream of a fabric."""
    commands = {}
    for kind, text in BLOCKS:
        if not kind and text.startswith("authfabric "):
            _, *words = text.split()
            commands[words[1]] = words
    assert set(commands) == {"precompute", "diff", "review", "audit"}
    pq.write_table(pyarrow.csv.read_csv("people.csv").select(["id", "dept"]), "people.parquet")
    (duties,) = [text for kind, text in BLOCKS if kind == "yaml"]
    (tmp_path / "duties.yaml").write_text(duties)
    (tmp_path / "audit" / "decisions").mkdir(parents=True)
    asked = {"page": 1, "place": 0, "writer": "w", "subject": "ann", "object": "/orders/1", "action": "read"}
    pq.write_table(pa.Table.from_pylist([asked], AUDITED), tmp_path / "audit" / "decisions" / "0.parquet")

    assert "4 decisions: 2 allow" in run(*commands["precompute"], "--policies", "policies", "--epoch", "1")
    (python,) = [text for kind, text in BLOCKS if kind == "python"]
    # Spark was started in another folder.
    *before, last = python.strip().replace('"decisions/', f'"{tmp_path}/decisions/').splitlines()
    scope = {"spark": spark, "expr": expr}
    exec("\n".join(before), scope)
    assert {tuple(row) for row in eval(last, scope).collect()} == {("/orders/1", 2), ("/payments/1", 0)}
    words = [word if word != "current" else "policies" for word in commands["diff"]]
    assert "4 decisions are the same" in run(*words)
    assert (tmp_path / "diff.html").is_file()
    assert "1 of those that allow were used" in run(*commands["review"], "--policies", "policies")
    assert (tmp_path / "review.html").is_file()
