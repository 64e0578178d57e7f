"""Capabilities that last a little: renewed without losing a request, for as long as somebody is entitled to them."""

from __future__ import annotations

import asyncio
import contextlib
from dataclasses import replace
from functools import partial
from time import time

import msgspec
import pytest
from typer.testing import CliRunner

from authfabric.cli import app
from authz import Identity
from authz.spki import Notice, decode_chain, parse_authority, parse_chain, unparse_chain
from bus.errors import NotConnected
from bus.feeds.revocations import publish_notice
from bus.identity.certificates import Lifetime, Subject, certificate_end
from bus.identity.certificates import certify as certify_for
from bus.identity.credentials import Credentials
from bus.identity.credentials_store import (
    VARIABLE,
    CredentialsFile,
    chain_end,
    client_context,
    read_credentials,
    write_credentials,
)
from bus.identity.keystore import create_key, read_private
from bus.nats.access_client import CAPABILITY_REQUEST, AccessRefused, CapabilityRequest, ask_capability
from bus.services.role_client import RoleClient
from bus.wire.subjects import RENEW
from pdp.access import AccessRules
from pdp.access.domain import Issuer
from pdp.access.entitlement import Enrolment, RoleEntitlement
from pdp.access.issuing_service import IssuingService
from pdp.bundle.bundle import Bundle, File
from pdp.bundle.policy_set import PolicySet
from pdp.sessions.role_service import RoleService, RoleServing
from tests.secured import PDP, PEP, secured
from tests.waiting import eventually

ASK = "af.ask.any.default.alice.=.x.read"


@contextlib.asynccontextmanager
async def issuing(folder, lifetime: float = 4.0):
    """A domain whose list of members is a dictionary."""
    members = {}
    async with secured(folder) as (world, access):
        issuer = Issuer("domain", world.service)
        async with IssuingService(
            access.member,
            issuer,
            time,
            access.revocations,
            Enrolment(lambda: members, issuer.service.public),
            lifetime=lifetime,
        ):
            yield world, members


async def test_a_short_capability_is_renewed_and_no_request_is_lost(tmp_path):
    async with issuing(tmp_path) as (world, members), world.connect(PDP) as pdp:
        await pdp.listen("af.ask.any.default.>", lambda s, reply, data, h: pdp.send(reply, data))
        await pdp.flush()
        members["pep"] = world.grant(holder := Identity.generate(), PEP)
        async with world.connect(world.credentials(PEP, holder, seconds=4)) as pep:
            first = pep.credentials
            asked = 0
            while pep.credentials is first or asked < 50:
                assert await pep.ask(ASK, b"%d" % asked, 5.0) == b"%d" % asked
                asked += 1
            assert decode_chain(pep.credentials.chain)[0].open().validity.end < time() + 5
            assert await pep.ask(ASK, b"last", 5.0) == b"last"
            assert pep.reconnects == 0


async def test_whoever_is_struck_off_is_out_when_it_ends(tmp_path):
    async with issuing(tmp_path) as (world, members):
        members["pep"] = world.grant(holder := Identity.generate(), PEP)
        credentials = world.credentials(PEP, holder, seconds=3)
        async with world.connect(credentials) as pep:
            members.clear()
            with pytest.raises(AccessRefused, match="no member"):
                await ask_capability(pep, time())
            await eventually(lambda: not pep.ready)
        with pytest.raises(NotConnected):
            async with world.connect(credentials):
                pass


async def test_what_is_handed_out_is_what_was_enrolled(tmp_path):
    async with issuing(tmp_path) as (world, members):
        members["pdp"] = world.grant(holder := Identity.generate(), PDP)
        async with world.connect(world.credentials(PEP, holder)) as bus:
            (link,) = decode_chain(await ask_capability(bus, time()))
            assert link.open().authority == parse_authority(PDP)
            assert link.open().subject == holder.public


