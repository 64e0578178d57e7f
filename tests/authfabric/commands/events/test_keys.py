"""`authfabric keys`, with files and a real server, as people and scripts use it."""

from __future__ import annotations

import asyncio
import base64
import json
import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest
from typer.testing import CliRunner

from authfabric.cli import app
from authfabric.files.network_key import read_network_key
from authfabric.terminal.passphrase import VARIABLE
from authz.spki import encode_chain
from authz.spki.text import parse_chain
from bus import Connection
from bus.identity.keystore import load_key
from pubsub_core.key_groups.key_distribution import KeyDistribution
from pubsub_core.key_groups.keyed_type import KeyedType
from pubsub_core.key_groups.manager_service import KeyManager
from pubsub_core.key_groups.member_service import KeyClient
from pubsub_core.keys import Plan
from pubsub_core.keys.ring import KeyRing
from pubsub_core.stores.type_store import TypeStore
from pubsub_core.types.registry import Catalogue

runner = CliRunner()
NETWORK = ("--network-key", "network.key")
ENVIRONMENT = {"PYTHONPATH": str(Path(__file__).parents[4])}


def run(*arguments: object, code: int = 0) -> str:
    result = runner.invoke(app, [str(each) for each in arguments])
    assert result.exit_code == code, result.output
    return result.stderr if code else result.stdout


