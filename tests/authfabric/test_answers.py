"""Replicas with keys and capabilities of their own, as commands run them: who is believed, and until when."""

from __future__ import annotations

import asyncio
import re
import shlex
from pathlib import Path

import pytest
from typer.testing import CliRunner

from authfabric.cli import app
from authfabric.files.decision_rights import empower, find_authority
from authfabric.processes.launcher import DEFAULT_POLICIES, ReplicaProcess
from authz import Decision, Identity, Reason, Request
from authz.spki import unparse_chain
from bus import Connection, NatsServer
from bus.audit import AuditStore, AuditWriter
from bus.identity import write_credentials
from bus.identity.credentials_store import CredentialsFile
from pep import Enforcer
from pep.auditing import auditing
from tests.authfabric.pushing import authfabric
from tests.waiting import eventually


def run(*words: str, code: int = 0) -> str:
    result = CliRunner().invoke(app, [str(word) for word in words])
    assert result.exit_code == code, result.output
    return result.output


@pytest.fixture
def files(tmp_path, monkeypatch) -> Path:
    """A root, and a replica that it lets decide about /sales."""
    monkeypatch.chdir(tmp_path)
    for name in ("root", "pdp"):
        run("cap", "keygen", name, "--unencrypted")
    issue = ("cap", "issue", "--key", "root.key", "--to", "pdp.pub", "--out", "pdp.cap", "--for", "1h")
    run(*issue, "object: /sales/*", "action: decide")
    return tmp_path


async def test_a_replica_is_believed_as_far_as_its_capability_goes_and_until_it_is_revoked(files):
    root, revoke = (files / "root.pub").read_text().strip(), ("cap", "revoke", "pdp.cap", "--key", "root.key")
    async with NatsServer(jetstream=True) as server:
        words = ["--key", str(files / "pdp.key"), "--health-port", "0"]
        replica = await ReplicaProcess.start("pdp", server.url, policies=DEFAULT_POLICIES, extra=words)
        try:
            async with Enforcer.connect(server.url, trust=[root], deadline=20.0) as pep:
                assert (await pep.check("alice", "/sales/q1", "read")).allowed
                menu = await pep.check("bob", "/public/menu", "read", deadline=0.5)
                assert (menu.allowed, menu.reason) == (False, Reason.NO_PDP)
                ask = ("ask", "alice", "/sales/q1", "read", "--url", server.url)
                assert (await authfabric(*ask, "--trust", root))[1]["decision"] == "allow"
                code, _ = await authfabric(*revoke, "--list", "revoked", "--publish", "--url", server.url)
                assert code == 0
                await eventually(lambda: not len(pep.asker.authenticity.deciders))
                after = await pep.check("alice", "/sales/q1", "read", deadline=0.5)
                assert (after.allowed, after.reason) == (False, Reason.TIMEOUT)
                assert "unknown" in after.detail
            assert (await authfabric(*ask, "--trust", root, "--deadline", "0.5"))[0] == 3
            assert (await authfabric(*ask, "--insecure"))[1]["decision"] == "allow"
        finally:
            await replica.stop()


async def test_a_decision_that_no_pdp_made_is_found_in_the_audit(files):
    root = (files / "root.pub").read_text().strip()
    async with NatsServer(jetstream=True) as server, Connection(server.url) as bus:
        store = AuditStore(bus, "default")
        await store.create()
        words = ["--key", str(files / "pdp.key")]
        replica = await ReplicaProcess.start("pdp", server.url, policies=DEFAULT_POLICIES, extra=words)
        try:
            async with Enforcer.connect(server.url, trust=[root], deadline=20.0, name="shop") as pep:
                for name in ("alice", "bob"):
                    await pep.check(name, "/sales/q1", "read")
        finally:
            await replica.stop()
        verify = ("audit", "verify", "--signed", "--trust", root, "--url", server.url)
        code, found = await authfabric(*verify)
        assert (code, found["holds"], found["signed"], found["unsigned"]) == (0, True, 2, {})
        assert all(each["closed"] for each in found["writers"].values())
        async with AuditWriter(store, "liar") as liar:
            liar.record(
                Request.of("eve", "/sales/q1", "read"), Decision(True, policies=("alice-reads-sales",))
            )
        code, found = await authfabric(*verify)
        assert (code, found["holds"], found["unsigned"]) == (1, True, {liar.trail.writer: [1]})


