"""A watched decision follows the roles of its subject, as the role service gives and ends them."""

from __future__ import annotations

import asyncio
from contextlib import aclosing
from pathlib import Path

from authfabric.processes.launcher import fabric
from bus import Connection
from bus.services import service_name
from pep import Enforcer
from tests.pdp.sessions.role_world import HR, PEOPLE, RULES, SERVICE, World, employed, policies
from tests.waiting import PATIENCE

LASTING = 9000.0
"""So long do roles last that were looked up, and so seldom is it asked again, that nothing else can be the reason."""


async def test_a_role_that_is_taken_up_and_one_that_ends_bring_a_new_decision(tmp_path: Path):
    folder, providers = tmp_path / "policies", tmp_path / "attributes.yaml"
    folder.mkdir()
    (folder / "r.oasis").write_text(RULES)
    (folder / "people.entities.yaml").write_text(PEOPLE)
    looked_up = f"service: {service_name('default')}, key: {SERVICE.public}, provides: [subject.roles]"
    providers.write_text(f"- {{{looked_up}, timeout: 5, lifetime: {LASTING:g}}}\n")
    async with (
        asyncio.timeout(PATIENCE),
        fabric(0, policies=folder, jetstream=True) as running,
        Connection(running.url) as bus,
        World(running, bus).service(lease=LASTING, rules=policies()),
    ):
        await running.add("pdp-1", extra=["--attributes", str(providers)])
        world = World(running, bus)
        async with (
            Enforcer.connect(running.url, deadline=5.0, trust=[running.root.public]) as pep,
            aclosing(pep.watch("ann", "/patients/p7", "read", every=LASTING)) as watched,
        ):
            first = await anext(watched)
            assert (first.allowed, first.decided) == (False, True)
            session = await world.doctor()
            await world.client(HR).tell("treats(ann, p7)")
            assert await session.activate("treating") == "treating(ann, p7)"
            assert (await anext(watched)).allowed
            await world.client(HR).revoke(employed("ann"))
            assert not (await anext(watched)).allowed
