"""Revocation notices that members submit: whose are stored, and how many.

A notice is stored if its issuer's word counts by itself, if its submitter is the issuer, or if a chain from an owner
shows that the issuer could take back something. Whoever may pass on what it holds can make up keys and empower them,
so what each submits is counted, and the notices of owners are not. Invariant: what one submits takes no room from
another. Of certificates that have expired nothing needs to be known, so their notices are taken out again.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Callable
from time import monotonic

from authz import AuthFabricError
from authz.spki import MalformedCertificate, Notice
from authz.spki.capability import decode
from authz.spki.revocation import MAX_NOTICE_BYTES
from bus.feeds import publish_notice
from bus.nats import Connection, unpack_revocation
from bus.stores import RecordStore
from bus.wire import subjects
from pdp.access.control import AccessControl

SPENT_SECONDS = 86_400.0
"""How long a notice is kept after all that it takes back has expired, for readers whose clocks are behind; and then as
long again by the monotonic clock, so that a clock that is ahead for a while takes nothing out."""

_REMEDY = "submit it with credentials of the issuer's own key, or with a chain from an owner that leads to the issuer"


class NoticeRefused(AuthFabricError):
    """A notice that is not stored: `problem` says why."""

    def __init__(self, notice: Notice, problem: str) -> None:
        super().__init__(f"the revocation by `{notice.issuer}` {problem}")
        self.issuer = notice.issuer
        self.problem = problem


class NoticeStore:
    """Stores what members submit, by what the access control goes by."""

    def __init__(self, connection: Connection, control: AccessControl, clock: Callable[[], float]) -> None:
        self._connection = connection
        self._control = control
        self._clock = clock
        self._counting = asyncio.Lock()
        self._spent_since: dict[str, float] = {}
        """When each notice was found to be spent, by the monotonic clock."""

    async def take(self, submitter: str, payload: bytes) -> Notice:
        """Store what is submitted from a place; returns it. Raises an AuthFabricError that says why it is not."""
        request = unpack_revocation(payload)
        notice = decode(request.notice, Notice, MAX_NOTICE_BYTES)
        notice.verify()
        if self._control.is_root(notice.issuer):
            await publish_notice(self._connection, notice)
            return notice
        self._check_size(notice, len(request.notice))
        self._check_issuer(notice, submitter, request.chain)
        async with self._counting:
            await publish_notice(self._connection, notice, submitter, self._control.rules.notices)
        return notice

    async def sweep(self) -> None:
        """Take notices out that can no longer matter. Raises StoreUnavailable."""
        store, spent, now = RecordStore(self._connection, subjects.REVOCATIONS), set[str](), monotonic()
        latest = self._clock() - SPENT_SECONDS
        async for record in store.read(0):
            with contextlib.suppress(MalformedCertificate):
                if record.data and decode(record.data, Notice, MAX_NOTICE_BYTES).spent(latest):
                    spent.add(record.name)
        self._spent_since = {name: self._spent_since.get(name, now) for name in spent}
        for name in [name for name, since in self._spent_since.items() if now - since >= SPENT_SECONDS]:
            await store.erase(name)

    def _check_size(self, notice: Notice, size: int) -> None:
        most = self._control.rules.notice_bytes
        if size > most:
            raise NoticeRefused(notice, f"has {size} bytes, and at most {most} are stored")

    def _check_issuer(self, notice: Notice, submitter: str, chain: bytes) -> None:
        if submitter == subjects.place(notice.issuer) or self._control.verifier.revocations.heard_of(
            notice.issuer
        ):
            return
        try:
            self._control.check_revoker(notice.issuer, chain, self._clock())
        except AuthFabricError as error:
            why = str(error) if chain else "its issuer is no owner here"
            problem = f"is not stored: {why}; {_REMEDY}"
            raise NoticeRefused(notice, problem) from None
