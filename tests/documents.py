"""The examples of a document, run: files are written, commands executed, and what they print compared."""

from __future__ import annotations

import re
import shlex
from pathlib import Path

from typer.testing import CliRunner

from authfabric.cli import app

_BLOCK = re.compile(r"^```(\w*)(?: (\S+))?\n(.*?)^```$", re.MULTILINE | re.DOTALL)


def run_examples(document: Path, folder: Path) -> int:
    """Write each block that names a file, in its first line or beside its kind; run `console` blocks; say how many."""
    count = 0
    for block in _BLOCK.finditer(document.read_text()):
        write_files(block[0], folder)
        for command, expected in turns(block[0]):
            _run(command, expected)
            count += 1
    return count


def write_files(text: str, folder: Path) -> None:
    """Write each block that names a file, in its first line or beside its kind."""
    for kind, file, content in _BLOCK.findall(text):
        inside = re.match(r"# (\S+)\n", content) if kind in ("yaml", "rules", "python") else None
        if file or inside:
            path = folder / (inside[1] if inside else file)
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(content)


def turns(text: str) -> list[tuple[str, str]]:
    """The commands in `console` blocks, without the word `authfabric`, and what each is to print."""
    blocks = [content for kind, file, content in _BLOCK.findall(text) if kind == "console" and not file]
    turn = r"^\$ authfabric (.*)\n((?:(?!\$ ).*\n)*)"
    return [each for content in blocks for each in re.findall(turn, content, re.MULTILINE)]


def matches(expected: str, printed: str) -> bool:
    """Whether this was printed; `…` stands for anything."""
    pattern = ".*".join(re.escape(part) for part in expected.split("…"))
    return re.fullmatch(pattern, printed, re.DOTALL) is not None


def _run(command: str, expected: str) -> None:
    words, shows_code, _ = command.partition("; echo $?")
    result = CliRunner().invoke(app, shlex.split(words))
    printed = result.stdout + (f"{result.exit_code}\n" if shows_code else "")
    if not shows_code:
        assert result.exit_code == 0, f"`{command}` failed: {result.output}"
    assert matches(expected, printed), f"`{command}` printed\n{printed}\nnot\n{expected}"
