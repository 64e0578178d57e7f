"""The page about jobs on Spark: the entities it shows can be read, and its commands run."""

from __future__ import annotations

import asyncio
import re
from pathlib import Path

import pyarrow.csv
import pyarrow.parquet as pq
import pytest
from pyspark.sql.functions import expr
from typer.testing import CliRunner

from authfabric.cli import app
from authz import Decision, Request
from bus import Connection
from bus.audit import AuditStore, AuditWriter
from tests.waiting import eventually

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


async def record(url):
    """One decision in the audit stream: ann has read an order."""
    async with Connection(url) as bus, AuditWriter(AuditStore(bus, "default"), "w") as writer:
        writer.record(Request.of("ann", "/orders/1", "read"), Decision(True, policies=("clerks",), epoch=1))
        await eventually(lambda: writer.stored == 1)


def run_block(block, scope, folder):
    """What the last line of a block gives. Spark was started in another folder than the page's commands."""
    for name in ("decisions", "audit"):
        block = re.sub(rf'"{name}(?=[/"])', f'"{folder}/{name}', block)
    *before, last = block.strip().splitlines()
    exec("\n".join(before), scope)
    return eval(last, scope)


@pytest.mark.usefixtures("_folder")
def test_the_commands_and_snippets_it_shows_run_in_order(spark, tmp_path, jetstream_server):
    """With the policies of a folder, where the page speaks of those in force."""
    commands = {}
    for kind, text in BLOCKS:
        if not kind and text.startswith("authfabric "):
            _, *words = text.split()
            commands[words[1]] = words
    assert set(commands) == {"precompute", "diff", "review", "watch", "audit", "usage"}
    pq.write_table(pyarrow.csv.read_csv("people.csv").select(["id", "dept"]), "people.parquet")
    (duties,) = [text for kind, text in BLOCKS if kind == "yaml"]
    (tmp_path / "duties.yaml").write_text(duties)
    asyncio.run(record(jetstream_server.url))

    assert "4 decisions: 2 allow" in run(*commands["precompute"], "--policies", "policies", "--epoch", "1")
    count, rows, decide, sql = (text for kind, text in BLOCKS if kind == "python")
    scope = {"spark": spark, "expr": expr}
    found = run_block(count, scope, tmp_path).collect()
    assert {tuple(row) for row in found} == {("/orders/1", 2), ("/payments/1", 0)}
    assert run_block(rows, scope, tmp_path).count() == 0
    (allowed,) = run_block(decide + "decided", scope, tmp_path).collect()
    assert (allowed.effect, allowed.reason) == ("deny", "no-policy")  # the row says nothing of departments
    assert run_block(sql, scope, tmp_path).first()[0] == "deny"
    words = [word if word != "current" else "policies" for word in commands["diff"]]
    assert "4 decisions are the same" in run(*words)
    assert (tmp_path / "diff.html").is_file()
    assert "nobody stands out" in run(*commands["watch"], "--once", "--url", jetstream_server.url)
    assert "1 records of 1 writers" in run(*commands["audit"], "--url", jetstream_server.url)
    assert "1 of those that allow were used" in run(*commands["review"], "--policies", "policies")
    assert (tmp_path / "review.html").is_file()
    assert "1 decision: 1 allowed" in run(*commands["usage"], "--policies", "policies")
    assert (tmp_path / "usage.html").is_file()
