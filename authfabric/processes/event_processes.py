"""The brokers and key managers of event applications, as `authfabric up --events` runs them.

`authfabric event apply` notes what an application needs in a file of its own below the state folder. Whoever runs the
fabric follows these files: what is new is started, what is gone is ended, and what ends by itself is started again.
What goes by something else now is started anew, one after the other: the next when the one before is ready.
"""

from __future__ import annotations

import asyncio
import contextlib
import enum
import hashlib
import shutil
from collections.abc import Callable, Mapping
from pathlib import Path

import msgspec

from authfabric.files import load_or_make, own_state_folder
from authfabric.processes.launcher import Fabric, Pause, ReplicaProcess
from authz import AuthFabricError, Identity
from bus.identity import load_key, others_may_write, write_private
from bus.runtime import end_task

LOOK_SECONDS = 0.25
"""Time between two looks at what applications need."""


class HostedKind(enum.StrEnum):
    """What a process is, and so what it may do on the bus."""

    MANAGER = "manager"
    BROKER = "broker"


RIGHTS: Mapping[HostedKind, str] = {
    HostedKind.MANAGER: "network: *\naction: connect|install",
    HostedKind.BROKER: "network: *\naction: connect|carry",
}


class Hosted(msgspec.Struct, frozen=True):
    """One process of an application."""

    name: str
    kind: HostedKind
    words: tuple[str, ...]
    """What follows `authfabric` on the command line."""
    goes_by: dict[str, str] = {}
    """What it reads at its start, and a digest of each: started anew whenever one has changed."""

    @property
    def digest(self) -> str:
        """What tells it from the same process with other words or files."""
        return hashlib.sha256(msgspec.json.encode(self)).hexdigest()


def differences(old: Hosted, new: Hosted) -> list[str]:
    """What a process goes by that is not as it was, in the user's words."""
    changed = [
        name for name in {**old.goes_by, **new.goes_by} if old.goes_by.get(name) != new.goes_by.get(name)
    ]
    return changed or ["its command line"]


class HostedApplication(msgspec.Struct, frozen=True):
    """What one application needs."""

    application: str
    processes: tuple[Hosted, ...]


class HostedStatus(msgspec.Struct, frozen=True):
    """How a process of an application stands."""

    digest: str
    """Of what was started, or could not be."""
    pid: int = 0
    """0 if it does not run."""
    problem: str = ""


def hosted_folder() -> Path:
    """Where it is noted what applications need. Raises FolderRefused."""
    return own_state_folder() / "applications"


def hosted_logs() -> Path:
    """Where the processes of applications log. Raises FolderRefused."""
    return own_state_folder() / "logs"


def note_hosted(application: HostedApplication) -> None:
    """Have the processes of an application run, in place of those that it had. Raises KeyFileRefused."""
    folder = hosted_folder()
    folder.mkdir(parents=True, exist_ok=True, mode=0o700)
    text = msgspec.json.format(msgspec.json.encode(application), indent=2) + b"\n"
    write_private(folder / f"{application.application}.json", text, replace=True)


def read_hosted(name: str) -> HostedApplication | None:
    """What an application needs; None if nothing is noted, or others could have written it."""
    return _read(hosted_folder() / f"{name}.json")


def all_hosted() -> dict[str, Hosted]:
    """The processes of all applications, by name: managers before brokers."""
    found = [_read(each) for each in sorted(hosted_folder().glob("*.json"))]
    processes = [each for application in found if application is not None for each in application.processes]
    return {each.name: each for each in sorted(processes, key=lambda each: each.kind is HostedKind.BROKER)}


def hosted_managers() -> list[Identity]:
    """The key managers of all applications whose keys can be read here: those of a type that several have, once."""
    files = [
        Path(each.words[each.words.index("--key") + 1])
        for each in all_hosted().values()
        if each.kind is HostedKind.MANAGER and "--key" in each.words
    ]
    found = list[Identity]()
    for file in dict.fromkeys(files):
        with contextlib.suppress(AuthFabricError):
            found.append(load_key(file, lambda: ""))
    return found


def forget_hosted() -> None:
    """Have no application run any more; their keys stay where they are."""
    shutil.rmtree(hosted_folder(), ignore_errors=True)


