"""What a store has lost comes back from whoever has it, and nothing goes back; a damaged store is found out."""

from __future__ import annotations

import contextlib
import shutil
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from authz import Identity, Request
from authz.release import Release, sign_release
from bus import Connection, NatsServer
from bus.errors import StoreUnavailable
from bus.feeds.held_releases_service import HeldRelease, offering
from bus.feeds.release_feed import Feed
from bus.feeds.release_survey_service import StoreBehind
from bus.stores import release_store
from bus.stores.release_store import ReleaseStore, open_bucket
from bus.wire import RELEASED, RELEASES, token
from pdp.bundle.bundle import Bundle, File
from pdp.bundle.bundle_store import BundleCache
from pdp.releases.publisher_service import Published, Publisher
from pdp.releases.restorer_service import HistoriesDiverged, Plan, Restorer, Side, plan
from pdp.replica.policy_follower import Follower, Following
from tests.waiting import eventually, once_it_works

ANN = Identity.generate()
KEPT = 4
"""Releases kept by a store with a short history."""


class World:
    """A server whose store can be damaged, and its only releaser."""

    def __init__(self, server: NatsServer, bus: Connection, folder: Path) -> None:
        self.server, self.bus, self.folder = server, bus, folder
        self.restorer = Restorer(bus, "shop", ANN, (), lambda: 0.0)

    async def push(self, subject: str, **options: bool) -> Published:
        text = f"- {{uid: only, effect: allow, rules: {{}}, targets: {{subject_id: {subject}}}}}"
        publisher = Publisher(self.bus, "shop", ANN, (), lambda: 0.0)
        return await publisher.push(Bundle.of([File("p.yaml", text)]), **options)

    @contextlib.asynccontextmanager
    async def follower(self, name: str) -> AsyncIterator[Follower]:
        following = Following("shop", {ANN.public}, name, BundleCache(self.folder / name), None)
        async with (
            Connection(self.server.url) as bus,
            Follower(bus, following, lambda policies, epoch: policies.engine(epoch)) as follower,
        ):
            yield follower

    @contextlib.asynccontextmanager
    async def stopped(self) -> AsyncIterator[Path]:
        """The folder of the store, while no server has it open."""
        await self.server.stop()
        yield self.folder / "store"
        await self.server.start()
        await once_it_works(lambda: ReleaseStore(self.bus).position(), StoreUnavailable)

    async def damage(self, bucket: str, index: bool, key: str = "") -> None:
        """Flip a bit in what a bucket has stored last, or below a key; the server's index of it may be gone, too."""
        async with self.stopped() as store:
            (messages,) = store.rglob(f"KV_{bucket}/msgs")
            (block,) = messages.glob("*.blk")
            data = bytearray(block.read_bytes())
            data[data.index(key.encode()) + len(key) + 20 if key else -40] ^= 1
            block.write_bytes(data)
            if not index:
                (messages / "index.db").unlink()

    async def restore(self, join: Side | None = None, file: Path | None = None) -> Plan:
        found = await self.restorer.survey(file)
        planned = plan(found, join)
        await self.restorer.restore(found, planned)
        return planned

    async def epochs(self) -> list[int]:
        return [each.epoch for each in await Feed(self.bus, "shop", {ANN.public}).history()]


@pytest.fixture
async def world(tmp_path) -> AsyncIterator[World]:
    async with NatsServer(jetstream=tmp_path / "store") as server, Connection(server.url) as bus:
        yield World(server, bus, tmp_path)


async def allows(follower: Follower, subject: str) -> bool:
    (decision,) = await follower.decide_many([Request.of(subject, "/x", "read")])
    return decision.allowed


@pytest.mark.parametrize("index", [True, False], ids=["with its index", "without its index"])
async def test_a_flipped_bit_brings_no_revoked_right_back_to_a_replica_without_a_past(world, index):
    await world.push("bob")
    await world.push("ann")  # so bob has lost his right
    await world.damage("authfabric-releases", index)
    async with world.follower("pdp-1") as follower:
        assert follower.made is None
        assert "behind release 2" in follower.problem or "damaged" in follower.problem
        with pytest.raises(StoreBehind):
            await world.push("eve")
        assert (await world.restore()).put_back is not None  # from the second record
        await eventually(follower.ready.is_set)
        assert [await allows(follower, who) for who in ("bob", "ann")] == [False, True]
    await world.push("eve")
    assert (await world.epochs())[-1] == 3


async def test_nobody_stops_replicas_by_a_release_that_no_trusted_key_has_signed(world):
    forged = sign_release(Release("shop", 99, "", (), 0.0), Identity.generate())
    await world.push("bob")
    async with offering(world.bus, "shop", "mallory", lambda: HeldRelease(forged, b"")):
        async with world.follower("pdp-1") as follower:
            assert await allows(follower, "bob")
        await world.push("ann")


async def test_damaged_content_is_not_used_and_comes_back_from_whoever_holds_it(world):
    (chunk,) = (await world.push("bob")).released.release.chunks
    async with world.follower("pdp-1") as follower:
        assert await allows(follower, "bob")
        await world.damage("authfabric-content", index=False, key=f"blob.shop.{chunk}")
        async with world.follower("pdp-2") as other:
            assert other.made is None
            assert "does not have the content" in other.problem
            await world.restore()
            await eventually(other.ready.is_set)
            assert await allows(other, "bob")


