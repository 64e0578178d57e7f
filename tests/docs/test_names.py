"""What the pages say about the code is there: every file, module, class and function that they name."""

from __future__ import annotations

import ast
import re
from functools import cache
from pathlib import Path

import pytest

from pep import Enforcer

ROOT = Path(__file__).parents[2]
PAGES = sorted(
    str(page.relative_to(ROOT))
    for page in [*ROOT.glob("*.md"), *ROOT.glob("docs/**/*.md")]
    if page.name != "CHANGELOG.md"
)
PACKAGES = "authz|bus|sdp_cache|pdp|pep|pubsub_core|spark_eval|authfabric|tests|benchmarks"
_PATH = re.compile(rf"(?<![\w/.-])(?:{PACKAGES}|examples|docs)/[\w/]+\.\w+")
_DOTTED = re.compile(rf"(?<![\w./\"'-])(?:{PACKAGES})(?:\.[A-Za-z_]\w*)+")
ENFORCER = {"audit", "check", "require", *vars(Enforcer)}
"""What pages write after `pep.`, where that is an enforcer."""
LOGGERS = re.compile(
    r"authfabric\.(?:access|audit|bus|events|history|keys|pdp|pep|releases|roles|rules|tasks)$"
)
SPANS = re.compile(r"authfabric\.(?:ask|attributes|check|decide|gateway)$")


@cache
def defined(file: Path) -> frozenset[str]:
    """The names at the top of a module."""
    found: set[str] = set()
    for node in ast.walk(ast.parse(file.read_text())):
        if isinstance(node, (ast.ImportFrom, ast.Import)):
            found |= {each.asname or each.name for each in node.names}
        elif isinstance(node, (ast.ClassDef, ast.FunctionDef, ast.AsyncFunctionDef)):
            found.add(node.name)
        elif isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store):
            found.add(node.id)
    return frozenset(found)


def exists(dotted: str) -> bool:
    """Whether a package or module has this name, or defines it."""
    place, names = ROOT, dotted.split(".")
    if (names[0] == "pep" and names[1] in ENFORCER) or names[-1] == "NAME":
        return True
    while names and (place / names[0]).is_dir():
        place /= names.pop(0)
    if names and (place / f"{names[0]}.py").is_file():
        place /= f"{names.pop(0)}.py"
    if not names:
        return True
    return names[0] in defined(place / "__init__.py" if place.is_dir() else place)


def test_a_name_that_is_not_there_is_noticed():
    assert exists("bus.wire.envelope.pack")
    assert exists("bus.wire.pack")
    assert not exists("bus.wire.nonsense")
    assert not exists("bus.wire.envelope.nonsense")
    assert not exists("bus.nonsense")


@pytest.mark.parametrize("page", PAGES)
def test_every_file_and_every_name_that_a_page_names_is_there(page: str):
    text = (ROOT / page).read_text()
    missing = [found for found in _PATH.findall(text) if not (ROOT / found).exists()]
    missing += [
        found
        for found in _DOTTED.findall(re.sub(r"^```(?!python).*?^```", "", text, flags=re.S | re.M))
        if not LOGGERS.match(found) and not SPANS.match(found) and not exists(found)
    ]
    assert missing == []
