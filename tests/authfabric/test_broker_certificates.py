"""Certificates that a domain is given later reach its running brokers, without a restart."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path

import pytest
from typer.testing import CliRunner

from authfabric.cli import app
from authfabric.processes.launcher import ReplicaProcess
from authfabric.scenarios.testbed import Domain, stage
from authz import AuthFabricError, Identity
from bus.identity.credentials_store import VARIABLE
from bus.identity.keystore import load_key
from pubsub_core import Delivered, Gap, Refused, SessionLost, UnknownType
from tests.waiting import eventually, once_it_works

PLATE = "uk.Plate"
POLICIES = f"""
- {{uid: connect, effect: allow, rules: {{}}, targets: {{action_id: connect}}}}
- {{uid: use, effect: allow, rules: {{}}, targets: {{resource_id: /types/{PLATE}}}}}
"""


def run(*words: object) -> None:
    result = CliRunner().invoke(app, [str(word) for word in words])
    assert result.exit_code == 0, result.output


@pytest.fixture
def files(tmp_path, monkeypatch) -> None:
    """A signed type, who manages its keys, and folders for what the brokers of a domain are granted later."""
    monkeypatch.chdir(tmp_path)
    for name in ("pito", "manager", "met", "east", "west"):
        run("cap", "keygen", name, "--unencrypted")
    run("type", "new", PLATE, "plate:string", "--owner", "pito.pub", "--out", "draft.json")
    run("type", "sign", "draft.json", "--key", "pito.key", "--out", "plate.type")
    run("keys", "appoint", "plate.type", "--key", "pito.key", "--to", "manager.pub", "--out", "appointed")
    Path("granted").mkdir()
    for name in ("east", "west"):
        blanket = ("cap", "issue", "--key", "met.key", "--to", f"{name}.pub", "--out", f"{name}.cap")
        run(*blanket, "resource: *", "action: *")


def sign_by(text: object) -> None:
    """Write into a file who signs for the domain."""
    Path("signers.pub").write_text(f"{text}\n")


async def start_broker(met: Domain, name: str, signer: str) -> None:
    """A broker of a domain, of which no owner of any type has heard yet."""
    words = ["broker", "serve", "--url", met.url, "--name", name, "--domain", "met", "--key", f"{name}.key"]
    words += ["--clients", f"met={signer}", "--trust", str(met.key.public)]
    words += ["--vouch", "granted", "--sealed", "granted", "--blanket", f"{name}.cap"]
    words += ["--known", f"{name}.known"]
    access = met.access(f"broker-{name}", "connect|carry")
    met.processes[name] = await ReplicaProcess.launch(name, words, access)


async def test_what_a_domain_is_granted_later_serves_all_its_brokers(files, monkeypatch):
    async with stage(["met"]) as (met,):
        monkeypatch.setenv(VARIABLE, str(met.access("installer", "connect|install")))
        await asyncio.to_thread(run, "type", "publish", "plate.type", "--url", met.url)
        serve = [
            "keys",
            "serve",
            PLATE,
            "--key",
            "manager.key",
            "--appointment",
            "appointed",
            "--url",
            met.url,
        ]
        access = met.access("manager", "connect|install")
        met.processes["manager"] = await ReplicaProcess.launch("manager", serve, access)
        await met.release(POLICIES)
        await met.start_pdp()
        for name in ("east", "west"):
            await start_broker(met, name, str(met.key.public))
        met.owners.add(load_key(Path("pito.key"), str).public)
        async with (
            met.client("camera", {}, broker="east") as camera,
            met.client("reader", {}, broker="west") as reader,
        ):
            with pytest.raises(AuthFabricError, match=PLATE):
                await camera.publisher(PLATE)
            grant = ("cap", "issue", "--key", "pito.key", "--to", "met.pub", "--delegate")
            run(*grant, "--out", f"granted/{PLATE}.cap", f"type: {PLATE}", "action: publish|subscribe")
            for name in ("east", "west"):
                run("broker", "vouch", f"{name}.pub", "--key", "pito.key", "--out", f"granted/{name}.vouch")
            events = await once_it_works(lambda: reader.subscriber(PLATE), AuthFabricError)
            publisher = await once_it_works(lambda: camera.publisher(PLATE), AuthFabricError)

            async def publish() -> None:
                await publisher.publish(plate="AB12")
                await publisher.flush()

            async def read() -> Delivered | Gap:
                await once_it_works(publish, AuthFabricError)  # its keys come a moment later
                async with asyncio.timeout(1):
                    return await anext(events)

            assert (await once_it_works(read, TimeoutError)).attributes == {"plate": "AB12"}


@pytest.fixture
async def met(files) -> AsyncIterator[Domain]:
    """A domain with a broker that reads from a file who signs for the domain."""
    async with stage(["met"]) as (domain,):
        await domain.release(POLICIES)
        await domain.start_pdp()
        sign_by(domain.key.public)
        await start_broker(domain, "east", "signers.pub")
        yield domain


async def test_whoever_no_longer_signs_for_a_domain_has_no_clients_there(met):
    async with met.client("camera", {}, broker="east") as camera:
        sign_by(Identity.generate().public)
        await eventually(lambda: "other keys sign" in met.processes["east"].log)

        async def find_the_session_lost() -> None:
            with pytest.raises(SessionLost):
                await camera.publisher(PLATE)

        await once_it_works(find_the_session_lost, UnknownType)
    with pytest.raises(Refused, match="is not trusted here"):
        async with met.client("late", {}, broker="east"):
            pass


async def test_half_a_key_changes_nothing_and_is_told(met):
    sign_by("half a k")
    await eventually(lambda: "stay as they were" in met.processes["east"].log)
    async with met.client("camera", {}, broker="east"):
        pass
    sign_by(met.key.public)
    await eventually(lambda: "can be read again" in met.processes["east"].log)
