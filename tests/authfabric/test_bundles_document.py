"""What docs/concepts/bundles.md shows is what happens."""

from __future__ import annotations

import asyncio
import signal
import sys
from pathlib import Path

from tests.documents import run_examples

DOCUMENT = Path(__file__).parents[2] / "docs/concepts/bundles.md"


async def test_every_example_works_as_shown(tmp_path, monkeypatch):
    for name in ("STATE", "DATA", "CACHE"):
        monkeypatch.setenv(f"XDG_{name}_HOME", str(tmp_path / name.lower()))
    monkeypatch.delenv("AUTHFABRIC_NATS_URL", raising=False)
    up = await asyncio.create_subprocess_exec(
        sys.executable, "-m", "authfabric", "up", "--port", "-1", "--replicas", "1", "--json",
        stdout=asyncio.subprocess.PIPE, start_new_session=True,
    )  # fmt: skip
    try:
        while await asyncio.wait_for(up.stdout.readline(), 60.0) != b"}\n":
            pass
        monkeypatch.chdir(tmp_path)
        assert await asyncio.to_thread(run_examples, DOCUMENT, tmp_path) == 6
    finally:
        up.send_signal(signal.SIGTERM)
        assert await up.wait() == 0
