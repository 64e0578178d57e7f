"""The tutorial: its files are written, its service tested by its tests, then run on a fabric, as the page says."""

from __future__ import annotations

import asyncio
import os
import re
import shlex
import sys
from pathlib import Path

import pytest

from tests.authfabric.test_documents import up
from tests.documents import matches, turns, write_files

ROOT = Path(__file__).parents[2]
PAGE = (ROOT / "docs/tutorial.md").read_text()
BEFORE, FABRIC = PAGE.split("## 5. ")
UP = re.search(r"^authfabric (up .*)$", FABRIC, re.MULTILINE)[1]
LISTED = """
from fastapi.testclient import TestClient
from service import app
with TestClient(app) as client:
    print([client.get("/documents", headers={"x-user": user}).json() for user in ("bob", "eve")])
    print(client.get("/documents/1", headers={"x-user": "eve"}).json()["text"])
"""


async def run(*words: str, **environment: str) -> str:
    """What a command prints, in a process of its own."""
    process = await asyncio.create_subprocess_exec(
        sys.executable, *words, stdout=asyncio.subprocess.PIPE,
        env={**os.environ, "PYTHONPATH": f"{ROOT}:{Path.cwd()}", **environment},
    )  # fmt: skip
    printed, _ = await process.communicate()
    assert process.returncode == 0, (words, printed)
    return printed.decode()


async def run_commands(text: str) -> int:
    for command, expected in turns(text):
        printed = await run("-m", "authfabric", *shlex.split(command))
        assert matches(expected, printed), f"`{command}` printed\n{printed}\nnot\n{expected}"
    return len(turns(text))


async def test_the_tutorial_works(tmp_path, monkeypatch):
    pytest.importorskip("fastapi")
    monkeypatch.chdir(tmp_path)
    write_files(PAGE, tmp_path)
    assert await run_commands(BEFORE) == 1
    tests = ["-m", "pytest", "-q", "-p", "authfabric.testing.plugin", "-p", "no:cacheprovider"]
    assert "5 passed" in await run(*tests)
    async with up(*shlex.split(UP)[1:], "--replicas", "1"):
        assert await run_commands(FABRIC) == 3
        assert await run("-c", LISTED, FABRIC="1") == "[['2'], ['1', '2']]\n***\n"