async def test_an_old_request_and_a_forged_one_are_refused(tmp_path):
    async with issuing(tmp_path) as (world, members):
        members["pep"] = world.grant(holder := Identity.generate(), PEP)
        async with world.connect(world.credentials(PEP, holder)) as bus:
            with pytest.raises(AccessRefused, match="clocks"):
                await ask_capability(bus, time() - 3600)
            forged = bytearray(CAPABILITY_REQUEST.sign(CapabilityRequest(time()), holder))
            forged[-1] ^= 1
            assert b"signature" in await bus.ask(RENEW, bytes(forged), 5.0)


DETECTIVE, ROLE_SERVICE = Identity.generate(), Identity.generate()
RULES = """
[principal(u)] |- user(u)
user(u)* |- detective(u)
detective(u) |- capability(connect, "police")
detective(u) |- capability(subscribe, "uk.gov.pito.Numberplate") where [event.officer == u]
"""
POLICIES = PolicySet.read(
    Bundle.of(
        [
            File("r.oasis", RULES),
            File("p.entities.yaml", f"subjects: {{smith: {{key: {DETECTIVE.public}}}}}"),
        ]
    )
)


async def test_an_active_role_becomes_a_capability_that_ends_with_the_session(tmp_path):
    provider = "network: *\naction: connect|provide"
    async with secured(tmp_path) as (world, access), world.connect(provider) as own:
        assert POLICIES.roles is not None
        roles = RoleEntitlement(access.member, ROLE_SERVICE.public, POLICIES.roles.rulebook)
        issuing = IssuingService(
            access.member, Issuer("met", world.service), time, access.revocations, roles=roles
        )
        async with RoleService(own, RoleServing(ROLE_SERVICE, lease=60.0)) as service, issuing:
            service.adopt(POLICIES, 1)
            async with world.connect(world.credentials(PEP, DETECTIVE)) as bus:
                session = await RoleClient(bus, DETECTIVE, seconds=20.0).begin("smith")
                with pytest.raises(AccessRefused, match="no role active"):
                    await ask_capability(bus, time(), session.id)
                await session.activate("user")
                await session.activate("detective")
                chain = await ask_capability(bus, time(), session.id)
                granted = decode_chain(chain)[0].open().authority
                assert granted == parse_authority(
                    "network: police\naction: connect\n"
                    'type: uk.gov.pito.Numberplate\naction: subscribe\nwhere: event.officer == "smith"'
                )
                async with world.connect(Credentials(DETECTIVE, chain, world.tls(DETECTIVE))) as police:
                    assert police.ready
                    await session.end()
                    await eventually(lambda: not police.ready)
                assert bus.ready


async def test_the_command_writes_what_the_roles_of_a_session_give(tmp_path, monkeypatch):
    provider = "network: *\naction: connect|provide"
    async with secured(tmp_path) as (world, access), world.connect(provider) as own:
        roles = RoleEntitlement(access.member, ROLE_SERVICE.public, POLICIES.roles.rulebook)
        issuing = IssuingService(
            access.member, Issuer("met", world.service), time, access.revocations, roles=roles
        )
        async with RoleService(own, RoleServing(ROLE_SERVICE, lease=60.0)) as service, issuing:
            service.adopt(POLICIES, 1)
            holder = Identity.generate()  # somebody else's link: the session's key signs the request
            capability = unparse_chain([world.grant(holder, PEP)])
            pem, certificate = holder.to_pem().decode(), world.certificate(holder)
            write_credentials(
                file := tmp_path / "pep.json",
                CredentialsFile(world.url, pem, capability, certificate, world.authority),
            )
            monkeypatch.setenv(VARIABLE, str(file))
            create_key(tmp_path / "smith.key", DETECTIVE, None)
            async with world.connect(world.credentials(PEP, DETECTIVE)) as bus:
                session = await RoleClient(bus, DETECTIVE, seconds=20.0).begin("smith")
                words = ["roles", "capability", "--key", str(tmp_path / "smith.key"), "--session", session.id]
                words += ["--out", str(tmp_path / "smith.cap")]
                refused = await asyncio.to_thread(CliRunner().invoke, app, words)
                assert refused.exit_code == 3
                assert "no role active" in refused.stderr
                await session.activate("user")
                await session.activate("detective")
                given = await asyncio.to_thread(CliRunner().invoke, app, words)
                assert given.exit_code == 0, given.output
            (link,) = parse_chain((tmp_path / "smith.cap").read_text())
            assert link.open().subject == DETECTIVE.public
            assert 'where: event.officer == "smith"' in given.stdout


