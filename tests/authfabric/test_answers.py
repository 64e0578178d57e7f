"""Replicas with keys and capabilities of their own, as commands run them: who is believed, and until when."""

from __future__ import annotations

from pathlib import Path

import pytest
from typer.testing import CliRunner

from authfabric.cli import app
from authfabric.fabric import DEFAULT_POLICIES, ReplicaProcess
from authz import Reason
from bus import NatsServer
from pep import Enforcer
from tests.authfabric.test_push import authfabric
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
            assert (await authfabric(*ask))[1]["decision"] == "allow"
        finally:
            await replica.stop()


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
