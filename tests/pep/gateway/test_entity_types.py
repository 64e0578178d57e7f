"""Types of entities at the gateway, and the names that policies know them by."""

from __future__ import annotations

import httpx
import pytest

from authfabric.testing import TestedFabric
from authz import InvalidRequest
from pep.gateway import GatewaySettings, gateway
from pep.gateway.entity_types import EntityTypes

TYPES = {"user": "{id}", "identity": "user", "service": "service:{id}", "*": "{type}:{id}"}


def test_a_type_that_is_given_as_another_has_its_names():
    types = EntityTypes("subject", TYPES)
    assert types.name("identity", "ann") == types.name("user", "ann") == "ann"
    assert types.find("ann") == ("user", "ann")
    assert types.find("identity:ann") == ("user", "identity:ann")
    with pytest.raises(InvalidRequest, match="cannot be told from another type's"):
        types.name("identity", "service:shop")


async def test_a_search_finds_entities_under_the_type_that_was_asked_for():
    fabric = TestedFabric()
    fabric.load(
        {
            "entities.yaml": "subjects: [ann, 'service:shop']\n",
            "notes.yaml": "- {uid: all, effect: allow, targets: {}, rules: {}}\n",
        }
    )
    app = gateway(fabric.pep, GatewaySettings(anonymous=True, subjects=TYPES))
    body = {"action": {"name": "read"}, "resource": {"type": "note", "id": "1"}}
    transport = httpx.ASGITransport(app)
    async with httpx.AsyncClient(transport=transport, base_url="http://gateway") as client:
        for kind, expected in {"user": "ann", "identity": "ann", "service": "shop"}.items():
            asked = body | {"subject": {"type": kind}}
            found = (await client.post("/access/v1/search/subject", json=asked)).json()["results"]
            assert found == [{"type": kind, "id": expected}]
