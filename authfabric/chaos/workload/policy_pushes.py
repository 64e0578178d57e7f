"""The operator of a run: brings one release after another into force, as `authfabric policy push --wait` does.

A store that has lost releases is restored first, as `authfabric policy restore` does; only an entry that cannot be
verified is passed over.
"""

from __future__ import annotations

import asyncio
import random
from dataclasses import dataclass, field
from pathlib import Path
from time import monotonic, time

from authfabric.chaos.record import Kept, Push, Question, Recorder
from authfabric.chaos.workload.policies import DOMAIN, QUESTIONS, next_permits, policy_file
from authfabric.releases import watching
from authz import AuthFabricError, Identity
from authz.release import Released, ReleaseRefused
from bus.feeds import Feed, StoreBehind, survey
from bus.identity import read_credentials
from bus.nats import Connection
from pdp.bundle import Bundle, File
from pdp.releases import Publisher, Restorer, Side
from pdp.releases import plan as restoration

WAIT_SECONDS = 40.0
"""How long a push waits for everybody: longer than any lease."""
CONNECT_SECONDS = 2.0


@dataclass
class Releaser:
    """Pushes releases. What the next one permits follows from the seed."""

    url: str
    credentials: Path
    identity: Identity
    """Who signs them."""
    record: Recorder
    chance: random.Random
    permits: tuple[Question, ...] = QUESTIONS[::2]
    pushes: int = 0
    waiting: set[asyncio.Task[None]] = field(default_factory=set)

    async def push(self) -> bool:
        """Release other permissions; says whether they were. Whether everybody has them is waited for meanwhile."""
        self.pushes += 1
        name, permits = f"push-{self.pushes}", next_permits(self.permits, self.chance)
        done: asyncio.Future[bool] = asyncio.get_running_loop().create_future()
        task = asyncio.create_task(self._push(name, permits, done))
        self.waiting.add(task)
        task.add_done_callback(self.waiting.discard)
        if await done:
            self.permits = permits
        return done.result()

    async def _push(self, name: str, permits: tuple[Question, ...], done: asyncio.Future[bool]) -> None:
        begun = monotonic()
        try:
            async with self._connection() as bus:
                trusted = {self.identity.public}
                async with watching(bus, Feed(bus, DOMAIN, trusted)) as watch:
                    publisher = Publisher(bus, DOMAIN, self.identity, trusted, time)
                    bundle = Bundle.of([File("policies.yaml", policy_file(permits))])
                    released = await self._release(bus, publisher, bundle, name)
                    stored = monotonic()
                    first = await watch.wait(released, 0.0, quiet=True)
                    done.set_result(True)
                    rollout = await watch.wait(released, WAIT_SECONDS, quiet=True)
                    ended = monotonic()
        except AuthFabricError as error:
            self.record(Push(name, begun, monotonic(), permits, problem=str(error)))
        else:
            why = "; ".join(f"{who}: {why}" for who, why in rollout.stragglers.items())
            complete = ended if rollout.complete else None
            said = (released.epoch, released.hash, complete, first.bound)
            self.record(Push(name, begun, stored, permits, *said, why))
        finally:
            if not done.done():
                done.set_result(False)

    async def _release(self, bus: Connection, publisher: Publisher, bundle: Bundle, name: str) -> Released:
        trusted = {self.identity.public}
        try:
            return (await publisher.push(bundle, name)).released
        except StoreBehind:
            restorer = Restorer(bus, DOMAIN, self.identity, trusted, time)
            found = await restorer.survey()
            await restorer.restore(found, restoration(found, Side.HELD))
            return (await publisher.push(bundle, name)).released
        except ReleaseRefused:  # the newest entry is forged
            (await survey(bus, DOMAIN, trusted)).check()
            return (await publisher.push(bundle, name, override=True)).released

    async def look(self, *, last: bool = False) -> bool:
        """Record which releases stand in the store. Says whether it could be read."""
        try:
            async with self._connection() as bus:
                trusted = {self.identity.public}
                history = await Publisher(bus, DOMAIN, self.identity, trusted, time).history()
        except AuthFabricError:
            return False
        now = monotonic()
        for each in history:
            found = each.released
            message, hash_ = (found.release.message, found.hash) if found is not None else ("", "")
            self.record(Kept(now, message, each.epoch, hash_, last))
        return True

    async def finish(self) -> None:
        """Wait for what is still waited for."""
        if self.waiting:
            await asyncio.wait(self.waiting)

    def _connection(self) -> Connection:
        credentials = read_credentials(self.credentials).credentials
        return Connection(self.url, name="operator", credentials=credentials, connect_seconds=CONNECT_SECONDS)
