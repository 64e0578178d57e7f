"""A watched decision comes again when it changes: by a release, by a failure after the lease, and over HTTP."""

from __future__ import annotations

import asyncio
import json
from contextlib import aclosing
from pathlib import Path
from time import time

import httpx

from authfabric.testing import TestedFabric
from authz import Identity, Reason
from authz.spki import Notice
from bus import NatsServer
from pep import Enforcer, LeaseRules
from pep.gateway import GatewaySettings, gateway
from pep.gateway.server import serving
from tests.pep.fabric import serving as serving_pdp
from tests.pep.mallory import ROOT, WRITE, Liars, trusting
from tests.pep.recycling_world import only, world
from tests.pep.test_local import DEPARTMENTS
from tests.waiting import PATIENCE, eventually
from tests.warrants import right, warrant

QUESTION = {
    "subject": {"type": "user", "id": "ann"},
    "action": {"name": "read"},
    "resource": {"type": "notes", "id": "1"},
}
NEVER = 1000.0
"""So seldom is it asked again that only what a test does can be the reason."""


async def test_a_release_brings_a_new_decision(tmp_path: Path):
    async with world(tmp_path) as there:
        await there.push(only("ann"))
        async with (
            there.replica(),
            there.pep() as pep,
            aclosing(pep.watch("ann", "/d/1", "read", every=NEVER)) as watched,
        ):
            assert (await anext(watched)).allowed
            await there.push(only("bob"))
            second = await anext(watched)
            assert not second.allowed
            assert second.decided
            await there.push(only("ann", "bob"))
            assert (await anext(watched)).allowed


async def test_a_revoked_pdp_brings_a_new_decision(server: NatsServer):
    liar = Identity.generate()
    async with (
        serving_pdp(server.url, Liars(), authority=warrant(ROOT, holder=liar)),
        trusting(server.url, liar, recycling=None) as pep,
        aclosing(pep.watch(WRITE, every=NEVER)) as watched,
    ):
        assert (await anext(watched)).allowed
        pep.asker.authenticity.revoke(Notice.event(ROOT, right(ROOT, liar), int(time())))
        assert not (await anext(watched)).allowed


async def test_without_a_pdp_a_right_ends_with_the_lease(tmp_path: Path):
    async with world(tmp_path) as there:
        await there.push(only("ann"))
        async with (
            there.pep(LeaseRules(1.0)) as pep,
            aclosing(pep.watch("ann", "/d/1", "read", every=0.1)) as watched,
        ):
            async with there.replica():
                while not (await anext(watched)).allowed:
                    pass
            await there.server.stop()
            ended = await anext(watched)
            assert not ended.allowed
            assert not ended.decided


async def test_what_changes_in_process_is_watched_too():
    fabric = TestedFabric()
    async with aclosing(fabric.pep.watch("ann", "/notes/1", "read", every=NEVER)) as watched:
        assert (await anext(watched)).reason is Reason.NO_POLICY
        fabric.grant("bob", "/notes/*", "read")  # changes nothing for her
        fabric.grant("ann", "/notes/*", "read")
        assert (await anext(watched)).allowed
        fabric.deny("ann", "/notes/1", "read")
        assert not (await anext(watched)).allowed
    assert fabric.pep.on_release == []


async def test_the_clock_brings_a_new_decision(tmp_path: Path):
    """What was looked up is relied on for a while only, whether or not anybody says that it has changed."""
    people, providers = tmp_path / "people.yaml", tmp_path / "attributes.yaml"
    people.write_text("subjects:\n  ann: {department: editorial}\n")
    providers.write_text("- {file: people.yaml, provides: [subject.department], lifetime: 0.2}\n")
    async with (
        asyncio.timeout(PATIENCE),
        Enforcer.local(DEPARTMENTS, attributes=providers) as pep,
        aclosing(pep.watch("ann", "/notes/1", "read", every=NEVER)) as watched,
    ):
        assert (await anext(watched)).allowed
        people.write_text("subjects:\n  ann: {department: sales}\n")
        assert not (await anext(watched)).allowed


async def test_the_gateway_sends_events():
    fabric = TestedFabric()
    fabric.grant("ann", "/notes/*", "read")
    app = gateway(fabric.pep, GatewaySettings(anonymous=True))
    async with serving(app, "127.0.0.1", 0) as port, httpx.AsyncClient(timeout=30) as client:
        address = f"http://127.0.0.1:{port}/access/v1/evaluation/watch"
        async with client.stream("POST", address, json=QUESTION) as stream:
            assert stream.headers["content-type"].startswith("text/event-stream")
            lines = stream.aiter_lines()
            assert await event(lines) == {"decision": True}
            fabric.deny("ann", "/notes/1", "read")
            assert await event(lines) == {"decision": False}
        assert (await client.post(address, json={"subject": {}})).status_code == 400
        unknown = {**QUESTION, "subject": {"type": "robot", "id": "ann"}}
        assert (await client.post(address, json=unknown)).status_code == 400
    await eventually(lambda: not fabric.pep.on_release)


async def event(lines) -> dict:
    async for line in lines:
        if line.startswith("data: "):
            return json.loads(line.removeprefix("data: "))
    raise AssertionError("the stream has ended")
