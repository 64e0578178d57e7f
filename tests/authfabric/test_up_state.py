"""What `authfabric up` keeps from one time to the next, and who finds the fabric that runs now."""

from __future__ import annotations

import contextlib
import json
import shutil
import signal
from collections.abc import Iterator

import pytest

from authfabric.commands.begin import doctor
from authfabric.releases import replica_readiness
from bus.server.nats_server import free_ports
from tests.authfabric.test_commands import Shell, read_document
from tests.authfabric.test_full_disk import permit

SERVICE = """
import asyncio
from pep import Enforcer

async def service():
    async with Enforcer.connect(deadline=20.0) as pep:
        print((await pep.check("alice", "/sales/q1", "read")).effect)

asyncio.run(service())
"""
ASK = ("ask", "alice", "/sales/q1", "read", "--deadline", "20")


@pytest.fixture
def shell(tmp_path, monkeypatch) -> Shell:
    monkeypatch.setenv("HOME", str(tmp_path))
    return Shell(tmp_path / "state")


@contextlib.contextmanager
def up(shell: Shell, *words: str) -> Iterator[dict[str, object]]:
    """Runs `authfabric up` until Ctrl-C."""
    process = shell.start("up", "--port", "-1", "--replicas", "1", "--json", *words)
    try:
        yield read_document(process)
    finally:
        process.send_signal(signal.SIGINT)
        process.communicate(timeout=60)


def test_what_a_secured_fabric_kept_does_not_stand_in_the_way_of_an_open_one_nor_the_reverse(shell):
    for words in ([], ["--insecure"], []):
        with up(shell, *words):
            code, out, error = shell.run(*ASK)
            assert (code, out[:5]) == (0, "allow"), out + error
            assert shell.python(SERVICE) == (0, "allow\n", "")
            _, out, _ = shell.run("doctor", "--json")
            found = {each["about"]: each for each in json.loads(out)["findings"]}
            assert found["PDP replicas"]["well"], found
            assert found["members"]["well"], found
            assert found["trust"]["well"], found


def test_up_is_not_said_while_no_replica_can_decide(shell, monkeypatch):
    """The replicas kept a release that the store does not have: they serve, and decide nothing."""
    with up(shell):
        pass
    kept = shell.state / "authfabric"
    shutil.copytree(kept / "secured" / "releases", kept / "insecure" / "releases")
    monkeypatch.setattr(replica_readiness, "PATIENCE_SECONDS", 1.0)
    code, out, error = shell.invoke("up", "--insecure", "--port", "-1", "--replicas", "1")
    assert (code, out) == (3, "")
    assert "the replicas run and cannot decide: `pdp-1`: " in error


def test_where_nothing_runs_that_is_what_a_service_and_the_doctor_say_first(shell, monkeypatch):
    """It asked for a key, where there was nobody to believe or not."""
    code, _, error = shell.python(SERVICE)
    said = error.splitlines()[-1]
    assert code == 1
    assert said.startswith("pep.errors.NobodyTrusted: no fabric was found here: `authfabric up` starts one")
    monkeypatch.setattr(doctor, "CONNECT_SECONDS", 0.05)
    (port,) = free_ports(1)
    _, out, _ = shell.invoke("doctor", "--json", "--url", f"nats://127.0.0.1:{port}")
    unwell = [each["about"] for each in json.loads(out)["findings"] if not each["well"]]
    assert unwell == ["connection", "trust"]


def test_the_panel_offers_examples_only_while_they_are_in_force(shell, tmp_path):
    policies = tmp_path / "policies"
    policies.mkdir()
    permit("bob", policies)
    with up(shell, "--insecure", "--policies", str(policies)) as first:
        assert "release 1 (" in str(first["policies"])
    process = shell.start("up", "--insecure", "--port", "-1", "--replicas", "1")
    assert process.stdout
    panel = ""
    try:
        while "╰" not in panel:
            panel += next(process.stdout)
        headings, row = shell.run("policy", "list")[1].splitlines()
        findings = json.loads(shell.run("doctor", "--json")[1])["findings"]
        running = shell.invoke("up", "--insecure", "--fresh", "--yes")
    finally:
        process.send_signal(signal.SIGINT)
        process.communicate(timeout=60)
    assert headings.split()[:2] == ["release", "hash"]
    release = f"release 1 ({row.split()[1]})"
    assert f"{release}, since " in panel
    (members,) = (each["found"] for each in findings if each["about"] == "members")
    assert members == f"{release}: pdp-1"
    assert (running[0], f"end process {process.pid} first" in running[2]) == (2, True)
    assert "AUTHFABRIC_NATS_URL=nats://127.0.0.1:" in panel
    assert "kept in " in panel
    assert "alice" not in panel


def test_what_is_kept_is_deleted_only_if_that_is_confirmed(shell):
    kept = shell.state / "authfabric" / "insecure" / "kept"
    kept.parent.mkdir(parents=True)
    kept.touch()
    code, _, error = shell.invoke("up", "--insecure", "--fresh")  # which has nobody to ask
    assert (code, kept.exists()) == (1, True)
    assert f"Delete `{kept.parent}`" in error
    with up(shell, "--insecure", "--fresh", "--yes") as first:
        assert not kept.exists()
        assert "(the examples)" in str(first["policies"])
