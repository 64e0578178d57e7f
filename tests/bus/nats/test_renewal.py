"""A connection is renewed before the server ends it, and loses nothing; if it cannot be, its end is its end."""

from __future__ import annotations

import asyncio

import pytest

from bus import Connection, NotConnected, ReplyTimeout
from pdp.access import AccessRules
from tests.secured import PDP, PEP, secured
from tests.waiting import eventually

ASK = "af.ask.any.default.alice.=.x.read"
SHORT = AccessRules(session_seconds=3.0)


async def answer(pdp: Connection) -> None:
    await pdp.listen("af.ask.any.default.>", lambda s, reply, data, h: pdp.send(reply, data))
    await pdp.flush()


async def test_no_request_is_lost_when_both_ends_are_renewed(tmp_path, monkeypatch):
    monkeypatch.setattr("bus.nats.renewal.SHARE", 0.1)  # soon, with time to spare on a slow machine
    async with (
        secured(tmp_path, rules=AccessRules(session_seconds=20.0)) as (world, _),
        world.connect(PEP) as pep,
        world.connect(PDP) as pdp,
    ):
        await answer(pdp)
        first = pep._client, pdp._client
        asked = 0
        while pep._client is first[0] or pdp._client is first[1] or asked < 100:
            assert await pep.ask(ASK, b"%d" % asked, 5.0) == b"%d" % asked
            asked += 1
        assert (pep.reconnects, pdp.reconnects) == (0, 0)
        await eventually(lambda: all(client.is_closed for client in first))


async def test_subscriptions_made_and_dropped_meanwhile_are_right_afterwards(tmp_path):
    async with secured(tmp_path) as (world, _), world.connect(PDP) as pdp, world.connect(PEP) as pep:
        heard: list[str] = []
        early = await pdp.listen("af.ask.any.default.*.=.early.>", lambda s, *_: heard.append("early"))
        renewing = asyncio.create_task(pdp.renew())
        await asyncio.sleep(0)
        await pdp.listen("af.ask.any.default.*.=.late.>", lambda s, *_: heard.append("late"))
        while not renewing.done():
            short = await pdp.listen("af.ask.any.default.*.=.late.>", lambda s, *_: heard.append("short"))
            await short.cancel()
        await early.cancel()
        await pdp.flush()
        for word in ("early", "late"):
            pep.send(f"af.ask.any.default.alice.=.{word}.read", b"")
        await pep.flush()
        await eventually(lambda: heard)
        await pdp.flush()
    assert heard == ["late"]


async def test_without_anybody_to_renew_it_a_connection_lives_to_its_end_and_comes_back_after(tmp_path):
    async with (
        secured(tmp_path, rules=SHORT) as (world, access),
        world.connect(PEP) as pep,
        world.connect(PDP) as pdp,
    ):
        await answer(pdp)
        await access.__aexit__(None, None, None)
        assert await pep.ask(ASK, b"still", 5.0) == b"still"
        await eventually(lambda: not pep.ready and not pdp.ready)
        async with world.access():
            await eventually(lambda: pep.ready and pdp.ready)
            assert await pep.ask(ASK, b"again", 5.0) == b"again"


@pytest.mark.timeout(120)
async def test_two_clients_that_are_refused_at_once_both_give_up(tmp_path):
    """One to renew the connection, one to rebuild it. The process must go on: it would spin inside of the library."""
    async with secured(tmp_path) as (world, access), world.connect(PEP) as pep:
        await access.__aexit__(None, None, None)
        renewing = asyncio.create_task(pep.renew())
        pep._build_anew()
        with pytest.raises(NotConnected):
            await renewing
        async with world.access():
            await eventually(lambda: pep.ready)


async def test_a_connection_without_an_end_is_left_alone(bus):
    client = bus._client
    await bus.listen("quiet", lambda *_: None)
    with pytest.raises(ReplyTimeout):
        await bus.ask("quiet", b"", 0.05)
    assert bus._client is client
