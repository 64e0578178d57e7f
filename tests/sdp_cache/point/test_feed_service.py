"""An SDP stands where the newest verified release is, says so, and serves nothing while it cannot know."""

from __future__ import annotations

import contextlib
from collections.abc import AsyncIterator
from dataclasses import dataclass
from time import time

import pytest

from authz import Basis, Decision, Entity, Identity, Request
from authz.change import Touched
from authz.predicate import Equal, Path
from authz.release import Release, Released, sign_release
from bus import Connection, NatsServer
from bus.errors import StoreUnavailable
from bus.feeds.release_feed import Look
from bus.stores.release_store import ReleaseStore
from bus.wire.messages import unpack_member_status
from bus.wire.subjects import RELEASES, members, released
from sdp_cache import LeaseRules, SecondaryPoint
from sdp_cache.point import feed_service
from sdp_cache.point.feed_service import FeedFollower, Following
from tests.waiting import eventually

ANN, EVE = Identity.generate(), Identity.generate()
BOB, CAL = (Request.of(name, "/x", "read") for name in ("bob", "cal"))


@dataclass
class Sdp:
    point: SecondaryPoint
    feed: FeedFollower

    def serves(self, request: Request = BOB) -> bool:
        return self.point.infer(request, time()) is not None

    def learn(self) -> None:
        for request in (BOB, CAL):
            self.point.learn(request, Decision(True, epoch=self.point.epoch), self.point.epoch)


def signed_after(last: Released | None, by: Identity, about: str) -> bytes:
    release = Release(
        "shop",
        last.release.sequence + 1 if last else 1,
        "",
        (),
        0.0,
        before=last.hash if last else "",
        effects=(Touched(Equal(Path("subject"), about)),),
        hierarchy={"boss": ("clerk",)},
    )
    return sign_release(release, by)


class World:
    def __init__(self, server: NatsServer, bus: Connection) -> None:
        self.server = server
        self.bus = bus
        self.store = ReleaseStore(bus)

    async def release(self, last: Released | None, by: Identity = ANN, about: str = "bob") -> Released:
        newest = await self.store.newest("shop")
        data = signed_after(last, by, about)
        await self.store.commit("shop", data, newest.revision if newest else 0)
        return Released.open(data, "shop", {by.public})

    @contextlib.asynccontextmanager
    async def sdp(self, rules: LeaseRules = LeaseRules(60.0)) -> AsyncIterator[Sdp]:
        point = SecondaryPoint(rules=rules)
        async with (
            Connection(self.server.url) as bus,
            FeedFollower(bus, point, Following("shop", {ANN.public}, "sdp-1", rules)) as feed,
        ):
            yield Sdp(point, feed)


@pytest.fixture
async def world() -> AsyncIterator[World]:
    async with NatsServer(jetstream=True) as server, Connection(server.url) as bus:
        yield World(server, bus)


async def test_it_finds_its_place_and_takes_each_step(world):
    async with world.sdp() as sdp:
        await eventually(lambda: "no release" in sdp.feed.problem)
        first = await world.release(None)
        await eventually(lambda: sdp.feed.applied == first)
        sdp.learn()
        assert sdp.serves()
        second = await world.release(first, about="cal")
        await eventually(lambda: sdp.feed.applied == second)
        assert (sdp.serves(BOB), sdp.serves(CAL)) == (True, False)


async def test_where_it_starts_it_knows_which_roles_imply_others(world):
    second = await world.release(await world.release(None))
    assert second.change.juniors is None
    async with world.sdp() as sdp:
        await eventually(lambda: sdp.feed.applied == second)
        clerk, boss = (Request.of(Entity("x", {"roles": [role]}), "/x", "read") for role in ("clerk", "boss"))
        sdp.point.learn(clerk, Decision(True, epoch=second.epoch, basis=Basis.ROLES), second.epoch)
        assert sdp.serves(boss)


async def test_it_acknowledges_each_step_and_says_when_it_leaves(world):
    said = []
    await world.bus.listen(members("shop"), lambda s, r, data, h: said.append(unpack_member_status(data)))
    async with world.sdp() as sdp:
        first = await world.release(None)
        await eventually(lambda: any(each.epoch == first.epoch and each.ok for each in said))
        second = await world.release(first)
        await eventually(lambda: any(each.epoch == second.epoch and each.ok for each in said))
        assert sdp.point.epoch == second.epoch
    await eventually(lambda: said[-1].leaving)
    assert {(each.member, each.kind) for each in said} == {("sdp-1", "sdp")}
    assert said[-1].lease >= 60.0


async def test_what_it_missed_while_cut_off_it_applies_in_order(world):
    first = await world.release(None, about="cal")
    async with world.sdp() as sdp:
        await eventually(lambda: sdp.feed.applied == first)
        sdp.learn()
        async with cut_off(sdp):
            second = await world.release(first, about="cal")
            third = await world.release(second, about="nobody")
        await eventually(lambda: sdp.feed.applied == third)
        assert (sdp.serves(BOB), sdp.serves(CAL)) == (True, False)


