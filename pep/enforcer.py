"""The Enforcer: what a service asks before it lets anything happen."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncGenerator, AsyncIterator, Awaitable, Callable, Iterable, Sequence
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Unpack

from authz import Decision, Entity, InvalidRequest, Reason, Request
from authz.explanation import Explanation, outline
from authz.request import Attributes, plain_request
from authz.scope import Scope, ScopeUnavailable
from bus.identity import Credentials
from bus.nats import connect
from bus.runtime import TRACES
from bus.wire import DEFAULT_DOMAIN, ScopeQuery, SearchPage, SearchQuery
from pep.asking import Asker, Asking, Strategy, Terms, check_encodable, decide_at_least
from pep.auditing import AuditRules, Keeper, audit_rules, auditing
from pep.errors import AccessDenied, NotOnBus
from pep.obligations import AnyHandler, Obligations
from pep.options import CheckOptions, as_entity, as_request
from pep.outcomes import Outcomes
from pep.recycling import recycling_point
from pep.trust import RevocationWatch, Trust, trusted_roots
from pep.watching import WATCH_SECONDS, watch_decision
from sdp_cache import LeaseRules, Recycling

if TYPE_CHECKING:
    from bus.audit import AuditWriter
    from pep.local import Policies
    from pep.secondary import Secondary

DEFAULT_SECONDS = 1.0
SEARCH_SECONDS = 10.0
"""How long one page of a search may take."""
EXPLAIN_SECONDS = 1.0
EXPLAIN = "explain"
"""The action that lets somebody see the policies behind a decision."""
REVOCATION_SECONDS = 1.0
"""How long connecting waits for a store of revocations that is silent. Nobody is believed before it has been read."""
SPAN = "authfabric.check"
DEFAULT_RECYCLING = Recycling()
DEFAULT_LEASE = LeaseRules()


class Enforcer:
    """Asks the fabric whether a subject may do an action to an object.

    `check` always returns a Decision and never raises because the fabric fails: that is a denial with its reason.
    `require` raises AccessDenied unless allowed. Both raise InvalidRequest for what cannot be asked at all. With
    `at_least` they are answered by the policies of that epoch or newer ones.
    """

    def __init__(
        self, asking: Asking, secondary: Secondary | None = None, audit: AuditWriter | None = None
    ) -> None:
        self._asking = asking
        self.audit = audit
        """What takes note of every decision; None if nothing does."""
        self._keeper: Keeper | None = None
        """What waits until decisions are recorded; None if nobody does."""
        self.secondary = secondary
        """What answers without asking; None if nothing does."""
        self.outcomes = Outcomes() if secondary is None else secondary.outcomes
        """What was decided, and how."""
        self.obligations = Obligations()
        self.on_release: list[Callable[[], None]] = []
        """Called when other policies are in force, as far as is known here, or a PDP may have been revoked."""

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
        snapshot: Path | str | None = None,
        learn: Sequence[str] = (),
        audit: bool | AuditRules | None = None,
    ) -> AsyncIterator[Enforcer]:
        """Connect to the fabric: `async with Enforcer.connect() as pep`.

        The server is the one given, or named by AUTHFABRIC_NATS_URL, or by the credentials, or run on this machine by
        `authfabric up`, or on the usual port. The credentials are those given, or in the file that
        AUTHFABRIC_CREDENTIALS names, or those that `authfabric up` left for its server. `deadline` is how many seconds
        a check may take, unless a call says otherwise.

        `trust` says whose word counts in the domain, as keys or files of keys; otherwise AUTHFABRIC_TRUST does, the
        credentials, or the `authfabric up` that runs there. Only PDPs that one of those keys empowered to decide are
        believed, whatever else arrives; and answers are recycled under the lease while the domain's releases can be
        followed. Raises NobodyTrusted if nothing says whom to believe; `trust=UNVERIFIED` believes whoever answers.
        `recycling=None` always asks. A snapshot that is refused is not used, and the log says why; so does
        `pep.secondary.load(path)`, by raising.

        `learn` names topics, such as `prefix:/sales` or `roles:clerk,nurse`: what PDPs answer others about those is
        recycled too. With `audit` every decision goes to the audit stream; None means: if somebody has set one up.
        `AuditRules` say more: `wait=True` denies at the deadline what the stream does not have, `mask` hides values.
        """
        TRACES.adopt()
        wanted, rules = audit_rules(audit)
        mask = rules.masking()
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
            secondary = await enter(recycling_point(asker, trusted, recycling, lease, learn))
            pep = cls(asker, secondary)
            if secondary is not None:
                secondary.feed.on_applied.append(pep.released)
            if asker.authenticity is not None:
                asker.authenticity.on_revoked.append(pep.released)
            asker.salt = None if mask is None else mask.salted
            await enter(auditing(bus, domain, name, wanted, partial(pep._record_to, rules), mask=mask))
            if snapshot is not None and secondary is not None:
                await secondary.try_to_load(snapshot, connect_seconds)
            yield pep

    @classmethod
    @contextlib.asynccontextmanager
    async def local(
        cls,
        policies: Policies,
        *,
        entities: Sequence[Path | str] = (),
        attributes: Path | str | None = None,
        recycling: Recycling | None = DEFAULT_RECYCLING,
        audit: Path | str | None = None,
        name: str = "pep",
    ) -> AsyncIterator[Enforcer]:
        """Decide in this process, without a bus: `async with Enforcer.local(Path("policies")) as pep`.

        The policies are a folder, the text of attribute policies, or texts by the names that their files would have.
        `entities` are files of known entities, for searches; `attributes` is a file that says where attributes are
        looked up, in files alone. With `audit` every decision is appended to that file. Raises InvalidPolicies,
        BundleRefused, InvalidSyntax or ProviderFailed. A deadline and a strategy mean nothing here.
        """
        from pep.local import local_enforcer  # the engine, which services on the bus do not carry

        async with local_enforcer(cls, policies, entities, attributes, recycling, audit, name) as pep:
            yield pep

    @property
    def asker(self) -> Asker:
        """What asks over the bus. Raises NotOnBus if it decides in its own process."""
        if isinstance(self._asking, Asker):
            return self._asking
        raise NotOnBus

    @property
    def on_bus(self) -> bool:
        """Whether it asks over the bus, rather than in its own process."""
        return isinstance(self._asking, Asker)

    def obligation(self, name: str, *, before: bool = False) -> Callable[[AnyHandler], AnyHandler]:
        """Register the handler of an obligation: `@pep.obligation("mask")`."""
        return self.obligations.obligation(name, before=before)

    def _record_to(self, rules: AuditRules, audit: AuditWriter) -> None:
        self.audit = audit
        self._tell_audit()
        self._keeper = Keeper(audit) if rules.wait else None

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
        asking, keeper = self._asking, self._keeper
        terms = None if deadline is None and strategy is None else asking.terms(deadline, strategy)
        until = 0.0 if keeper is None else keeper.until(terms or asking.usual)
        plain = plain_request(subject, object, action) if type(subject) is str and not context else None
        request = plain or as_request(subject, object, action, context)
        traced = TRACES.on and TRACES.draw()
        span = TRACES.begin(SPAN, **{"authfabric.action": request.action.id}) if traced else None
        decision = None
        try:
            if self.secondary is not None:
                decision = await self.secondary.decide(request, terms, at_least)
            else:
                if plain is not None and not at_least:
                    decision = await asking.decide_valid(plain, terms)
                else:
                    decision = await self._ask(request, terms, at_least)
                self.outcomes.count(decision)
        finally:
            if span is not None:
                span.end(decision)
        if keeper is not None:
            return await keeper.give(request, decision, until)
        if self.audit is not None:
            self.audit.record(request, decision)
        return decision

    async def require(
        self,
        subject: str | Entity | Request,
        object: str | Entity = "",
        action: str | Entity = "",
        **options: Unpack[CheckOptions],
    ) -> Decision:
        """Like `check`, but raise AccessDenied unless the answer is allow."""
        decision = await self.check(subject, object, action, **options)
        if not decision.allowed:
            raise AccessDenied(as_request(subject, object, action, options.get("context")), decision)
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
        terms, secondary, keeper = self._asking.terms(deadline, strategy), self.secondary, self._keeper
        until = 0.0 if keeper is None else keeper.until(terms or self._asking.usual)
        known = [secondary.infer(r, at_least) if secondary else None for r in asked]
        unknown = [request for request, decision in zip(asked, known, strict=True) if decision is None]
        traced = TRACES.on and TRACES.draw()
        span = TRACES.begin(f"{SPAN}_many", **{"authfabric.questions": len(asked)}) if traced else None
        try:
            answers = iter(await asyncio.gather(*[self._ask_or_deny(r, terms, at_least) for r in unknown]))
        finally:
            if span is not None:
                span.end()
        decisions = [next(answers) if decision is None else decision for decision in known]
        if secondary is not None:
            await secondary.give_way()
        else:
            for each in decisions:
                self.outcomes.count(each)
        if keeper is not None:
            return await keeper.give_many(asked, decisions, until)
        if self.audit is not None:
            for request, decision in zip(asked, decisions, strict=True):
                if decision.reason is not Reason.INVALID_REQUEST:  # it could not be read back either
                    self.audit.record(request, decision)
        return decisions

    async def search(self, query: SearchQuery, *, deadline: float = SEARCH_SECONDS) -> SearchPage:
        """One page of who may, what may be, or by which action, among the entities that the PDPs know.

        Raises SearchRefused, NoResponders or ReplyTimeout.
        """
        return await self._asking.search(query, deadline)

    async def check_anew(self, request: Request, deadline: float) -> Decision:
        """Ask the PDPs, whatever a cache knows; where none answers, what was decided stands under the lease."""
        terms, keeper = self._asking.terms(deadline, None), self._keeper
        until = 0.0 if keeper is None else keeper.until(terms or self._asking.usual)
        decision = await self._ask(request, terms, 0)
        if self.secondary is None:
            self.outcomes.count(decision)
        elif not decision.decided:
            decision = self.secondary.infer(request) or decision
        if keeper is not None:
            return await keeper.give(request, decision, until)
        if self.audit is not None:
            self.audit.record(request, decision)
        return decision

    def watch(
        self,
        subject: str | Entity | Request,
        object: str | Entity = "",
        action: str | Entity = "",
        *,
        context: Attributes | None = None,
        every: float = WATCH_SECONDS,
    ) -> AsyncGenerator[Decision]:
        """`async for decision in pep.watch(...)`: the decision now, and a new one whenever it changes.

        For sessions that must end when a right ends. A release, or a revocation of a PDP, counts when it arrives, an
        expiry when it comes, roles and attributes when their service says that they have changed, and whatever else
        when it is asked again, after `every` seconds. Where no PDP answers, what was decided stands for as long as
        the lease, and then it is a denial.
        """
        return watch_decision(self, as_request(subject, object, action, context), every)

    def released(self) -> None:
        """Tell those who watch that other policies are in force, or other PDPs are believed."""
        self._tell_audit()
        for each in list(self.on_release):
            each()

    def _tell_audit(self) -> None:
        """Have the records of decisions name the release that is followed from now on."""
        if self.audit is not None and self.secondary is not None:
            self.audit.trail.followed = self.secondary.followed

    async def filter(
        self,
        subject: str | Entity,
        action: str | Entity,
        candidates: Iterable[str | Entity],
        *,
        context: Attributes | None = None,
        deadline: float | None = None,
    ) -> list[str | Entity]:
        """Those candidates to which the subject may do the action, in order. What is not decided is left out."""
        several = list(candidates)
        asked: list[Request | tuple[str, str, str]] = [
            Request.of(subject, each, action, context) for each in several
        ]
        decisions = await self.check_many(asked, deadline=deadline)
        return [each for each, decision in zip(several, decisions, strict=True) if decision.allowed]

    async def scope(
        self,
        subject: str | Entity,
        action: str | Entity,
        under: str,
        *,
        context: Attributes | None = None,
        deadline: float = DEFAULT_SECONDS,
    ) -> Scope:
        """All objects below a name to which the subject may do the action, as a predicate: for lists in databases.

        The objects are those whose names begin with `under`, such as `/documents/`. Raises ScopeRefused where a policy
        cannot be said as a predicate about the object alone, and ScopeUnavailable, NoResponders or ReplyTimeout where
        there is none now.
        """
        query = ScopeQuery(as_entity(subject), as_entity(action), under, context or {})
        scope = await self._asking.scope(query, deadline)
        known = self.secondary.point.epoch if self.secondary is not None else 0
        if scope.epoch < known:
            raise ScopeUnavailable(
                f"the PDP that answered is at epoch {scope.epoch}, and {known} is known here: ask again"
            )
        return scope

    async def explain(
        self,
        subject: str | Entity | Request,
        object: str | Entity = "",
        action: str | Entity = "",
        *,
        context: Attributes | None = None,
        viewer: str | Entity | None = None,
        deadline: float = EXPLAIN_SECONDS,
    ) -> Explanation:
        """Why the answer is what it is: every policy that could matter, and what would have to be different for it.

        It is structured, and `str` of it is for people. With a viewer, the policies are left out unless the viewer may
        `explain` the object. Raises ExplanationRefused, NoResponders, ReplyTimeout or InvalidRequest.
        """
        request = as_request(subject, object, action, context)
        if viewer is not None and not (await self.check(viewer, request.object, EXPLAIN)).allowed:
            return outline(request, await self.check(request))
        return await self._asking.explain(request, deadline)

    def _ask(self, request: Request, terms: Terms | None, at_least: int) -> Awaitable[Decision]:
        """Past what a cache knows."""
        if self.secondary is not None:
            return self.secondary.ask(request, terms, at_least)
        if at_least:
            return decide_at_least(self._asking, request, terms, lambda: at_least)
        return self._asking.decide(request, terms)

    def _ask_or_deny(self, request: Request, terms: Terms | None, at_least: int) -> Awaitable[Decision]:
        """Deny what cannot be asked."""
        try:
            if (self.secondary is not None or at_least) and not request.is_plain():
                check_encodable(request)  # those would raise it only when they are awaited
            return self._ask(request, terms, at_least)
        except InvalidRequest as error:
            answer: asyncio.Future[Decision] = self._asking.loop.create_future()
            answer.set_result(Decision(False, Reason.INVALID_REQUEST, detail=str(error)))
            return answer
