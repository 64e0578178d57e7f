"""Issuing short-lived capabilities, and renewing them for as long as their holder is entitled.

After Pesonen, Eyers and Bacon, "Access Control in Decentralised Publish/Subscribe Systems", section V: the domain's
policy is by roles, brokers see certificates. When a session loses a role, what was handed out for it is revoked at
once, by every replica that hears of it; a replica that starts looks at all sessions for which something was.

Nothing is issued to a key that was revoked, nor while it cannot be told who was: the store of revocations is read
before each answer.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
from collections.abc import Awaitable, Callable
from typing import Self, TypeAlias

from authz import AuthFabricError, PublicKey
from authz.spki import Certificate, Notice, Revocations, encode_chain
from bus.errors import BusError
from bus.feeds import publish_notice
from bus.identity import Lifetime
from bus.nats import CAPABILITY_REQUEST, AccessAnswer, Connection, refusal
from bus.runtime import in_background
from bus.services import responding
from bus.wire import pack, subjects
from pdp.access.domain import YEAR, Issuer
from pdp.access.entitlement import Enrolment, Entitlement, NotEntitledHere, RoleEntitlement
from pdp.access.ledger_store import Ledger

ReadRevocations: TypeAlias = Callable[[], Awaitable[Revocations]]
"""Reads all revocations. Raises StoreUnavailable."""
Certify: TypeAlias = Callable[[PublicKey, Lifetime], str]
"""Makes a TLS certificate for a member, with its chain."""

LIFETIME = 3600.0
SKEW_SECONDS = 60
"""How far the clocks of members and service may differ."""
AGAIN_SECONDS = 1.0
"""Seconds before the state of a session is asked for again."""

_log = logging.getLogger("authfabric.access")


class IssuingService:
    """`async with IssuingService(bus, issuer, clock, revocations)`: answers whoever asks for a capability."""

    def __init__(
        self,
        bus: Connection,
        issuer: Issuer,
        clock: Callable[[], float],
        revocations: ReadRevocations,
        enrolment: Enrolment | None = None,
        roles: RoleEntitlement | None = None,
        lifetime: float = LIFETIME,
        certify: Certify | None = None,
    ) -> None:
        """Members are given TLS certificates too, if there is something to make them."""
        self._bus = bus
        self._issuer = issuer
        self._clock = clock
        self._revocations = revocations
        self._enrolment = enrolment
        self._roles = roles
        self._lifetime = lifetime
        self._certify = certify
        self._ledger = Ledger(bus)
        self.reviewed = 0
        """How many capabilities for sessions were looked at again."""
        self._changed: asyncio.Queue[tuple[str, bool]] = asyncio.Queue()
        self._stack = contextlib.AsyncExitStack()

    async def __aenter__(self) -> Self:
        busy = refusal("too many ask at once")
        enter = self._stack.enter_async_context
        await enter(responding(self._bus, [subjects.RENEW], self._answer, busy=busy, queue="access"))
        if self._roles is not None:
            await enter(self._roles.hearing_changes(self._on_change))
            for work in (self._look_at_all, self._look_again):
                in_background(self._stack, work)
        await self._bus.flush()
        return self

    async def __aexit__(self, *_: object) -> None:
        await self._stack.aclose()

    async def _answer(self, payload: bytes) -> bytes:
        now = self._clock()
        try:
            request, key = CAPABILITY_REQUEST.read(payload)
            if abs(now - request.at) > SKEW_SECONDS:
                raise NotEntitledHere(f"the request is {now - request.at:.0f} s old: are the clocks right?")
            entitled = await self._entitlement(key, request.session, now)
            certificate = self._issue(key, entitled, now)
            if request.session:
                await self._ledger.note(request.session, certificate)
        except AuthFabricError as error:
            return refusal(str(error))
        tls = "" if request.session else self._tls(key, entitled, now)
        return pack(AccessAnswer(encode_chain([certificate]), certificate=tls))

    async def _entitlement(self, key: PublicKey, session: str, now: float) -> Entitlement:
        revocations = await self._revocations()
        if revocations.has_revoked(self._issuer.service.public, key):
            raise NotEntitledHere(f"`{key}` was revoked: a member that is to come back needs a new key")
        if session:
            if self._roles is None:
                raise NotEntitledHere("capabilities are not given for roles here")
            return await self._roles.entitlement(key, session, now)
        if self._enrolment is None:
            raise NotEntitledHere("capabilities are given for roles only here: name a session")
        return self._enrolment.entitlement(key, now, revocations)

    def _issue(self, key: PublicKey, entitled: Entitlement, now: float) -> Certificate:
        end = now + self._lifetime
        end = end if entitled.until is None else min(end, entitled.until)
        lifetime = Lifetime(now - SKEW_SECONDS, end - now + SKEW_SECONDS)
        return self._issuer.grant(key, entitled.authority, lifetime, delegate=entitled.delegate)

    def _tls(self, key: PublicKey, entitled: Entitlement, now: float) -> str:
        """It lasts as long as its holder is a member: alone it opens nothing."""
        if self._certify is None:
            return ""
        return self._certify(key, Lifetime(now, YEAR if entitled.until is None else entitled.until - now))

    def _on_change(self, sessions: list[str]) -> None:
        """Look again at sessions of which the role service says that they have changed."""
        for session in sessions:
            self._changed.put_nowait((session, False))

    async def _look_at_all(self) -> None:
        """Sessions may have changed while nobody was there to hear it."""
        while True:
            with contextlib.suppress(BusError):
                for session in await self._ledger.sessions():
                    self._changed.put_nowait((session, True))
                return
            await asyncio.sleep(AGAIN_SECONDS)

    async def _look_again(self) -> None:
        while True:
            session, patient = await self._changed.get()
            try:
                for certificate in await self._ledger.of(session):
                    await self._review(session, certificate, patient)
                    self.reviewed += 1
            except BusError as error:
                _log.warning("what was given for the session `%s` is not reviewed yet: %s", session, error)
                again = (session, patient)
                asyncio.get_running_loop().call_later(AGAIN_SECONDS, self._changed.put_nowait, again)

    async def _review(self, session: str, certificate: Certificate, patient: bool) -> None:
        """Take a capability back unless its session still gives it. Raises BusError if the store is away.

        Silence of a role service that has just spoken of a change counts as no; otherwise, if patient, it is asked
        again.
        """
        capability, now = certificate.unverified(), self._clock()
        end = capability.validity.end
        if end is None or now < end:  # where this clock is behind, it is valid elsewhere before it is here
            try:
                entitled = await self._entitlement(capability.subject, session, now)
                if entitled.authority.covers(capability.authority):
                    return
            except AuthFabricError as error:
                if patient and isinstance(error, BusError):
                    raise
                _log.info("the session `%s` gives nothing any more: %s", session, error)
            await publish_notice(self._bus, Notice.event(self._issuer.service, certificate, int(now)))
        await self._ledger.strike(session, certificate)
