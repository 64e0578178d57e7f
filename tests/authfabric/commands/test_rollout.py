"""Waiting for a release: it is over when the members themselves say so."""

from __future__ import annotations

from msgspec.structs import replace

from authfabric.commands.rollout import LISTEN_SECONDS, Watch
from authz import Identity
from authz.release import Release, Released
from bus.envelope import pack
from bus.feed import Feed
from bus.membership import Membership
from bus.messages import MemberStatus, unpack_member_status
from bus.roll_service import RollKeeper
from bus.subjects import members
from tests.waiting import eventually

EVE = Identity.generate()


async def test_a_forged_word_does_not_end_the_wait_and_the_members_own_does(bus):
    heard: list[MemberStatus] = []
    await bus.listen(members("shop"), lambda s, r, data, h: heard.append(unpack_member_status(data)))
    status = MemberStatus("pdp-1", "pdp", "shop", 1, release="first")
    second = Released(Release("shop", 2, "", (), 0.0), EVE.public, "second")
    async with RollKeeper(bus, "shop") as keeper, Membership(bus, status) as member:
        await eventually(lambda: len(keeper.rollcall))
        true = heard[0]
        for forged in (
            replace(status, epoch=2, release="second"),
            replace(true, epoch=2, release="second", at=true.at + 60),
            replace(true, leaving=True, at=true.at + 60),
            replace(status, epoch=2, release="second").sign(EVE, true.at + 60),
        ):
            bus.send(members("shop"), pack(forged))
        await eventually(lambda: len(keeper.rollcall) == 2)  # the last one is there too, as another member
        watch = Watch(keeper, Feed(bus, "shop", {EVE.public}))
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
    async with RollKeeper(bus, "shop") as keeper, Membership(bus, ahead):
        bus.send(members("shop"), pack(behind.sign(EVE, 1.0)))
        await eventually(lambda: len(keeper.rollcall) == 2)
        watch = Watch(keeper, Feed(bus, "shop", {EVE.public}))
        waiting = await watch.wait(second, 1.0, quiet=True)
        assert (waiting.complete, list(waiting.stragglers)) == (False, ["pdp-1"])
        assert 0.0 < waiting.bound <= 2.0
        done = await watch.wait(second, 60, quiet=True)
        assert (done.complete, done.applied, done.lapsed) == (True, ["pdp-2"], ["pdp-1"])
