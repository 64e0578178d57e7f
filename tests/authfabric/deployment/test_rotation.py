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
