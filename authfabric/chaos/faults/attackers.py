"""What users and strangers do to a fabric: forge, storm, and come and go."""

from __future__ import annotations

import asyncio
import contextlib
import sys
from dataclasses import dataclass
from itertools import count
from time import monotonic, time

import msgspec

from authfabric.chaos.record import Recorder, Revoked
from authfabric.chaos.testbed import NODES, Cluster, Members
from authfabric.chaos.workload import ACTION, DOMAIN, FORBIDDEN
from authz import AuthFabricError, Identity
from authz.release import Release, Released, sign_release
from bus.identity import read_credentials
from bus.nats import Connection
from bus.stores import ReleaseStore
from bus.wire import MemberStatus, subjects
from pep import Enforcer

CONNECTIONS = 40
"""Connections of a member in a storm; and as many times two of somebody who never says a word."""
MESSAGES = 200
REVOKED_SECONDS = 30.0
"""How long somebody whose key was revoked is watched."""
CONNECT_SECONDS = 5.0


@dataclass
class Attackers:
    """Those who may connect, and nothing else; and one who may write to the store, and whose word does not count."""

    cluster: Cluster
    members: Members
    record: Recorder
    url: str
    """The servers as they reach them."""

    def __post_init__(self) -> None:
        self._guests = count(1)
        self._member = self.members.credentials("intruder")
        self._installer = self.members.credentials("installer", "network: *\naction: connect|install")

    def _connection(self, name: str = "intruder") -> Connection:
        file = self._member if name == "intruder" else self._installer
        credentials = read_credentials(file).credentials
        return Connection(self.url, name=name, credentials=credentials, connect_seconds=CONNECT_SECONDS)

    async def forge_release(self) -> str:
        """Put a release into the store that a key has signed whose word does not count."""
        eve = Identity.generate()
        async with self._connection("installer") as bus:
            store = ReleaseStore(bus)
            newest = await store.newest(DOMAIN)
            if newest is None:
                return "no release to follow"
            before = Released.open(newest.data, DOMAIN, {self.members.root.public})
            forged = Release(DOMAIN, before.epoch + 1, "", (), time(), before=before.hash, whole=True)
            await store.commit(DOMAIN, sign_release(forged, eve), newest.revision)
        return f"release {before.epoch + 1}"

    async def forge_messages(self) -> str:
        """Say on every subject of the fabric what is not so."""
        status = MemberStatus("pdp-1", "pdp", DOMAIN, 10**6, release="0" * 64)
        said = [
            (subjects.members(DOMAIN), msgspec.msgpack.encode(status)),
            (subjects.released(DOMAIN), b"junk"),
            (subjects.ANNOUNCE, b"junk"),
            (subjects.WHO, b"junk"),
            (f"$KV.{subjects.RELEASES}.{subjects.token(DOMAIN)}", b"junk"),
            ("$JS.API.STREAM.PURGE.KV_" + subjects.RELEASES, b""),
            ("$SYS.REQ.SERVER.PING", b""),
        ]
        async with self._connection() as bus:
            for number in range(MESSAGES):
                subject, payload = said[number % len(said)]
                bus.send(subject, payload)
            with contextlib.suppress(AuthFabricError):
                await bus.flush()
        return f"{MESSAGES} messages"

    async def storm(self) -> str:
        """Connect many times at once, with credentials and without."""
        silent = [
            asyncio.open_connection("127.0.0.1", self.cluster.ports[NODES[number % len(NODES)]])
            for number in range(2 * CONNECTIONS)
        ]
        async with contextlib.AsyncExitStack() as stack:
            tried = await asyncio.gather(
                *(stack.enter_async_context(self._connection()) for _ in range(CONNECTIONS)),
                return_exceptions=True,
            )
            opened = await asyncio.gather(*silent, return_exceptions=True)
            for each in opened:
                if not isinstance(each, BaseException):
                    each[1].close()
            let_in = sum(1 for each in tried if not isinstance(each, BaseException))
        return f"{let_in} of {CONNECTIONS} let in"

    async def grant(self) -> str:
        """Let somebody in who was not there before, and have them ask."""
        name = f"guest-{next(self._guests)}"
        credentials = read_credentials(self.members.credentials(name)).credentials
        async with Enforcer.connect(
            self.url, domain=DOMAIN, name=name, credentials=credentials,
            trust=[self.members.root.public], recycling=None, deadline=10.0, audit=False,
        ) as pep:  # fmt: skip
            subject, thing = FORBIDDEN[0].split(" ")
            decision = await pep.check(subject, thing, ACTION)
        return f"{name}: {decision.reason}"

    async def revoke(self) -> str:
        """Let somebody in, take that back, and see how long they stay."""
        name = f"guest-{next(self._guests)}"
        credentials = read_credentials(self.members.credentials(name)).credentials
        async with Connection(self.url, name=name, credentials=credentials) as bus:
            folder = self.cluster.local.folder.path
            process = await asyncio.create_subprocess_exec(
                sys.executable, "-m", "authfabric", "domain", "revoke", str(folder), name, "--url", self.url,
                stdout=asyncio.subprocess.DEVNULL, stderr=asyncio.subprocess.DEVNULL,
            )  # fmt: skip
            code, told = await process.wait(), monotonic()
            gone: float | None = None
            while monotonic() < told + REVOKED_SECONDS:
                if not bus.ready:
                    gone = monotonic()
                    break
                await asyncio.sleep(0.05)
        if code == 0:
            self.record(Revoked(told, name, gone))
        return f"{name}: " + ("still connected" if gone is None else f"out after {gone - told:.2f} s")
