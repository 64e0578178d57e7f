"""A fabric that was destroyed is restored from its backup under load, and no release goes back unnoticed."""

from __future__ import annotations

import asyncio
import contextlib
import shutil
from collections.abc import AsyncIterator
from pathlib import Path

import pytest
from typer.testing import CliRunner

from authfabric.cli import app
from authfabric.files import own_identity
from authfabric.processes.launcher import Fabric
from authfabric.processes.local_domain import OPERATOR, SERVICE, LocalDomain
from bus import NatsServer
from bus.identity import read_credentials
from pep import Enforcer
from tests.authfabric.pushing import authfabric, write
from tests.waiting import once_it_works

SECRET = "correct horse"


class Place:
    """A secured server, its domain, and two replicas; the store can be destroyed."""

    def __init__(self, folder: Path, server: NatsServer, local: LocalDomain, running: Fabric) -> None:
        self.folder, self.server, self.local, self.running = folder, server, local, running
        self.domain = str(local.folder.path)

    async def push(self, subject: str) -> None:
        code, done = await authfabric(
            "policy", "push", str(write(self.folder / "policies", subject)), "--wait"
        )
        assert code == 0, done

    async def back_up(self) -> dict:
        code, told = await authfabric(
            "backup", "create", str(self.folder / "backup"), "--folder", self.domain
        )
        assert code == 0
        return told

    async def restore(self, *more: str) -> str:
        """What the command says, or complains of."""
        words = ["backup", "restore", str(self.folder / "backup"), "--stores", "--folder", self.domain, *more]
        result = await asyncio.to_thread(CliRunner().invoke, app, words)
        return result.stdout or result.stderr

    async def lose_store(self) -> None:
        await self.server.stop()
        assert self.server.store is not None
        shutil.rmtree(self.server.store)
        await self.server.start()

    async def audit(self) -> dict:
        """What `audit verify` finds."""
        return (await authfabric("audit", "verify"))[1]

    async def held(self) -> dict[str, dict]:
        """By which release members decide, and what each says is in its way."""
        _, told = await authfabric("status")
        return {each["name"]: each for each in told["members"]}

    @contextlib.asynccontextmanager
    async def load(self) -> AsyncIterator[list[str]]:
        """Somebody asks all the time; what was allowed to eve meanwhile."""
        wrong: list[str] = []

        async def ask(pep: Enforcer) -> None:
            number = 0
            while True:
                number += 1
                if (await pep.check("eve", f"/x/{number}", "read")).allowed:
                    wrong.append(f"/x/{number}")
                await asyncio.sleep(0.005)

        file = self.running.hand_out("service", SERVICE)
        found = read_credentials(file)
        async with Enforcer.connect(found.url, credentials=found.credentials, deadline=1.0) as pep:
            task = asyncio.create_task(ask(pep))
            try:
                yield wrong
            finally:
                task.cancel()


@pytest.fixture
async def place(tmp_path, monkeypatch) -> AsyncIterator[Place]:
    monkeypatch.setenv("AUTHFABRIC_PASSPHRASE", SECRET)
    root = own_identity()
    local = LocalDomain.find(tmp_path / "domain")
    async with NatsServer(jetstream=tmp_path / "store", extra=local.configuration()) as server:
        local = local.at_url(server.url).trusting(root.public)
        running = Fabric(server.url, root, tmp_path / "keys", None, local, server)
        monkeypatch.setenv("AUTHFABRIC_CREDENTIALS", str(running.hand_out("operator", OPERATOR)))
        try:
            yield Place(tmp_path, server, local, running)
        finally:
            await running.stop()


async def begin(place: Place) -> dict:
    """Eve is allowed by release 1, which is backed up, and no more by release 2."""
    await asyncio.gather(*(place.running.add(f"pdp-{n}") for n in (1, 2)), place.push("eve"))
    told = await place.back_up()
    await place.push("ann")
    return told


async def test_a_destroyed_fabric_is_restored_and_nobody_decides_by_the_older_release_that_the_backup_has(
    place,
):
    async with place.local.serving(audit=True):
        told = await begin(place)
        load = place.load()
        wrong = await load.__aenter__()

        async def audited() -> None:
            assert any(each.startswith("pep-") for each in (await place.audit())["writers"])

        await once_it_works(audited, AssertionError)
    assert told["releases"]["default"]["epoch"] == 1
    try:
        await place.lose_store()
        assert "`default` has release 1" in await place.restore()
        assert "are not overwritten" in await place.restore()
        async with place.local.serving(audit=True):

            async def noticed() -> None:
                held = await place.held()
                assert {held[f"pdp-{n}"]["number"] for n in (1, 2)} == {2}
                assert all("gone back to release 1" in held[f"pdp-{n}"]["problem"] for n in (1, 2))

            await once_it_works(noticed, (AssertionError, KeyError))
            code, done = await authfabric("policy", "restore", "--wait")
            assert (code, done["epoch"]) == (0, 2)
            assert (await authfabric("ask", "ann", "/x", "read"))[0] == 0
            found = await place.audit()
            assert not found[
                "holds"
            ]  # what was audited after the backup is lost with the store, and that is said
            assert all(
                "missing" in str(each["broken"]) for each in found["writers"].values() if each["broken"]
            )
            assert not wrong
            await load.__aexit__(None, None, None)
    finally:
        with contextlib.suppress(Exception):
            await load.__aexit__(None, None, None)


async def test_a_backup_behind_what_members_hold_is_refused_and_if_it_is_meant_nobody_goes_by_it(place):
    async with place.local.serving(audit=False):
        await begin(place)
        async with place.load() as wrong:
            await place.lose_store()

            async def back() -> None:
                assert (await place.held())["pdp-1"]["number"] == 2

            await once_it_works(back, (AssertionError, KeyError))
            assert "hold release 2" in await place.restore()
            assert "`default` has release 1" in await place.restore("--behind")
            cache = ["--cache", str(place.folder / "cache")]  # it has never seen release 2
            fresh = asyncio.create_task(place.running.add("pdp-3", extra=cache))

            async def waits() -> None:
                held = await place.held()
                assert held["pdp-3"]["number"] == 0
                assert "is behind release 2" in held["pdp-3"]["problem"]
                assert all(each["number"] != 1 for each in held.values())

            await once_it_works(waits, (AssertionError, KeyError))
            code, done = await authfabric("policy", "restore", "--wait")
            assert (code, done["epoch"]) == (0, 2)
            await fresh
            assert not wrong
