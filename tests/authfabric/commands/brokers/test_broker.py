"""`authfabric broker`, with files and as a process, as people and scripts use it."""

from __future__ import annotations

import asyncio
import urllib.request
from pathlib import Path
from time import time

import pytest
from typer.testing import CliRunner

from authfabric.cli import app
from authfabric.commands.brokers.broker import _wait_for_keys
from authfabric.files import read_encoded
from authfabric.files.settings import note_running
from authfabric.processes.launcher import ReplicaProcess
from authfabric.terminal.passphrase import VARIABLE
from authz import PublicKey
from bus.identity.keystore import load_key
from bus.runtime import ProcessFailed
from pubsub_core.server.config import Serving
from pubsub_core.server.service import serve_broker
from pubsub_core.trust.broker_trust import Web
from pubsub_core.trust.credential import Credentials
from tests.waiting import PATIENCE, eventually

runner = CliRunner()


def run(*arguments: object, code: int = 0) -> str:
    result = runner.invoke(app, [str(each) for each in arguments])
    assert result.exit_code == code, result.output
    return result.stderr if code else result.stdout


@pytest.fixture(autouse=True)
def folder(tmp_path, monkeypatch) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv(VARIABLE, raising=False)
    for name in ("met", "broker", "camera"):
        run("cap", "keygen", name, "--unencrypted")


def key(name: str) -> PublicKey:
    return PublicKey.parse(Path(f"{name}.pub").read_text().strip())


def test_a_broker_trusts_whom_the_fabric_that_runs_here_trusts(monkeypatch, tmp_path):
    served: list[Serving] = []
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path))
    monkeypatch.delenv("AUTHFABRIC_TRUST", raising=False)
    monkeypatch.setattr("authfabric.commands.brokers.broker._serve", lambda serving, *_: serving)
    monkeypatch.setattr("authfabric.commands.brokers.broker.run", served.append)
    words = ("broker", "serve", "--key", "broker.key", "--clients", "met=met.pub")
    assert "nobody is trusted to decide" in run(*words, "--url", "nats://127.0.0.1:1", code=2)
    run(*words, "--url", "nats://127.0.0.1:1", "--insecure")
    note_running("nats://127.0.0.1:1", key("met"))
    run(*words, "--url", "nats://127.0.0.1:1")
    assert "nobody is trusted to decide" in run(*words, "--url", "nats://127.0.0.1:2", code=2)
    run(*words, "--url", "nats://127.0.0.1:1", "--trust", "camera.pub")
    assert [each.policies for each in served] == [set(), {key("met")}, {key("camera")}]
    assert [each.unverified for each in served] == [True, False, False]


def test_a_credential_says_who_its_holder_is_in_the_word_of_the_domain():
    words = (
        "camera.pub",
        "camera-7",
        "--key",
        "met.key",
        "--domain",
        "met",
        "-a",
        "role=camera",
        "-a",
        "zone=3",
    )
    run("broker", "credential", *words, "--out", "camera.credential")
    credential, holder = Credentials({"met": {key("met")}}).open(
        read_encoded(Path("camera.credential")), time()
    )
    assert (credential.name, credential.domain) == ("camera-7", "met")
    assert credential.attributes == {"role": "camera", "zone": 3}
    assert holder == key("camera")
    assert "NAME=VALUE" in run("broker", "credential", *words, "-a", "role", "--out", "x", code=2)
    run("broker", "credential", *words, "--role", "nurse(7)", "--role", "crew", "--out", "crew.credential")
    credential, _ = Credentials({"met": {key("met")}}).open(read_encoded(Path("crew.credential")), time())
    assert credential.attributes == {"role": "camera", "zone": 3, "roles": ["nurse(7)", "crew"]}


def test_a_vouch_lets_a_broker_be_trusted():
    run("broker", "vouch", "broker.pub", "--key", "met.key", "--out", "broker.vouch")
    web = Web({key("met")})
    web.learn(read_encoded(Path("broker.vouch")))
    assert web.trusts(str(key("broker")), "any", str(key("camera")), time())
    assert web.reachable(str(key("met")), time())


