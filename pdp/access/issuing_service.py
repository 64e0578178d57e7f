"""Handing out capabilities that last a little, and handing them out again for as long as somebody is entitled.

After Pesonen, Eyers and Bacon, "Access Control in Decentralised Publish/Subscribe Systems", section V: the domain's
policy is by roles, brokers see certificates. When a session loses a role, what was handed out for it is revoked at
once.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
from collections.abc import Callable
from types import TracebackType
from typing import Self

from cachetools import LRUCache

from authz import AuthFabricError, PublicKey
from authz.spki import Certificate, Notice, encode_chain
from bus.access import CAPABILITY_REQUEST, AccessAnswer, refusal
from bus.certificates import Lifetime
from bus.connection import Connection
from bus.envelope import pack
from bus.responder import responding
from bus.revocations import publish_notice
from bus.subjects import RENEW
from pdp.access.domain import Issuer
from pdp.access.entitlement import Enrolment, Entitlement, NotEntitledHere, RoleEntitlement

LIFETIME = 3600.0
SKEW_SECONDS = 60
"""By so much clocks may differ."""
MOST_SESSIONS = 65_536

_log = logging.getLogger("authfabric.access")


class IssuingService:
    """`async with IssuingService(bus, issuer, clock, enrolment)`: answers whoever asks for a capability."""

    def __init__(
        self,
        bus: Connection,
        issuer: Issuer,
        clock: Callable[[], float],
        enrolment: Enrolment | None = None,
        roles: RoleEntitlement | None = None,
        lifetime: float = LIFETIME,
    ) -> None:
        self._bus = bus
        self._issuer = issuer
        self._clock = clock
        self._enrolment = enrolment
        self._roles = roles
        self._lifetime = lifetime
        self._issued: LRUCache[str, tuple[PublicKey, Entitlement, Certificate]] = LRUCache(MOST_SESSIONS)
        self._stack = contextlib.AsyncExitStack()
        self._tasks: set[asyncio.Task[None]] = set()

    async def __aenter__(self) -> Self:
        busy = refusal("too many ask at once")
        enter = self._stack.enter_async_context
        await enter(responding(self._bus, [RENEW], self._answer, busy=busy, queue="access"))
        if self._roles is not None:
            await enter(self._roles.hearing_changes(self._on_change))
        await self._bus.flush()
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        for task in self._tasks:
            task.cancel()
        await self._stack.aclose()

    async def _answer(self, payload: bytes) -> bytes:
        now = self._clock()
        try:
            request, key = CAPABILITY_REQUEST.read(payload)
            if abs(now - request.at) > SKEW_SECONDS:
                raise NotEntitledHere(f"the request is {now - request.at:.0f} s old: are the clocks right?")
            entitled = await self._entitlement(key, request.session, now)
            certificate = self._issue(key, entitled, now)
        except AuthFabricError as error:
            return refusal(str(error))
        if request.session:
            self._issued[request.session] = (key, entitled, certificate)
        return pack(AccessAnswer(encode_chain([certificate])))

    async def _entitlement(self, key: PublicKey, session: str, now: float) -> Entitlement:
        if session:
            if self._roles is None:
                raise NotEntitledHere("capabilities are not given for roles here")
            return await self._roles.entitlement(key, session, now)
        if self._enrolment is None:
            raise NotEntitledHere("capabilities are given for roles only here: name a session")
        return self._enrolment.entitlement(key, now)

    def _issue(self, key: PublicKey, entitled: Entitlement, now: float) -> Certificate:
        end = now + self._lifetime
        end = end if entitled.until is None else min(end, entitled.until)
        lifetime = Lifetime(now - SKEW_SECONDS, end - now + SKEW_SECONDS)
        return self._issuer.grant(key, entitled.authority, lifetime, delegate=entitled.delegate)

    def _on_change(self, sessions: list[str]) -> None:
        """Look again at sessions of which the role service says that they have changed."""
        for session in sessions:
            if session in self._issued:
                task = asyncio.create_task(self._look_again(session))
                self._tasks.add(task)
                task.add_done_callback(self._tasks.discard)

    async def _look_again(self, session: str) -> None:
        key, before, certificate = self._issued[session]
        now = self._clock()
        try:
            if (await self._entitlement(key, session, now)).authority.covers(before.authority):
                return
        except AuthFabricError as error:
            _log.info("the session `%s` gives nothing any more: %s", session, error)
        del self._issued[session]
        notice = Notice.event(self._issuer.service, certificate, int(now))
        try:
            await publish_notice(self._bus, notice)
        except AuthFabricError as error:
            _log.warning("what was given for the session `%s` could not be revoked: %s", session, error)
