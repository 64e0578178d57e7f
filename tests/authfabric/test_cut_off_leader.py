"""What is cut off with the leader goes by no release that is out of force, and a change of leader stops nobody."""

from __future__ import annotations

import asyncio
import contextlib
from collections import Counter
from collections.abc import AsyncIterator
from dataclasses import dataclass, field
from pathlib import Path
from time import monotonic

import msgspec
import pytest

from authfabric.chaos.faults.stream_watch import STREAMS, StoreWatch
from authfabric.chaos.record import Recorder
from authfabric.chaos.testbed import NODES, Cluster, Members
from authfabric.chaos.testbed.cluster import running
from authfabric.chaos.testbed.members import Member, words
from authfabric.files import write_authority
from authfabric.processes import REPLICA
from authfabric.terminal import Exit
from authz import Decision, Identity, Reason
from bus import Connection
from bus.errors import StoreUnavailable
from bus.identity import VARIABLE, create_key, load_key, read_credentials
from bus.stores.stream_copies import step_down
from pep import Enforcer, LeaseRules, Recycling
from tests.authfabric.pushing import authfabric
from tests.waiting import PATIENCE, eventually, once_it_works

DOMAIN = "shop"
LEASE = 5.0
DEADLINE = 1.0


@dataclass
class Answer:
    """What somebody was told who asked at an instant."""

    who: str
    asked: float
    decision: Decision


@dataclass
class Fabric:
    """Three servers; a PDP and PEPs that know only the one that leads the releases, and a PDP at the others."""

    members: Members
    cluster: Cluster
    operator: str
    """The servers as the operator reaches them."""
    folder: Path
    leader: str = ""
    answers: list[Answer] = field(default_factory=list)

    @property
    def others(self) -> list[str]:
        return [each for each in NODES if each != self.leader]

    async def push(self, subjects: list[str], *more: str) -> tuple[int, dict]:
        """Release that these may do anything, as soon as the store takes it."""
        policies = self.folder / "policies"
        policies.mkdir(exist_ok=True)
        policy = {"uid": "some", "effect": "allow", "rules": {}, "targets": {"subject_id": subjects}}
        (policies / "policy.json").write_bytes(msgspec.json.encode(policy))
        root = ("--key", str(self.folder / "root.key"), "--trust", str(self.members.root.public))
        command = ["policy", "push", str(policies), "--domain", DOMAIN, "--url", self.operator, *root, *more]
        async with asyncio.timeout(PATIENCE):
            while (said := await authfabric(*command))[0] == Exit.FAILED:
                pass
        return said

    async def find_leader(self) -> str:
        async with StoreWatch(self.operator, self.cluster.local.own_credentials()) as watch:
            async with asyncio.timeout(PATIENCE):
                while not (leader := await watch.leader()):  # noqa: ASYNC110 - it is another process
                    await asyncio.sleep(0.1)
            assert await watch.healthy(PATIENCE)
        return leader

    async def give_way(self) -> None:
        """Have another server lead the releases."""
        own = self.cluster.local.own_credentials()
        async with Connection(self.operator, name="watch", credentials=own) as bus:
            await once_it_works(lambda: step_down(bus, STREAMS[0], self.others[0]), StoreUnavailable)

    async def link(self, who: str, nodes: list[str]) -> str:
        """The servers of those names, as one reaches them who knows no others."""
        for node in nodes:
            await self.cluster.network.open(who, node, self.cluster.ports[node])
        return self.cluster.network.urls(who, nodes)

    async def add_pdp(self, name: str, nodes: list[str], *more: str) -> None:
        url, root = await self.link(name, nodes), self.members.root
        command = ["pdp", "serve", "--url", url, "--name", name, "--domain", DOMAIN, "--no-audit", *more]
        command += ["--trust", str(root.public), "--cache", str(self.folder / f"{name}.releases")]
        authority = write_authority(self.folder, name, root)
        access = self.members.credentials(name, REPLICA, load_key(self.folder / f"{name}.key", str))
        await self.members.add(name, Member(words([*command, *authority]), access))

    @contextlib.asynccontextmanager
    async def pep(self, name: str, *, caching: bool, lease: LeaseRules | None = None) -> AsyncIterator[None]:
        """A service at the leader that asks again and again, and notes what it is told, for the length of a block."""
        async with Enforcer.connect(
            await self.link(name, [self.leader]),
            domain=DOMAIN,
            deadline=DEADLINE,
            name=name,
            credentials=read_credentials(self.members.credentials(name)).credentials,
            trust=[self.members.root.public],
            recycling=Recycling() if caching else None,
            lease=lease or LeaseRules(),
        ) as pep:
            asking = asyncio.create_task(self._ask(name, pep))
            try:
                yield
            finally:
                asking.cancel()
                await asyncio.gather(asking, return_exceptions=True)

    async def _ask(self, who: str, pep: Enforcer) -> None:
        while True:
            asked = monotonic()
            decision = await pep.check("ann", "/files/1", "read")
            self.answers.append(Answer(who, asked, decision))
            await asyncio.sleep(0.01)

    def since(self, instant: float, who: str) -> list[Decision]:
        """What one was told who asked after an instant."""
        return [each.decision for each in self.answers if each.who == who and each.asked > instant]

    async def all_say(self, epoch: int, who: tuple[str, ...]) -> None:
        """Return when everybody answers by that release."""
        since = monotonic()
        for each in who:
            await eventually(lambda each=each: any(a.epoch == epoch for a in self.since(since, each)))