@contextlib.asynccontextmanager
async def cut_off(sdp: Sdp) -> AsyncIterator[None]:
    """The store does not answer the SDP meanwhile."""
    look, sdp.feed._look_seconds = sdp.feed.feed.look, 0.01

    async def unanswered() -> Look:
        raise StoreUnavailable("cut off")

    sdp.feed.feed.look = unanswered
    await eventually(lambda: "cut off" in sdp.feed.problem)
    yield
    sdp.feed.feed.look = look


async def test_where_history_does_not_reach_back_everything_is_forgotten(world):
    first = await world.release(None)
    async with world.sdp() as sdp:
        await eventually(lambda: sdp.feed.applied == first)
        sdp.learn()
        async with cut_off(sdp):
            second = await world.release(first, about="x")
            third = await world.release(second, about="x")
            await world.bus.jetstream().purge_stream(f"KV_{RELEASES}", keep=1)
        await eventually(lambda: sdp.feed.applied == third)
        assert not sdp.serves()
        sdp.learn()
        assert sdp.serves()


async def test_a_store_that_goes_back_ends_the_lease(world):
    first = await world.release(None)
    second = await world.release(first)
    async with world.sdp() as sdp:
        await eventually(lambda: sdp.feed.applied == second)
        sdp.learn()
        await world.release(first, about="x")  # number 2 again, and another one
        await eventually(lambda: "in place of release 2" in sdp.feed.problem)
        assert not sdp.serves()
        sdp.learn()
        assert not sdp.serves()


async def test_a_release_that_does_not_descend_from_what_is_applied_ends_the_lease(world):
    first = await world.release(None)
    async with world.sdp() as sdp:
        await eventually(lambda: sdp.feed.applied == first)
        sdp.learn()
        await world.release(Released(first.release, first.signer, "another"), about="x")
        await eventually(lambda: "does not descend" in sdp.feed.problem)
        assert not sdp.serves()


async def test_junk_in_the_store_is_reported_and_changes_nothing(world):
    first = await world.release(None)
    async with world.sdp() as sdp:
        await eventually(lambda: sdp.feed.applied == first)
        sdp.learn()
        await world.release(first, by=EVE)
        await eventually(lambda: str(EVE.public) in sdp.feed.problem)
        assert sdp.serves()


async def test_releases_of_strangers_alone_give_no_lease(world):
    await world.release(None, by=EVE)
    async with world.sdp() as sdp:
        await eventually(lambda: str(EVE.public) in sdp.feed.problem)
        sdp.learn()
        assert not sdp.serves()


async def test_a_frozen_store_ends_what_is_served_when_the_lease_does(world):
    first = await world.release(None)
    async with world.sdp(LeaseRules(1.0)) as sdp:
        await eventually(lambda: sdp.feed.applied == first)
        sdp.learn()
        await eventually(sdp.serves)
        world.server.freeze()
        last = time()
        await eventually(lambda: not sdp.serves())
        assert sdp.point.infer(BOB, last + 1.0) is None
        world.server.thaw()
        await eventually(sdp.serves)


async def test_a_clock_that_is_set_back_does_not_prolong_the_lease(world, monkeypatch):
    first = await world.release(None)
    async with world.sdp() as sdp:
        await eventually(lambda: sdp.feed.applied == first)
        sdp.learn()
        assert sdp.serves()
        monkeypatch.setattr(feed_service, "time", lambda: time() - 3600.0)
        sdp.feed.feed.look_again()
        await eventually(lambda: sdp.point.infer(BOB, time() - 3600.0) is None)
        sdp.learn()
        await eventually(lambda: sdp.point.infer(BOB, time() - 3600.0) is not None)
        assert sdp.point.infer(BOB, time() - 3600.0 + 61.0) is None


async def test_it_takes_a_release_at_its_word_without_reading_the_store_and_extends_no_lease(
    world, monkeypatch
):
    monkeypatch.setattr(feed_service, "LOOK_SECONDS", 600.0)
    first = await world.release(None)
    async with world.sdp(LeaseRules(3600.0)) as sdp:
        await eventually(lambda: sdp.feed.applied == first)
        sdp.learn()
        forged, second = (signed_after(first, by, about="cal") for by in (EVE, ANN))
        left = sdp.feed.stale_for
        world.bus.send(released("shop"), forged)
        await eventually(lambda: sdp.feed.stale_for < left)  # it has looked at the store
        assert sdp.feed.applied == first
        left = sdp.feed.stale_for
        world.bus.send(released("shop"), second)
        await eventually(lambda: sdp.feed.epoch == first.epoch + 1)
        assert sdp.feed.applied == Released.open(second, "shop", {ANN.public})
        assert (sdp.serves(BOB), sdp.serves(CAL)) == (True, False)
        assert sdp.feed.stale_for >= left
