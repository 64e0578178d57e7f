"""The page on rules: what it shows is what happens."""

from __future__ import annotations

from pathlib import Path

from tests.documents import run_examples

PAGE = Path(__file__).parents[2] / "docs" / "rules.md"


def test_what_the_page_shows_is_so(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    assert run_examples(PAGE, tmp_path) >= 8
