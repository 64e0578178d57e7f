"""Event types, their keys, brokers and clients on a secured bus, each with no more rights than it needs."""

from __future__ import annotations

import asyncio
from pathlib import Path
from time import time

import pytest
from typer.testing import CliRunner

from authfabric.cli import app
from authfabric.files.capabilities import read_file
from authfabric.processes.launcher import ReplicaProcess
from authfabric.scenarios.testbed import Domain, stage
from authz.spki import encode_chain, parse_chain
from bus import Connection, NotConnected
from bus.identity.credentials_store import VARIABLE, read_credentials
from bus.identity.keystore import load_key
from bus.runtime import ProcessFailed
from pubsub_core.client.client import EventClient
from pubsub_core.key_groups.keyed_type import KeyedType
from pubsub_core.key_groups.member_service import KeyClient
from pubsub_core.keys.ring import KeyRing
from pubsub_core.stores.type_store import TypeStore
from pubsub_core.trust.credential import Credential, issue
from pubsub_core.types.registry import Catalogue

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
    """A signed type, and who is to manage its keys."""
    monkeypatch.chdir(tmp_path)
    for name in ("pito", "manager", "broker"):
        run("cap", "keygen", name, "--unencrypted")
    run("type", "new", PLATE, "plate:string", "place:string", "--owner", "pito.pub", "--out", "draft.json")
    run("type", "sign", "draft.json", "--key", "pito.key", "--out", "plate.type")
    run("keys", "appoint", "plate.type", "--key", "pito.key", "--to", "manager.pub", "--out", "appointed")
    issue = ("cap", "issue", "--key", "pito.key", "--to", "broker.pub", "--out", "broker.cap")
    run(*issue, f"type: {PLATE}", "action: publish|subscribe")


async def install(domain: Domain, monkeypatch: pytest.MonkeyPatch, *words: object) -> None:
    """Run a command that somebody may who installs."""
    monkeypatch.setenv(VARIABLE, str(domain.access("installer", "connect|install")))
    await asyncio.to_thread(run, *words, "--url", domain.url)


async def test_types_are_published_and_events_carried_between_members_only(files, monkeypatch):
    async with stage(["met"]) as (met,):
        await install(met, monkeypatch, "type", "publish", "plate.type")
        await met.release(POLICIES)
        await asyncio.gather(met.start_pdp(), met.start_broker([met], load_key(Path("pito.key"), str)))
        async with met.client("camera", {}) as camera, met.client("reader", {}) as reader:
            events = await reader.subscriber(PLATE)
            publisher = await camera.publisher(PLATE)
            for number in range(200):  # more than anybody may answer one question
                await publisher.publish(plate=str(number), place="Soho")
            await publisher.flush()
            seen = [(await anext(events)).attributes["plate"] for _ in range(200)]
        assert seen == [str(number) for number in range(200)]
        assert "not permitted" not in met.processes["met"].log  # it asks for a broker's things only
        monkeypatch.delenv(VARIABLE)
        credential = issue(Credential(str(met.key.public), "met", "met", time() + 1000), met.key)
        with pytest.raises(NotConnected, match="AUTHFABRIC_CREDENTIALS"):
            async with EventClient.connect(
                met.url, broker="met", domain="met", identity=met.key, credential=credential
            ):
                pass
        words = [
            "broker",
            "serve",
            "--url",
            met.url,
            "--key",
            "broker.key",
            "--clients",
            "met=pito.pub",
            "--insecure",
        ]
        with pytest.raises(ProcessFailed, match="AUTHFABRIC_CREDENTIALS"):
            await ReplicaProcess.launch("stranger", words)


async def test_a_manager_of_keys_serves_brokers(files, monkeypatch):
    async with stage(["met"]) as (met,):
        await install(met, monkeypatch, "type", "publish", "plate.type")
        serve = ["keys", "serve", PLATE, "--key", "manager.key", "--appointment", "appointed"]
        met.processes["manager"] = await ReplicaProcess.launch(
            "manager", [*serve, "--url", met.url], met.access("manager", "connect|install")
        )
        access = met.access("broker", "connect|carry")
        assert access is not None
        async with Connection(met.url, credentials=read_credentials(access).credentials) as bus:
            catalogue = Catalogue()
            await TypeStore(bus, catalogue).refresh()
            client = KeyClient(bus, load_key(Path("broker.key"), str), KeyRing())
            async with client.running():
                chain = encode_chain(read_file(Path("broker.cap"), parse_chain))
                await client.join(KeyedType.of(catalogue, PLATE), chain)
                assert len(client.ring.groups) == 2
