"""Role sessions from end to end: real role services, replicas and an SDP, spoken to by commands."""

from __future__ import annotations

import asyncio
import contextlib
import json
import signal
import sys
from collections.abc import AsyncIterator
from pathlib import Path
from time import time

from typer.testing import CliRunner

from authfabric.cli import app
from authfabric.processes.launcher import Fabric, fabric
from authz import Decision, Entity, Identity, Reason
from bus import Connection
from bus.identity.keystore import create_key
from bus.services.role_client import RoleClient, service_name
from bus.wire.address import URL_VARIABLE
from pdp.bundle.bundle_store import read_folder
from pdp.releases.publisher_service import Publisher
from pep import Enforcer
from tests.waiting import eventually, printed_document

LEASE = 2.0
OWNER, SERVICE, ANN, HR = (Identity.generate() for _ in range(4))
RULES = f"""
trust {HR.public} for employed
[principal(u)] |- user(u)
user(u)*, appointment employed(u)* |- clerk(u)
clerk(u) |- privilege(read, "/files/*")
"""


def write_files(folder: Path) -> None:
    (folder / "policies").mkdir()
    (folder / "policies" / "files.oasis").write_text(RULES)
    people = {"subjects": {"ann": {"key": str(ANN.public)}}}
    (folder / "policies" / "people.entities.yaml").write_text(json.dumps(people))
    provider = {
        "service": service_name("default"),
        "key": str(SERVICE.public),
        "provides": ["subject.roles"],
        "timeout": 20.0,
    }
    (folder / "attributes.yaml").write_text(json.dumps([provider]))
    for name, identity in (("ann", ANN), ("hr", HR), ("service", SERVICE)):
        create_key(folder / f"{name}.key", identity, None)


@contextlib.asynccontextmanager
async def role_service(url: str, folder: Path, name: str) -> AsyncIterator[asyncio.subprocess.Process]:
    """`authfabric roles serve`, for the length of a block."""
    process = await asyncio.create_subprocess_exec(
        sys.executable, "-m", "authfabric", "roles", "serve", "--url", url, "--trust", str(OWNER.public),
        "--key", str(folder / "service.key"), "--lease", str(LEASE), "--name", name, "--json",
        stdout=asyncio.subprocess.PIPE,
    )  # fmt: skip
    try:
        await printed_document(process)
        yield process
    finally:
        with contextlib.suppress(ProcessLookupError):
            process.send_signal(signal.SIGTERM)
        await process.wait()


@contextlib.asynccontextmanager
async def running(folder: Path) -> AsyncIterator[Fabric]:
    write_files(folder)
    async with fabric(0, policies=None, jetstream=True, root=OWNER) as it:
        async with Connection(it.url) as bus:
            await Publisher(bus, "default", OWNER, (), time).push(read_folder(folder / "policies"))
        extra = ["--trust", str(OWNER.public), "--attributes", str(folder / "attributes.yaml")]
        await asyncio.gather(
            *(it.add(f"pdp-{n}", extra=[*extra, "--cache", str(folder / f"pdp-{n}")]) for n in (1, 2))
        )
        yield it


async def authfabric(*words: str, code: int = 0) -> str:
    result = await asyncio.to_thread(CliRunner().invoke, app, list(words))
    assert result.exit_code == code, result.output
    return result.output.strip()


async def test_a_revoked_appointment_is_over_at_every_pep_within_the_lease_under_load(tmp_path, monkeypatch):
    file = str(tmp_path / "a.json")
    ann, hr = (f"--key={tmp_path / name}.key" for name in ("ann", "hr"))
    async with contextlib.AsyncExitStack() as stack:
        it = await stack.enter_async_context(running(tmp_path))
        monkeypatch.setenv(URL_VARIABLE, it.url)
        for name in ("roles-1", "roles-2"):
            await stack.enter_async_context(role_service(it.url, tmp_path, name))
        peps = [
            await stack.enter_async_context(Enforcer.connect(it.url, trust=[OWNER.public], deadline=20.0))
            for _ in range(2)
        ]
        denied = await peps[0].check(Entity("ann", {"roles": ["clerk(ann)"]}), "/files/1", "read")
        assert (denied.allowed, denied.reason) == (False, Reason.NO_POLICY)
        await authfabric("roles", "appoint", "employed(ann)", "--to=ann", "-o", file, hr)
        session = await authfabric("roles", "begin", "--as=ann", ann)
        asked = ("roles", "activate", "user", "clerk", f"--session={session}", ann, "-a", file)
        assert (await authfabric(*asked)).splitlines() == ["user(ann)", "clerk(ann)"]

        seen: list[tuple[float, Decision]] = []
        stop = asyncio.Event()

        async def caller(pep: Enforcer, number: int) -> None:
            while not stop.is_set():
                started = time()
                seen.append((started, await pep.check("ann", f"/files/{number}", "read")))
                await asyncio.sleep(0)

        callers = [asyncio.create_task(caller(pep, n)) for pep in peps for n in range(3)]
        await eventually(lambda: sum(each.allowed for _, each in seen) > 500, 60.0)
        assert any(each.allowed and each.inferred for _, each in seen)
        ended = await authfabric("roles", "revoke", file, hr)
        revoked = time()
        assert ended.startswith(f"ended: `clerk(ann)` in session `{session}`: appointment ")
        await eventually(
            lambda: all(not each.allowed for _, each in seen[-200:]) and seen[-1][0] > revoked + LEASE, 60.0
        )
        stop.set()
        await asyncio.gather(*callers)
        allowed = [(started, each) for started, each in seen if each.allowed]
        assert all(started <= each.expires <= revoked + LEASE for started, each in allowed)
        assert {each.reason for _, each in seen} == {Reason.POLICY, Reason.NO_POLICY}


async def test_a_role_service_that_crashes_takes_no_session_with_it(tmp_path):
    async with contextlib.AsyncExitStack() as stack:
        it = await stack.enter_async_context(running(tmp_path))
        bus = await stack.enter_async_context(Connection(it.url))
        first = await stack.enter_async_context(role_service(it.url, tmp_path, "roles-1"))
        session = await RoleClient(bus, ANN, seconds=20.0).begin("ann")
        await session.activate("user")
        first.kill()
        await first.wait()
        await stack.enter_async_context(role_service(it.url, tmp_path, "roles-2"))
        assert await session.roles() == ("user(ann)",)
