"""The pages on roles and labels: what they show runs, in the order it is shown."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

CONCEPTS = Path(__file__).parents[2] / "docs" / "concepts"
BLOCK = re.compile(r"^```(\w+)(?: (\S+))?\n(.*?)^```", re.S | re.M)


@pytest.mark.parametrize("page", ["roles.md", "labels.md"])
def test_what_the_page_shows_runs(page, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    names: dict[str, object] = {}
    ran = 0
    for language, file, text in BLOCK.findall((CONCEPTS / page).read_text()):
        if file:
            (tmp_path / file).write_text(text)
        elif language == "python":
            exec(compile(text, f"{page}, block {ran + 1}", "exec"), names)
            ran += 1
    assert ran >= 2
