"""A disk of its own for a server, so small that it can be filled: a file system in memory that only the server sees.

It is mounted in a namespace of an ordinary user, which Linux allows unless it was told not to.
"""

from __future__ import annotations

import asyncio
import contextlib
import signal
import subprocess
from pathlib import Path

from bus.runtime import end_with_parent

MEGABYTES = 1024
"""The size of the disk: room for what a run stores, several times over."""
CHUNK = b"\0" * (1 << 20)


class SmallDisk:
    """A disk, from `open` to `close`."""

    def __init__(self, folder: Path, holder: subprocess.Popen[bytes]) -> None:
        self._holder = holder
        self.path = Path(f"/proc/{holder.pid}/root{folder}")
        """The folder as it is seen from outside."""
        self.prefix = ("nsenter", "-t", str(holder.pid), "-U", "-m", "--preserve-credentials")
        """What a command begins with that is to see it."""

    @classmethod
    async def open(cls, folder: Path) -> SmallDisk | None:
        """A disk mounted on the folder; None if this system does not let users have one."""
        folder.mkdir(parents=True, exist_ok=True)  # noqa: ASYNC240 - nobody waits for this loop yet
        mount = f"mount -t tmpfs -o size={MEGABYTES}m none '{folder}' && echo mounted && exec sleep infinity"
        try:
            holder = subprocess.Popen(  # noqa: S603, ASYNC220 - starting one takes about a millisecond
                ["unshare", "-Urm", "sh", "-c", mount],  # noqa: S607
                stdin=subprocess.DEVNULL,
                stdout=subprocess.PIPE,
                stderr=subprocess.DEVNULL,
                preexec_fn=end_with_parent,
            )
        except OSError:
            return None
        assert holder.stdout is not None
        if await asyncio.to_thread(holder.stdout.readline) != b"mounted\n":
            holder.wait()
            return None
        return cls(folder, holder)

    def fill(self) -> None:
        """Leave no room."""
        with contextlib.suppress(OSError), self._ballast.open("wb") as file:
            while True:
                file.write(CHUNK)
                file.flush()

    def free(self) -> None:
        self._ballast.unlink(missing_ok=True)

    @property
    def _ballast(self) -> Path:
        return self.path / "ballast"

    def close(self) -> None:
        self._holder.send_signal(signal.SIGKILL)
        self._holder.wait()
