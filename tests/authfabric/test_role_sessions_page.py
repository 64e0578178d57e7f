"""What docs/concepts/role-sessions.md shows is what happens, in a real shell with real processes."""

from __future__ import annotations

import asyncio
import os
import re
import sys
from pathlib import Path

from authfabric.keys import roles_key_file
from authz import Identity
from bus.keystore import create_key

ROOT = Path(__file__).parents[2]
PAGE = (ROOT / "docs/concepts/role-sessions.md").read_text()


def prepare(folder: Path) -> dict[str, str]:
    """The files that the page shows, the keys that it speaks of, and the command by its name."""
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
    command = folder / "bin" / "authfabric"
    command.parent.mkdir()
    command.write_text(f'#!/bin/sh\nexec {sys.executable} -m authfabric "$@"\n')
    command.chmod(0o755)
    return {"PATH": f"{command.parent}:{os.environ['PATH']}", "PYTHONPATH": str(ROOT)}


async def start(folder: Path, environment: dict[str, str], *words: str) -> asyncio.subprocess.Process:
    """A process that the page starts in a terminal of its own, once it is ready."""
    process = await asyncio.create_subprocess_exec(
        "authfabric", *words, "--json",
        cwd=folder, env=os.environ | environment, stdout=asyncio.subprocess.PIPE,
    )  # fmt: skip
    while await asyncio.wait_for(process.stdout.readline(), 60.0) not in (b"}\n", b""):
        pass
    return process


async def test_the_page_about_role_sessions(tmp_path, monkeypatch):
    environment = prepare(tmp_path)
    monkeypatch.setenv("PATH", environment["PATH"])
    servers = re.findall(r"^authfabric ((?:up|roles serve).*)$", PAGE, re.M)
    processes: list[asyncio.subprocess.Process] = []
    try:
        for words in servers:
            extra = ["--port", "-1", "--replicas", "1"] if words.startswith("up") else []
            processes.append(await start(tmp_path, environment, *words.split(), *extra))
        turns = re.findall(
            r"^\$ (.*)\n((?:(?!\$ |```).*\n)*)",
            "".join(re.findall(r"^```console\n(.*?)^```$", PAGE, re.S | re.M)),
            re.M,
        )
        script = "\n".join(f"echo '$ {n}'; {command} 2>&1" for n, (command, _) in enumerate(turns))
        shell = await asyncio.create_subprocess_exec(
            "bash", "-c", script,
            cwd=tmp_path, env=os.environ | environment, stdout=asyncio.subprocess.PIPE,
        )  # fmt: skip
        printed = (await shell.communicate())[0].decode()
        expected = "".join(f"$ {n}\n{text}" for n, (_, text) in enumerate(turns))
        pattern = ".*".join(re.escape(part) for part in expected.split("…"))
        assert re.fullmatch(pattern, printed, re.S), printed
    finally:
        for process in reversed(processes):
            process.terminate()
            await process.wait()
