"""The Enforcer: what a service asks before it lets anything happen."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator, Callable, Iterable, Sequence
from pathlib import Path
from time import monotonic
from typing import TypeAlias

from authz import Decision, Entity, InvalidRequest, Reason, Request
from authz.request import Attributes, plain_request
from bus.audit import AuditWriter
from bus.credentials import Credentials
from bus.link import connect
from bus.scopes import DEFAULT_DOMAIN
from pep.asker import Asker
from pep.at_least import ask_at_least
from pep.auditing import auditing
from pep.batch import Terms
from pep.errors import AccessDenied
from pep.revocation_watch import RevocationWatch
from pep.secondary import Secondary, learning, secondary_point
from pep.strategy import Strategy
from pep.trust_store import Trust, trusted_roots
from sdp_cache import LeaseRules, Recycling

Ask: TypeAlias = Callable[[Request, Terms | None], asyncio.Future[Decision]]

DEFAULT_SECONDS = 1.0
REVOCATION_SECONDS = 1.0
"""How long connecting waits for a store of revocations that is silent. Nobody is believed before it has been read."""
YIELD_EVERY = 1024
"""After so many answers without asking the event loop has its turn: it keeps the connection and the lease."""
DEFAULT_RECYCLING = Recycling()
DEFAULT_LEASE = LeaseRules()


class Enforcer:
    """Asks the fabric whether a subject may do an action to an object.

    `check` always returns a Decision and never raises because the fabric fails: that is a denial with its reason.
    `require` raises AccessDenied unless allowed. Both raise InvalidRequest for what cannot be asked at all. With
    `at_least` they are answered by the policies of that epoch or newer ones.
    """

    def __init__(
        self, asker: Asker, secondary: Secondary | None = None, audit: AuditWriter | None = None
    ) -> None:
        self.asker = asker
        self.audit = audit
        """What takes note of every decision; None if nothing does."""
        self.secondary = secondary
        """What answers without asking; None if nothing does."""
        self._recalled = 0

    @classmethod
    @contextlib.asynccontextmanager
    async def connect(
        cls,
        url: str | None = None,
        *,
        domain: str = DEFAULT_DOMAIN,
        strategy: Strategy | str = Strategy.HEDGE,
        deadline: float = DEFAULT_SECONDS,
        credentials: Credentials | None = None,
        name: str = "pep",
        connect_seconds: float = 5.0,
        trust: Trust = None,
        recycling: Recycling | None = DEFAULT_RECYCLING,
        lease: LeaseRules = DEFAULT_LEASE,
        snapshot: Path | None = None,
        learn: Sequence[str] = (),
        audit: bool | None = None,
    ) -> AsyncIterator[Enforcer]:
        """Connect to the fabric: `async with Enforcer.connect() as pep`.

        The server is the one given, or named by AUTHFABRIC_NATS_URL, or by the credentials, or on this machine's usual
        port. The credentials are those given, or in the file that AUTHFABRIC_CREDENTIALS names, or those that
        `authfabric up` left for its server. `deadline` is how many seconds a check may take, unless a call says
        otherwise.

        `trust` says whose word counts in the domain, as keys or files of keys; otherwise AUTHFABRIC_TRUST does, or the
        credentials. Only PDPs that one of those keys empowered to decide are believed, whatever else arrives; and
        answers are recycled under the lease while the domain's releases can be followed. Raises NobodyTrusted if
        nothing says whom to believe; `trust=UNVERIFIED` believes whoever answers. `recycling=None` always asks. A
        snapshot that is refused is not used, and the log says why; so does `pep.secondary.load(path)`, by raising.

        `learn` names topics, such as `prefix:/sales` or `roles:clerk,nurse`: what PDPs answer others about those is
        recycled too. With `audit` every decision goes to the audit stream; None means: if somebody has set one up.
        """
        connection = connect(url, name=name, credentials=credentials, connect_seconds=connect_seconds)
        trusted = trusted_roots(trust, connection.credentials, connection.address)
        async with contextlib.AsyncExitStack() as stack:
            enter = stack.enter_async_context
            bus = await enter(connection)
            asker = Asker(bus, domain=domain, strategy=strategy, seconds=deadline, roots=trusted)
            if asker.authenticity is not None:
                watch = await enter(RevocationWatch(bus, asker.authenticity, trusted))
                await watch.first_look(REVOCATION_SECONDS)
            await asker.start()
            stack.push_async_callback(asker.stop)
            secondary = await enter(secondary_point(bus, domain, trusted, recycling, lease))
            if learn:
                await enter(learning(bus, secondary, asker.authenticity, domain, learn))
            pep = cls(asker, secondary)
            await enter(auditing(bus, domain, name, audit, pep._record_to))
            if snapshot is not None and secondary is not None:
                await secondary.try_to_load(snapshot, connect_seconds)
            yield pep

    def _record_to(self, audit: AuditWriter) -> None:
        self.audit = audit

    async def check(
        self,
        subject: str | Entity | Request,
        object: str | Entity = "",
        action: str | Entity = "",
        *,
        context: Attributes | None = None,
        deadline: float | None = None,
        strategy: Strategy | str | None = None,
        at_least: int = 0,
    ) -> Decision:
        """Ask one question, given as a Request or as subject, object and action."""
        asker, secondary = self.asker, self.secondary
        terms = None if deadline is None and strategy is None else asker.terms(deadline, strategy)
        plain = plain_request(subject, object, action) if type(subject) is str and not context else None
        if plain is not None and secondary is None and not at_least:
            request, decision = plain, await asker.ask(plain, terms)  # the short way, for who always asks
        else:
            request = plain or _request(subject, object, action, context)
            known = None if secondary is None else secondary.recall(request, at_least)
            if known is None:
                decision = await self._ask(asker.decide, request, terms, at_least)
            else:
                decision = known
                self._recalled += 1
                if self._recalled >= YIELD_EVERY:
                    await self._yield()
        if self.audit is not None:
            self.audit.record(request, decision)
        return decision

    async def require(
        self,
        subject: str | Entity | Request,
        object: str | Entity = "",
        action: str | Entity = "",
        *,
        context: Attributes | None = None,
        deadline: float | None = None,
        strategy: Strategy | str | None = None,
        at_least: int = 0,
    ) -> Decision:
        """Like `check`, but raise AccessDenied unless the answer is allow."""
        decision = await self.check(
            subject, object, action, context=context, deadline=deadline, strategy=strategy, at_least=at_least
        )
        if not decision.allowed:
            raise AccessDenied(_request(subject, object, action, context), decision)
        return decision

    async def check_many(
        self,
        requests: Iterable[Request | tuple[str, str, str]],
        *,
        deadline: float | None = None,
        strategy: Strategy | str | None = None,
        at_least: int = 0,
    ) -> list[Decision]:
        """Ask many questions at once; the answers come in the same order.

        One that cannot be asked at all is denied, with a detail that names its field; the others are asked.
        """
        asked = [r if isinstance(r, Request) else Request.of(*r) for r in requests]
        terms, secondary = self.asker.terms(deadline, strategy), self.secondary
        known = [secondary.recall(r, at_least) if secondary else None for r in asked]
        unknown = [request for request, decision in zip(asked, known, strict=True) if decision is None]
        answers = iter(await self._ask_all(unknown, terms, at_least))
        decisions = [next(answers) if decision is None else decision for decision in known]
        self._recalled += len(asked) - len(unknown)
        if self._recalled >= YIELD_EVERY:
            await self._yield()
        if self.audit is not None:
            for request, decision in zip(asked, decisions, strict=True):
                if decision.reason is not Reason.INVALID_REQUEST:  # it could not be read back either
                    self.audit.record(request, decision)
        return decisions

    async def _yield(self) -> None:
        self._recalled = 0
        await asyncio.sleep(0)

    async def _ask_all(
        self, requests: list[Request], terms: Terms | None, at_least: int
    ) -> Iterable[Decision]:
        if self.secondary is None and not at_least:  # then none of them needs a task of its own
            return await asyncio.gather(*[self._decide(request, terms) for request in requests])
        return await asyncio.gather(*[self._ask(self._decide, r, terms, at_least) for r in requests])

    async def _ask(self, ask: Ask, request: Request, terms: Terms | None, at_least: int) -> Decision:
        """Ask the PDPs, and learn from the answer. None counts that is older than the releases known here."""
        secondary = self.secondary
        strategy, seconds = terms or self.asker.usual
        deadline = monotonic() + seconds
        stamp = secondary.epoch if secondary is not None else 0
        decision = await ask(request, terms)
        at_least = max(at_least, secondary.epoch if secondary is not None else 0)
        if decision.decided and decision.epoch < at_least:
            decision = await ask_at_least(
                lambda r, left: ask(r, (strategy, left)), request, deadline - monotonic(), at_least
            )
        return decision if secondary is None else secondary.settle(request, decision, stamp, at_least)

    def _decide(self, request: Request, terms: Terms | None) -> asyncio.Future[Decision]:
        try:
            return self.asker.decide(request, terms)
        except InvalidRequest as error:
            answer: asyncio.Future[Decision] = self.asker.loop.create_future()
            answer.set_result(Decision(False, Reason.INVALID_REQUEST, detail=str(error)))
            return answer


def _request(
    subject: str | Entity | Request, thing: str | Entity, action: str | Entity, context: Attributes | None
) -> Request:
    return subject if isinstance(subject, Request) else Request.of(subject, thing, action, context)
