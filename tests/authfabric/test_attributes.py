"""Real replicas look up what policies declare, from a file and from a service, as docs/concepts/attributes.md shows."""

from __future__ import annotations

import ast
import asyncio
import contextlib
import re
from collections.abc import AsyncIterator
from contextlib import aclosing
from pathlib import Path

from authfabric.processes.launcher import fabric
from authz import Entity, Identity, Reason
from bus import Connection, NoResponders
from bus.identity import read_credentials
from bus.services import EntityAttributes, announce_changes, serve_attributes
from bus.services.attribute_client import ask_attributes
from pep import Enforcer
from tests.waiting import PATIENCE, once_it_works

PAGE = Path(__file__).parents[2] / "docs/concepts/attributes.md"


def write_files(folder: Path) -> None:
    """The files that the page shows."""
    for text in re.findall(r"^```yaml\n(# .*?)^```$", PAGE.read_text(), re.S | re.M):
        path = folder / text.split()[1]
        path.parent.mkdir(exist_ok=True)
        path.write_text(text)


async def test_a_replica_looks_up_what_the_page_shows(tmp_path):
    write_files(tmp_path)
    async with fabric(0, policies=tmp_path / "news") as running:
        await running.add("pdp-1", extra=["--attributes", str(tmp_path / "attributes.yaml")])
        async with Enforcer.connect(running.url, trust=[running.root.public]) as pep:
            claims = Entity("bob", {"department": "editorial"})
            assert (await pep.check("ann", "/articles/7", "publish")).allowed
            denied = await pep.check(claims, "/articles/7", "publish")
            assert (denied.allowed, denied.reason) == (False, Reason.NO_POLICY)
            (tmp_path / "people.yaml").unlink()
            unknown = await pep.check("eve", "/articles/7", "publish")
            assert unknown.reason is Reason.ATTRIBUTE_UNAVAILABLE
            assert "people.yaml" in unknown.detail


@contextlib.asynccontextmanager
async def service_of_the_page(url: str, identity: Identity) -> AsyncIterator[None]:
    """The service that the page shows, running."""
    (block,) = re.findall(r"^```python\n(.*?)^```$", PAGE.read_text(), re.S | re.M)
    code = compile(block, str(PAGE), "exec", flags=ast.PyCF_ALLOW_TOP_LEVEL_AWAIT)
    running = asyncio.create_task(eval(code, {"url": url, "pem": identity.to_pem(), "asyncio": asyncio}))
    try:
        async with Connection(url) as bus:
            await _answers(bus, identity)
        yield
    finally:
        running.cancel()
        with contextlib.suppress(asyncio.CancelledError):
            await running


async def _answers(bus: Connection, identity: Identity) -> None:
    question = "hr", identity.public, "subject", ["any"], ["department"], 20.0
    await once_it_works(lambda: ask_attributes(bus, *question), NoResponders)


async def test_a_replica_asks_the_service_of_the_page(tmp_path):
    write_files(tmp_path)
    service = Identity.generate()
    (tmp_path / "attributes.yaml").write_text(
        f"- {{service: hr, key: {service.public}, provides: [subject.department], timeout: 5}}\n"
    )
    async with fabric(0, policies=tmp_path / "news") as running:
        await running.add("pdp-1", extra=["--attributes", str(tmp_path / "attributes.yaml")])
        async with Enforcer.connect(running.url, deadline=5.0, trust=[running.root.public]) as pep:
            async with service_of_the_page(running.url, service):
                allowed = await pep.check("ann", "/articles/7", "publish")
                assert allowed.allowed
                assert allowed.expires is not None
            unknown = await pep.check("eve", "/articles/7", "publish")
            assert unknown.reason is Reason.ATTRIBUTE_UNAVAILABLE


async def test_a_watch_hears_at_once_of_an_attribute_that_its_service_says_has_changed(tmp_path):
    """So seldom is it asked again, and so long do attributes last, that nothing else can be the reason."""
    write_files(tmp_path)
    service, departments = Identity.generate(), {"ann": "editorial"}
    (tmp_path / "attributes.yaml").write_text(
        f"- {{service: hr, key: {service.public}, provides: [subject.department], timeout: 5, lifetime: 9000}}\n"
    )

    async def look_up(root, ids, names):
        return {
            each: EntityAttributes({"department": departments[each]}) for each in ids if each in departments
        }

    async with (
        fabric(0, policies=tmp_path / "news", secure=True) as running,
        Connection(
            running.url,
            credentials=read_credentials(
                running.hand_out("hr", "network: *\naction: connect|provide")
            ).credentials,
        ) as bus,
        serve_attributes(bus, "hr", service, look_up),
    ):
        for number in (1, 2):
            await running.add(f"pdp-{number}", extra=["--attributes", str(tmp_path / "attributes.yaml")])
        asker = read_credentials(running.hand_out("asker", "network: *\naction: connect")).credentials
        async with (
            Enforcer.connect(running.url, credentials=asker, trust=[running.root.public]) as pep,
            aclosing(pep.watch("ann", "/articles/7", "publish", every=1000.0)) as watched,
        ):
            assert (await anext(watched)).allowed
            for department, allowed in (("sales", False), ("editorial", True)):
                departments["ann"] = department
                announce_changes(bus, "hr", service, "subject", ["ann"])
                async with asyncio.timeout(PATIENCE):
                    assert (await anext(watched)).allowed is allowed
