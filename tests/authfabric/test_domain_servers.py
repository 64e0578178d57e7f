"""Nobody becomes a server of a domain who is none: stock nats-servers try, with what members and other domains have."""

from __future__ import annotations

import asyncio
import contextlib
import json
import ssl
from dataclasses import dataclass, replace
from pathlib import Path
from time import time
from urllib.parse import urlsplit

import pytest
import pytest_asyncio
from typer.testing import CliRunner

from authfabric.cli import app
from authz import Identity
from bus import Connection, NatsServer, NotConnected
from bus.identity.certificates import Lifetime, Purpose, Subject, certify
from bus.identity.credentials import Credentials
from bus.identity.credentials_store import client_context, read_credentials
from bus.server.nats_server import find_binary, free_ports
from bus.server.server_config import ACCOUNT, Links, ServiceKeys
from pdp.access.domain import Domain, service_name
from pdp.access.domain_store import DomainFolder
from tests.waiting import eventually

pytestmark = pytest.mark.asyncio(loop_scope="module")

KINDS = ("route", "gateway", "leafnode")
DAY = 86_400.0
KEY = Identity.generate()


@dataclass(frozen=True)
class Place:
    """A domain whose server takes links of every kind, and another domain that it has admitted to connect."""

    folder: Path
    server: NatsServer
    ports: dict[str, int]

    @property
    def uk(self) -> DomainFolder:
        return DomainFolder.open(self.folder / "uk")

    @property
    def owner(self) -> Domain:
        return self.uk.domain(lambda: "")

    @property
    def met(self) -> Domain:
        return DomainFolder.open(self.folder / "met").domain(lambda: "")

    @property
    def links(self) -> Links:
        return self.uk.servers.security(self.owner).links

    @property
    def met_authority(self) -> str:
        return DomainFolder.open(self.folder / "met").networks["uk"].certificate

    def own(self) -> Connection:
        """Of the access control service, which is let in by the server itself."""
        service = self.owner.service
        tls = self.uk.tls(self.owner.issuer, time())
        return Connection(self.server.url, credentials=Credentials(ServiceKeys.of(service).member, tls=tls))

    def log(self) -> str:
        return (self.server._folder / "log").read_text().lower()


def run(*words: object) -> None:
    result = CliRunner().invoke(app, ["domain", *map(str, words)])
    assert result.exit_code == 0, result.stderr or result.exception


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def place(tmp_path_factory):
    folder = tmp_path_factory.mktemp("domains")
    uk, met = folder / "uk", folder / "met"
    run("init", uk, "--name", "uk", "--unencrypted")
    run("init", met, "--name", "met", "--unencrypted")
    wants = ("--want", "network: uk", "--want", "action: connect")
    run("join", met, "--request", folder / "request", *wants)
    run("admit", uk, folder / "request", "--out", folder / "membership")
    run("join", met, folder / "membership")
    run("grant", uk, "member", "--as", "operator", "--out", folder / "member.json")
    ports = dict(zip(KINDS, free_ports(3), strict=True))
    listen = {kind: f'listen: "127.0.0.1:{port}"' for kind, port in ports.items()}
    links = (uk / "links.conf").read_text()
    opened = DomainFolder.open(uk)
    leaf = opened.servers.security(opened.domain(lambda: "")).links.configuration(ACCOUNT)
    extra = (
        f"{(uk / 'security.conf').read_text()}"
        f"cluster {{ name: inside, {listen['route']}\n{links} }}\n"
        f"gateway {{ name: inside, {listen['gateway']}\n{links} }}\n"
        f"leafnodes {{ {listen['leafnode']}\n{leaf} }}\n"
    )
    async with NatsServer(name="uk", extra=extra) as server:
        yield Place(folder, server, ports)


@dataclass(frozen=True)
class Files:
    """What somebody has who tries to join as a server."""

    certificate: Path
    key: Path
    secret: str

    @classmethod
    def of(cls, folder: Path, certificate: str, key: str, secret: str) -> Files:
        (folder / "own.pem").write_text(certificate)
        (folder / "own.key").write_text(key)
        return cls(folder / "own.pem", folder / "own.key", secret)

    def joining(self, place: Place, kind: str) -> str:
        """The configuration of a server that joins, and takes whoever takes it; all is heard in `APP`."""
        files = (
            f'cert_file: "{self.certificate}", key_file: "{self.key}", ca_file: "{place.links.authorities}"'
        )
        tls = f"tls {{ {files}, insecure: true }}"
        url = f"nats://server:{self.secret}@127.0.0.1:{place.ports[kind]}"
        accounts = (
            f"accounts {{ {ACCOUNT} {{ users: [ {{ user: spy, password: spy }} ] }}, SYS {{}} }}\n"
            "system_account: SYS\n"
        )
        return (
            accounts
            + {
                "route": f'cluster {{ name: inside, listen: "127.0.0.1:-1", routes: ["{url}"], {tls} }}\n',
                "gateway": f'gateway {{ name: outside, listen: "127.0.0.1:-1", {tls}\n'
                f'gateways: [ {{ name: inside, url: "{url}", {tls} }} ] }}\n',
                "leafnode": f'leafnodes {{ remotes: [ {{ url: "{url}", account: {ACCOUNT}, {tls} }} ] }}\n',
            }[kind]
        )


