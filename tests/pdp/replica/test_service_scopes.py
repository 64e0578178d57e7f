"""A replica serves its scopes, and nothing else."""

from __future__ import annotations

import asyncio
import signal

import pytest

from authz import Entity, Request
from bus import Connection
from bus.errors import InvalidScope
from bus.wire.messages import unpack_announcement
from bus.wire.scopes import Kind, Scope
from bus.wire.subjects import ANNOUNCE, WHO, Mode, question
from pdp.replica.service import Replica
from tests.deciders import Readers
from tests.pdp.replica.test_service import READ, YES, ask, replica
from tests.waiting import eventually


class TestScopes:
    async def test_it_hears_a_question_once_although_its_scopes_overlap(self, server, bus):
        decider = Readers()
        scopes = [Scope.parse(text) for text in ("prefix:/x", "prefix:/x/y", "object:/x/y", "domain:default")]
        async with Connection(server.url) as connection, Replica(connection, decider, scopes):
            exact = Scope(Kind.TUPLE, "default", "/x/y", "alice", "read")
            await ask(bus, READ, subject=question(Mode.ALL, exact))
            await connection.flush()
            assert len(decider.asked) == 1

    async def test_it_says_what_it_serves_to_everyone_and_at_once_to_whoever_asks(self, server, bus):
        announced = []
        await bus.listen(ANNOUNCE, lambda s, r, payload, h: announced.append(unpack_announcement(payload)))
        await bus.flush()
        async with replica(server, Readers(), Scope.parse("prefix:/sales")):
            await eventually(lambda: announced)
            assert announced[0].scopes == ["prefix@default:/sales"]
            assert unpack_announcement(await bus.ask(WHO, b"", 5.0)) == announced[0]

    async def test_whoever_asks_without_an_inbox_is_told_nothing(self, server, bus):
        """Or one message could make every replica talk to every PEP."""
        async with replica(server, Readers()) as running:
            running._works[-1].cancel()  # without its regular announcements
            heard = []
            await bus.listen(ANNOUNCE, lambda *message: heard.append(message))
            await bus.listen("$KV.>", lambda *message: heard.append(message))
            bus.send(WHO, b"")
            bus.send(WHO, b"", "$KV.policies.main")
            await bus.flush()
            await running.connection.flush()
            await bus.flush()
            assert not heard

    async def test_it_says_so_again_as_soon_as_it_is_back(self, own_server):
        async with replica(own_server, Readers()) as running:
            announced = []
            await running.connection.listen(ANNOUNCE, lambda *message: announced.append(message))
            running._works[-1].cancel()  # without its regular announcements
            await own_server.stop(signal.SIGKILL)
            await eventually(lambda: not running.connection.ready)
            announced.clear()
            await own_server.start()
            await eventually(lambda: announced)

    async def test_very_many_scopes_are_announced_in_pages(self, server, bus):
        announced = []
        await bus.listen(ANNOUNCE, lambda s, r, payload, h: announced.append(unpack_announcement(payload)))
        await bus.flush()
        scopes = [Scope.parse(f"object:/x/{n}") for n in range(10_000)]
        async with Connection(server.url) as connection, Replica(connection, Readers(), scopes):
            await eventually(
                lambda: {text for page in announced for text in page.scopes} == set(map(str, scopes))
            )
            own = Scope(Kind.TUPLE, "default", "/x/7", "alice", "read")
            assert (await ask(bus, READ, subject=question(Mode.ANY, own))).in_order() == [YES]

    async def test_while_it_cannot_decide_it_announces_nothing(self, server, bus):
        able, heard = False, []
        inbox = bus.expect(lambda payload, nobody: heard.append(unpack_announcement(payload)))
        await bus.listen(ANNOUNCE, lambda s, r, payload, h: heard.append(unpack_announcement(payload)))
        await bus.flush()
        scopes = [Scope.parse("prefix:/sales")]
        async with (
            Connection(server.url) as connection,
            Replica(connection, Readers(), scopes, able=lambda: able) as running,
        ):
            bus.send(WHO, b"", inbox)
            await bus.flush()
            await running.connection.flush()
            await bus.flush()
            assert not heard
            able = True
            await eventually(lambda: heard)

    async def test_a_scope_too_long_to_serve_is_refused_and_leaves_nothing_running(self, bus):
        before = asyncio.all_tasks()
        with pytest.raises(InvalidScope):
            async with Replica(bus, Readers(), [Scope(Kind.OBJECT, "default", "x" * 5000)]):
                pass
        assert asyncio.all_tasks() == before


async def test_attributes_and_context_arrive_as_they_were_sent(server, bus):
    decider = Readers()
    request = Request.of(
        Entity("alice", {"roles": ["a", "b"], "depth": {"n": None}}), "/sales/New York", "read", {"hour": 9.5}
    )
    async with replica(server, decider):
        await ask(bus, request)
    assert decider.asked == [request]
