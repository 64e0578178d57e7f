"""Attacks on where questions go: false announcements, and false word that nobody listens."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from time import time

import msgspec
import pytest

from authz import Decision, Identity, Reason, Request
from bus.wire.envelope import pack
from bus.wire.messages import Announcement
from bus.wire.scopes import Scope
from bus.wire.subjects import ANNOUNCE
from pdp.replica.service import CannotDecide
from tests.attacker import Attacker
from tests.deciders import Gated, Readers
from tests.pep.fabric import asking, serving, serving_unannounced
from tests.pep.mallory import EVE, PDP, READ, ROOT, Heard, mallory, trusting
from tests.waiting import eventually
from tests.warrants import warrant


class OnlyOnce(Gated):
    """Decides what it is asked first, when its gate opens, and nothing after that."""

    async def decide_many(self, requests: Sequence[Request]) -> list[Decision]:
        if self.entered.is_set():
            raise CannotDecide("not here")
        return await super().decide_many(requests)


@pytest.mark.parametrize("announced", [True, False])
async def test_nobody_can_end_a_question_by_saying_that_nobody_listens(server, announced):
    once = OnlyOnce()
    served = serving if announced else serving_unannounced
    with Attacker(server.url) as socket:

        def silence(heard: Heard) -> list[bytes]:
            for _ in range(3):
                socket.publish_with_headers(heard.reply.encode(), b"NATS/1.0 503\r\n\r\n")
            return []

        async with (
            served(server.url, once, authority=warrant(ROOT, holder=PDP)),
            mallory(server.url, silence) as attacker,
            trusting(server.url, PDP) as pep,
        ):
            asking = asyncio.create_task(pep.check(READ))
            await eventually(lambda: len(attacker.questions) > 2)
            assert not asking.done()
            once.gate.set()
            assert (await asking).allowed


async def test_a_flood_of_such_words_makes_a_pep_ask_no_more_often(server):
    gated = Gated()
    with Attacker(server.url) as socket:

        def silence(heard: Heard) -> list[bytes]:
            for _ in range(30):
                socket.publish_with_headers(heard.reply.encode(), b"NATS/1.0 503\r\n\r\n")
            return []

        async with (
            serving(server.url, gated, authority=warrant(ROOT, holder=PDP)),
            mallory(server.url, silence) as attacker,
            trusting(server.url, PDP) as pep,
        ):
            pep.asker.hedge.seconds = 30.0
            asking = asyncio.create_task(pep.check(READ))
            await eventually(lambda: len(attacker.questions) >= 2)
            await pep.asker.connection.flush()
            await attacker.bus.flush()
            assert len(attacker.questions) <= 4  # one, all, and the same on the question's own subject
            gated.gate.set()
            assert (await asking).allowed


ALL = ["domain:default"]
CLERK = Identity.generate()


def in_the_name_of_the_pdp(at: float) -> Announcement:
    mine = warrant(ROOT, holder=EVE).announcement(ALL, 60.0, at)
    return msgspec.structs.replace(mine, introduction=warrant(ROOT, holder=PDP).introduction)


FALSE = {
    "a stranger's": lambda now: Announcement(ALL, 60.0),
    "one by whom nobody empowered": lambda now: warrant(EVE).announcement(ALL, 60.0, now),
    "one in the PDP's name": in_the_name_of_the_pdp,
    "one beyond its right": lambda now: warrant(ROOT, "/hr/*", CLERK).announcement(ALL, 60.0, now),
    "one of yesterday": lambda now: warrant(ROOT, holder=PDP).announcement(ALL, 60.0, now - 86_400),
}


@pytest.mark.parametrize("name", FALSE)
async def test_nobody_leads_questions_to_himself_by_announcing_what_he_may_not(server, name):
    """The true PDP has not said what it serves; whoever is believed to serve everything has its questions first."""
    async with (
        serving_unannounced(server.url, Readers(), "prefix:/sales", authority=warrant(ROOT, holder=PDP)),
        mallory(server.url) as attacker,
        trusting(server.url, PDP, deadline=2.0) as pep,
    ):
        attacker.bus.send(ANNOUNCE, pack(FALSE[name](time())))
        await attacker.bus.flush()
        await pep.asker.connection.flush()
        assert pep.asker.scopes.narrowest("default", READ) is None
        assert (await pep.check(READ)).allowed


@pytest.mark.parametrize("trusted", [True, False])
async def test_a_pep_knows_every_scope_of_a_pdp_however_many_they_are(server, trusted):
    scopes = [f"object:/tenants/{number}" for number in range(5_000)]
    pep_of = trusting(server.url, PDP) if trusted else asking(server.url)
    async with (
        serving(server.url, Readers(), *scopes, authority=warrant(ROOT, "/tenants/*", PDP)),
        pep_of as pep,
    ):
        await eventually(lambda: len(pep.asker.scopes) == 5_000)
        assert (await pep.check("ann", "/tenants/4999", "read")).allowed


async def test_no_pdp_can_take_the_room_for_the_scopes_of_another(server, monkeypatch):
    monkeypatch.setattr("bus.wire.scopes.MAX_SCOPES", 100)
    greedy = warrant(ROOT, "/hr/*", CLERK)
    async with (
        mallory(server.url) as attacker,
        trusting(server.url) as pep,
        serving(server.url, Readers(), "prefix:/sales", authority=warrant(ROOT, "/sales/*", PDP)),
    ):
        await eventually(lambda: pep.asker.scopes.narrowest("default", READ))
        for page in range(20):
            scopes = [f"object:/hr/{page}/{number}" for number in range(50)]
            attacker.bus.send(ANNOUNCE, pack(greedy.announcement(scopes, 60.0, time())))
        await attacker.bus.flush()
        await eventually(lambda: len(pep.asker.scopes) > 100)
        await pep.asker.connection.flush()
        assert len(pep.asker.scopes) == 101
        assert pep.asker.scopes.narrowest("default", READ) == Scope.parse("prefix:/sales")
        assert (await pep.check(READ)).allowed


async def test_what_a_pdp_may_announce_is_used(server):
    async with (
        serving(server.url, Readers(), "prefix:/sales", authority=warrant(ROOT, "/sales/*", PDP)),
        trusting(server.url, PDP) as pep,
    ):
        await eventually(lambda: pep.asker.scopes.narrowest("default", READ))
        assert pep.asker.authenticity.refused_announcements == 0


async def test_where_nobody_is_there_the_answer_is_no_when_the_time_is_over(own_server):
    async with trusting(own_server.url, deadline=0.2) as pep:
        decision = await pep.check(READ)
        assert (decision.allowed, decision.reason) == (False, Reason.NO_PDP)