@pytest.fixture
def folder(tmp_path, monkeypatch, jetstream_server):
    """A published type of its own, its owner, a manager and a broker."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv(VARIABLE, raising=False)
    monkeypatch.setenv("AUTHFABRIC_NATS_URL", jetstream_server.url)
    for name in ("pito", "manager", "broker"):
        run("cap", "keygen", name, "--unencrypted")
    name = f"uk.T{tmp_path.name}".replace("_", "-")
    words = (
        "type",
        "new",
        name,
        "plate:string",
        "place:string",
        "--owner",
        "pito.pub",
        "--out",
        "draft.json",
    )
    run(*words)
    run("type", "sign", "draft.json", "--key", "pito.key", "--out", "one.type")
    run("keys", "network", "network.key")
    run("type", "publish", "one.type", *NETWORK)
    run(
        "cap",
        "issue",
        "--key",
        "pito.key",
        "--to",
        "broker.pub",
        "--out",
        "b.cap",
        f"type: {name}",
        "action: publish",
    )
    return name


def test_only_the_owner_appoints(folder):
    run("keys", "appoint", "one.type", "--key", "manager.key", "--to", "manager.pub", "--out", "a", code=1)
    run("keys", "appoint", "one.type", "--key", "pito.key", "--to", "manager.pub", "--out", "a")


def test_an_attribute_that_the_type_does_not_have_is_refused(folder):
    words = ("keys", "serve", folder, "--key", "manager.key", "--together", "plate,colour", *NETWORK)
    assert "`colour` is none" in run(*words, code=2)


def test_nobody_serves_or_sees_keys_of_a_type_without_being_appointed(folder):
    for manager in ("manager", "broker"):
        run("keys", "appoint", "one.type", "--key", "pito.key", "--to", f"{manager}.pub", "--out", manager)
    forged = base64.b64encode(base64.b64decode(Path("manager").read_text())[:-1] + b"?").decode()
    Path("forged").write_text(forged)
    serve = ("keys", "serve", folder, "--key", "manager.key", *NETWORK)
    assert "--appointment" in run(*serve, code=1)
    assert "is for the key" in run(*serve, "--appointment", "broker", code=1)
    assert "must be signed by" in run(*serve, "--appointment", "forged", code=1)
    assert "manages no keys" in run("keys", "status", folder, "--key", "broker.key", *NETWORK, code=1)


async def join(name: str, url: str, chain: bytes) -> None:
    """A broker joins all groups of the type."""
    async with Connection(url) as bus:
        catalogue = Catalogue()
        await TypeStore(bus, catalogue, read_network_key(Path("network.key"))).refresh()
        keyed = KeyedType.of(catalogue, name)
        client = KeyClient(bus, load_key(Path("broker.key"), str), KeyRing())
        async with client.running():
            await client.join(keyed, chain)
            assert len(client.ring.groups) == 2


def test_a_manager_serves_and_its_status_shows_members_and_epochs(folder, jetstream_server):
    run("keys", "appoint", "one.type", "--key", "pito.key", "--to", "manager.pub", "--out", "a")
    command = ("keys", "serve", folder, "--key", "manager.key", "--appointment", "a", "--json", *NETWORK)
    program = [sys.executable, "-m", "authfabric", *command]
    with subprocess.Popen(program, stdout=subprocess.PIPE, env=ENVIRONMENT | os.environ) as manager:
        try:
            lines = b""
            while b"\n}" not in lines:
                lines += manager.stdout.readline() or pytest.fail("the manager did not start")
            assert json.loads(lines)["ready"]
            chain = encode_chain(parse_chain(Path("b.cap").read_text(), "b.cap"))
            asyncio.run(join(folder, jetstream_server.url, chain))
        finally:
            manager.send_signal(signal.SIGTERM)
        assert manager.wait(20) == 0
    status = json.loads(run("keys", "status", folder, "--key", "manager.key", "--json", *NETWORK))
    broker = Path("broker.pub").read_text().strip()
    assert sorted(group["attributes"] for group in status["groups"]) == [["place"], ["plate"]]
    assert [(group["epoch"], group["members"][0]["key"]) for group in status["groups"]] == [(1, broker)] * 2
    assert "place" in run("keys", "status", folder, "--key", "manager.key", *NETWORK)


def test_a_manager_with_options_that_were_replaced_does_not_start(folder, jetstream_server):
    async def replace() -> None:
        async with Connection(jetstream_server.url) as bus:
            catalogue = Catalogue()
            await TypeStore(bus, catalogue, read_network_key(Path("network.key"))).refresh()
            keyed = KeyedType.of(catalogue, folder)
            for plan in (Plan.each(keyed.names), Plan.whole(keyed.id, keyed.names)):
                office = KeyDistribution(load_key(Path("pito.key"), str), keyed, plan, keyed.verifier())
                async with KeyManager(bus, office).serving():
                    pass

    asyncio.run(replace())
    problem = run("keys", "serve", folder, "--key", "pito.key", *NETWORK, code=2)
    assert f"these options for the keys of `{folder}` were replaced by others" in problem
    assert "--back" in problem


def test_definitions_under_a_network_key_are_read_by_whoever_has_it_only(folder, caplog):
    assert "no event type" in run("keys", "status", folder, "--key", "manager.key", code=3)
    assert "if kept under a network key, give that" in caplog.text
    Path("network.key").chmod(0o644)
    assert "chmod 600" in run("keys", "status", folder, "--key", "manager.key", *NETWORK, code=3)
    run("keys", "network", "network.key", code=3)


def test_a_broker_needs_a_capability_for_what_it_carries_sealed(folder):
    words = (
        "broker",
        "serve",
        "--key",
        "broker.key",
        "--clients",
        "default=pito.pub",
        "--insecure",
        "--sealed",
        folder,
    )
    assert "TYPE=FILE" in run(*words, code=3)


def test_another_network_key_takes_over_step_by_step_and_the_one_of_before_opens_nothing(folder, caplog):
    old = Path("network.key").read_text()
    assert "the next step is `--step add`" in run("keys", "network", "network.key", "--step", "use", code=3)
    assert "Then: `keys network --step use`" in run("keys", "network", "network.key", "--step", "add")
    for step in ("add", "drop"):
        assert "the next step is `--step use`" in run(
            "keys", "network", "network.key", "--step", step, code=3
        )
    assert folder in run("type", "list", *NETWORK)
    run("keys", "network", "network.key", "--step", "use")
    for step in ("add", "use"):
        assert "the next step is `--step drop`" in run(
            "keys", "network", "network.key", "--step", step, code=3
        )
    assert folder in run("type", "list", *NETWORK)  # still under the one of before
    assert "`--network-key` is missing" in run("keys", "relock", code=2)
    locked = runner.invoke(app, ["keys", "relock", *NETWORK, "--json"])
    told = json.loads(locked.stdout)
    assert told["types"] >= 1
    assert locked.exit_code == (told["left"] > 0)  # those of other tests
    run("keys", "network", "network.key", "--step", "drop")
    new = Path("network.key").read_text()
    assert folder in run("type", "list", *NETWORK)
    assert len(new.split()) == 1
    Path("network.key").write_text(old)
    assert folder not in run("type", "list", *NETWORK)
    assert "neither secret of `network.key` opens" in run("keys", "relock", *NETWORK, code=1)
    assert "not kept under the network key given" in caplog.text