@contextlib.asynccontextmanager
async def on_duty(folder):
    """A detective whose role gave a capability, and what it gave; and how to start more who give."""
    provider = "network: *\naction: connect|provide"
    async with secured(folder) as (world, access), world.connect(provider) as own:

        def issuing(service, clock=time):
            roles = RoleEntitlement(service.member, ROLE_SERVICE.public, POLICIES.roles.rulebook)
            return IssuingService(
                service.member, Issuer("met", world.service), clock, service.revocations, roles=roles
            )

        async with RoleService(own, RoleServing(ROLE_SERVICE, lease=60.0)) as service:
            service.adopt(POLICIES, 1)
            first = issuing(access)
            async with first, world.connect(world.credentials(PEP, DETECTIVE)) as bus:
                session = await RoleClient(bus, DETECTIVE, seconds=20.0).begin("smith")
                for role in ("user", "detective"):
                    await session.activate(role)
                chain = await ask_capability(bus, time(), session.id)
                await first.__aexit__(None, None, None)
                async with world.connect(Credentials(DETECTIVE, chain, world.tls(DETECTIVE))) as police:
                    yield police, session, partial(issuing, access)


async def test_a_detective_whose_key_is_revoked_loses_what_a_role_gave_and_is_given_nothing_more(tmp_path):
    async with on_duty(tmp_path) as (police, session, issuing), issuing() as replica:
        request = CAPABILITY_REQUEST.sign(CapabilityRequest(time(), session.id), DETECTIVE)
        revocation = Notice.of_key(replica._issuer.service, DETECTIVE.public, int(time()))
        await publish_notice(replica._bus, revocation)
        await eventually(lambda: not police.ready)
        assert b"was revoked" in await replica._bus.ask(RENEW, request, 5.0)


async def test_whichever_replica_hears_of_it_revokes_what_another_gave(tmp_path):
    async with on_duty(tmp_path) as (police, session, issuing), issuing():
        assert police.ready
        await session.end()
        await eventually(lambda: not police.ready)


async def test_a_replica_whose_clock_is_behind_revokes_what_another_gave(tmp_path):
    """To its clock the capability has not begun; it must not be struck off as if it had ended."""
    async with on_duty(tmp_path) as (police, session, issuing), issuing(lambda: time() - 600):
        await session.end()
        await eventually(lambda: not police.ready)


async def test_a_replica_that_starts_later_revokes_what_should_have_been(tmp_path):
    async with on_duty(tmp_path) as (police, session, issuing):
        await session.end()
        assert police.ready
        async with issuing():
            await eventually(lambda: not police.ready)


async def test_a_replica_that_starts_leaves_what_its_session_still_gives(tmp_path):
    async with on_duty(tmp_path) as (police, _, issuing), issuing() as second:
        await eventually(lambda: second.reviewed)
        assert (police.ready, police.reconnects) == (True, 0)