@contextlib.asynccontextmanager
async def fabric(folder: Path, monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[Fabric]:
    """One that has released that Ann may read."""
    record = Recorder(folder / "record")
    async with running(folder, record, small_disk=False) as cluster, contextlib.AsyncExitStack() as stack:
        members = Members(cluster, folder, record, Identity.generate())
        stack.callback(record.close)
        stack.push_async_callback(members.stop)
        await members.add_access("access")
        create_key(folder / "root.key", members.root, None)
        access = members.credentials("operator", "network: *\naction: connect|install")
        monkeypatch.setenv(VARIABLE, str(access))
        made = Fabric(members, cluster, await cluster.connect("operator"), folder)
        assert (await made.push(["ann"]))[0] == 0
        made.leader = await made.find_leader()
        yield made


async def test_what_is_cut_off_with_the_leader_allows_nothing_by_a_release_that_is_out_of_force(
    tmp_path, monkeypatch
):
    async with fabric(tmp_path, monkeypatch) as made, contextlib.AsyncExitStack() as stack:
        await asyncio.gather(
            made.add_pdp("near", [made.leader], "--lease", str(LEASE)), made.add_pdp("far", made.others)
        )
        services = {"caching": True, "asking": False}
        for name, caching in services.items():
            await stack.enter_async_context(made.pep(name, caching=caching, lease=LeaseRules(LEASE)))
        await made.all_say(1, tuple(services))

        apart = {made.leader, "near", *services}
        network = made.cluster.network
        network.cut(apart, {*NODES, "access", "operator", "far"} - apart)
        cut = monotonic()
        code, said = await made.push(["bob"], "--wait", "--timeout", "20")
        complete = monotonic()
        assert code == 0, said
        assert said["rollout"]["applied"] == ["far"]
        for name in services:
            await eventually(
                lambda name=name: any(each.reason is Reason.STALE for each in made.since(complete, name))
            )
            assert not any(each.allowed for each in made.since(complete, name))
            # The leader's last word from a majority came before the cut: no lease outlasts it.
            assert not any(each.allowed for each in made.since(cut + LEASE, name))
            assert any(each.allowed for each in made.since(cut, name))

        network.mend(apart, {*NODES, "access", "operator", "far"} - apart)
        await made.all_say(2, tuple(services))
        assert not any(each.allowed for name in services for each in made.since(complete, name))


async def test_defaults_survive_a_leader_change_without_an_outage(tmp_path, monkeypatch):
    async with fabric(tmp_path, monkeypatch) as made, contextlib.AsyncExitStack() as stack:
        await made.add_pdp("near", [made.leader])
        for name, caching in {"caching": True, "asking": False}.items():
            await stack.enter_async_context(made.pep(name, caching=caching))
            await made.all_say(1, (name,))
        since = monotonic()
        before = made.leader
        await made.give_way()
        assert await made.find_leader() != before
        code, _ = await made.push(["ann", "bob"], "--wait")
        assert code == 0
        await made.all_say(2, ("caching", "asking"))
        reasons = Counter(each.decision.reason for each in made.answers if each.asked > since)
        assert set(reasons) == {Reason.POLICY}, reasons
