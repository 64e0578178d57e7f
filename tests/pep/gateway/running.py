"""A gateway process in front of a real fabric, and a client of it."""

from __future__ import annotations

import asyncio
import contextlib
import os
import signal
import sys
from collections.abc import AsyncIterator
from pathlib import Path

import httpx
import msgspec

from authfabric.processes.launcher import Fabric

POLICIES = Path(__file__).parent / "policies"
EVALUATION = "/access/v1/evaluation"
EVALUATIONS = "/access/v1/evaluations"


def question(subject: str = "alice", action: str = "read", resource: str = "record-1", **more) -> dict:
    """The body of one evaluation."""
    return {
        "subject": {"type": "user", "id": subject},
        "action": {"name": action},
        "resource": {"type": "record", "id": resource},
        **more,
    }


@contextlib.asynccontextmanager
async def gateway_process(
    running: Fabric | None, *options: str, verify: object = True, cert: object = None
) -> AsyncIterator[httpx.AsyncClient]:
    """`authfabric gateway serve` with these options, until the block ends; yields a client of it."""
    asking = [] if running is None else ["--url", running.url, "--trust", str(running.root.public)]
    process = await asyncio.create_subprocess_exec(
        sys.executable, "-m", "authfabric", "gateway", "serve", "--listen", "127.0.0.1:0", "--json",
        *asking, "--deadline", "20", *options,
        stdout=asyncio.subprocess.PIPE, start_new_session=True, env=dict(os.environ),
    )  # fmt: skip
    try:
        text = b""
        while not text.endswith(b"\n}\n"):
            line = await asyncio.wait_for(process.stdout.readline(), 60.0)
            assert line, "the gateway ended"
            text += line
        ready = msgspec.json.decode(text)
        async with httpx.AsyncClient(
            base_url=ready["address"], verify=verify, cert=cert, timeout=30.0
        ) as client:
            client.health, client.process = ready["health"], process.pid
            yield client
    finally:
        if process.returncode is None:
            process.send_signal(signal.SIGTERM)
        assert await process.wait() == 0
