"""Commands run in this process, and fabrics whose replicas follow what is released."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator
from pathlib import Path

import msgspec
from typer.testing import CliRunner

from authfabric.cli import app
from authfabric.processes.launcher import Fabric, fabric


def write(folder: Path, subject: str) -> Path:
    """Policies that allow this subject alone."""
    folder.mkdir(exist_ok=True)
    policy = {"uid": f"only-{subject}", "effect": "allow", "rules": {}, "targets": {"subject_id": subject}}
    (folder / "policy.json").write_bytes(msgspec.json.encode(policy))
    return folder


async def authfabric(*words: str) -> tuple[int, dict]:
    """Run a command in a thread; its exit code, and the document it prints."""
    result = await asyncio.to_thread(CliRunner().invoke, app, [*words, "--json"])
    return result.exit_code, msgspec.json.decode(result.stdout) if result.stdout else {}


@contextlib.asynccontextmanager
async def released(folder: Path, replicas: int) -> AsyncIterator[Fabric]:
    """A fabric whose replicas follow what is released."""
    async with fabric(0, policies=None, jetstream=True) as running:
        code, _ = await authfabric("policy", "push", str(write(folder, "ann")), "--url", running.url)
        assert code == 0
        await asyncio.gather(*(running.add(f"pdp-{n}") for n in range(1, replicas + 1)))
        yield running