async def test_a_tls_certificate_is_renewed_before_it_ends_and_no_request_is_lost(tmp_path, monkeypatch):
    monkeypatch.setattr("bus.nats.renewal.SHARE", 0.1)  # soon, with time to spare on a slow machine
    members = {}
    async with secured(tmp_path, rules=AccessRules(session_seconds=20.0)) as (world, access):

        def certify(key, lifetime):
            return certify_for(Subject("member", key), world.domain, "domain", lifetime)

        issuing = IssuingService(
            access.member,
            Issuer("domain", world.service),
            time,
            access.revocations,
            Enrolment(lambda: members, world.service.public),
            certify=certify,
        )
        async with issuing, world.connect(PDP) as pdp:
            await pdp.listen("af.ask.any.default.>", lambda s, reply, data, h: pdp.send(reply, data))
            await pdp.flush()
            members["pep"] = world.grant(holder := Identity.generate(), PEP)
            short = certify_for(Subject("member", holder.public), world.domain, "domain", Lifetime(time(), 8))
            given = replace(
                world.credentials(PEP, holder), tls=client_context(holder, short, world.authority)
            )
            async with world.connect(replace(given, tls_until=certificate_end(short))) as pep:
                asked = 0
                while time() < certificate_end(short) or asked < 50:
                    assert await pep.ask(ASK, b"%d" % asked, 5.0) == b"%d" % asked
                    asked += 1
                await pep.renew()  # by the old certificate there would be no connection any more
                assert await pep.ask(ASK, b"last", 5.0) == b"last"
                assert pep.reconnects == 0
            with pytest.raises(NotConnected):
                async with world.connect(given):
                    pass


async def test_what_is_renewed_is_kept_in_the_file_it_came_from(tmp_path, monkeypatch):
    """So whoever starts from the file when the first certificate has ended is let in."""
    monkeypatch.setattr(
        "bus.nats.renewal.SHARE", 0.01
    )  # soon, with all the time that a slow machine may take
    members = {}
    async with secured(tmp_path, rules=AccessRules(session_seconds=100.0)) as (world, access):
        certify = lambda key, life: certify_for(Subject("member", key), world.domain, "domain", life)  # noqa: E731
        issuer = Issuer("domain", world.service)
        async with IssuingService(
            access.member,
            issuer,
            time,
            access.revocations,
            Enrolment(lambda: members, world.service.public),
            certify=certify,
        ):
            members["pep"] = granted = world.grant(holder := Identity.generate(), PEP)
            short = certify(holder.public, Lifetime(time(), 100))
            capability = unparse_chain([granted])
            given = CredentialsFile(world.url, holder.to_pem().decode(), capability, short, world.authority)
            write_credentials(file := tmp_path / "pep.json", given)
            async with world.connect(read_credentials(file).credentials):
                await eventually(lambda: short not in file.read_text().replace("\\n", "\n"))
            kept = msgspec.json.decode(read_private(file), type=CredentialsFile)
            assert certificate_end(kept.certificate) > certificate_end(short)
            assert chain_end(parse_chain(kept.capability)) >= chain_end([granted])
            assert (kept.key, kept.url, kept.authorities) == (given.key, given.url, given.authorities)
            async with world.connect(read_credentials(file).credentials) as again:
                assert again.ready


async def test_a_session_is_of_no_use_to_another_key(tmp_path):
    provider = "network: *\naction: connect|provide"
    async with secured(tmp_path) as (world, access), world.connect(provider) as own:
        assert POLICIES.roles is not None
        roles = RoleEntitlement(access.member, ROLE_SERVICE.public, POLICIES.roles.rulebook)
        issuing = IssuingService(
            access.member, Issuer("met", world.service), time, access.revocations, roles=roles
        )
        async with RoleService(own, RoleServing(ROLE_SERVICE, lease=60.0)) as service, issuing:
            service.adopt(POLICIES, 1)
            async with (
                world.connect(world.credentials(PEP, DETECTIVE)) as bus,
                world.connect(PEP) as thief,
            ):
                session = await RoleClient(bus, DETECTIVE, seconds=20.0).begin("smith")
                await session.activate("user")
                with pytest.raises(AccessRefused, match="no session"):
                    await ask_capability(thief, time(), session.id)
