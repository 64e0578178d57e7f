"""What docs/concepts/policies.md shows is what happens."""

from __future__ import annotations

from pathlib import Path

from tests.documents import run_examples

DOCUMENT = Path(__file__).parents[2] / "docs/concepts/policies.md"


def test_every_example_works_as_shown(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    assert run_examples(DOCUMENT, tmp_path) == 4