async def test_what_only_a_file_keeps_comes_back_though_all_else_is_gone(world):
    await world.push("bob")
    newest = (await world.push("ann")).released
    async with world.follower("pdp-1"):
        pass
    async with world.stopped() as store:
        shutil.rmtree(store)
    assert await world.restore() == Plan()
    planned = await world.restore(file=world.folder / "pdp-1")
    assert planned.put_back.released == newest
    assert await world.epochs() == [2]
    assert await world.restore(file=world.folder / "pdp-1") == Plan()
    async with world.follower("pdp-2") as follower:
        assert await allows(follower, "ann")


async def test_where_releases_between_are_lost_for_good_a_new_one_joins_what_is_left(world):
    await world.push("bob")
    async with world.stopped() as store:
        shutil.copytree(store, world.folder / "copy")
    async with world.follower("pdp-1") as behind:
        first = behind.applied
        await world.push("ann")
        await world.push("eve")
        await eventually(lambda: behind.epoch == 3)
    async with world.stopped() as store:
        shutil.rmtree(store)
        shutil.copytree(world.folder / "copy", store)
    async with world.follower("pdp-1") as ahead, world.follower("pdp-3") as fresh:
        fresh.latest = first  # as if it had been away since then
        await world.restore()
        assert await world.epochs() == [1, 4]
        for each in (ahead, fresh):
            await eventually(lambda each=each: each.epoch == 4)
            assert await allows(each, "eve")


@pytest.mark.parametrize(("side", "winner"), [(Side.HELD, "ann"), (Side.STORE, "eve")])
async def test_where_lines_have_parted_somebody_says_which_counts_and_both_go_on(world, side, winner):
    await world.push("bob")
    async with world.stopped() as store:
        shutil.copytree(store, world.folder / "copy")
    await world.push("ann")
    async with world.follower("pdp-1") as first:
        async with world.stopped() as store:
            shutil.rmtree(store)
            shutil.copytree(world.folder / "copy", store)
        await world.push("eve", override=True)
        await eventually(lambda: "in place of release 2" in first.problem)
        async with world.follower("pdp-2") as second:
            assert second.epoch == 2
            with pytest.raises(HistoriesDiverged):
                await world.restore()
            with pytest.raises(StoreBehind):
                await world.push("bob")
            await world.restore(side)
            for each in (first, second):
                await eventually(lambda each=each: each.epoch == 3)
                assert await allows(each, winner)
    await world.push("bob")
    assert (await world.epochs())[-1] == 4


async def abandoned_line(world: World, monkeypatch) -> bytes:
    """Release 5 of a line that was given up, in the hands of one who may write to the store; it permits mallory."""
    monkeypatch.setattr(release_store, "HISTORY", KEPT)
    async with NatsServer(jetstream=True) as server, Connection(server.url) as bus:
        other = World(server, bus, world.folder)
        for subject in ("x", "y", "z", "v", "mallory"):
            await other.push(subject)
        last = await Feed(bus, "shop", {ANN.public}).newest()
        content = await ReleaseStore(bus).get("shop", last.released.release.chunks)
    await ReleaseStore(world.bus).put("shop", content)
    return last.data


async def replay(world: World, data: bytes) -> None:
    bucket = await open_bucket(world.bus, RELEASES, KEPT, RELEASED)
    await bucket.put(token("shop"), data)


async def test_a_release_of_an_abandoned_line_is_refused_by_members_and_the_next_push_goes_on_without_it(
    world, monkeypatch
):
    data = await abandoned_line(world, monkeypatch)
    await world.push("bob")
    async with world.follower("pdp-1") as member:
        await world.push("ann")
        await eventually(lambda: member.epoch == 2)
        await replay(world, data)
        await eventually(lambda: "does not descend from release 2" in member.problem)
        assert not await allows(member, "mallory")
        await world.push("eve", override=True)
        await eventually(lambda: member.epoch == 3)
        assert not member.problem


async def test_an_abandoned_line_is_refused_by_members_also_where_the_store_keeps_nothing_else(
    world, monkeypatch
):
    data = await abandoned_line(world, monkeypatch)
    await world.push("bob")
    await world.push("ann")
    async with world.follower("pdp-1") as member:
        assert member.epoch == 2
    for _ in range(KEPT):
        await replay(world, data)
    async with world.follower("pdp-1") as member:
        await eventually(lambda: "does not descend from release 2" in member.problem)
        assert member.epoch != 5
        assert not await allows(member, "mallory")


async def test_a_member_that_was_away_for_more_releases_than_are_kept_goes_on(world, monkeypatch):
    monkeypatch.setattr(release_store, "HISTORY", KEPT)
    await world.push("bob")
    async with world.follower("pdp-1") as member:
        assert member.epoch == 1
    for number in range(KEPT + 2):
        await world.push(f"ann-{number}")
    assert 2 not in await world.epochs()
    async with world.follower("pdp-1") as member:
        await eventually(lambda: member.epoch == KEPT + 3)