async def test_a_replica_signs_what_it_decided_since_there_is_an_audit_stream(files):
    root = (files / "root.pub").read_text().strip()
    async with NatsServer(jetstream=True) as server, Connection(server.url) as bus:
        words = ["--key", str(files / "pdp.key")]
        replica = await ReplicaProcess.start("pdp", server.url, policies=DEFAULT_POLICIES, extra=words)
        try:
            await AuditStore(bus, "default").create()
            async with Enforcer.connect(server.url, trust=[root], deadline=20.0, name="shop") as pep:
                await pep.check("alice", "/sales/q1", "read")
            await eventually(lambda: "there is an audit stream of `default` now" in replica.log)
            async with Enforcer.connect(server.url, trust=[root], deadline=20.0, name="shop") as pep:
                await pep.check("bob", "/sales/q1", "read")
        finally:
            await replica.stop()
        verify = ("audit", "verify", "--signed", "--trust", root, "--url", server.url)
        code, found = await authfabric(*verify)
        assert (code, found["signed"], found["unsigned"]) == (0, 2, {})


async def test_a_pep_records_as_soon_as_there_is_an_audit_stream():
    begun: list[AuditWriter] = []
    async with NatsServer(jetstream=True) as server, Connection(server.url) as bus:
        async with auditing(bus, "default", "shop", None, begun.append, again=0.02):
            assert not begun
            await AuditStore(bus, "default").create()
            await eventually(lambda: begun)
            begun[0].record(Request.of("ann", "/x", "read"), Decision(True))
        code, found = await authfabric("audit", "verify", "--url", server.url)
        assert (code, found["writers"][begun[0].trail.writer]["to"]) == (0, 1)


async def test_a_right_is_renewed_by_replacing_its_file(files, monkeypatch, caplog):
    monkeypatch.setattr("authfabric.files.decision_rights.LOOK_SECONDS", 0.01)
    held = find_authority(files / "pdp.key", None)
    first = held.authority.introduction
    task = asyncio.create_task(held.keep_renewed())
    (files / "junk").write_text("junk")
    (files / "junk").replace(files / "pdp.cap")
    await eventually(lambda: "is not renewed" in caplog.text)
    assert held.authority.introduction == first
    run(
        "cap",
        "issue",
        "--key",
        "root.key",
        "--to",
        "pdp.pub",
        "--out",
        "new.cap",
        "object: *",
        "action: decide",
    )
    (files / "new.cap").replace(files / "pdp.cap")
    await eventually(lambda: held.authority.introduction != first)
    task.cancel()


async def test_credentials_of_another_key_in_the_place_of_its_own_change_nothing_until_it_restarts(
    tmp_path, monkeypatch, caplog
):
    """As when a node is given what `domain certify` wrote, while its replicas run."""
    monkeypatch.setattr("authfabric.files.decision_rights.LOOK_SECONDS", 0.01)
    file, root = tmp_path / "pdp.json", Identity.generate()

    def hand_out() -> Identity:
        holder = Identity.generate()
        chain = unparse_chain((empower(holder, root),))
        write_credentials(file, CredentialsFile("nats://127.0.0.1:4222", holder.to_pem().decode(), chain))
        return holder

    monkeypatch.setenv("AUTHFABRIC_CREDENTIALS", str(file))
    own = hand_out()
    held = find_authority(None, None)
    first = held.authority.introduction
    task = asyncio.create_task(held.keep_renewed())
    other = hand_out()
    await eventually(lambda: f"now of another key, `{other.public}`" in caplog.text)
    assert (held.authority.introduction, held.authority.identity.public) == (first, own.public)
    task.cancel()


@pytest.mark.parametrize(
    ("words", "problem"),
    [
        (["--chain", "pdp.cap"], "`--chain` needs `--key`"),
        (["--key", "root.key", "--chain", "pdp.cap"], "were issued to"),
        (["--key", "root.key"], "root.cap"),
        (["--key", "pdp.pub", "--chain", "pdp.cap"], "pdp.pub"),
    ],
)
def test_a_key_and_a_chain_that_do_not_fit_are_refused(files, words, problem):
    output = run("pdp", "serve", "--policies", str(DEFAULT_POLICIES), *words, code=2)
    assert problem in output.replace("\n", " ")


def test_the_page_shows_commands_and_code_that_work(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    text = (Path(__file__).parents[2] / "docs/concepts/answers.md").read_text()
    (script,) = re.findall(r"^```sh\n(.*?)^```", text, re.S | re.M)
    for line in script.splitlines():
        run(*shlex.split(line)[1:])
    assert find_authority(tmp_path / "pdp-1.key", None) is not None
    (block,) = re.findall(r"^```python\n(.*?)^```", text, re.S | re.M)
    exec(compile(block, "answers.md", "exec"), {})
