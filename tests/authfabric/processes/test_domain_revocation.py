"""`domain revoke`: a key that was revoked is out, whatever was issued to it, whoever serves, and whatever was lost."""

from __future__ import annotations

import asyncio
import contextlib
import json
import shutil
from dataclasses import replace
from pathlib import Path
from time import time

import pytest
from click.testing import Result
from typer.testing import CliRunner

from authfabric.cli import app
from authfabric.console.granting import CannotRevoke, Granting
from authfabric.processes.domain_process import follow, tell
from authfabric.processes.local_domain import LocalDomain
from authz import Identity
from authz.spki import (
    Capability,
    Validity,
    decode_chain,
    encode_chain,
    parse_authority,
    parse_chain,
    unparse_chain,
)
from bus import Connection, NatsServer, NotConnected
from bus.identity import load_key
from bus.identity.credentials import Credentials
from bus.identity.credentials_store import read_credentials, with_certificate, write_credentials
from bus.nats.access_client import CAPABILITY_REQUEST, CapabilityRequest, ask_capability, ask_renewal
from bus.wire.subjects import RENEW
from pdp.access.domain_store import DomainFolder
from tests.authfabric.test_domain import refuse, run
from tests.waiting import eventually


def domain_in(folder: Path) -> LocalDomain:
    if not folder.exists():
        run("init", folder, "--name", folder.name, "--unencrypted")
    return LocalDomain.find(folder)


@contextlib.asynccontextmanager
async def server_of(folder: Path):
    """A domain, made if there is none, and a server that keeps nothing from before."""
    local = domain_in(folder)
    async with NatsServer(jetstream=True, extra=local.configuration()) as server:
        yield local.at_url(server.url)


@contextlib.asynccontextmanager
async def serving(folder: Path):
    """A domain with a server and a replica of its service; where they are."""
    async with server_of(folder) as local, local.serving():
        yield local.folder.file.url


def granted(folder: Path, name: str, *words: object) -> Credentials:
    file = folder.parent / f"{name}.json"
    run("grant", folder, name, *(words or ("--as", "pep")), "--out", file)
    return replace(read_credentials(file).credentials, file=None)


async def renewed(bus: Connection) -> Credentials:
    """What a member is given when it asks for more time: another capability, and another TLS certificate."""
    answer = await ask_renewal(bus, time())
    return replace(with_certificate(bus.credentials, answer.certificate), chain=answer.chain)


async def revoke(*words: object) -> str:
    return await asyncio.to_thread(run, "revoke", *words)


async def is_refused(url: str, credentials: Credentials) -> None:
    with pytest.raises(NotConnected, match="uthorization"):
        async with Connection(url, credentials=credentials, connect_seconds=1.0):
            pass


@pytest.fixture
def key(tmp_path) -> Path:
    """The file of a key that a member has made itself."""
    file = tmp_path / "shop.key"
    file.touch(0o600)
    file.write_bytes(Identity.generate().to_pem())
    return file


async def test_a_revoked_member_is_out_with_everything_that_was_renewed(tmp_path):
    uk = tmp_path / "uk"
    async with serving(uk) as url:
        given = granted(uk, "shop")
        async with Connection(url, credentials=given) as shop:
            again = await renewed(shop)
            async with Connection(url, credentials=again) as second:
                await revoke(uk, "shop")
                await is_refused(url, again)
                await is_refused(url, replace(again, chain=given.chain))
                await eventually(lambda: not second.ready and not shop.ready)
    assert DomainFolder.open(uk).members == {}


async def test_a_revoked_key_is_out_under_all_its_names_and_is_enrolled_under_no_other(tmp_path, key):
    uk = tmp_path / "uk"
    async with serving(uk) as url:
        granted(uk, "shop", "--as", "pep", "--key", key)
        other = granted(uk, "till", "--as", "broker", "--key", key)
        granted(uk, "neighbour")
        await revoke(uk, "shop")
        await is_refused(url, other)
    assert list(DomainFolder.open(uk).members) == ["neighbour"]
    said = refuse(3, "grant", uk, "kiosk", "--as", "pep", "--key", key, "--out", tmp_path / "kiosk.json")
    assert "has revoked the key" in said
    assert not (tmp_path / "kiosk.json").exists()


async def test_a_key_that_is_revoked_while_the_services_is_exchanged_is_out_with_what_both_gave(
    tmp_path, key
):
    uk = tmp_path / "uk"
    domain_in(uk)
    before = granted(uk, "shop", "--as", "pep", "--key", key)
    granted(uk, "till", "--as", "broker", "--key", key)
    run("rotate", uk)
    (tmp_path / "shop.json").unlink()
    after = granted(uk, "shop", "--as", "pep", "--key", key)
    async with serving(uk) as url:
        for each in before, after:
            async with Connection(url, credentials=each):
                pass
        console = Granting(DomainFolder.open(uk), domain_in(uk).issuer, tell=tell)
        with pytest.raises(CannotRevoke, match="domain revoke"):
            await console.revoke("shop")
        await revoke(uk, "shop")
        for each in before, after:
            await is_refused(url, each)
    assert DomainFolder.open(uk).members == {}


