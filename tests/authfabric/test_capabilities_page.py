"""Every example in docs/concepts/capabilities.md runs."""

from __future__ import annotations

import re
import shlex
import subprocess
from pathlib import Path

import pytest
from typer.testing import CliRunner

from authfabric.cli import app
from authz.spki.text import parse_owners, unparse_capability
from tests.authz.spki.generators import read_capability

PAGE = Path(__file__).parents[2] / "docs" / "concepts" / "capabilities.md"
BLOCKS = re.findall(r"```(\w+)\n(.*?)```", PAGE.read_text(encoding="utf-8"), re.DOTALL)


def blocks(language: str) -> list[str]:
    return [text for kind, text in BLOCKS if kind == language]


def test_the_commands_do_what_the_page_says(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (script,) = blocks("sh")
    lines = [line for line in script.replace("\\\n", "").splitlines() if line and not line.startswith("#")]
    for line in lines:
        refused = line.startswith("! ")
        command = line.removeprefix("! ")
        if command.startswith("authfabric "):
            result = CliRunner().invoke(app, shlex.split(command)[1:])
            assert result.exit_code == (1 if refused else 0), f"{line}\n{result.output}"
        else:
            subprocess.run(command, shell=True, check=True)
    assert len(lines) == 9


def test_the_texts_are_understood():
    capability, owners = blocks("text")
    parsed = read_capability(capability)
    assert read_capability(unparse_capability(parsed)) == parsed
    assert len(parsed.authority.grants) == 3
    assert len(parse_owners(owners)) == 2


@pytest.mark.parametrize("code", blocks("python"))
def test_the_code_runs(code):
    exec(compile(code, str(PAGE), "exec"), {})
