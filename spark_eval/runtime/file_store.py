"""Files of the jobs: written whole or not at all, and a cache by the XDG rules."""

from __future__ import annotations

import contextlib
import os
import secrets
import shutil
from collections.abc import Iterator
from pathlib import Path

from spark_eval.errors import EvaluationError


class OutputExists(EvaluationError):
    """There is already something where the output would go."""

    def __init__(self, path: Path) -> None:
        super().__init__(f"`{path}` already exists and is not an earlier output: name another folder")
        self.path = path


class Unreadable(EvaluationError):
    """A file that cannot be read."""

    def __init__(self, path: Path, problem: str) -> None:
        super().__init__(f"`{path}` cannot be read: {problem}")
        self.path = path
        self.problem = problem


def read_text(path: Path) -> str:
    """The text in a file. Raises Unreadable."""
    try:
        return path.read_text(encoding="utf-8")
    except UnicodeDecodeError:
        raise Unreadable(path, "it is no text in UTF-8") from None
    except OSError as error:
        raise Unreadable(path, str(error.strerror)) from None


def absolute(source: str) -> str:
    """The whole path to what is on this machine: Spark may have been started in another folder."""
    path = Path(source)
    return str(path.resolve()) if "://" not in source and path.exists() else source


def cache_folder() -> Path:
    """Where things go that can be made again."""
    base = os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache"
    return Path(base) / "authfabric"


def write_whole(path: Path, content: bytes) -> None:
    """Write a file so that nobody ever sees half of it."""
    path.parent.mkdir(parents=True, exist_ok=True)
    passing = path.with_name(f".{path.name}.{secrets.token_hex(4)}")
    try:
        passing.write_bytes(content)
        passing.replace(path)
    finally:
        passing.unlink(missing_ok=True)


@contextlib.contextmanager
def whole_folder(path: Path, mark: str) -> Iterator[Path]:
    """A passing folder that takes the place of `path` when the block ends well, and vanishes otherwise.

    `mark` is the name of a file that every such output holds: a folder without it is somebody's, and never replaced.
    """
    if path.exists() and not (path / mark).is_file() and not _is_empty(path):
        raise OutputExists(path)
    path.parent.mkdir(parents=True, exist_ok=True)
    passing = path.with_name(f".{path.name}.{secrets.token_hex(4)}")
    passing.mkdir()
    try:
        yield passing
        _take_place(passing, path)
    finally:
        shutil.rmtree(passing, ignore_errors=True)


def _is_empty(path: Path) -> bool:
    return path.is_dir() and not any(path.iterdir())


def _take_place(passing: Path, path: Path) -> None:
    earlier = path.with_name(f".{path.name}.{secrets.token_hex(4)}")
    if path.exists():
        path.rename(earlier)
    passing.rename(path)
    shutil.rmtree(earlier, ignore_errors=True)
