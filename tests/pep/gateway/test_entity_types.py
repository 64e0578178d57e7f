"""Types of entities at the gateway, and the names that policies know them by."""

from __future__ import annotations

import contextlib
from collections.abc import AsyncIterator, Awaitable, Callable
from pathlib import Path

import httpx
import pytest
from starlette.applications import Starlette
from starlette.routing import Mount

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


DEPARTMENTS = {
    "bundle.yaml": "name: notes\nprovided: [subject.department, object.owner]\n",
    "notes.yaml": """
- uid: editors-publish
  effect: allow
  targets: {action_id: publish}
  rules: {subject: {$.department: {condition: Equals, value: editorial}}}
- uid: owners-read
  effect: allow
  targets: {action_id: read}
  rules: {resource: {$.owner: {condition: EqualsAttribute, ace: subject, path: id}}}
""",
}
PROVIDERS = """
- {file: people.yaml, provides: [subject.department]}
- {file: services.yaml, under: "service:", provides: [subject.department]}
- {file: notes.yaml, under: /notes/, provides: [object.owner]}
- {file: files.yaml, under: /files/, provides: [object.owner]}
"""
KEPT = {
    "people.yaml": "subjects: {ann: {department: editorial}, 'service:shop': {department: editorial}}",
    "services.yaml": "subjects: {ann: {department: sales}, 'service:shop': {department: sales}}",
    "notes.yaml": "objects: {/notes/1: {owner: ann}, /files/1: {owner: ann}, /other/1: {owner: ann}}",
    "files.yaml": "objects: {/notes/1: {owner: bob}, /files/1: {owner: bob}}",
}


async def test_each_type_has_its_attributes_looked_up_where_they_are_kept(tmp_path: Path):
    for name, text in {**KEPT, "attributes.yaml": PROVIDERS}.items():
        (tmp_path / name).write_text(text)
    fabric = TestedFabric(DEPARTMENTS, tmp_path / "attributes.yaml")
    resources = {"note": "/notes/{id}", "file": "/files/{id}", "*": "/{type}/{id}"}
    async with client_of(GatewaySettings(anonymous=True, subjects=TYPES, resources=resources), fabric) as ask:
        assert await ask("user", "ann", "publish", "note")
        assert await ask("identity", "ann", "publish", "note")
        assert not await ask("service", "shop", "publish", "note")
        assert await ask("user", "ann", "read", "note")
        assert not await ask("user", "ann", "read", "file")
        assert await ask("user", "bob", "read", "file")
        assert not await ask("user", "ann", "read", "other")
    assert "nothing provides `object.owner` of `/other/1`" in fabric.asked[-1].decision.detail


async def test_what_an_allow_obliges_to_is_told_and_a_denial_tells_nothing():
    fabric = TestedFabric()
    fabric.grant("ann", "/note/1", "read", obligations=[{"mask": ["salary"]}, {"log": "x"}])
    obliged = {"decision": True, "context": {"obligations": [{"mask": ["salary"]}, {"log": "x"}]}}
    app = gateway(fabric.pep, GatewaySettings(anonymous=True))
    async with httpx.AsyncClient(transport=httpx.ASGITransport(app), base_url="http://gateway") as client:
        assert (
            await client.post("/access/v1/evaluation", json=question("user", "ann", "read"))
        ).json() == obliged
        several = question("user", "ann", "read") | {"evaluations": [{}, {"action": {"name": "write"}}]}
        answer = (await client.post("/access/v1/evaluations", json=several)).json()
        assert answer == {"evaluations": [obliged, {"decision": False}]}


def question(kind: str, who: str, action: str, of: str = "note") -> dict[str, object]:
    return {
        "subject": {"type": kind, "id": who},
        "action": {"name": action},
        "resource": {"type": of, "id": "1"},
    }


@contextlib.asynccontextmanager
async def client_of(
    settings: GatewaySettings, fabric: TestedFabric
) -> AsyncIterator[Callable[[str, str, str, str], Awaitable[bool]]]:
    """What asks a gateway, mounted in another application, whether type and id may do this to number 1 of a type."""
    app = Starlette(routes=[Mount("/pdp", gateway(fabric.pep, settings))])

    async def ask(kind: str, who: str, action: str, of: str) -> bool:
        answer = await client.post("/pdp/access/v1/evaluation", json=question(kind, who, action, of))
        return answer.json()["decision"]

    async with httpx.AsyncClient(transport=httpx.ASGITransport(app), base_url="http://gateway") as client:
        yield ask
