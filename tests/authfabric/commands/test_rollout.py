"""Waiting for a release: it is over when the members themselves say so."""

from __future__ import annotations

from msgspec.structs import replace

from authfabric.commands.rollout import LISTEN_SECONDS, Watch
from authz import Identity
from bus.envelope import pack
from bus.membership import Membership
from bus.messages import MemberStatus, unpack_member_status
from bus.roll_service import RollKeeper
from bus.subjects import members
from tests.waiting import eventually

EVE = Identity.generate()


async def test_a_forged_word_does_not_end_the_wait_and_the_members_own_does(bus):
    heard: list[MemberStatus] = []
    await bus.listen(members("shop"), lambda s, r, data, h: heard.append(unpack_member_status(data)))
    status = MemberStatus("pdp-1", "pdp", "shop", 1)
    async with RollKeeper(bus, "shop") as keeper, Membership(bus, status) as member:
        await eventually(lambda: len(keeper.rollcall))
        true = heard[0]
        for forged in (
            replace(status, epoch=2),
            replace(true, epoch=2, at=true.at + 60),
            replace(true, leaving=True, at=true.at + 60),
            replace(status, epoch=2).sign(EVE, true.at + 60),
        ):
            bus.send(members("shop"), pack(forged))
        await eventually(lambda: len(keeper.rollcall) == 2)  # the last one is there too, as another member
        watch = Watch(keeper)
        result = await watch.wait(2, LISTEN_SECONDS + 0.2, quiet=True)
        assert not result.complete
        assert list(result.stragglers.values()) == ["still decides by epoch 1"]
        member.say(2)
        assert (await watch.wait(2, 60, quiet=True)).complete
