"""Three nodes, started from nothing but the folders that `domain init` wrote for them, are one fabric."""

from __future__ import annotations

import signal
import subprocess
from functools import partial
from pathlib import Path

import msgspec
import pytest

from authfabric.deployment import (
    InvalidLayout,
    Layout,
    Node,
    node_units,
    parse_nodes,
    read_layout,
    write_layout,
)
from bus.identity import read_credentials
from pep import Enforcer
from tests.authfabric.pushing import authfabric, write
from tests.authfabric.test_domain import refuse
from tests.machines import command, machines
from tests.waiting import once_it_works

ROOT = Path(__file__).parents[3]


@pytest.fixture
def three(tmp_path):
    with machines(tmp_path) as made:
        yield made


@pytest.mark.cluster
async def test_three_nodes_from_their_folders_form_a_cluster_that_outlives_one_of_them(
    three, tmp_path, monkeypatch
):
    monkeypatch.setenv("AUTHFABRIC_CREDENTIALS", str(three.operator))
    key = command("policy", "key").split()[0]
    command("domain", "trust", "add", three.folder, key)
    command("domain", "grant", three.folder, "web", "--as", "pep", "--out", tmp_path / "web.json")
    three.install()
    three.start()

    async def members() -> dict:
        three.revive()
        _, told = await authfabric("status")
        assert len(told.get("members", ())) == 3, told
        return told

    async def push(subject: str) -> None:
        policies = str(write(tmp_path / "policies", subject))
        code, done = await authfabric("policy", "push", policies, "--wait", "--trust", key)
        assert code == 0, done  # complete: `--wait` says so by its exit code

    told = await once_it_works(members, AssertionError)
    assert {node["name"] for node in told["nodes"]} == {"node1", "node2", "node3"}
    await push("ann")
    monkeypatch.setenv("AUTHFABRIC_CREDENTIALS", str(tmp_path / "web.json"))
    async with Enforcer.connect(deadline=10.0) as pep:
        assert (await pep.check("ann", "/x", "read")).allowed
        assert not (await pep.check("bob", "/x", "read")).allowed
        three.machines[0].stop(sig=signal.SIGKILL)
        for number in range(20):
            assert (await pep.check("ann", f"/x/{number}", "read")).allowed
        monkeypatch.setenv("AUTHFABRIC_CREDENTIALS", str(three.operator))
        await once_it_works(partial(push, "bob"), AssertionError)  # a leader is elected meanwhile
        assert (await pep.check("bob", "/y", "read")).allowed


def test_a_node_has_keys_of_its_own_and_nothing_that_only_the_domain_may_hold(three):
    nodes = [three.folder / "nodes" / each.name / "config" for each in three.machines]
    assert not any(list(node.rglob("domain.key")) for node in nodes)
    for name in ("tls/server.key", "tls/link.key", "pdp-1.json"):
        assert len({(node / name).read_bytes() for node in nodes}) == 3
    for machine in three.machines:
        assert all(not each.stat().st_mode & 0o077 for each in (machine.root / "config").rglob("*"))


def test_a_node_that_is_added_is_named_to_the_others_which_keep_their_keys(three):
    settings = three.folder / "fabric.yaml"
    layout = read_layout(settings)
    before = (three.folder / "nodes/node1/config/tls/server.key").read_bytes()
    write_layout(settings, msgspec.structs.replace(layout, nodes=(*layout.nodes, Node("node4", "127.0.0.4"))))
    command("domain", "nodes", three.folder)
    assert "@127.0.0.4:6222" in (three.folder / "nodes/node1/config/nats.conf").read_text()
    assert (three.folder / "nodes/node1/config/tls/server.key").read_bytes() == before
    assert (three.folder / "nodes/node4/install.sh").exists()
    command("domain", "certify", three.folder)
    assert (three.folder / "nodes/node1/config/tls/server.key").read_bytes() != before


def test_the_keys_that_replicas_had_before_are_revoked_although_others_have_their_names(three):
    """Whoever took a node over has what was there."""
    config = three.folder / "nodes/node1/config"
    stolen = read_credentials(config / "pdp-1.json").credentials.identity.public
    command("domain", "certify", three.folder)
    own = read_credentials(config / "pdp-1.json").credentials.identity.public
    # No server runs: the folders of nodes have it all the same.
    assert "was not told" in refuse(3, "revoke", three.folder, "node1-pdp-1", "--replaced")
    for machine in three.machines:
        revoked = three.folder / "nodes" / machine.name / "config/domain/revoked"
        assert [each.name.partition("-")[0] for each in revoked.iterdir()] == [str(stolen)]
    assert own != stolen
    assert str(own) in (three.folder / "members/node1-pdp-1.cap").read_text()


def test_a_node_without_what_its_units_need_is_told_so_before_anything_is_started(tmp_path, monkeypatch):
    monkeypatch.setenv("AUTHFABRIC_PASSPHRASE", "a long one")
    programs = tmp_path / "programs"
    places = {each: str(tmp_path / each) for each in ("config", "state", "cache", "units")}
    layout = Layout((Node("a", "127.0.0.1"),), programs=str(programs), **places)
    write_layout(tmp_path / "given.yaml", layout)
    command("domain", "init", tmp_path / "shop", "--name", "shop", "--settings", tmp_path / "given.yaml")

    def problem() -> str:
        script = ["sh", tmp_path / "shop/nodes/a/install.sh"]
        done = subprocess.run(script, capture_output=True, text=True, check=False)
        assert done.returncode == 1
        return done.stderr

    assert f"there is no {programs}/authfabric" in problem()
    programs.mkdir()
    (programs / "authfabric").write_text("")
    (programs / "authfabric").chmod(0o755)
    (programs / "python").symlink_to("/home/somebody/python")
    assert "is in a home folder" in problem()
    (programs / "python").unlink()
    (programs / "python").symlink_to("/bin/sh")
    assert f"the passphrase of the keys is to be in {tmp_path}/config/passphrase" in problem()


def test_what_is_issued_later_is_in_the_folders_of_all_nodes(three, tmp_path):
    command("domain", "grant", three.folder, "web", "--as", "pep", "--out", tmp_path / "web.json")
    assert all(
        (three.folder / "nodes" / each.name / "config/domain/members/web.cap").exists()
        for each in three.machines
    )


def test_the_units_in_the_repository_are_those_that_nodes_are_given():
    for name, text in node_units(Layout(())).items():
        assert (ROOT / "deploy/systemd" / name).read_text() == text


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("", "a node at least"),
        ("a,a", "two nodes have the name"),
        ("a=1.2.3.4,b=1.2.3.4", "two nodes have the address"),
        ("a:99999", "no port"),
        ("a=b c", "must be a name or an address"),
        ("a_b=1.2.3.4", "letters, digits"),
        ("a:b:c", "must be written"),
    ],
)
def test_nodes_that_cannot_be_are_refused(text, problem):
    with pytest.raises(InvalidLayout, match=problem):
        parse_nodes(text)


def test_nodes_are_named_by_their_hosts_and_bind_to_addresses_only():
    layout = parse_nodes("a.example, b.example:4333, c=[::1]:4444, 10.0.0.1")
    assert [(each.name, each.address, each.bound) for each in layout.nodes] == [
        ("a", "a.example:4222", "0.0.0.0"),
        ("b", "b.example:4333", "0.0.0.0"),
        ("c", "[::1]:4444", "[::1]"),
        ("node4", "10.0.0.1:4222", "10.0.0.1"),
    ]
