"""Packages have rooms, and nobody reaches past a room's `__init__` from outside it."""

from __future__ import annotations

import ast
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
PACKAGES = (
    "authfabric", "authfabric.chaos", "authz", "bus", "pdp", "pep", "pubsub_core", "sdp_cache", "spark_eval",
)  # fmt: skip
OPEN = {"authz.predicate", "authz.rules", "authz.spki", "pep.integrations", "pubsub_core.integrations"}
"""Rooms whose modules are imported by themselves: languages in parts, and frameworks of which few are installed."""


def folder(package: str) -> Path:
    return ROOT.joinpath(*package.split("."))


ROOMS = {
    ".".join(found.parent.relative_to(ROOT).parts): found
    for package in PACKAGES
    for found in sorted(folder(package).glob("*/__init__.py"))
}
TOP = {
    "authfabric": {"__main__", "cli", "command_table", "entry", "help", "parameters"},
    "authfabric.chaos": {"record"},
    "authz": {"change", "decision", "errors", "explanation", "extras", "lazy", "release", "request"}
    | {"statement_templates", "syntax"},
    "bus": {"errors"},
    "pdp": set[str](),
    "pep": {"enforcer", "local", "obligations", "options", "recycling", "secondary", "sync", "watching"}
    | {"auditing", "errors", "member_name", "metrics", "outcomes"},
    "pubsub_core": {"errors", "messages"},
    "sdp_cache": set[str](),
    "spark_eval": {"errors", "schemas"},
}
"""The modules that stand in no room."""
USERS = sorted(
    path for place in (*PACKAGES, "benchmarks", "examples") for path in folder(place).rglob("*.py")
)


def imports(tree: ast.AST) -> list[str]:
    """The modules that are imported from, wherever in a file."""
    found = [node.module or "" for node in ast.walk(tree) if isinstance(node, ast.ImportFrom)]
    return found + [
        each.name for node in ast.walk(tree) if isinstance(node, ast.Import) for each in node.names
    ]


def too_deep(module: str, importer: str) -> bool:
    return any(
        module.startswith(f"{room}.") and not f"{importer}.".startswith(f"{room}.")
        for room in ROOMS.keys() - OPEN
    )


def test_the_rule_tells_a_room_from_what_is_inside_it():
    assert too_deep("bus.wire.envelope", "pep.asking.asker")
    assert too_deep("bus.wire.envelope", "bus.nats.connection")
    assert too_deep("authfabric.chaos.faults", "authfabric.commands.scale.chaos")
    assert too_deep("authfabric.chaos.faults.plan", "authfabric.chaos.runner.chaos_run")
    assert not too_deep("authfabric.chaos.faults", "authfabric.chaos.runner.chaos_run")
    assert not too_deep("bus.wire.envelope", "bus.wire.messages")
    assert not too_deep("bus.wire", "pep.asking.asker")
    assert not too_deep("bus.errors", "pep.asking.asker")


def test_nobody_outside_a_room_imports_from_inside_it():
    deep = [
        f"{path.relative_to(ROOT)} imports {module}"
        for path in USERS
        for module in imports(ast.parse(path.read_text()))
        if too_deep(module, ".".join(path.relative_to(ROOT).with_suffix("").parts))
    ]
    assert deep == []


@pytest.mark.parametrize("package", PACKAGES)
def test_every_module_has_a_room(package: str):
    modules = {path.stem for path in folder(package).glob("*.py")} - {"__init__"}
    assert modules == TOP[package]


@pytest.mark.parametrize("room", ROOMS)
def test_a_room_says_in_one_sentence_what_lives_there_and_exports_it(room: str):
    tree = ast.parse(ROOMS[room].read_text())
    said = ast.get_docstring(tree) or ""
    assert said.endswith((".", "`."))
    assert "\n" not in said
    exported = [
        name
        for node in tree.body
        if isinstance(node, ast.Assign) and ast.unparse(node.targets[0]) == "__all__"
        for name in ast.literal_eval(node.value)
    ]
    imported = {
        each.asname or each.name
        for node in ast.walk(tree)
        if isinstance(node, ast.ImportFrom) and (node.module or "").startswith(room)
        for each in node.names
    }
    assert set(exported) == imported


@pytest.mark.parametrize("room", ROOMS)
def test_the_page_about_architecture_says_what_a_room_says_of_itself(room: str):
    said = ast.get_docstring(ast.parse(ROOMS[room].read_text()))
    assert f"| `{room}` | {said} |" in (ROOT / "docs/architecture.md").read_text().splitlines()