def test_a_key_that_was_revoked_is_enrolled_by_no_key_that_takes_the_place_of_the_services(tmp_path, key):
    uk = tmp_path / "uk"
    domain_in(uk)
    granted(uk, "shop", "--as", "pep", "--key", key)
    refuse(3, "revoke", uk, "shop")  # which is kept
    for step in ([], ["--finish", "--force"], []):
        run("rotate", uk, *step)
        again = "grant", uk, "kiosk", "--as", "pep", "--key", key, "--out", tmp_path / "kiosk.json"
        assert "has revoked the key" in refuse(3, *again)


async def test_a_domain_that_is_revoked_while_the_key_of_the_one_above_is_exchanged_is_out_with_what_both_gave(
    tmp_path,
):
    uk, met = tmp_path / "uk", tmp_path / "met"
    domain_in(uk)
    joined(uk, met)
    before = granted(met, "before", "network: uk", "action: connect", "--in", "uk")
    run("rotate", uk, "--own")
    run("admit", uk, tmp_path / "r", "--out", tmp_path / "again")
    assert "exists already" in refuse(3, "join", met, tmp_path / "again")
    run("join", met, tmp_path / "again", "--again")
    after = granted(met, "after", "network: uk", "action: connect", "--in", "uk")
    async with serving(uk) as url:
        for each in before, after:
            async with Connection(url, credentials=each):
                pass
        await revoke(uk, "met", "--domain")
        for each in before, after:
            await is_refused(url, each)


async def test_what_a_new_key_has_lent_to_the_one_before_counts_no_more_when_that_is_exchanged(tmp_path):
    """Somebody has that key, and has seen a node's files while both counted."""
    uk, thief = tmp_path / "uk", Identity.generate()
    issuer, owner = domain_in(uk).issuer, load_key(uk / "domain.key", lambda: "")
    run("rotate", uk, "--own")
    (lent,) = parse_chain((uk / "holdings/own.before.cap").read_text())
    authority = parse_authority("network: *\naction: connect")
    own = Capability(owner.public, thief.public, False, authority, Validity(int(time()), None)).sign(owner)
    write_credentials(
        file := tmp_path / "thief.json", DomainFolder.open(uk).credentials(issuer, thief, own, time())
    )
    stolen = replace(read_credentials(file).credentials, chain=encode_chain((lent, own)), file=None)
    async with serving(uk) as url, Connection(url, credentials=stolen) as inside:
        await asyncio.to_thread(run, "rotate", uk, "--finish")
        await is_refused(url, stolen)
        await eventually(lambda: not inside.ready)
    async with serving(uk) as url:
        await is_refused(url, stolen)


async def test_a_replica_with_an_older_folder_renews_nobody_who_was_revoked(tmp_path):
    """Another member carries the request of the one who was revoked."""
    uk, older = tmp_path / "uk", tmp_path / "older"
    async with server_of(uk) as local:
        url = local.folder.file.url
        shop, accomplice = granted(uk, "shop"), granted(uk, "accomplice")
        shutil.copytree(uk, older)
        async with local.serving():
            await revoke(uk, "shop")
        replica = LocalDomain.find(older)
        assert "shop" in replica.folder.members
        async with replica.serving(), Connection(url, credentials=accomplice) as bus:
            request = CAPABILITY_REQUEST.sign(CapabilityRequest(time()), shop.identity)
            assert b"was revoked" in await bus.ask(RENEW, request, 5.0)
            assert await ask_capability(bus, time())


async def test_whoever_was_revoked_stays_out_though_the_servers_have_lost_their_store(tmp_path):
    uk = tmp_path / "uk"
    async with serving(uk) as url:
        given, neighbour = granted(uk, "shop"), granted(uk, "neighbour")
        async with Connection(url, credentials=given) as shop:
            again = await renewed(shop)
        await revoke(uk, "shop")
    async with serving(uk) as url:
        await is_refused(url, again)
        async with Connection(url, credentials=neighbour) as bus:
            assert bus.ready


async def test_what_is_revoked_while_nobody_serves_is_heeded_by_whoever_serves_next(tmp_path):
    uk = tmp_path / "uk"
    async with server_of(uk) as local, contextlib.AsyncExitStack() as stack:
        given, url = granted(uk, "shop"), local.folder.file.url
        async with local.serving():
            shop = await stack.enter_async_context(Connection(url, credentials=given))
        said = await asyncio.to_thread(refuse, 3, "revoke", uk, "shop")
        assert "`uk` was not told" in said
        assert shop.ready
        async with local.serving():
            await is_refused(url, given)
            await eventually(lambda: not shop.ready)
            await revoke(uk, "shop")
    assert DomainFolder.open(uk).members == {}


