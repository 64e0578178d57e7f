"""A disk reserve for a NATS server's store; a server whose disk was full is restarted.

A nats-server that could not write to a stream refuses to for good, also when there is room again, until it restarts
(measured, 2.15). Reading goes on meanwhile.
"""

from __future__ import annotations

import asyncio
import os
import shutil
import signal
from collections.abc import Callable
from pathlib import Path

from bus.runtime import signal_process
from bus.server.nats_server import NatsServer

RESERVE_BYTES = 64 * 1024 * 1024
"""Bytes of disk kept in reserve, so that revocations can still be stored when the disk is full."""
LEAST_BYTES = 2 * 1024 * 1024
"""Minimum free bytes to restart a server: with less it would fail at once."""
LOOK_SECONDS = 1.0
"""Time between two looks."""

_FULL = b"no space left on device"


class DiskReserve:
    """Looks after the disk of a server whose store is in a folder; whoever started the server starts it anew."""

    def __init__(self, server: NatsServer, folder: Path, say: Callable[[str], None]) -> None:
        self._server = server
        self._reserve = folder / "reserve"
        self._say = say
        self._read = 0
        self._full = False

    async def keep(self) -> None:
        """Go on until cancelled."""
        while True:
            self.look()
            await asyncio.sleep(LOOK_SECONDS)

    def look(self) -> None:
        """Do what is needed now: keep room back, give it free, or end the server so that it is started anew."""
        if self._ran_out() and not self._full:
            self._full = True
            self._say("the disk of the NATS server is full: make room, or nothing more can be stored soon")
            self._reserve.unlink(missing_ok=True)
        free = shutil.disk_usage(self._reserve.parent).free
        if self._full and free >= LEAST_BYTES and self._server.running:
            self._full = False
            self._say(
                f"{free // 2**20} MB are free: the NATS server is started anew, so that it stores again"
            )
            signal_process(self._server.pid, signal.SIGTERM)
        elif not self._full and not self._reserve.exists() and free >= 2 * RESERVE_BYTES:
            self._keep_back()

    def _keep_back(self) -> None:
        with self._reserve.open("wb") as file:
            try:
                os.posix_fallocate(file.fileno(), 0, RESERVE_BYTES)
            except OSError as error:
                self._say(f"no room is kept back on the disk of the NATS server: {error.strerror}")

    def _ran_out(self) -> bool:
        """Whether the server has said so since the last look."""
        log = self._server.log
        if log is None or not log.exists():
            return False
        with log.open("rb") as file:
            file.seek(self._read)
            said = file.read()
        self._read += len(said)
        return _FULL in said
