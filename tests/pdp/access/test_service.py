"""The bus refuses strangers: attacks on a real server, whose access control service is all that stands in the way."""

from __future__ import annotations

import asyncio
import ssl
from dataclasses import replace
from urllib.parse import urlsplit

import pytest

from authz import Identity
from authz.spki import Capability, encode_chain, parse_authority
from bus import Connection, NotConnected
from bus.identity.credentials import Credentials
from bus.identity.credentials_store import client_context
from bus.wire.subjects import RELEASES, written
from tests.pdp.access.attempts import ASK, may_publish, may_subscribe, refused
from tests.secured import PEP, Secured

pytestmark = pytest.mark.asyncio(loop_scope="module")


class TestStrangers:
    async def test_one_with_nothing_is_refused(self, world):
        """It is not even told that a NATS server is there."""
        await refused(world, None, 0.5)
        address = urlsplit(world.url)
        reader, writer = await asyncio.open_connection(address.hostname, address.port)
        writer.write(b"CONNECT {}\r\nPING\r\n")
        assert b"INFO" not in await reader.read()
        writer.close()

    async def test_one_without_a_certificate_of_the_domain_never_reaches_the_service(self, world, access):
        before = access.refused + access.admitted
        context = ssl.create_default_context(cadata=world.authority)
        await refused(world, Credentials(Identity.generate(), b"", context), 0.5)
        assert access.refused + access.admitted == before

    async def test_one_with_a_certificate_and_no_capability_is_refused(self, world, access):
        before, stranger = access.refused, Identity.generate()
        await refused(world, Credentials(stranger, b"", world.tls(stranger)))
        assert access.refused > before

    async def test_a_server_that_the_domain_did_not_certify_is_refused_by_clients(self, world):
        """All else is right: the server would take the client."""
        other = Secured(world.folder.parent, domain=Identity.generate())
        own = world.credentials(PEP)
        context = client_context(own.identity, world.certificate(own.identity), other.authority)
        assert "certificate" in (await refused(world, replace(own, tls=context))).lower()

    async def test_a_client_with_tls_does_not_speak_to_a_server_without(self, server, world):
        with pytest.raises(NotConnected):
            async with Connection(server.url, credentials=world.credentials(), connect_seconds=0.5):
                pass


class TestChains:
    async def test_a_stolen_capability_without_its_key(self, world):
        stolen, thief = world.credentials(PEP), Identity.generate()
        await refused(world, replace(stolen, identity=thief, tls=world.tls(thief)))

    async def test_a_stolen_capability_and_link_without_its_key(self, world):
        """A server in the middle holds what a client sent it, and its own link; the nonce it passes on is no help."""
        stolen = world.credentials(PEP)
        await refused(world, replace(stolen, tls=world.tls(Identity.generate())))

    @pytest.mark.parametrize("options", [{"seconds": -1}, {"start": 4_000_000_000, "seconds": 3_000_000_000}])
    async def test_an_expired_one_and_one_not_yet_valid(self, world, options):
        await refused(world, world.credentials(PEP, **options))

    async def test_one_that_grants_itself_more(self, world):
        narrow, holder, next_ = (Identity.generate() for _ in range(3))
        wide = parse_authority("resource: *\naction: *")
        chain = [
            world.grant(narrow, PEP, delegate=True),
            Capability(narrow.public, holder.public, False, wide).sign(narrow),
        ]
        async with world.connect(Credentials(holder, encode_chain(chain), world.tls(holder))) as bus:
            assert await may_publish(bus, ASK)
            assert not await may_publish(bus, written(RELEASES, "default"))
            assert not await may_subscribe(bus, "af.ask.any.default.>")
        chain.append(Capability(holder.public, next_.public, False, wide).sign(holder))
        await refused(world, Credentials(next_, encode_chain(chain), world.tls(next_)))

    async def test_ten_thousand_links(self, world):
        credentials = world.credentials(PEP)
        links = [world.grant(credentials.identity, PEP)] * 10_000
        await refused(world, replace(credentials, chain=encode_chain(links)), 0.5)
