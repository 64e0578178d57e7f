"""Real replicas look up what policies declare, from a file and from a service, as docs/concepts/attributes.md shows."""

from __future__ import annotations

import ast
import asyncio
import contextlib
import re
from collections.abc import AsyncIterator
from pathlib import Path

from authfabric.processes.launcher import fabric
from authz import Entity, Identity, Reason
from bus import Connection, NoResponders
from bus.services.attribute_client import ask_attributes
from pep import Enforcer
from tests.waiting import once_it_works

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
