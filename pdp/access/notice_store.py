"""Revocation notices that members submit: whose are stored, and how many.

A notice is stored if its issuer's word counts by itself, if its submitter is the issuer, or if a chain from an owner
shows that the issuer could take back something. Whoever may pass on what it holds can make up keys and empower them,
so what each submits is counted, and the notices of owners are not. Invariant: what one submits takes no room from
another.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable

from authz import AuthFabricError
from authz.spki import Notice
from authz.spki.capability import decode
from authz.spki.revocation import MAX_NOTICE_BYTES
from bus.access import unpack_revocation
from bus.connection import Connection
from bus.revocations import publish_notice
from bus.subjects import place
from pdp.access.control import AccessControl

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

    def _check_size(self, notice: Notice, size: int) -> None:
        most = self._control.rules.notice_bytes
        if size > most:
            raise NoticeRefused(notice, f"has {size} bytes, and at most {most} are stored")

    def _check_issuer(self, notice: Notice, submitter: str, chain: bytes) -> None:
        if submitter == place(notice.issuer) or self._control.verifier.revocations.heard_of(notice.issuer):
            return
        try:
            self._control.check_revoker(notice.issuer, chain, self._clock())
        except AuthFabricError as error:
            why = str(error) if chain else "its issuer is no owner here"
            problem = f"is not stored: {why}; {_REMEDY}"
            raise NoticeRefused(notice, problem) from None