def test_a_vouch_can_promise_heartbeats():
    run("broker", "vouch", "broker.pub", "--key", "met.key", "--heartbeats", "--out", "beats.vouch")
    web = Web({key("met")})
    web.learn(read_encoded(Path("beats.vouch")))
    assert web.trusts(str(key("broker")), "any", str(key("met")), time())
    assert not web.reachable(str(key("met")), time())


def metrics(process: ReplicaProcess) -> str:
    with urllib.request.urlopen(f"{process.ready.health}/metrics", timeout=60.0) as response:
        return response.read().decode()


async def test_a_broker_process_says_when_it_is_ready_and_ends_when_told_to(jetstream_server):
    words = ["broker", "serve", "--url", jetstream_server.url, "--name", "b-7", "--key", "broker.key"]
    process = await ReplicaProcess.launch("b-7", [*words, "--clients", "met=met.pub", "--trust", "met.pub"])
    assert process.ready.url == jetstream_server.url
    assert "authfabric_broker_published_total 0.0" in await asyncio.to_thread(metrics, process)
    assert await process.stop() == 0
    assert "ended: 0 events published" in process.log


async def test_a_broker_that_is_told_to_end_waits_for_no_keys(jetstream_server, monkeypatch):
    monkeypatch.setattr("authfabric.commands.brokers.broker.KEYS_SECONDS", 2 * PATIENCE)
    serving = Serving(
        jetstream_server.url, "b-1", "keyless", load_key(Path("broker.key"), str), {"keyless": {key("met")}},
        sealed={"Unknown": b""}, unverified=True,
    )  # fmt: skip
    stop = asyncio.Event()
    async with serve_broker(serving) as service:
        waiting = asyncio.create_task(_wait_for_keys(service, stop))
        await asyncio.sleep(0)
        assert not waiting.done()
        stop.set()
        await asyncio.wait_for(waiting, PATIENCE)


async def test_a_broker_that_is_distrusted_is_left_out_by_those_that_run(jetstream_server):
    run("cap", "keygen", "other", "--unencrypted")
    words = [each for name in ("broker", "other") for each in ("--vouch", f"{name}.vouch")]
    for name in ("broker", "other"):
        run("broker", "vouch", f"{name}.pub", "--key", "met.key", "--out", f"{name}.vouch")
    serving = Serving(
        jetstream_server.url, "b-1", "distrust", load_key(Path("broker.key"), str), {"distrust": {key("met")}},
        vouches=tuple(read_encoded(Path(each)) for each in words[1::2]), unverified=True,
    )  # fmt: skip
    async with serve_broker(serving) as service:

        def trusted(name: str) -> bool:
            return service.web.trusts(str(key(name)), "t", str(key("met")), time())

        assert trusted("other")
        tell = ("broker", "distrust", "other.pub", "--key", "met.key", "--out", "no.vouch")
        await asyncio.to_thread(run, *tell, "--domain", "distrust", "--url", jetstream_server.url)
        await eventually(lambda: not trusted("other"))
        assert trusted("broker")
    web = Web({key("met")})
    for file in ("other.vouch", "no.vouch"):
        web.learn(read_encoded(Path(file)))
    assert not web.trusts(str(key("other")), "t", "", time())


def test_what_cannot_be_is_refused_with_what_would_be_right(jetstream_server):
    serve = ("broker", "serve", "--url", jetstream_server.url, "--key", "broker.key", "--insecure")
    assert "is not a public key" in run(*serve, "--clients", "met=nobody", code=2)
    assert "must be DOMAIN=KEY" in run(*serve, "--clients", "met.pub", code=2)
    Path("junk").write_text("?!")
    assert "must be base64 text" in run(*serve, "--clients", "met=met.pub", "--vouch", "junk", code=3)
    assert "cannot be read" in run(*serve, "--clients", "met=met.pub", "--vouch", "missing", code=3)


async def test_a_broker_without_a_server_says_so():
    words = [
        "broker",
        "serve",
        "--url",
        "nats://127.0.0.1:1",
        "--key",
        "broker.key",
        "--clients",
        "met=met.pub",
        "--insecure",
    ]
    with pytest.raises(ProcessFailed, match="not connected to"):
        await ReplicaProcess.launch("b", words)