@contextlib.asynccontextmanager
async def joining(place: Place, files: Files, kind: str):
    """A stock server that tries to join; yields what is heard at it."""
    heard: list[str] = []
    async with (
        NatsServer(name="rogue", extra=files.joining(place, kind)) as rogue,
        Connection(rogue.url.replace("//", "//spy:spy@")) as spy,
    ):
        await spy.listen("af.>", lambda subject, *_: heard.append(subject))
        await spy.flush()
        yield spy, heard


async def hears_nothing(place: Place, spy: Connection, heard: list[str]) -> None:
    async with place.own() as bus:
        bus.send("af.secret", b"")
        await bus.flush()
    spy.send("af.own", b"")
    await eventually(lambda: heard)
    assert heard == ["af.own"]


class TestLinks:
    @pytest.mark.parametrize("kind", KINDS)
    async def test_a_server_of_the_domain_joins(self, place, kind):
        """So those below would join too, if they were let."""
        links = place.links
        files = Files(links.certificate, links.key, links.secret)
        async with joining(place, files, kind) as (_, heard), place.own() as bus:

            def said() -> list[str]:
                bus.send("af.secret", b"")
                return heard

            await eventually(said)

    @pytest.mark.parametrize("kind", KINDS)
    async def test_a_member_cannot_join_as_a_server(self, place, tmp_path, kind):
        """Not even one that the servers' secret is known to."""
        given = json.loads((place.folder / "member.json").read_text())
        files = Files.of(tmp_path, given["certificate"], given["key"], place.links.secret)
        before = place.log().count(refusal := f"tls {kind} handshake error")
        async with joining(place, files, kind) as (spy, heard):
            await eventually(lambda: place.log().count(refusal) > before)
            await hears_nothing(place, spy, heard)

    async def test_what_a_server_shows_to_members_lets_nobody_join(self, place):
        tls = place.uk.path / "tls"
        files = Files(tls / "server.pem", tls / "server.key", place.links.secret)
        before = place.log().count(refusal := "tls route handshake error")
        async with joining(place, files, "route") as (spy, heard):
            await eventually(lambda: place.log().count(refusal) > before)
            await hears_nothing(place, spy, heard)

    @pytest.mark.parametrize("kind", KINDS)
    async def test_a_certificate_without_the_secret_does_not_do(self, place, kind):
        files = Files(place.links.certificate, place.links.key, "guessed")
        before = place.log().count(refusal := "authentication error")
        async with joining(place, files, kind) as (spy, heard):
            await eventually(lambda: place.log().count(refusal) > before)
            await hears_nothing(place, spy, heard)

    async def test_what_was_stolen_from_a_server_is_of_no_use_once_links_are_replaced(self, tmp_path):
        run("init", uk := tmp_path / "uk", "--name", "uk", "--unencrypted")
        old = Place(tmp_path, NatsServer(), {}).links
        stolen = Files.of(tmp_path, old.certificate.read_text(), old.key.read_text(), old.secret)
        assert old.secret in (uk / "nats.conf").read_text()
        run("certify", uk, "--replace-links")
        (port,) = free_ports(1)
        links = (uk / "links.conf").read_text()
        extra = f'cluster {{ name: inside, listen: "127.0.0.1:{port}"\n{links} }}\n'
        async with NatsServer(name="uk", extra=(uk / "security.conf").read_text() + extra) as server:
            place = Place(tmp_path, server, {"route": port})
            assert place.links.secret in (uk / "nats.conf").read_text()
            for secret in (old.secret, place.links.secret):
                refusal = "tls route handshake error"
                before = place.log().count(refusal)
                async with joining(place, replace(stolen, secret=secret), "route") as (spy, heard):
                    await eventually(lambda: place.log().count(refusal) > before)  # noqa: B023
                    await hears_nothing(place, spy, heard)

    async def test_what_is_given_away_holds_no_secret_of_the_servers(self, place):
        given = [(place.folder / name).read_text() for name in ("member.json", "membership")]
        keys = [place.links.key.read_text(), (place.uk.path / "tls/server.key").read_text()]
        secrets = [place.links.secret, *(key.splitlines()[1] for key in keys)]
        assert not [each for each in secrets if any(each in text for text in given)]
        for name in ("links.conf", "nats.conf", "tls/server.key", "tls/link.key"):
            assert (place.uk.path / name).stat().st_mode & 0o077 == 0

    @pytest.mark.parametrize("several", [False, True])
    async def test_the_configuration_that_init_writes_is_one(self, place, several):
        """As it is, and with what stands there for clusters."""
        text = (place.uk.path / "nats.conf").read_text()
        lines = (
            text.replace("# server_name", "server_name").replace("# cluster", "cluster").replace("#  ", "")
        )
        assert lines.count("\n#") == text.count("\n#") - 3
        (place.uk.path / "tried.conf").write_text(lines if several else text)
        words = (find_binary(), "-t", "-c", place.uk.path / "tried.conf")
        process = await asyncio.create_subprocess_exec(*words, stderr=asyncio.subprocess.PIPE)
        _, said = await process.communicate()
        assert process.returncode == 0, said

    async def test_it_has_no_monitoring_port(self, place):
        (ports,) = place.server._folder.glob("*.ports")
        assert set(json.loads(ports.read_text())) == {"nats", "cluster"}


