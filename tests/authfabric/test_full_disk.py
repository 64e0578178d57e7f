"""A full disk is named; what is revoked then still fits; and when there is room again, all goes on by itself."""

from __future__ import annotations

import asyncio
import contextlib
import os
import secrets
import signal
import subprocess
import sys
from collections.abc import AsyncIterator
from pathlib import Path

import msgspec
import pytest
from typer.testing import CliRunner

from authfabric.cli import app
from authfabric.files.settings import state_folder
from tests.waiting import once_it_works

MOUNT = ["unshare", "-rm", "sh", "-c", 'mount -t tmpfs -o size=192m none "$0" && exec "$@"']
START_SECONDS = 60.0
"""How long a fabric may take to start, also where a test has less patience: that is no part of what is tested."""


class Place:
    """A fabric whose state is on a small disk of its own."""

    def __init__(self, url: str, disk: Path, folder: Path) -> None:
        self.url, self.disk, self.folder = url, disk, folder

    async def push(self, subject: str) -> tuple[int, str]:
        """The exit code, and what is said."""
        permit(subject, self.folder)
        words = ["policy", "push", str(self.folder), "--url", self.url]
        result = await asyncio.to_thread(CliRunner().invoke, app, words)
        return result.exit_code, result.output

    async def pushed(self, subject: str) -> None:
        assert (await self.push(subject))[0] == 0

    def fill(self, name: str) -> None:
        """Leave no room at all."""
        with contextlib.suppress(OSError), (self.disk / name).open("wb", buffering=0) as file:
            while True:
                file.write(bytes(1 << 20))


def permit(subject: str, folder: Path) -> None:
    """Write a policy that permits one subject everything, and others nothing."""
    policy = {"uid": "only", "effect": "allow", "rules": {}, "targets": {"subject_id": subject}}
    policy["description"] = secrets.token_hex(50_000)  # which must not fit beside what is there
    (folder / "policy.json").write_bytes(msgspec.json.encode(policy))


@pytest.fixture
def mountable(tmp_path) -> None:
    """Skips where users cannot mount a file system of their own: that needs namespaces, as Linux has them."""
    try:
        subprocess.run([*MOUNT, str(tmp_path), "true"], check=True, capture_output=True)
    except (OSError, subprocess.CalledProcessError) as error:
        pytest.skip(f"no file system can be mounted here: {error}")


@pytest.fixture
async def place(tmp_path, mountable) -> AsyncIterator[Place]:
    """Runs `authfabric up` where a file system of its own is mounted."""
    state = state_folder()
    state.mkdir(parents=True)
    folder = tmp_path / "policies"
    folder.mkdir()
    permit("bob", folder)
    up = [sys.executable, "-m", "authfabric", "up", "--port", "-1", "--replicas", "1", "--insecure", "--json"]
    up += ["--policies", str(folder)]
    process = await asyncio.create_subprocess_exec(*MOUNT, str(state), *up, stdout=asyncio.subprocess.PIPE)
    try:
        text = b""
        while not text.endswith(b"\n}\n"):
            line = await asyncio.wait_for(process.stdout.readline(), START_SECONDS)
            assert line, f"`authfabric up` has ended: {text.decode()}"
            text += line
        ready = msgspec.json.decode(text)
        yield Place(ready["url"], Path(f"/proc/{process.pid}/root{state}"), folder)
    finally:
        if process.returncode is None:
            process.send_signal(signal.SIGTERM)
        await process.wait()


async def test_a_full_disk_is_named_and_a_revocation_fits_and_later_all_goes_on_by_itself(place):
    await once_it_works(
        lambda: asyncio.to_thread(os.stat, place.disk / "insecure/jetstream/reserve"), OSError
    )
    place.fill("first")
    await once_it_works(lambda: place.pushed("ann"), AssertionError)  # bob's right is taken back all the same
    assert not (place.disk / "insecure/jetstream/reserve").exists()
    place.fill("second")

    async def refused() -> None:
        code, said = await place.push("eve")
        assert code == 3
        assert "the store is full" in said

    await once_it_works(refused, AssertionError)
    (place.disk / "first").unlink()
    (place.disk / "second").unlink()
    await once_it_works(
        lambda: asyncio.to_thread(os.stat, place.disk / "insecure/jetstream/reserve"), OSError
    )
    await once_it_works(lambda: place.pushed("eve"), AssertionError)
