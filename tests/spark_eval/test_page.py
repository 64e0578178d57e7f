"""The page about jobs on Spark: the entities it shows can be read."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from typer.testing import CliRunner

from authfabric.cli import app

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
