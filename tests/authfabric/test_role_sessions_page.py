"""What docs/concepts/role-sessions.md shows is what happens, with real processes."""

from __future__ import annotations

import asyncio
import os
import re
import shlex
import sys
from pathlib import Path

from typer.testing import CliRunner

from authfabric.cli import app
from authfabric.files.keys import roles_key_file
from authz import Identity
from bus.identity.keystore import create_key
from tests.waiting import printed_document

ROOT = Path(__file__).parents[2]
PAGE = (ROOT / "docs/concepts/role-sessions.md").read_text()


def prepare(folder: Path) -> dict[str, str]:
    """The files that the page shows and the keys that it speaks of; returns what its processes need to know."""
    for name, text in re.findall(r"^```(?:oasis (\S+)|yaml)\n(.*?)^```$", PAGE, re.S | re.M):
        path = folder / (name or text.split()[1])
        path.parent.mkdir(exist_ok=True)
        path.write_text(text)
    roles_key_file().parent.mkdir(parents=True)
    for name, file in (
        ("ann", folder / "ann.key"),
        ("hospital", folder / "hospital.key"),
        ("service", roles_key_file()),
    ):
        create_key(file, Identity.from_seed(name.encode().ljust(32, b".")), None)
    return {"PYTHONPATH": str(ROOT)}


async def start(folder: Path, environment: dict[str, str], *words: str) -> asyncio.subprocess.Process:
    """A process that the page starts in a terminal of its own, once it is ready."""
    process = await asyncio.create_subprocess_exec(
        sys.executable, "-m", "authfabric", *words, "--json",
        cwd=folder, env=os.environ | environment, stdout=asyncio.subprocess.PIPE,
    )  # fmt: skip
    await printed_document(process)
    return process


async def authfabric(words: str) -> str:
    result = await asyncio.to_thread(CliRunner().invoke, app, shlex.split(words))
    return result.output


async def test_the_page_about_role_sessions(tmp_path, monkeypatch):
    environment = prepare(tmp_path)
    processes: list[asyncio.subprocess.Process] = []
    try:
        for words in re.findall(r"^authfabric ((?:up|roles serve).*)$", PAGE, re.M):
            extra = ["--port", "-1", "--replicas", "1"] if words.startswith("up") else []
            processes.append(await start(tmp_path, environment, *words.split(), *extra))
        monkeypatch.chdir(tmp_path)
        shown = "".join(re.findall(r"^```console\n(.*?)^```$", PAGE, re.S | re.M))
        for command, expected in re.findall(r"^\$ (.*)\n((?:(?!\$ ).*\n)*)", shown, re.M):
            if exported := re.fullmatch(r"export (\w+)=(?:\$\(authfabric (.*)\)|(.*))", command):
                value = exported[3] or (await authfabric(exported[2])).strip()
                monkeypatch.setenv(exported[1], value)
                continue
            printed = await authfabric(command.removeprefix("authfabric "))
            pattern = ".*".join(re.escape(part) for part in expected.split("…"))
            assert re.fullmatch(pattern, printed, re.S), f"`{command}` printed\n{printed}"
    finally:
        for process in reversed(processes):
            process.terminate()
            await process.wait()
