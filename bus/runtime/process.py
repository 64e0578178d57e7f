"""Child processes: they end with their parent; those that serve are waited for until they say so."""

from __future__ import annotations

import asyncio
import contextlib
import ctypes
import os
import signal
import sys
import tempfile
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import IO, Self

import msgspec

from authz import AuthFabricError

START_SECONDS = 60.0
"""Maximum seconds a starting process may take to report that it is ready."""
STOP_SECONDS = 10.0
"""How long a process may take to end before it is killed."""
_PR_SET_PDEATHSIG = 1
_SIGTERM = int(signal.SIGTERM)


if sys.platform == "linux":
    # Found before any fork: a child of a process with threads must not need a lock that one of them may hold.
    _prctl = ctypes.CDLL(None).prctl


def _ask_for_sigterm() -> None:
    _prctl(_PR_SET_PDEATHSIG, _SIGTERM)


end_with_parent: Callable[[], None] | None = _ask_for_sigterm if sys.platform == "linux" else None
"""For `preexec_fn`: has the kernel send SIGTERM to the child when its parent is gone, however that came about."""


def signal_process(pid: int, sig: signal.Signals) -> None:
    """Send a signal to a process of ours that may have ended meanwhile."""
    with contextlib.suppress(ProcessLookupError):
        os.kill(pid, sig)


class ProcessFailed(AuthFabricError):
    """A process did not become ready: `problem` is what it wrote to its standard error."""

    def __init__(self, name: str, problem: str) -> None:
        super().__init__(f"`{name}` did not start: {problem or 'it said nothing'}")
        self.name = name
        self.problem = problem


class Ready(msgspec.Struct, frozen=True):
    """What a process says when it serves."""

    url: str = ""
    serves: list[str] = []
    health: str = ""


class ServingProcess:
    """A process in a session of its own, which ends with its parent."""

    def __init__(self, name: str, process: asyncio.subprocess.Process, log: IO[bytes]) -> None:
        self.name = name
        self.ready = Ready("")
        self._process = process
        self._log = log

    @property
    def log(self) -> str:
        """What it has written to its standard error so far."""
        return os.pread(self._log.fileno(), self._said, 0).decode(errors="replace")

    @property
    def _said(self) -> int:
        """How many bytes it has written to its standard error."""
        return os.fstat(self._log.fileno()).st_size

    @classmethod
    async def run(
        cls,
        name: str,
        command: Sequence[str],
        environment: Mapping[str, str] | None = None,
        seconds: float = START_SECONDS,
        line: bytes = b"",
        log_file: Path | None = None,
    ) -> Self:
        """Start a program, and wait until it says that it serves, unless it says nothing for `seconds`.

        If it is given a line, its standard input stays open until it ends. What it writes to its standard error can be
        read in `log_file`; what stood there before is kept beside it.
        """
        log = _open_log(log_file)  # the process writes to it; a pipe that nobody reads would fill
        process = await asyncio.create_subprocess_exec(
            *command,
            stdin=asyncio.subprocess.PIPE if line else asyncio.subprocess.DEVNULL,
            stdout=asyncio.subprocess.PIPE, stderr=log, env=os.environ | (environment or {}),
            start_new_session=True,
            preexec_fn=end_with_parent,
        )  # fmt: skip
        if process.stdin is not None:
            process.stdin.write(line + b"\n")
        serving = cls(name, process, log)
        try:
            serving.ready = await serving._wait_ready(seconds)
        except (TimeoutError, msgspec.DecodeError):
            await serving.kill()
            raise ProcessFailed(name, serving.log.strip()) from None
        except BaseException:
            await serving.kill()
            raise
        return serving

    async def _wait_ready(self, seconds: float) -> Ready:
        """What it says when it serves. Raises TimeoutError if it says nothing for `seconds`."""
        reading = asyncio.create_task(_read_ready(self._process))
        loop, said = asyncio.get_running_loop(), 0
        deadline = loop.time() + seconds
        try:
            while not reading.done():
                if self._said > said:
                    said, deadline = self._said, loop.time() + seconds
                if loop.time() > deadline:
                    raise TimeoutError
                await asyncio.wait([reading], timeout=min(1.0, seconds))
            return reading.result()
        finally:
            reading.cancel()

    @property
    def pid(self) -> int:
        return self._process.pid

    @property
    def running(self) -> bool:
        return self._process.returncode is None

    async def wait(self) -> str:
        """Wait for its end; returns what ended it, in words."""
        code = await self._process.wait()
        how = f"by {signal.Signals(-code).name}" if code < 0 else f"with {code}"
        *_, last = ["", *self.log.strip().splitlines()]
        return f"{how}: {last}" if last and code >= 0 else how

    async def stop(self, seconds: float = STOP_SECONDS) -> int:
        """Let it drain (SIGTERM) and wait for its end, which is forced after `seconds`; returns its exit code."""
        if self.running:
            self.thaw()
            signal_process(self.pid, signal.SIGTERM)
        try:
            async with asyncio.timeout(seconds):
                return await self._process.wait()
        except TimeoutError:
            return await self.kill()

    async def kill(self) -> int:
        """End it at once (SIGKILL), as a crash would."""
        signal_process(self.pid, signal.SIGKILL)
        return await self._process.wait()

    def freeze(self) -> None:
        signal_process(self.pid, signal.SIGSTOP)

    def thaw(self) -> None:
        signal_process(self.pid, signal.SIGCONT)


def _open_log(path: Path | None) -> IO[bytes]:
    if path is None:
        return tempfile.TemporaryFile()
    path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
    if path.exists():
        path.replace(path.with_name(f"{path.name}.1"))
    return open(os.open(path, os.O_CREAT | os.O_RDWR | os.O_TRUNC, 0o600), "w+b")  # noqa: PTH123


async def _read_ready(process: asyncio.subprocess.Process) -> Ready:
    assert process.stdout
    text = b""
    while not text.rstrip().endswith(b"\n}"):
        line = await process.stdout.readline()
        if not line:
            break
        text += line
    return msgspec.json.decode(text, type=Ready)
