"""Whom commands and services trust, from the files that `up` and `domain` leave them."""

from __future__ import annotations

import asyncio
import contextlib

import pytest
from typer.testing import CliRunner

from authfabric.cli import app
from authfabric.processes.launcher import DEFAULT_POLICIES, ReplicaProcess, fabric
from authfabric.processes.local_domain import OPERATOR, LocalDomain
from bus import NatsServer
from bus.identity.credentials_store import VARIABLE, default_file, read_credentials
from pep import Enforcer
from pep.trust.trust_store import TRUST_VARIABLE
from tests.authfabric.pushing import authfabric
from tests.pep.fabric import serving
from tests.pep.mallory import Liars


@pytest.fixture(autouse=True)
def _nobody_named(monkeypatch):
    monkeypatch.delenv(TRUST_VARIABLE, raising=False)


def run(*words: object) -> str:
    result = CliRunner().invoke(app, [str(word) for word in words])
    assert result.exit_code == 0, result.output
    return result.stdout


async def test_a_service_beside_up_believes_its_replicas_and_nobody_else():
    async with fabric(1, secure=True) as running:
        assert running.local is not None
        running.local.hand_out(default_file(), "operator", OPERATOR)
        async with Enforcer.connect(deadline=20.0) as pep:
            assert (await pep.check("alice", "/sales/q1", "read")).allowed
            assert pep.asker.authenticity is not None
        trust = read_credentials(default_file()).credentials.trust
        assert running.root.public in trust


async def test_members_of_a_domain_find_whom_to_trust_in_their_credentials(tmp_path, monkeypatch):
    run("cap", "keygen", tmp_path / "policy", "--unencrypted")
    uk, policy = tmp_path / "uk", (tmp_path / "policy.pub").read_text().strip()
    run("domain", "init", uk, "--name", "uk", "--unencrypted", "--trust", tmp_path / "policy.pub")
    local = LocalDomain.find(uk)
    async with (
        NatsServer(jetstream=True, extra=local.configuration()) as server,
        contextlib.AsyncExitStack() as stack,
    ):
        await stack.enter_async_context(local.at_url(server.url).serving())
        for name in ("pdp", "pep"):
            run("domain", "grant", uk, name, "--as", name, "--out", tmp_path / f"{name}.json")
        found = read_credentials(tmp_path / "pep.json").credentials
        assert set(map(str, found.trust)) == {policy, local.folder.file.owner}
        replica = await ReplicaProcess.start(
            "pdp", server.url, policies=DEFAULT_POLICIES, credentials=tmp_path / "pdp.json"
        )
        stack.push_async_callback(replica.stop)
        monkeypatch.setenv(VARIABLE, str(tmp_path / "pep.json"))
        async with Enforcer.connect(deadline=20.0) as pep:
            assert (await pep.check("alice", "/sales/q1", "read")).allowed
            (decider,) = pep.asker.authenticity.deciders._known.values()
            assert decider.key == read_credentials(tmp_path / "pdp.json").credentials.identity.public
        assert (await authfabric("ask", "alice", "/sales/q1", "read", "--url", server.url))[0] == 0


async def test_a_command_that_was_told_of_nobody_to_trust_asks_nobody_unless_that_is_meant(server, tmp_path):
    ask = ["ask", "eve", "/x", "write", "--domain", "unverified", "--url", server.url, "--deadline", "20"]
    async with serving(server.url, Liars(), "domain:unverified"):
        result = await asyncio.to_thread(CliRunner().invoke, app, ask)
        assert result.exit_code == 2
        assert "nobody is trusted to decide" in result.stderr
        assert "--insecure" in result.stderr
        assert (await authfabric(*ask, "--insecure"))[1]["decision"] == "allow"
        empty = tmp_path / "trusted"
        empty.write_text("# nobody\n")
        result = await asyncio.to_thread(CliRunner().invoke, app, [*ask, "--trust", str(empty)])
        assert (result.exit_code, "names no key" in result.stderr) == (2, True)
