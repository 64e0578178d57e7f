"""A follower decides by the newest verified release, and whatever is wrong with one, by the one before it."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator
from pathlib import Path
from time import monotonic, time

import pytest

import bus.feeds.release_feed
import bus.feeds.release_follower
import bus.feeds.release_lease
from authz import Entity, Identity, Request
from authz.release import Release, sign_release
from bus import Connection, NatsServer
from bus.errors import ContentMissing
from bus.stores import content_garbage_collection, release_store
from bus.wire.messages import MemberStatus, unpack_member_status
from bus.wire.subjects import members
from pdp.bundle.bundle import Bundle, File
from pdp.bundle.bundle_store import BundleCache
from pdp.bundle.policy_set import PolicySet
from pdp.releases import publisher_service
from pdp.releases.publisher_service import NoSuchRelease, Publisher, ReleaseOvertaken
from pdp.replica.metrics import PolicyMetrics
from pdp.replica.policy_follower import Follower, Following
from pdp.replica.service import CannotDecide
from tests.waiting import PATIENCE, eventually, once_it_works

ANN, EVE = Identity.generate(), Identity.generate()
QUESTION = Request.of("bob", "/x", "read")


def bundle(subject: str) -> Bundle:
    text = f"- {{uid: only-{subject}, effect: allow, rules: {{}}, targets: {{subject_id: {subject}}}}}"
    return Bundle.of([File("p.yaml", text)])


class World:
    """A server, someone who releases, and the followers of a test."""

    def __init__(self, server: NatsServer, bus: Connection, folder: Path) -> None:
        self.server = server
        self.bus = bus
        self.cache = BundleCache(folder / "release")
        self.build = lambda policies, epoch: policies.engine(epoch)

    def publisher(self, identity: Identity = ANN) -> Publisher:
        return Publisher(self.bus, "shop", identity, {ANN.public, EVE.public}, lambda: 0.0)

    @contextlib.asynccontextmanager
    async def follower(self, lease: float | None = None) -> AsyncIterator[Follower]:
        following = Following("shop", {ANN.public}, "pdp-1", self.cache, lease)
        async with (
            Connection(self.server.url) as bus,
            Follower(bus, following, lambda *given: self.build(*given)) as follower,
        ):
            yield follower


@pytest.fixture
async def world(tmp_path) -> AsyncIterator[World]:
    async with NatsServer(jetstream=True) as server, Connection(server.url) as bus:
        yield World(server, bus, tmp_path)


def lag(follower: Follower) -> float:
    """By how many releases it is behind, as its metrics say."""
    found = PolicyMetrics(follower).collect()
    return next(each.samples[0].value for each in found if each.name == "authfabric_policy_lag")


async def decide(follower: Follower) -> tuple[bool, int]:
    (decision,) = await follower.decide_many([QUESTION])
    return decision.allowed, decision.epoch


async def test_each_release_is_in_force_soon_and_under_its_epoch(world):
    first = await world.publisher().push(bundle("bob"))
    async with world.follower() as follower:
        assert await decide(follower) == (True, first.released.epoch)
        second = await world.publisher().push(bundle("ann"))
        await eventually(lambda: follower.epoch == second.released.epoch)
        assert await decide(follower) == (False, second.released.epoch)
        third = await world.publisher().rollback(first.released.epoch)
        await eventually(lambda: follower.epoch == third.released.epoch)
        assert await decide(follower) == (True, third.released.epoch)


async def test_it_is_as_many_releases_behind_as_it_cannot_use(world):
    def build(policies: PolicySet, epoch: int) -> object:
        if epoch > 1:
            raise ValueError("no room for these")
        return policies.engine(epoch)

    await world.publisher().push(bundle("bob"))
    world.build = build
    async with world.follower() as follower:
        assert lag(follower) == 0
        await world.publisher().push(bundle("ann"))
        await eventually(lambda: lag(follower) == 1)
        await world.publisher().push(bundle("cleo"))
        await eventually(lambda: lag(follower) == 2)
        assert follower.epoch == 1


async def test_before_the_first_release_nothing_is_decided(world):
    async with world.follower() as follower:
        with pytest.raises(CannotDecide):
            await decide(follower)
        published = await world.publisher().push(bundle("bob"))
        await asyncio.wait_for(follower.ready.wait(), PATIENCE)
        assert await decide(follower) == (True, published.released.epoch)


async def test_what_was_released_while_it_started_unheard_of_is_in_force_before_it_decides(
    world, monkeypatch
):
    """A push that is over before others have heard of this one is complete without it."""
    await world.publisher().push(bundle("bob"))
    original, pushed = Follower.apply, []

    async def apply(self: Follower, *given) -> None:
        await original(self, *given)
        if not pushed:
            pushed.append(await world.publisher().push(bundle("ann")))

    monkeypatch.setattr(Follower, "apply", apply)
    async with world.follower() as follower:
        assert await decide(follower) == (False, pushed[0].released.epoch)


async def test_a_release_signed_by_a_stranger_is_refused_told_and_the_old_one_keeps_deciding(world, caplog):
    first = await world.publisher().push(bundle("bob"))
    async with world.follower() as follower:
        await world.publisher(EVE).push(bundle("eve"))
        await eventually(lambda: str(EVE.public) in follower.problem)
        assert await decide(follower) == (True, first.released.epoch)
        await follower.step()
        assert follower.refusals == 1
        assert str(EVE.public) in caplog.text


BAD = {
    "it cannot be read": Bundle.of([File("p.yaml", "[")]),
    "it is a policy no engine knows": Bundle.of(
        [File("p.yaml", "- {uid: a, effect: allow, rules: {subject: {$.a: {condition: No}}}, targets: {}}")]
    ),
}


@pytest.mark.parametrize("bad", BAD.values(), ids=BAD.keys())
async def test_a_bad_bundle_is_refused_and_reported_and_the_old_one_keeps_deciding(world, bad):
    first = await world.publisher().push(bundle("bob"))
    statuses: list[MemberStatus] = []
    await world.bus.listen(members("shop"), lambda s, r, data, h: statuses.append(unpack_member_status(data)))
    async with world.follower() as follower:
        await release_unchecked(world, bad)
        await eventually(lambda: follower.refusals)
        assert await decide(follower) == (True, first.released.epoch)
        await eventually(lambda: any(not each.ok for each in statuses))
        assert "p.yaml:1:" in statuses[-1].problem
        assert statuses[-1].epoch == first.released.epoch
        assert all(each.authentic for each in statuses)
        assert len({each.signer for each in statuses}) == 1
        good = await world.publisher().push(bundle("ann"))
        await eventually(lambda: follower.epoch == good.released.epoch)
        assert follower.problem == ""
        assert follower.refusals == 1


async def release_unchecked(world: World, bad: Bundle) -> None:
    """Release what a publisher would refuse."""
    publisher = world.publisher()
    last = (await publisher.history())[-1].released
    chunks = await publisher._store.put(publisher._domain, bad.pack())
    release = Release("shop", last.release.sequence + 1, bad.hash, chunks, 0.0, before=last.hash)
    await publisher._store.commit("shop", sign_release(release, ANN), last.epoch)


async def test_what_breaks_the_compiler_is_refused_too(world):
    first = await world.publisher().push(bundle("bob"))
    async with world.follower() as follower:

        def fail(policies: PolicySet, epoch: int) -> object:
            raise RecursionError("too deep")

        world.build = fail
        await world.publisher().push(bundle("ann"))
        await eventually(lambda: follower.refusals)
        assert "RecursionError" in follower.problem
        assert await decide(follower) == (True, first.released.epoch)


async def test_content_that_arrives_late_is_waited_for(world):
    async with world.follower() as follower:
        late = bundle("bob")
        publisher = world.publisher()
        await publisher.push(bundle("ann"))
        await eventually(lambda: follower.epoch)
        last = (await publisher.history())[-1].released
        chunks = await publisher._store.put(publisher._domain, late.pack())
        await world.bus.jetstream().purge_stream("KV_authfabric-content")
        release = Release("shop", 2, late.hash, chunks, 0.0, before=last.hash)
        await publisher._store.commit("shop", sign_release(release, ANN), last.epoch)
        await eventually(lambda: "does not have the content" in follower.problem)
        await publisher._store.put(publisher._domain, late.pack())
        await eventually(lambda: follower.epoch > last.epoch)
        assert (await decide(follower))[0]


async def test_while_the_store_is_away_the_last_verified_release_is_taken_from_disk(world):
    published = await world.publisher().push(bundle("bob"))
    async with world.follower() as follower:
        await eventually(world.cache.path.exists)
        assert follower.epoch
    async with NatsServer() as without_store:
        world.server = without_store
        async with world.follower() as follower:
            assert await decide(follower) == (True, published.released.epoch)
            assert "the store does not answer" in follower.problem


async def test_what_lies_on_disk_is_verified_like_everything_else(world):
    await world.publisher(EVE).push(bundle("bob"))
    entry = (await world.publisher().history())[-1]
    world.cache.save(entry.revision, entry.data, bundle("bob").pack())
    async with NatsServer() as without_store:
        world.server = without_store
        async with world.follower() as follower:
            assert follower.made is None
        world.cache.path.write_bytes(b"junk")
        async with world.follower() as follower:
            assert follower.made is None


async def test_a_store_that_went_back_in_time_is_not_followed(world):
    publisher = world.publisher()
    await publisher.push(bundle("bob"))
    newest = await publisher.push(bundle("ann"))
    async with world.follower():
        await eventually(world.cache.path.exists)
    async with NatsServer(jetstream=True) as anew, Connection(anew.url) as bus:
        await Publisher(bus, "shop", ANN, (), lambda: 0.0).push(bundle("bob"))
        world.server = anew
        async with world.follower() as follower:
            assert await decide(follower) == (False, newest.released.epoch)
            await eventually(lambda: "gone back to release 1" in follower.problem)


async def test_under_a_lease_nothing_is_decided_while_the_store_is_away(world, monkeypatch):
    later = 0.0
    for module in (bus.feeds.release_lease, bus.feeds.release_follower, bus.feeds.release_feed):
        monkeypatch.setattr(module, "monotonic", lambda: monotonic() + later)
    published = await world.publisher().push(bundle("bob"))
    async with world.follower(lease=60.0) as follower:
        assert await decide(follower) == (True, published.released.epoch)
        await world.server.stop()
        later = 100.0
        with pytest.raises(CannotDecide, match="the lease on release 1"):
            await decide(follower)
        await world.server.start()
        answer = await once_it_works(lambda: decide(follower), CannotDecide)
        assert answer == (True, published.released.epoch)


async def test_a_batch_is_decided_under_one_epoch_whatever_happens_meanwhile(world):
    await world.publisher().push(bundle("bob"))
    requests = [Request.of(Entity("bob"), Entity(f"/{n}"), Entity("read")) for n in range(5_000)]
    async with world.follower() as follower:
        epochs = set()
        for subject in ("ann", "bob", "eve"):
            published = await world.publisher().push(bundle(subject))
            while follower.epoch != published.released.epoch:
                decisions = await follower.decide_many(requests)
                assert len({(each.epoch, each.allowed) for each in decisions}) == 1
                epochs.add(decisions[0].epoch)
        assert len(epochs) >= 2


class TestPublishing:
    async def test_of_two_publishers_the_loser_is_told_who_was_first(self, world):
        first = await world.publisher().push(bundle("bob"))
        slow = world.publisher()
        put, winners = slow._store.put, []

        async def put_slowly(domain: str, content: bytes) -> tuple[str, ...]:
            winners.append(await world.publisher().push(bundle("ann"), "quick fix"))
            return await put(domain, content)

        slow._store.put = put_slowly
        with pytest.raises(ReleaseOvertaken, match="quick fix") as lost:
            await slow.push(bundle("eve"))
        assert lost.value.expected == first.released.epoch
        assert lost.value.winner == winners[0].released
        assert str(ANN.public) in str(lost.value)

    async def test_what_is_in_force_already_is_not_released_again(self, world):
        first = await world.publisher().push(bundle("bob"))
        again = await world.publisher().push(bundle("bob"))
        assert not again.new
        assert again.released == first.released

    async def test_what_cannot_be_read_is_never_stored(self, world):
        with pytest.raises(Exception, match=r"p\.yaml:1:"):
            await world.publisher().push(Bundle.of([File("p.yaml", "[")]))
        assert await world.publisher().history() == []

    async def test_junk_in_the_store_must_be_overridden_knowingly(self, world):
        first = await world.publisher().push(bundle("bob"))
        await world.publisher()._store.commit("shop", b"junk", first.released.epoch)
        with pytest.raises(Exception, match="is refused"):
            await world.publisher().push(bundle("ann"))
        second = await world.publisher().push(bundle("ann"), override=True)
        assert second.released.release.sequence == 2
        assert second.released.release.before == first.released.hash

    async def test_only_a_verified_release_can_be_gone_back_to(self, world):
        await world.publisher().push(bundle("bob"))
        with pytest.raises(NoSuchRelease):
            await world.publisher().rollback(99)


async def test_a_push_takes_out_what_only_releases_named_that_are_kept_no_longer(world, monkeypatch):
    for module in (release_store, content_garbage_collection, publisher_service):
        monkeypatch.setattr(module, "HISTORY", 3)
    ahead = content_garbage_collection.GRACE_SECONDS + 60
    publisher = Publisher(world.bus, "shop", ANN, (), lambda: time() + ahead)
    pushed = [(await publisher.push(bundle(name))).released for name in ("ann", "bob", "cal", "dan")]
    assert await publisher.bundle(pushed[1]) == bundle("bob")
    with pytest.raises(ContentMissing):
        await publisher.bundle(pushed[0])