def hosted_status() -> dict[str, HostedStatus]:
    """How the processes of applications stand, by name, as whoever runs them has last noted."""
    try:
        return msgspec.json.decode(_status_file().read_bytes(), type=dict[str, HostedStatus])
    except (OSError, msgspec.DecodeError):
        return {}


def _status_file() -> Path:
    return own_state_folder() / "event-processes.json"


def _read(path: Path) -> HostedApplication | None:
    try:
        if others_may_write(path.stat()):
            return None
        return msgspec.json.decode(path.read_bytes(), type=HostedApplication)
    except (OSError, msgspec.DecodeError):
        return None


class EventProcesses:
    """Runs what applications need beside a fabric."""

    def __init__(self, fabric: Fabric, say: Callable[[str], None]) -> None:
        self._fabric = fabric
        self._say = say
        self._kept: dict[str, tuple[Hosted, asyncio.Task[None]]] = {}
        self._running: dict[str, ReplicaProcess] = {}
        self._status: dict[str, HostedStatus] = {}
        self._renewed = ""
        """What was started anew last."""

    async def keep(self) -> None:
        """Follow what applications need, until cancelled; then everything is ended."""
        try:
            self._note()
            while True:
                await self._follow(all_hosted())
                await asyncio.sleep(LOOK_SECONDS)
        finally:
            await asyncio.gather(*(self._end(name) for name in list(self._kept)))
            _status_file().unlink(missing_ok=True)

    def _note(self, name: str = "", status: HostedStatus | None = None) -> None:
        """Note how a process stands, for those who wait for it."""
        if name:
            self._status.pop(name, None)
        if status is not None:
            self._status[name] = status
        write_private(_status_file(), msgspec.json.encode(self._status), replace=True)

    async def _follow(self, wanted: Mapping[str, Hosted]) -> None:
        await asyncio.gather(*(self._end(name) for name in list(self._kept) if name not in wanted))
        for name, hosted in wanted.items():
            if name not in self._kept:
                self._keep(hosted)
        starting = [name for name in self._kept if name not in self._status]
        changed = [each for name, each in wanted.items() if self._kept[name][0] != each]
        for each in changed:
            if not self._is_up(each.name):
                await self._renew(each)
            elif not starting and self._is_up(self._renewed):
                await self._renew(each)
                return

    def _is_up(self, name: str) -> bool:
        status = self._status.get(name)
        return name not in self._kept or (status is not None and status.pid != 0)

    async def _renew(self, hosted: Hosted) -> None:
        old, _ = self._kept[hosted.name]
        self._say(f"{hosted.name} is started anew: {', '.join(differences(old, hosted))} changed")
        self._renewed = hosted.name
        await self._end(hosted.name)
        self._keep(hosted)

    def _keep(self, hosted: Hosted) -> None:
        self._kept[hosted.name] = hosted, asyncio.create_task(self._keep_one(hosted))

    async def _end(self, name: str) -> None:
        _, task = self._kept.pop(name)
        await end_task(task)
        self._note(name)
        process = self._running.pop(name, None)
        if process is not None:
            await process.stop()
            self._say(f"{name} has ended")

    async def _keep_one(self, hosted: Hosted) -> None:
        """Start it, and start it again whenever it ends, however often that fails."""
        pause, said = Pause(), ""
        while True:
            try:
                process = self._running[hosted.name] = await self._start(hosted)
                self._say(f"{hosted.name} runs (pid {process.pid})")
                self._note(hosted.name, HostedStatus(hosted.digest, process.pid))
                said = ""
                pause.begin()
                problem = f"{hosted.name} has ended {await process.wait()}"
            except (AuthFabricError, OSError) as error:
                problem = f"{hosted.name} does not start: {error}"
            seconds = pause.next()
            self._note(hosted.name, HostedStatus(hosted.digest, problem=problem))
            if problem != said:
                self._say(f"{problem}; it is started anew in {seconds:g} s")
            said = problem
            await asyncio.sleep(seconds)

    async def _start(self, hosted: Hosted) -> ReplicaProcess:
        own = load_or_make(None, self._fabric.folder / f"{hosted.name}.key")
        access = self._fabric.hand_out(hosted.name, RIGHTS[hosted.kind], own)
        words = [*hosted.words, "--url", self._fabric.url]
        return await ReplicaProcess.launch(hosted.name, words, access, hosted_logs() / f"{hosted.name}.log")
