"""Waiting for a release: it is over when the members themselves say so."""

from __future__ import annotations

from time import monotonic

from msgspec.structs import replace

from authfabric.releases.rollout import LISTEN_SECONDS, Watch
from authz import Identity
from authz.release import Release, Released
from bus.feeds.member_tracker_service import MemberPoll, MemberTracker
from bus.feeds.release_feed import Feed
from bus.feeds.release_lease import DEFAULT_LEASE
from bus.feeds.status_reporter import StatusReporter
from bus.wire.envelope import pack
from bus.wire.messages import MemberStatus, unpack_member_status
from bus.wire.subjects import members
from tests.waiting import eventually

EVE = Identity.generate()


async def test_a_forged_word_does_not_end_the_wait_and_the_members_own_does(bus):
    heard: list[MemberStatus] = []
    await bus.listen(members("shop"), lambda s, r, data, h: heard.append(unpack_member_status(data)))
    status = MemberStatus("pdp-1", "pdp", "shop", 1, release="first")
    second = Released(Release("shop", 2, "", (), 0.0), EVE.public, "second")
    async with MemberPoll(bus, "shop") as caller, StatusReporter(bus, status) as member:
        await eventually(lambda: len(caller.members))
        true = heard[0]
        for forged in (
            replace(status, epoch=2, release="second"),
            replace(true, epoch=2, release="second", at=true.at + 60),
            replace(true, leaving=True, at=true.at + 60),
            replace(status, epoch=2, release="second").sign(EVE, true.at + 60),
        ):
            bus.send(members("shop"), pack(forged))
        await eventually(lambda: len(caller.members) == 2)  # the last one is there too, as another member
        watch = Watch(caller, Feed(bus, "shop", {EVE.public}))
        result = await watch.wait(second, LISTEN_SECONDS + 0.2, quiet=True)
        assert not result.complete
        assert list(result.stragglers.values()) == ["still goes by release 1 (first)"]
        assert result.bound is None
        member.say(2, "another of that number")
        assert not (await watch.wait(second, 0.2, quiet=True)).complete
        member.say(2, "second")
        assert (await watch.wait(second, 60, quiet=True)).complete


async def test_who_is_silent_counts_no_more_when_its_lease_has_ended_since_the_release_was_stored(bus):
    second = Released(Release("shop", 2, "", (), 0.0), EVE.public, "second")
    behind = MemberStatus("pdp-1", "pdp", "shop", 1, lease=2.0, release="first")
    ahead = MemberStatus("pdp-2", "pdp", "shop", 2, lease=60.0, release="second")
    async with MemberPoll(bus, "shop") as caller, StatusReporter(bus, ahead):
        bus.send(members("shop"), pack(behind.sign(EVE, 1.0)))
        await eventually(lambda: len(caller.members) == 2)
        watch = Watch(caller, Feed(bus, "shop", {EVE.public}))
        waiting = await watch.wait(second, 1.0, quiet=True)
        assert (waiting.complete, list(waiting.stragglers)) == (False, ["pdp-1"])
        assert 0.0 < waiting.bound <= 2.0
        done = await watch.wait(second, 60, quiet=True)
        assert (done.complete, done.applied, done.lapsed) == (True, ["pdp-2"], ["pdp-1"])


async def test_nothing_is_complete_before_a_replica_has_said_whom_it_has_heard(bus):
    second = Released(Release("shop", 2, "", (), 0.0), EVE.public, "second")
    behind = MemberStatus("pep-1", "sdp", "shop", 1, lease=60.0, release="first").sign(EVE, 1.0)
    ahead = MemberStatus("pdp-1", "pdp", "shop", 2, lease=60.0, release="second")
    async with MemberPoll(bus, "shop") as caller, StatusReporter(bus, ahead):
        watch = Watch(caller, Feed(bus, "shop", {EVE.public}))
        await eventually(lambda: len(caller.members))
        first = await watch.wait(second, LISTEN_SECONDS + 0.5, quiet=True)
        assert (first.complete, first.applied) == (False, ["pdp-1"])  # though nobody is known to be behind
        assert 0.0 < first.bound <= DEFAULT_LEASE
        async with MemberTracker(bus, "shop", "pdp-1") as tracker:
            tracker.members.hear(behind, monotonic())  # who is cut off now
            await eventually(lambda: caller.call() or "pep-1" in caller.members.named())
            done = await watch.wait(second, 0.2, quiet=True)
        assert (done.complete, list(done.stragglers)) == (False, ["pep-1"])


async def test_a_replica_that_has_nobody_to_name_says_so(bus):
    async with MemberTracker(bus, "shop", "pdp-1"), MemberPoll(bus, "shop") as caller:
        await eventually(lambda: caller.answered)
        assert not len(caller.members)
