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
    for kind, file, text in _BLOCK.findall(document.read_text()):
        inside = re.match(r"# (\S+)\n", text) if kind in ("yaml", "rules", "python") else None
        if file or inside:
            path = folder / (inside[1] if inside else file)
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(text)
        elif kind == "console":
            for command, expected in re.findall(
                r"^\$ authfabric (.*)\n((?:(?!\$ ).*\n)*)", text, re.MULTILINE
            ):
                _run(command, expected)
                count += 1
    return count


def _run(command: str, expected: str) -> None:
    words, shows_code, _ = command.partition("; echo $?")
    result = CliRunner().invoke(app, shlex.split(words))
    printed = result.stdout + (f"{result.exit_code}\n" if shows_code else "")
    if not shows_code:
        assert result.exit_code == 0, f"`{command}` failed: {result.output}"
    pattern = ".*".join(re.escape(part) for part in expected.split("…"))
    assert re.fullmatch(pattern, printed, re.DOTALL), f"`{command}` printed\n{printed}\nnot\n{expected}"
