"""What commands find on this machine, and from whom they take it."""

from __future__ import annotations

import asyncio
import os
import stat
import sys

import pytest

from authfabric.files import settings
from authfabric.processes import fabric
from authfabric.terminal import Exit
from authz import Identity
from tests.pep.gateway.running import POLICIES


@pytest.fixture
def state(tmp_path, monkeypatch):
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path))
    return tmp_path / "authfabric"


def test_where_the_fabric_is_stands_where_nobody_else_can_write(state):
    root, before = Identity.generate().public, os.umask(0)
    try:
        state.mkdir(mode=0o777)
        settings.note_running("nats://127.0.0.1:1", root)
    finally:
        os.umask(before)
    assert settings.find_running() == settings.Running("nats://127.0.0.1:1", os.getpid(), str(root))
    modes = [stat.S_IMODE(each.stat().st_mode) for each in (state, state / "up.json")]
    assert modes == [0o700, 0o600]


async def test_what_others_may_have_written_about_where_the_fabric_is_is_not_believed(state):
    """Whoever can write the note names servers and a key of his own, and is asked and believed."""
    async with fabric(1, policies=POLICIES) as false:
        settings.note_running(false.url, false.root.public)
        assert await ask() == Exit.OK
        settings.running_file().chmod(0o666)
        assert await ask() != Exit.OK


async def ask() -> int:
    """With what a command ends that asks whatever fabric it finds: 0 if that allows it."""
    words = ("ask", "alice", "/record/record-1", "read")
    process = await asyncio.create_subprocess_exec(sys.executable, "-m", "authfabric", *words)
    return await process.wait()
