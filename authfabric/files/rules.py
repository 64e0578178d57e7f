"""Rules in files and folders: a folder stands for the rules that PDPs would read in it, with its roles."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from pathlib import Path

from authfabric.files.capabilities import FileRefused, read_file
from pdp.oasis import Domains, RoleHierarchy, Rulebook, parse


def rule_files(given: Iterable[Path]) -> list[Path]:
    """The files themselves, and those in the folders. Raises FileRefused for a folder without any."""
    found: list[Path] = []
    for path in given:
        inside = _inside(path, "*.rules")
        if path.is_dir() and not inside:
            raise FileRefused(path, "holds no rules: their files are called NAME.rules")
        found += inside or [path]
    return list(dict.fromkeys(found))


def role_seniors(given: Iterable[Path]) -> RoleHierarchy:
    """Which roles count as which, by the role rules in the folders. Raises FileRefused, InvalidSyntax."""
    rule_sets = [read_file(file, parse) for path in given for file in _inside(path, "*.oasis")]
    return RoleHierarchy(Domains(rule_sets).everything() if rule_sets else Rulebook())


def _inside(path: Path, pattern: str) -> Sequence[Path]:
    return sorted(each for each in path.rglob(pattern) if each.is_file()) if path.is_dir() else []
