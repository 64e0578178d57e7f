"""Whether decisions are recorded: if told to, or as soon as somebody has set up where they go; and waiting for that."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import random
from collections.abc import AsyncIterator, Callable, Sequence
from dataclasses import dataclass
from itertools import zip_longest

from authz import Decision, Reason, Request
from bus.audit import AuditStore, AuditWriter, Mask
from bus.errors import StoreUnavailable
from bus.nats import Connection
from bus.runtime import in_background
from pep.asking import Terms
from pep.member_name import member_name

LOOK_SECONDS = 0.5
"""How long connecting waits to hear whether there is an audit stream."""
LOOK_AGAIN_SECONDS = 30.0
"""How often it is looked whether there is an audit stream by now."""

_log = logging.getLogger("authfabric.pep")


@dataclass(frozen=True, slots=True)
class AuditRules:
    """How decisions go to the audit stream, beyond whether they do."""

    wait: bool = False
    """Whether a decision is given only when the stream has it; otherwise it is denied at the deadline."""
    mask: Sequence[str] = ()
    """Attributes that are in no record, as patterns: `subject.salary`, `context.*`."""
    always: bool = False
    """Whether the stream is set up if nobody has; who waits needs one in any case."""

    def __post_init__(self) -> None:
        """Raises InvalidRequest for a mask that could hide nothing."""
        self.masking()

    def masking(self) -> Mask | None:
        """What hides attributes, with a secret of its own."""
        return Mask(self.mask) if self.mask else None

    @property
    def wanted(self) -> bool | None:
        """Whether there are records; None: if somebody has set up where they go."""
        return True if self.wait or self.always else None


def audit_rules(audit: bool | AuditRules | None) -> tuple[bool | None, AuditRules]:
    """Whether decisions are recorded, and how."""
    return (audit.wanted, audit) if isinstance(audit, AuditRules) else (audit, AuditRules())


class Keeper:
    """Gives decisions only when the audit stream has them, and denies what it does not take in time."""

    def __init__(self, audit: AuditWriter) -> None:
        self._audit = audit

    def until(self, terms: Terms) -> float:
        """When the time of a question is over that is asked now, by the event loop's clock."""
        return asyncio.get_running_loop().time() + terms[1]

    async def give(self, request: Request, decision: Decision, until: float) -> Decision:
        """The decision, or a denial in its place."""
        (given,) = await self.give_many([request], [decision], until)
        return given

    async def give_many(
        self, requests: Sequence[Request], decisions: Sequence[Decision], until: float
    ) -> list[Decision]:
        """The decisions, in order, or denials in place of those that are not recorded."""
        given = list(decisions)
        asked = [n for n, each in enumerate(given) if each.reason is not Reason.INVALID_REQUEST]
        marks = await self._audit.keep(((requests[n], given[n]) for n in asked), until)
        for n, mark in zip_longest(asked, marks):
            if mark is None or not self._audit.has(mark):
                given[n] = self._instead(requests[n], given[n], mark)
        return given

    def _instead(self, request: Request, decision: Decision, mark: int | None) -> Decision:
        """What is given instead. The stream may take what was decided still: what was given comes after it there."""
        if decision.decided:
            why = f": {self._audit.problem}" if self._audit.problem else ""
            detail = f"the audit stream did not have this decision in time{why}"
            decision = Decision(False, Reason.NOT_RECORDED, detail=detail)
        elif mark is not None:
            return decision
        if mark != 0:  # else it cannot be recorded, and is counted
            self._audit.record(request, decision)
        return decision


@contextlib.asynccontextmanager
async def auditing(
    connection: Connection,
    domain: str,
    name: str,
    wanted: bool | None,
    begin: Callable[[AuditWriter], None],
    again: float = LOOK_AGAIN_SECONDS,
    mask: Mask | None = None,
) -> AsyncIterator[None]:
    """Hand over what records decisions, for the length of a block: now, or as soon as there is an audit stream."""
    async with contextlib.AsyncExitStack() as stack:

        async def start() -> None:
            store = AuditStore(connection, domain, create=wanted is True)
            begin(await stack.enter_async_context(AuditWriter(store, member_name(name), mask=mask)))

        async def look() -> None:
            while True:
                await asyncio.sleep(again * random.uniform(0.75, 1.0))  # so that not all look at once
                if await _is_set_up(connection, domain, unknown=False):
                    break
            _log.warning("there is an audit stream of `%s` now: decisions are recorded from here on", domain)
            await start()

        if wanted or (wanted is None and await _is_set_up(connection, domain, unknown=True)):
            await start()
        elif wanted is None:
            in_background(stack, look)
        yield


async def _is_set_up(connection: Connection, domain: str, *, unknown: bool) -> bool:
    """Whether there is an audit stream; `unknown` if that cannot be told."""
    try:
        async with asyncio.timeout(LOOK_SECONDS):
            return await AuditStore(connection, domain).exists()
    except StoreUnavailable:
        return False
    except TimeoutError:
        if unknown:  # there may be one, and what waits for it is bounded
            _log.warning("it is not known whether decisions are to be audited: they wait until it is")
        return unknown
