"""A domain whose policies are released, followed by replicas and by PEPs that recycle."""

from __future__ import annotations

import contextlib
from collections.abc import AsyncIterator
from pathlib import Path

from authz import Identity, Request
from authz.release import Released
from bus import Connection, NatsServer, Scope
from pdp.bundle.bundle import Bundle, File
from pdp.bundle.bundle_store import BundleCache
from pdp.releases.publisher_service import Publisher
from pdp.replica.policy_follower import Follower, Following
from pdp.replica.service import Replica
from pep import Enforcer, LeaseRules
from tests.waiting import eventually
from tests.warrants import warrant

ANN, EVE = Identity.generate(), Identity.generate()
QUESTION = Request.of("bob", "/x", "read")


def only(*subjects: str) -> Bundle:
    """Policies that allow these subjects everything, and nobody else anything."""
    lines = [
        f"- {{uid: {each}-may, effect: allow, rules: {{}}, targets: {{subject_id: {each}}}}}"
        for each in subjects
    ]
    return Bundle.of([File("p.yaml", "\n".join(lines))])


class World:
    """A server, someone who releases, and what a test starts beside them."""

    def __init__(self, server: NatsServer, bus: Connection, folder: Path) -> None:
        self.server = server
        self.bus = bus
        self.folder = folder
        self.asked = 0
        """How many questions came to the replica."""

    async def push(self, bundle: Bundle, by: Identity = ANN) -> Released:
        publisher = Publisher(self.bus, "default", by, {ANN.public, EVE.public}, lambda: 0.0)
        return (await publisher.push(bundle)).released

    @contextlib.asynccontextmanager
    async def replica(self) -> AsyncIterator[Follower]:
        cache = BundleCache(self.folder / "release")
        following = Following("default", {ANN.public}, "pdp-1", cache)
        build = lambda policies, epoch: policies.engine(epoch, certify=True)  # noqa: E731
        async with (
            Connection(self.server.url) as bus,
            Follower(bus, following, build) as follower,
            Replica(bus, self._counting(follower), [Scope.parse("domain:default")], authority=warrant(ANN)),
        ):
            yield follower

    def _counting(self, follower: Follower) -> Follower:
        decide_many = follower.decide_many

        async def counting(requests):
            self.asked += len(requests)
            return await decide_many(requests)

        follower.decide_many = counting
        return follower

    @contextlib.asynccontextmanager
    async def pep(self, lease: LeaseRules = LeaseRules(60.0), **options) -> AsyncIterator[Enforcer]:  # noqa: B008
        """A PEP that has found its place in the feed."""
        async with Enforcer.connect(
            self.server.url, trust=[ANN.public], lease=lease, deadline=10.0, **options
        ) as pep:
            await eventually(lambda: pep.secondary.feed.applied is not None)
            yield pep

    async def applied(self, released: Released, *several: Enforcer | Follower) -> None:
        """Return when all of them are at the release."""
        await eventually(
            lambda: all(
                (each.secondary.point if isinstance(each, Enforcer) else each).epoch == released.epoch
                for each in several
            )
        )


@contextlib.asynccontextmanager
async def world(folder: Path) -> AsyncIterator[World]:
    async with NatsServer(jetstream=True) as server, Connection(server.url) as bus:
        yield World(server, bus, folder)
