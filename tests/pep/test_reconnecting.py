"""A PEP whose server is gone: questions wait for the connection until their deadline, and for no longer."""

from __future__ import annotations

import asyncio
import signal

from authz import Reason, Request
from pep import Strategy
from tests.deciders import Readers
from tests.pep.fabric import asking, serving, serving_unannounced, wiretap
from tests.waiting import eventually


def questions(pep, count):
    return [pep.asker.decide(Request.of("alice", f"/{n}", "read")) for n in range(count)]


async def test_questions_wait_for_a_connection_that_was_lost_a_while_ago(own_server):
    async with (
        serving(own_server.url, Readers()),
        asking(own_server.url, "domain:default", deadline=60.0) as pep,
    ):
        await own_server.stop(signal.SIGKILL)
        await eventually(lambda: not pep.asker.connection.ready)
        denied = await pep.check("alice", "/x", "read", deadline=1.0)
        assert denied.reason is Reason.NOT_CONNECTED
        asked = questions(pep, 200)
        await own_server.start()
        answers = await asyncio.gather(*asked)
        assert all(answer.allowed for answer in answers), {str(answer) for answer in answers}


async def test_what_was_denied_without_a_connection_does_not_open_the_circuit(own_server):
    async with (
        serving(own_server.url, Readers()),
        asking(own_server.url, "domain:default", deadline=60.0) as pep,
    ):
        await own_server.stop(signal.SIGKILL)
        await eventually(lambda: not pep.asker.connection.ready)
        assert (await pep.check("alice", "/x", "read", deadline=0.05)).reason is Reason.NOT_CONNECTED
        assert not pep.asker.circuit.failing


async def test_a_circuit_that_was_open_is_closed_when_the_connection_is_back(own_server):
    async with asking(own_server.url, deadline=60.0) as pep:
        assert (await pep.check("alice", "/x", "read")).reason is Reason.NO_PDP
        assert pep.asker.circuit.failing
        await own_server.stop(signal.SIGKILL)
        await eventually(lambda: not pep.asker.connection.ready)
        await own_server.start()
        await eventually(lambda: pep.asker.connection.ready)
        assert not pep.asker.circuit.failing


async def test_a_question_that_was_lost_with_the_connection_is_asked_again_as_soon_as_it_is_back(
    own_server, monkeypatch
):
    monkeypatch.setattr("pep.asking.attempts.RETRY_SECONDS", 3600.0)  # so that no retry does it
    async with asking(own_server.url, strategy=Strategy.QUEUE, deadline=3600.0) as pep:
        async with wiretap(own_server.url) as tap:
            asked = asyncio.create_task(pep.check("alice", "/x", "read"))
            await eventually(lambda: tap.heard)
        await own_server.stop(signal.SIGKILL)
        await eventually(lambda: not pep.asker.connection.ready)
        await own_server.start()
        async with serving(own_server.url, Readers()), asyncio.timeout(60.0):
            assert (await asked).allowed


async def restart(server, pep):
    """The server is gone and back, and so is the PEP's connection. No replica is."""
    await server.stop(signal.SIGKILL)
    await eventually(lambda: not pep.asker.connection.ready)
    await server.start()
    await eventually(lambda: pep.asker.connection.ready)


class TestReplicasThatComeBackLater:
    """A PEP may be back before the replicas are."""

    async def test_a_question_is_asked_again_as_soon_as_one_announces_itself(self, own_server, monkeypatch):
        monkeypatch.setattr("pep.asking.asker.RECONNECT_GRACE", 3600.0)
        monkeypatch.setattr("pep.asking.attempts.RETRY_SECONDS", 3600.0)  # so that no retry does it
        async with asking(own_server.url, strategy=Strategy.QUEUE, deadline=3600.0) as pep:
            await restart(own_server, pep)
            asked = asyncio.create_task(pep.check("alice", "/x", "read"))
            await found_nobody(pep)
            async with serving(own_server.url, Readers()), asyncio.timeout(60.0):
                assert (await asked).allowed

    async def test_and_now_and_then_if_none_does(self, own_server, monkeypatch):
        monkeypatch.setattr("pep.asking.asker.RECONNECT_GRACE", 3600.0)
        async with asking(own_server.url, deadline=3600.0) as pep:
            await restart(own_server, pep)
            asked = asyncio.create_task(pep.check("alice", "/x", "read"))
            await found_nobody(pep)
            async with serving_unannounced(own_server.url, Readers()), asyncio.timeout(60.0):
                assert (await asked).allowed

    async def test_whoever_is_not_back_after_a_while_is_expected_no_longer(self, own_server, monkeypatch):
        monkeypatch.setattr("pep.asking.asker.RECONNECT_GRACE", 0.2)
        monkeypatch.setattr("pep.asking.attempts.RETRY_SECONDS", 3600.0)
        async with asking(own_server.url, strategy=Strategy.QUEUE, deadline=3600.0) as pep:
            await restart(own_server, pep)
            async with asyncio.timeout(60.0):
                assert (await pep.check("alice", "/x", "read")).reason is Reason.NO_PDP
            sent = pep.asker.sent
            assert (await pep.check("alice", "/x", "read")).reason is Reason.NO_PDP
            assert pep.asker.sent == sent  # the circuit is open

    async def test_one_question_that_has_no_time_left_does_not_open_the_circuit(
        self, own_server, monkeypatch
    ):
        monkeypatch.setattr("pep.asking.asker.RECONNECT_GRACE", 3600.0)
        async with asking(own_server.url, deadline=3600.0) as pep:
            await restart(own_server, pep)
            assert (await pep.check("alice", "/x", "read", deadline=0.05)).reason is Reason.NO_PDP
            asked = asyncio.create_task(pep.check("alice", "/x", "read"))
            await found_nobody(pep)
            async with serving(own_server.url, Readers()), asyncio.timeout(60.0):
                assert (await asked).allowed


async def found_nobody(pep):
    """Until what is asked was sent, and the server has said that nobody listens."""
    await eventually(lambda: pep.asker.open)
    await pep.asker.connection.flush()


async def test_no_more_questions_wait_than_may_be_open(own_server, monkeypatch):
    monkeypatch.setattr("pep.asking.asker.MAX_OPEN", 100)
    async with (
        serving(own_server.url, Readers()),
        asking(own_server.url, "domain:default", deadline=3600.0) as pep,
    ):
        await own_server.stop(signal.SIGKILL)
        await eventually(lambda: not pep.asker.connection.ready)
        waiting = questions(pep, 100)
        await eventually(lambda: pep.asker.open == 100)
        assert (await pep.check("alice", "/x", "read")).reason is Reason.NOT_CONNECTED
        await own_server.start()
        assert all(answer.allowed for answer in await asyncio.gather(*waiting))


async def test_a_lost_connection_is_logged_once_and_that_questions_are_answered_again(own_server, caplog):
    async with (
        serving(own_server.url, Readers()),
        asking(own_server.url, "domain:default", deadline=60.0) as pep,
    ):
        await own_server.stop(signal.SIGKILL)
        await eventually(lambda: not pep.asker.connection.ready)
        for _ in range(2):
            assert not (await pep.check("alice", "/x", "read", deadline=0.05)).allowed
        await own_server.start()
        await eventually(lambda: len(told(caplog)) == 2)
    assert told(caplog) == [
        f"asking in `default`: not connected to `{own_server.url}`: requests are denied",
        "asking in `default`: PDPs are heard of again",
    ]


def told(caplog) -> list[str]:
    return [each.message for each in caplog.records if each.name == "authfabric.pep"]
