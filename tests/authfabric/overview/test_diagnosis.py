"""Each diagnosis of the doctor, caused for real: what is named is what is wrong, and the advice fits."""

from __future__ import annotations

import contextlib
import os
from collections.abc import AsyncIterator
from socket import gethostname
from time import monotonic, time

import pytest
from msgspec.structs import replace

from authfabric.commands.begin.status import process_words
from authfabric.overview import FabricView, Finding, State, diagnose, fabric_view, look
from authfabric.overview import diagnosis as diagnosing
from authz import Identity
from authz.release import Released
from bus import Connection, NatsServer
from bus.audit import AuditStore
from bus.errors import NotPermitted, StoreUnavailable
from bus.feeds import Member, MemberPoll, ReleaseFollower, release_follower, status_reporter
from bus.server.nats_server import cluster
from bus.stores import ReleaseStore, stream_states
from bus.wire import MemberStatus, pack, subjects
from tests.pdp.releases.test_restorer_service import ANN, World
from tests.secured import PDP, PEP, Secured, secured
from tests.waiting import eventually, once_it_works

DOMAIN = "shop"


class Follower(ReleaseFollower):
    """Goes by whatever is released."""

    async def apply(self, entry, released, at) -> None:
        pass


@pytest.fixture
async def world(tmp_path) -> AsyncIterator[World]:
    async with NatsServer(jetstream=tmp_path / "store") as server, Connection(server.url) as bus:
        yield World(server, bus, tmp_path)


@contextlib.asynccontextmanager
async def member(world: World, name: str, trust=(ANN.public,)) -> AsyncIterator[Follower]:
    async with (
        Connection(world.server.url) as bus,
        Follower(bus, Member(name, "pdp", DOMAIN, trust)) as one,
    ):
        await bus.flush()  # so that it hears the first call
        yield one


async def view(bus: Connection, members: int, domain: str = DOMAIN) -> FabricView:
    """What one look shows, when so many members have answered with their details."""
    async with MemberPoll(bus, domain, detailed=True) as poll:

        def answered() -> int:
            return sum(each.status.details is not None for each in poll.members.named().values())

        await eventually(lambda: answered() >= members)
        return await look(bus, domain, {ANN.public}, poll)


def found(view: FabricView, about: str) -> Finding:
    (one,) = (each for each in diagnose(view) if each.about == about)
    return one


async def test_a_member_says_what_it_decides_by_since_when_and_whom_it_trusts(world):
    released = (await world.push("bob")).released
    before = time()
    async with member(world, "pdp-1") as one:
        one.load = lambda: {"decisions": 7.0}
        seen = await view(world.bus, 1)
    (pdp,) = seen.members
    assert (pdp.state, pdp.number, pdp.hash, pdp.lag) == (State.IN_FORCE, 1, released.hash, 0)
    assert (pdp.signer, pdp.trust) == (str(ANN.public), [str(ANN.public)])
    assert before <= pdp.since <= time()
    assert pdp.clock == 0.0
    assert pdp.load == {"decisions": 7.0}
    assert (pdp.pid, pdp.host) == (os.getpid(), gethostname())
    assert process_words(pdp) == f"{os.getpid()}"
    elsewhere = replace(pdp, host="node-2")
    assert process_words(elsewhere) == f"{os.getpid()} on node-2"  # where it would be another's
    assert process_words(replace(pdp, pid=0, host="")) == "-"
    assert seen.complete
    assert seen.in_force == fabric_view.release_view(released)
    assert all(each.well for each in diagnose(seen))


async def test_a_missing_first_release_is_named_with_the_way_to_make_one(world):
    async with member(world, "pdp-1"):
        seen = await view(world.bus, 1)
    assert seen.members[0].state is State.WAITING
    assert "policy push" in found(seen, "members").do


async def test_a_member_that_does_not_trust_who_released_is_named(world):
    await world.push("bob")
    async with member(world, "pdp-1"), member(world, "pdp-2", [Identity.generate().public]):
        seen = await view(world.bus, 2)
    assert not seen.complete
    named = found(seen, "trust of members")
    assert not named.well
    assert "pdp-2 do not trust" in named.found
    assert "pdp-1" not in named.found


async def test_members_on_different_releases_are_told_apart_by_hash(world, monkeypatch):
    await world.push("bob")
    async with member(world, "pdp-1"), member(world, "pdp-2") as stuck:

        async def refuse(*_: object) -> None:
            raise ValueError("it does not fit")

        monkeypatch.setattr(stuck, "apply", refuse)
        second: Released = (await world.push("cal")).released
        await eventually(lambda: stuck.problem)
        seen = await view(world.bus, 2)
    states = {each.name: (each.state, each.lag) for each in seen.members}
    assert states == {"pdp-1": (State.IN_FORCE, 0), "pdp-2": (State.BLOCKED, 1)}
    assert second.hash[:12] in found(seen, "members").found
    assert "it does not fit" in found(seen, "members").found


