"""Every threat on the page about security names a test that exists."""

from __future__ import annotations

import ast
import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
ROWS = re.findall(r"^\|(.+)\| `(tests/[^`]+)` \|$", (ROOT / "docs/security.md").read_text(), re.M)


def test_the_page_has_threats():
    text = (ROOT / "docs/security.md").read_text()
    tables = re.findall(r"^\| attacker .*\n\| ---.*\n((?:\|.*\n)+)", text, re.M)
    rows = [line for table in tables for line in table.splitlines()]
    assert len(rows) == len(ROWS) > 30, "a row names no test"


@pytest.mark.parametrize("named", [test for _, test in ROWS])
def test_every_threat_names_a_test_that_exists(named):
    path, *names = named.split("::")
    scope: ast.AST = ast.parse((ROOT / path).read_text())
    for name in names:
        found = [each for each in ast.iter_child_nodes(scope) if getattr(each, "name", None) == name]
        assert found, f"{path} has no `{name}`"
        scope = found[0]
