"""FastStream handlers: a message that is denied is not handled, and whoever waits for a reply is told."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator

import pytest

from bus.server import NatsServer
from tests.pep.integrations.services import process

NatsBroker = pytest.importorskip("faststream.nats").NatsBroker


@pytest.fixture
async def client(server: NatsServer) -> AsyncIterator[NatsBroker]:
    async with NatsBroker(server.url, logger=None) as broker:
        yield broker


async def asked(client: NatsBroker, user: str, message: object = None) -> tuple[str, dict[str, object]]:
    reply = await client.request(
        {"id": "1"} if message is None else message, "documents.read", headers={"user": user}, timeout=30
    )
    return reply.headers.get("status", "200"), json.loads(reply.body)


async def up(client: NatsBroker) -> bool:
    try:
        await asked(client, "nobody")
        await client.request("", "documents.served", timeout=30)
    except Exception:
        return False
    return True


async def test_a_message_is_handled_if_its_sender_may(server: NatsServer, client: NatsBroker):
    with process("faststream_service.py", server.url) as running:
        while not await up(client):
            assert running.poll() is None
        assert await asked(client, "ann") == ("200", {"title": "Ann's contract", "salary": 5000})
        assert await asked(client, "bob") == ("200", {"title": "Ann's contract"})
        status, problem = await asked(client, "mallory")
        assert (status, problem["status"]) == ("403", 403)
        assert "polic" not in str(problem)
        assert (await asked(client, "carol"))[0] == "403"
        assert (await asked(client, "ann", {"id": "1/../2"}))[0] == "400"
        await client.publish({"id": "2"}, "documents.read", headers={"user": "mallory"})
        await client.publish({"id": "2"}, "documents.read", headers={"user": "ann"})

        async def served() -> list[str]:
            return json.loads((await client.request("", "documents.served", timeout=30)).body)

        while (done := await served()) != ["1", "1", "2"]:
            assert len(done) < 3, done


async def test_without_a_pdp_no_message_is_handled(own_server: NatsServer):
    async with NatsBroker(own_server.url, logger=None) as client:
        with process("faststream_service.py", own_server.url, nats=own_server.url) as running:
            while not await up(client):
                assert running.poll() is None
            status, problem = await asked(client, "ann")
            assert (status, problem["status"]) == ("503", 503)
            assert json.loads((await client.request("", "documents.served", timeout=30)).body) == []
