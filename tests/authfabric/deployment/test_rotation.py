"""A domain's two keys are exchanged while it runs, and then those of before open nothing."""

from __future__ import annotations

import asyncio
import json
import re
from functools import partial
from pathlib import Path
from time import time

import pytest

from authz import Identity
from authz.spki import parse_authority
from bus import Connection, NotConnected
from bus.identity import Lifetime, load_key, read_credentials, write_credentials
from pdp.access import DomainFolder, Issuer
from pep import Enforcer
from tests.authfabric.pushing import authfabric, write
from tests.authfabric.test_domain import refuse
from tests.machines import Machines, command, machines
from tests.waiting import once_it_works

PEP = parse_authority("network: *\naction: connect")
NODES = [1, pytest.param(3, marks=pytest.mark.cluster)]


async def allowed(credentials: Path, monkeypatch) -> None:
    """Whoever has these is let in, and believes the replicas."""
    monkeypatch.setenv("AUTHFABRIC_CREDENTIALS", str(credentials))
    async with Enforcer.connect(deadline=10.0) as pep:
        decision = await pep.check("ann", "/x", "read")
        assert decision.allowed, decision


async def let_in(credentials: Path) -> None:
    found = read_credentials(credentials)
    async with Connection(found.url, credentials=found.credentials):
        pass


async def shut_out(credentials: Path) -> None:
    with pytest.raises(NotConnected):
        await let_in(credentials)


def stolen(opened: DomainFolder, service: Identity, out: Path) -> Path:
    """What somebody could write who has the service's key."""
    holder, lifetime = Identity.generate(), Lifetime(time(), 3600)
    issuer = Issuer(opened.file.name, service)
    certificate = issuer.grant(holder.public, PEP, lifetime)
    write_credentials(out, opened.credentials(issuer, holder, certificate, time()))
    return out


async def exchange_files(made: Machines, *, replicas: bool) -> None:
    """Copy what was written to the nodes, and start anew what reads it, node after node."""
    made.install()
    for machine in made.machines:
        services = machine.services if replicas else machine.services[:2]
        machine.stop(*services)
        machine.start(*services)


@pytest.mark.parametrize("nodes", NODES)
@pytest.mark.parametrize("own", [False, True], ids=["service", "own"])
async def test_a_key_is_exchanged_while_members_are_let_in_as_ever(tmp_path, monkeypatch, own, nodes):
    with machines(tmp_path, count=nodes) as made:
        folder, before, after, gone = made.folder, *(tmp_path / f"{n}.json" for n in ("old", "new", "gone"))
        key = command("policy", "key").split()[0]
        command("domain", "trust", "add", folder, key)
        for name, file in (("web", before), ("gone", gone)):
            command("domain", "grant", folder, name, "--as", "pep", "--out", file)
        opened = DomainFolder.open(folder)
        service = load_key(folder / "service.key", lambda: "")
        forged = stolen(opened, service, tmp_path / "forged.json")
        made.install()
        made.start()

        async def push() -> None:
            made.revive()
            monkeypatch.setenv("AUTHFABRIC_CREDENTIALS", str(made.operator))
            code, done = await authfabric(
                "policy", "push", str(write(tmp_path / "policies", "ann")), "--wait", "--trust", key
            )
            assert code == 0, done

        async def works(credentials: Path) -> None:
            made.revive()
            await allowed(credentials, monkeypatch)

        await once_it_works(push, AssertionError)
        await works(before)

        rotate = ("domain", "rotate", folder, *["--own"] * own)
        command(*rotate)
        assert "finish that first" in refuse(3, *rotate[1:])
        await exchange_files(made, replicas=not own)
        await once_it_works(partial(works, before), (AssertionError, NotConnected))
        await once_it_works(partial(let_in, forged), NotConnected)
        await asyncio.to_thread(command, "domain", "revoke", folder, "gone")  # by the key that granted it
        await shut_out(gone)

        assert "not granted anew since: web;" in refuse(3, "rotate", folder, "--finish")
        command("domain", "grant", folder, "web", "--as", "pep", "--out", after)
        await works(after)

        await asyncio.to_thread(command, "domain", "rotate", folder, "--finish")
        await exchange_files(made, replicas=True)
        await once_it_works(partial(works, after), (AssertionError, NotConnected))
        await asyncio.gather(*map(shut_out, (before, forged, gone)))
        status = json.loads(command("domain", "status", folder, "--json"))
        assert status["owner" if own else "service"] not in (opened.file.owner, opened.file.service)
        assert not list(folder.rglob("*before*"))
        assert not re.search(str(opened.file.owner if own else opened.file.service), _everything(folder))