async def test_serve_tells_everybody_what_its_folder_says_was_revoked(tmp_path):
    """Of a folder that the command could not tell the service about."""
    uk = tmp_path / "uk"
    async with server_of(uk) as local:
        given, url = granted(uk, "shop"), local.folder.file.url
        async with local.serving() as access, Connection(url, credentials=given) as shop:
            following = asyncio.create_task(follow(local.folder, access))
            local.folder.revoke(local.issuer.service, given.identity.public, time())
            await eventually(lambda: not shop.ready)
            following.cancel()


async def test_a_member_in_a_network_that_its_domain_joined_is_put_out_there(tmp_path):
    uk, met = tmp_path / "uk", tmp_path / "met"
    async with serving(uk) as url:
        joined(uk, met)
        cam, other = (granted(met, name, "network: uk", "action: connect", "--in", "uk") for name in "ab")
        async with Connection(url, credentials=cam) as first, Connection(url, credentials=other) as second:
            assert "uk" in await revoke(met, "a")
            await is_refused(url, cam)
            await eventually(lambda: not first.ready)
            assert second.ready
            # The domain above revokes the one below, and whatever that has passed on falls.
            await revoke(uk, "met", "--domain")
            await is_refused(url, other)
            await eventually(lambda: not second.ready)
    assert json.loads(run("status", uk, "--json"))["domains"] == []
    assert "has revoked the key" in refuse(3, "admit", uk, tmp_path / "r", "--out", tmp_path / "again")


async def test_a_network_that_cannot_be_told_keeps_nobody_in_another(tmp_path):
    uk, met = tmp_path / "uk", tmp_path / "met"
    run("init", uk, "--name", "uk", "--unencrypted", "--url", "tls://127.0.0.1:1")
    joined(uk, met)
    async with serving(met) as url:
        cam = granted(met, "cam")
        async with Connection(url, credentials=cam) as bus:
            assert "`uk` was not told" in await asyncio.to_thread(refuse, 3, "revoke", met, "cam")
            await eventually(lambda: not bus.ready)
            await is_refused(url, cam)


def joined(uk: Path, met: Path) -> None:
    """A domain that has joined another."""
    request, membership = met.parent / "r", met.parent / "m"
    run("init", met, "--name", "met", "--unencrypted", "--url", "tls://127.0.0.1:1")
    run("join", met, "--request", request, "--want", "network: uk", "--want", "action: connect")
    run("admit", uk, request, "--out", membership)
    run("join", met, membership)


async def test_cap_revoke_publishes_for_the_issuer_itself_or_with_a_chain_that_leads_to_it(tmp_path):
    """Owners of types, whom the domain does not know, take back what they gave."""
    authority = parse_authority("type: *\naction: publish")

    def owner(name: str) -> Identity:
        key, file = Identity.generate(), tmp_path / f"{name}.key"
        file.touch(0o600)
        file.write_bytes(key.to_pem())
        given = Capability(key.public, Identity.generate().public, False, authority).sign(key)
        (tmp_path / f"{name}.cap").write_text(unparse_chain([given]))
        return key

    async def publish(name: str, member: str, *words: object) -> Result:
        files = [
            tmp_path / f"{name}.cap",
            "--key",
            tmp_path / f"{name}.key",
            "--list",
            tmp_path / f"{name}.crl",
        ]
        env = {"AUTHFABRIC_CREDENTIALS": str(tmp_path / f"{member}.json")}
        command = ["cap", "revoke", *files, "--publish", *words]
        return await asyncio.to_thread(CliRunner(env=env).invoke, app, [*map(str, command)])

    uk, pito = tmp_path / "uk", owner("pito")
    owner("dvla")
    async with serving(uk):
        operator = granted(uk, "operator", "--as", "operator")
        for name in ("pito", "dvla"):
            refused = await publish(name, "operator")
            assert refused.exit_code != 0
            assert "submit it with credentials of the issuer's own key" in " ".join(refused.stderr.split())
        link = Capability(operator.identity.public, pito.public, True, authority).sign(operator.identity)
        proof = tmp_path / "proof.cap"
        proof.write_text(unparse_chain([*decode_chain(operator.chain), link]))
        shown = await publish("pito", "operator", "--proof", proof)
        assert shown.exit_code == 0, shown.stderr
        granted(uk, "dvla", "--as", "pep", "--delegate", "--key", tmp_path / "dvla.key")
        own = await publish("dvla", "dvla")
        assert own.exit_code == 0, own.stderr