@pytest.mark.parametrize("ahead", [120.0, -120.0])
async def test_a_wrong_clock_is_called_a_wrong_clock(world, monkeypatch, ahead):
    await world.push("bob")
    monkeypatch.setattr(status_reporter, "time", lambda: time() + ahead)
    async with member(world, "pdp-1"):
        seen = await view(world.bus, 1)
    named = found(seen, "clocks of members")
    assert "the clock of pdp-1 is 1" in named.found
    assert ("ahead of" if ahead > 0 else "behind") in named.found
    assert "NTP" in named.do


async def test_an_old_word_that_is_repeated_does_not_pass_for_a_wrong_clock(world):
    await world.push("bob")
    async with member(world, "pdp-1"), MemberPoll(world.bus, DOMAIN) as poll:  # which asks for no details
        await eventually(lambda: len(poll.members))
        (heard,) = poll.members.named().values()
    assert heard.ahead is None


async def test_members_of_different_versions_are_named(world, monkeypatch):
    await world.push("bob")
    async with member(world, "pdp-1"), member(world, "pdp-2") as older:
        monkeypatch.setattr(older, "_details", _older(older))
        older._reporter._details = older._details
        seen = await view(world.bus, 2)
    named = found(seen, "versions")
    assert "0.0.9: pdp-2" in named.found


def _older(follower: Follower):
    details = follower._details

    def say(calls):
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(release_follower, "version", lambda: "0.0.9")
            return details(calls)

    return say


async def test_a_dead_replica_is_called_silent(world):
    released = (await world.push("bob")).released
    last = MemberStatus("pdp-1", "pdp", DOMAIN, 1, release=released.hash).sign(Identity.generate(), time())
    async with MemberPoll(world.bus, DOMAIN, detailed=True) as poll:
        world.bus.send(subjects.members(DOMAIN), pack(last))
        await eventually(poll.members.named)
        heard = poll.members.named()["pdp-1"].heard
        await eventually(lambda: monotonic() - heard > 0.4)
        seen = await look(world.bus, DOMAIN, {ANN.public}, poll, silent=0.3)
    assert seen.members[0].state is State.SILENT
    assert "silent for" in found(seen, "members").found
    assert not seen.complete


async def test_a_lost_majority_is_named_and_nothing_is_to_be_deleted(tmp_path, monkeypatch):
    monkeypatch.setattr(fabric_view, "STREAM_SECONDS", 0.5)
    async with cluster(3, jetstream=True) as nodes, Connection(nodes[0].url) as bus:
        await once_it_works(AuditStore(bus, DOMAIN).create, StoreUnavailable)
        (audit, _) = await stream_states(bus, 5.0)
        assert audit.quorum
        assert len(audit.copies) == 3
        for node in nodes[1:]:
            await node.stop()
        async with MemberPoll(bus, DOMAIN) as poll:

            async def named() -> Finding:
                seen = await look(bus, DOMAIN, {ANN.public}, poll)
                quorum = [each for each in diagnose(seen) if each.about == "quorum"]
                assert quorum, seen
                return quorum[0]

            finding = await once_it_works(named, AssertionError)
    assert subjects.AUDIT in finding.found
    assert "Delete no store" in finding.do


async def test_a_consumer_that_lags_is_named(world, monkeypatch):
    monkeypatch.setattr(diagnosing, "LAGGING", 3)
    js = world.bus.jetstream()
    await js.add_stream(name=subjects.PARCELS, subjects=["lagging.>"])
    await js.add_consumer(subjects.PARCELS, durable_name="broker-7", ack_policy="explicit")
    for _ in range(4):
        await js.publish("lagging.x", b"")
    seen = await view(world.bus, 0)
    assert "broker-7: 4 to read" in found(seen, "consumers of events").found


@pytest.fixture
async def domain(tmp_path) -> AsyncIterator[Secured]:
    async with secured(tmp_path) as (world, _):
        yield world


async def test_a_missing_right_is_called_a_missing_right(domain):
    async with domain.connect(PEP) as bus:
        with pytest.raises(NotPermitted, match="the right `install` is needed") as caught:
            await ReleaseStore(bus).put("default", b"some content")
        assert caught.value.right == "install"
        with pytest.raises(NotPermitted, match="the right `audit` is needed"):
            async for _ in AuditStore(bus, "default").read():
                pass


async def test_a_member_without_the_right_it_needs_is_named(domain):
    async with (
        domain.connect(PEP) as bus,
        Follower(bus, Member("pdp-1", "pdp", "default", [ANN.public])),
        domain.connect(PDP) as other,
    ):
        await bus.flush()
        bus.send(subjects.ANNOUNCE, b"I decide")
        await eventually(lambda: bus.unanswered.lacks)
        seen = await view(other, 1, "default")
    assert "pdp-1 lacks the right `decide`" in found(seen, "rights of members").found


async def test_a_right_that_was_lacking_is_forgotten_with_the_connection(domain):
    async with domain.connect(PEP) as bus:
        bus.send(subjects.ANNOUNCE, b"I decide")
        await eventually(lambda: bus.unanswered.lacks)
        before = bus.reconnects
        bus._client._abort()
        await eventually(lambda: bus.ready and bus.reconnects > before)
        assert not bus.unanswered.lacks
