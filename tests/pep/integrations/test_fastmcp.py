"""A FastMCP server: tools and resources are objects, and lists show what may be used."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import httpx
import pytest

from bus.server import NatsServer, free_ports
from tests.pep.integrations.services import process, wait_until


@pytest.fixture(scope="module")
def ports(server: NatsServer) -> Iterator[list[int]]:
    pytest.importorskip("fastmcp")  # here: it takes seconds in every process that collects tests
    ports = free_ports(2)
    with (
        process("fastmcp_service.py", str(ports[0])) as one,
        process("fastmcp_service.py", str(ports[1]), nats=server.url) as other,
    ):
        for port, running in zip(ports, (one, other), strict=True):
            wait_until(lambda port=port: httpx.get(f"http://127.0.0.1:{port}/mcp"), running)
        yield ports


def client(port: int, user: str) -> Any:
    from fastmcp import Client
    from fastmcp.client.transports import StreamableHttpTransport

    return Client(StreamableHttpTransport(f"http://127.0.0.1:{port}/mcp", headers={"x-user": user}))


async def test_a_tool_and_a_resource_are_used_by_who_may(ports: list[int]):
    async with client(ports[0], "ann") as ann:
        done = await ann.call_tool("look_up", {"id": "1"})
        assert done.data == {"title": "Ann's contract", "salary": 5000}
        assert (await ann.read_resource("documents://index"))[0].text == "1, 2"
        assert [each.name for each in await ann.list_tools()] == ["look_up"]
        with pytest.raises(Exception, match="You may not do this"):
            await ann.call_tool("delete", {"id": "1"})


async def test_who_may_not_is_told_no_more_than_that(ports: list[int]):
    async with client(ports[0], "mallory") as mallory:
        assert await mallory.list_tools() == []
        assert await mallory.list_resources() == []
        with pytest.raises(Exception, match="You may not do this") as told:
            await mallory.call_tool("look_up", {"id": "1"})
        assert "polic" not in str(told.value)
        with pytest.raises(Exception, match="You may not do this"):
            await mallory.read_resource("documents://index")


async def test_without_a_pdp_nothing_is_used(ports: list[int]):
    async with client(ports[1], "ann") as ann:
        with pytest.raises(Exception, match="cannot be decided now"):
            await ann.call_tool("look_up", {"id": "1"})
        assert await ann.list_tools() == []