def _everything(folder: Path) -> str:
    """All that the folder says, but for what it has revoked."""
    files = (each for each in folder.rglob("*") if each.is_file() and "revoked" not in each.parts)
    return "".join(each.read_text(errors="replace") for each in files)


@pytest.fixture
def uk(tmp_path) -> Path:
    command("domain", "init", tmp_path / "uk", "--name", "uk", "--unencrypted")
    return tmp_path / "uk"


def test_the_new_key_has_the_passphrase_of_the_one_before(tmp_path, monkeypatch):
    monkeypatch.setenv("AUTHFABRIC_PASSPHRASE", "a long one")
    command("domain", "init", uk := tmp_path / "uk", "--name", "uk")
    for own, name in (([], "service"), (["--own"], "domain")):
        key = uk / f"{name}.key"
        before = load_key(key, lambda: "a long one")
        command("domain", "rotate", uk, *own)
        assert b"ENCRYPTED" in key.read_bytes()
        assert load_key(uk / f"{name}.before.key", lambda: "a long one").public == before.public
        assert load_key(key, lambda: "a long one").public != before.public
        command("domain", "rotate", uk, "--finish", "--force")


def test_a_network_that_cannot_be_told_is_named_and_nothing_is_finished(uk):
    command("domain", "rotate", uk)
    assert "`uk` was not told" in refuse(3, "rotate", uk, "--finish")
    assert (uk / "service.before.key").exists()
    command("domain", "rotate", uk, "--finish", "--force")
    assert not (uk / "service.before.key").exists()
    assert "exchanges no key" in refuse(3, "rotate", uk, "--finish")


def test_domains_above_and_below_are_met_anew_under_the_names_that_they_have(uk, tmp_path):
    met, below = tmp_path / "met", tmp_path / "below"
    for each in (met, below):
        command("domain", "init", each, "--name", each.name, "--unencrypted")

    def join(domain: Path, above: Path) -> None:
        command("domain", "join", domain, "--request", tmp_path / "request")
        command("domain", "admit", above, tmp_path / "request", "--out", tmp_path / "membership")
        command("domain", "join", domain, tmp_path / "membership")
        for each in ("request", "membership"):
            (tmp_path / each).unlink()

    join(met, uk)
    join(below, met)
    command("domain", "rotate", met, "--own")
    assert DomainFolder.open(met).behind == ["below", "uk"]
    command("domain", "revoke", uk, "met", "--domain", code=3)  # kept, though nobody is there to be told
    (uk / "domains/met.cap").unlink()
    join(met, uk)
    join_again = ("domain", "join", below, "--request", tmp_path / "request")
    command(*join_again)
    command("domain", "admit", met, tmp_path / "request", "--out", tmp_path / "membership")
    assert DomainFolder.open(met).behind == []
    assert "was not told" in refuse(3, "rotate", met, "--finish")
    command("domain", "rotate", met, "--finish", "--force")
    opened = DomainFolder.open(met)
    (given,) = opened.admitted_domains.values()
    assert str(given.unverified().issuer) == opened.file.owner
    assert str(opened.holdings[1][0].unverified().subject) == opened.file.owner