class TestDomainsBelow:
    """`met` was admitted with `connect` only, and uses its place in the chain of TLS for all that it is worth."""

    def chains(self, place: Place, hosts: tuple[str, ...] = ("127.0.0.1", "localhost")):
        """Certificates for a server at this host, by each key that has a place below the domain's."""
        key, lifetime, chains = Identity.generate(), Lifetime(time(), DAY), {}
        subject = Subject("nats.uk.example", key.public, hosts, Purpose.SERVER)
        between = Subject("x", place.met.service.public, (), Purpose.LINK, 0)
        chains["met"] = certify(subject, place.met.owner, "met", lifetime) + place.met_authority
        chains["met, by an authority of its own"] = (
            certify(subject, place.met.service, "x", lifetime)
            + certify(between, place.met.owner, "met", lifetime)
            + place.met_authority
        )
        service = service_name("uk")
        authority = (place.uk.path / "tls" / "service.pem").read_text()
        chains["service"] = certify(subject, place.owner.service, service, lifetime) + authority
        return key, chains

    @contextlib.asynccontextmanager
    async def false_server(self, folder: Path, key: Identity, chain: str):
        files = Files.of(folder, chain, key.to_pem().decode(), "")
        tls = f'cert_file: "{files.certificate}", key_file: "{files.key}", handshake_first: true'
        async with NatsServer(name="impostor", extra=f"tls {{ {tls} }}\n") as server:
            yield server

    @pytest.mark.parametrize("who", ["met", "met, by an authority of its own", "service"])
    async def test_members_take_no_server_that_one_has_certified(self, place, tmp_path, who):
        key, chains = self.chains(place)
        member = read_credentials(place.folder / "member.json").credentials
        async with self.false_server(tmp_path, key, chains[who]) as server:
            with pytest.raises(NotConnected, match="certificate verify failed"):
                async with Connection(server.url, credentials=member, connect_seconds=2.0):
                    pass

    @pytest.mark.parametrize("who", ["met", "met, by an authority of its own", "service"])
    async def test_not_even_one_that_takes_the_authority_of_members_for_that_of_servers(
        self, place, tmp_path, who
    ):
        """An authority for members says so itself, and the client's TLS library heeds it."""
        key, chains = self.chains(place)
        member = json.loads((place.folder / "member.json").read_text())
        authority = (place.uk.path / "tls" / "member-ca.pem").read_text()
        identity = read_credentials(place.folder / "member.json").credentials.identity
        context = client_context(identity, member["certificate"], authority)
        async with self.false_server(tmp_path, key, chains[who]) as server:
            with pytest.raises(ssl.SSLCertVerificationError, match=r"purpose|permitted|excluded"):
                await greeting(server.url, context)

    async def test_its_members_are_taken(self, place):
        assert b"INFO" in await greeting(place.server.url, self.presenting(place, Subject("x", KEY.public)))

    async def test_no_client_is_taken_that_it_certified_as_a_host(self, place):
        """The server's TLS library heeds what names an authority may certify."""
        subject = Subject("x", KEY.public, ("nats.uk.example",))
        assert await refused(place.server.url, self.presenting(place, subject))

    async def test_no_client_is_taken_that_a_domain_below_it_certified(self, place):
        """It could hand out places in a network that is not its own. The server's library heeds how many may follow."""
        third, service, lifetime = Identity.generate(), Identity.generate(), Lifetime(time(), DAY)
        chain = (
            certify(Subject("m", KEY.public), service, "service", lifetime)
            + certify(Subject("service", service.public, below=0), third, "third", lifetime)
            + certify(Subject("third", third.public, below=1), place.met.owner, "met", lifetime)
            + place.met_authority
        )
        context = client_context(KEY, chain, place.uk.server_authority)
        assert await refused(place.server.url, context)

    def presenting(self, place: Place, subject: Subject) -> ssl.SSLContext:
        lifetime = Lifetime(time(), DAY)
        own = certify(subject, place.met.service, service_name("met"), lifetime)
        chain = own + (place.folder / "met/tls/service.pem").read_text() + place.met_authority
        return client_context(KEY, chain, place.uk.server_authority)


async def greeting(url: str, context: ssl.SSLContext) -> bytes:
    """What a server says first to whoever comes with this."""
    address = urlsplit(url)
    reader, writer = await asyncio.open_connection(address.hostname, address.port, ssl=context)
    try:
        return await reader.readline()
    finally:
        writer.close()


async def refused(url: str, context: ssl.SSLContext) -> bool:
    """Whether the server ends the handshake; by then the client takes it to be over."""
    try:
        return not await greeting(url, context)
    except (ssl.SSLError, ConnectionError):
        return True
