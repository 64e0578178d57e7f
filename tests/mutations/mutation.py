"""A defence taken away: what stands in a file is replaced by what would stand there without it."""

from __future__ import annotations

import ast
import re
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).parents[2]
PAGE = ROOT / "docs/security.md"
_ROW = re.compile(r"^\| ([^|]+) \| ([^|]+) \| ([^|]+) \| `(tests/[^`]+)` \|$", re.M)


@dataclass(frozen=True, slots=True)
class Row:
    """A row of the threat model."""

    attacker: str
    tries: str
    defence: str
    test: str


@dataclass(frozen=True, slots=True)
class Edit:
    """In `file`, `old` stands once; without the defence, `new` would stand there."""

    file: str
    old: str
    new: str

    def apply(self, root: Path) -> None:
        path = root / self.file
        text = path.read_text()
        assert text.count(self.old) == 1, f"{self.file} must have this once: {self.old}"
        path.write_text(text.replace(self.old, self.new))


@dataclass(frozen=True, slots=True)
class Mutation:
    """Edits that take one defence away. Several, where one defence stands behind another."""

    test: str
    """The test that then fails, as the row of the page names it; with `[...]`, one of its cases."""
    edits: tuple[Edit, ...]

    @property
    def row(self) -> str:
        return self.test.partition("[")[0]


def without(test: str, file: str, old: str, new: str, *more: Edit) -> Mutation:
    return Mutation(test, (Edit(file, old, new), *more))


def rows() -> list[Row]:
    """The threats on the page."""
    return [Row(*found) for found in _ROW.findall(PAGE.read_text())]


def defines(test: str) -> bool:
    """Whether a test exists."""
    path, *names = test.partition("[")[0].split("::")
    scope: ast.AST = ast.parse((ROOT / path).read_text())
    for name in names:
        found = [each for each in ast.iter_child_nodes(scope) if getattr(each, "name", None) == name]
        if not found:
            return False
        scope = found[0]
    return bool(names)
