"""What is asked about is what the service then does: no spelling of a value steps around a policy about it."""

from __future__ import annotations

import enum
from typing import Annotated
from uuid import UUID

import httpx
import pytest

from bus.server import NatsServer
from pep import Enforcer

pydantic = pytest.importorskip("pydantic")
fastapi = pytest.importorskip("fastapi")
faststream = pytest.importorskip("faststream.nats")
fastmcp = pytest.importorskip("fastmcp")

ALL_BUT_SEVEN = """
- uid: everybody-reads
  effect: allow
  targets: {resource_id: /documents/*, action_id: read}
  rules: {subject: {}, resource: {}, action: {}, context: {}}
- uid: not-the-seventh
  effect: deny
  targets: {resource_id: [/documents/7, /documents/0000000a-0000-0000-0000-000000000007]}
  rules: {subject: {}, resource: {}, action: {}, context: {}}
"""
UP_TO_A_HUNDRED = """
- uid: everybody-calls
  effect: allow
  targets: {resource_id: /tools/*, action_id: call}
  rules: {subject: {}, resource: {}, action: {}, context: {}}
- uid: no-large-payments
  effect: deny
  targets: {resource_id: /tools/pay}
  rules: {resource: {$.arguments.amount: {condition: Gt, value: 100}}}
- uid: everybody-reads
  effect: allow
  targets: {resource_id: "/resources/*", action_id: read}
  rules: {subject: {}, resource: {}, action: {}, context: {}}
- uid: no-secrets
  effect: deny
  targets: {resource_id: ["/resources/notes://secret", "/resources/notes://secret/*", "/resources/notes://ann/2"]}
  rules: {subject: {}, resource: {}, action: {}, context: {}}
"""


class Shelf(enum.Enum):
    SEVENTH = "7"


class Order(pydantic.BaseModel):
    number: int = pydantic.Field(alias="id")


def loaded(number: Annotated[int, fastapi.Path(alias="id")]) -> str:
    return f"document {number}"


def service(pep: Enforcer) -> fastapi.FastAPI:
    from pep.integrations.fastapi import Guard

    app, guard = fastapi.FastAPI(), Guard(lambda request: "mallory", pep=pep)
    guard.install(app)
    asks = fastapi.Depends(guard.dependency("read", "/documents/{id}"))

    @app.get("/decorated/{id}")
    @guard("read", "/documents/{id}")
    async def decorated(id: int) -> str:
        return f"document {id}"

    @app.get("/named/{id}")
    @guard("read", "/documents/{id}")
    async def named(id: UUID) -> str:
        return f"document {id}"

    @app.get("/shelved/{id}")
    @guard("read", "/documents/{id}")
    async def shelved(id: Shelf) -> str:
        return f"document {id.value}"

    @app.get("/loading/{id}")
    @guard("read", "/documents/{id}")
    def loading(document: Annotated[str, fastapi.Depends(loaded)]) -> str:
        return document

    @app.get("/depending/{id}", dependencies=[asks])
    async def depending(id: int) -> str:
        return f"document {id}"

    return app


@pytest.mark.parametrize(
    "path",
    [
        "/decorated/7",
        "/decorated/07",
        "/decorated/+7",
        "/decorated/%207",
        "/decorated/7.0",
        "/decorated/0_7",
        "/named/0000000A-0000-0000-0000-000000000007",
        "/named/0000000a000000000000000000000007",
        "/shelved/7",
        "/loading/07",
        "/depending/7",
        "/depending/07",
        "/depending/7.0",
    ],
)
async def test_a_path_parameter_counts_as_the_route_reads_it(path: str):
    async with (
        Enforcer.local(ALL_BUT_SEVEN) as pep,
        httpx.AsyncClient(transport=httpx.ASGITransport(service(pep)), base_url="http://x") as client,
    ):
        assert (await client.get("/decorated/8")).json() == "document 8"
        assert (await client.get("/loading/8")).json() == "document 8"
        assert (await client.get("/depending/8")).json() == "document 8"
        answer = await client.get(path)
        assert answer.status_code in (403, 422), answer.text


@pytest.mark.parametrize("id", [7, "7", "07", 7.0, " 7"])
async def test_a_field_of_a_message_counts_as_the_handler_reads_it(server: NatsServer, id: object):
    from pep.integrations.faststream import Guard

    async with Enforcer.local(ALL_BUT_SEVEN) as pep:
        broker = faststream.NatsBroker(server.url, logger=None)
        guard = Guard(pep, subject=lambda message: "mallory")

        @broker.subscriber("spelled.plain")
        @guard("read", "/documents/{id}")
        async def plain(id: int, other: int) -> str:
            return f"document {id}"

        @broker.subscriber("spelled.model")
        @guard("read", "/documents/{id}")
        async def model(order: Order) -> str:
            return f"document {order.number}"

        async with broker:
            await broker.start()
            for subject in ("spelled.plain", "spelled.model"):
                reply = await broker.request({"id": 8, "other": 1}, subject, timeout=30)
                assert reply.body == b"document 8"
                reply = await broker.request({"id": id, "other": 1}, subject, timeout=30)
                assert reply.headers.get("status") == "403", reply.body


def tools(pep: Enforcer) -> fastmcp.FastMCP:
    from pep.integrations.fastmcp import Guard

    mcp = fastmcp.FastMCP("bank")
    mcp.add_middleware(Guard(pep, subject=lambda context: "mallory"))

    @mcp.tool
    def pay(amount: int = 1000) -> str:
        return f"paid {amount}"

    @mcp.resource("notes://{owner}/{id}")
    def note(owner: str, id: str) -> str:
        return f"the note of {owner}"

    @mcp.resource("notes://secret")
    def secret() -> str:
        return "the secret"

    return mcp


@pytest.mark.parametrize("arguments", [{"amount": 1000}, {"amount": "1000"}, {"amount": 1000.0}, {}])
async def test_arguments_of_a_tool_count_as_the_tool_takes_them(arguments: dict):
    async with Enforcer.local(UP_TO_A_HUNDRED) as pep, fastmcp.Client(tools(pep)) as client:
        assert (await client.call_tool("pay", {"amount": 100})).data == "paid 100"
        with pytest.raises(Exception, match=r"may not|cannot be asked"):
            await client.call_tool("pay", arguments)


@pytest.mark.parametrize(
    "uri",
    [
        "notes://secret",
        "notes://secret/1",
        "notes://%73ecret/1",
        "notes://secret/1?x=1",
        "notes://secret?x=1",
        "notes://secret#x",
        "notes://secret/1#x",
        "notes://ann/2?x=1",
        "notes://ann/2#x",
        "notes://secret%2F1/1",
        "notes://ann%2F1/2",
    ],
)
async def test_a_resource_counts_by_what_is_read_however_its_uri_is_spelled(uri: str):
    async with Enforcer.local(UP_TO_A_HUNDRED) as pep, fastmcp.Client(tools(pep)) as client:
        assert (await client.read_resource("notes://ann/1"))[0].text == "the note of ann"
        with pytest.raises(Exception, match=r"may not|not found|Unknown|cannot be asked"):
            await client.read_resource(uri)


async def test_templates_that_nobody_may_read_are_not_listed():
    async with Enforcer.local(UP_TO_A_HUNDRED) as pep, fastmcp.Client(tools(pep)) as client:
        assert [each.name for each in await client.list_resource_templates()] == ["note"]
        assert [str(each.uri) for each in await client.list_resources()] == []
    async with Enforcer.local(ALL_BUT_SEVEN) as pep, fastmcp.Client(tools(pep)) as client:
        assert await client.list_resource_templates() == []
