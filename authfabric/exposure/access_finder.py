"""The accesses that each client had: policies of each period are asked as brokers ask, within credentials and keys."""

from __future__ import annotations

import re
from collections.abc import AsyncIterator, Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass, field
from typing import Self

from authfabric.exposure.evidence import Client, Evidence, Period, Question
from authfabric.exposure.possible_access import Narrowed, PossibleAccess, Values
from authz import Entity
from authz.rules import FluentRule, parse_rules
from authz.rules.terms import term_texts
from authz.spki import Right
from pdp.bundle import Bundle, FileKind
from pep import Enforcer
from pubsub_core.access import GENERIC, Ask, Enforcement, Holder, Restriction, Rights
from pubsub_core.events import Event
from pubsub_core.history import Span, common
from pubsub_core.rules import Context, Fluent, Fluents, Interaction, Judge, Rates, Rulebook

CONNECT = "connect"
SECRET = b"exposure"
"""Noise and pseudonyms are drawn from it: what comes of them is only looked at for being something else."""
_SUB = re.compile(r"\bsub\.([A-Za-z_]\w*)")
"""An attribute of which policies ask whether the client named it in its filter."""


class _Unlimited(Rates):
    """Rates bound how much somebody saw of what it could see, one event or another."""

    def permits(self, *_: object) -> bool:
        return True

    def count(self, *_: object) -> None:
        pass


@dataclass(slots=True, eq=False)
class _Policies:
    """The policies of one bundle, and what is known of the world that its rules ask about."""

    rights: Rights
    book: Rulebook
    named: tuple[str, ...]
    """Attributes of which they ask whether the client named them."""
    moments: Mapping[str, Sequence[float]] = field(default_factory=dict)
    """When fluents began and ended to hold, by their names."""

    def enforcement(self, restriction: Restriction) -> Enforcement:
        judges = tuple(Judge(each, self.book) for each in restriction.every_rule)
        return Enforcement(restriction, judges=judges)

    def changed(self, restriction: Restriction | None, anything: bool) -> Sequence[float]:
        """When something changed that the rules of a restriction ask about, or that any rules do."""
        rules = restriction.every_rule if restriction is not None else ()
        texts = {text for each in rules for text in _terms(each)}
        fluents = {name for name in self.moments if anything or any(name in text for text in texts)}
        return sorted({at for name in fluents for at in self.moments[name]})


@dataclass(frozen=True, slots=True, eq=False)
class _Source:
    """Where a narrowed right comes from."""

    policies: _Policies
    client: Client
    past: bool
    at: float


class AccessFinder:
    """Finds the accesses of clients. Use `of` to make one, for the length of a block."""

    def __init__(self, question: Question, evidence: Evidence, policies: Mapping[str, _Policies]) -> None:
        self._question = question
        self._evidence = evidence
        self._policies = policies
        definition = evidence.catalogue.newest(question.type)
        self._every = frozenset(evidence.catalogue.attributes(definition.version))
        self._names = evidence.catalogue.names(definition.version)
        self._sources: dict[Narrowed, _Source] = {}

    @classmethod
    @asynccontextmanager
    async def of(
        cls, question: Question, evidence: Evidence, bundles: Iterable[Bundle]
    ) -> AsyncIterator[Self]:
        """Raises InvalidPolicies."""
        async with AsyncExitStack() as stack:
            policies: dict[str, _Policies] = {}
            for each in bundles:
                if each.hash not in policies:
                    texts = {file.path: file.text for file in each.files}
                    pep = await stack.enter_async_context(Enforcer.local(texts, recycling=None))
                    policies[each.hash] = _read(each, evidence, pep)
            yield cls(question, evidence, policies)

    async def find(self, client: Client, periods: Iterable[Period]) -> tuple[PossibleAccess, ...]:
        """All accesses of a client, if these policies were in force."""
        found: list[PossibleAccess] = []
        had = common([client.span], [Span(end=self._question.until)])
        for period in periods:
            for span in common([period.span], had):
                found += await self._within(client, span, self._policies[period.bundle.hash])
        return tuple(found)

    async def _within(self, client: Client, span: Span, policies: _Policies) -> list[PossibleAccess]:
        found: list[PossibleAccess] = []
        hosts = [
            each
            for each in client.brokers or ("",)
            if not each or await self._connects(client, each, policies)
        ]
        for past in (False, True) if hosts else ():
            left = await self._left(client, policies, past, span.start, {})
            narrowed = self._narrowed(policies)
            if left is None and narrowed is None:
                continue
            if narrowed is not None:
                self._sources[narrowed] = _Source(policies, client, past, span.start)
            times = {each: None for host in hosts for each in self._readable(host, span, past)}
            enforcement = policies.enforcement(left) if left is not None else None
            moments = policies.changed(left, narrowed is not None) if past else ()
            found += [
                PossibleAccess(when, past, enforcement, readable, moments, narrowed)
                for when, readable in times
            ]
        return found

    async def _connects(self, client: Client, broker: str, policies: _Policies) -> bool:
        holder = Holder(client.credential)
        return (await policies.rights.allows(holder, Entity(f"/brokers/{broker}"), CONNECT)).allowed

    async def _left(
        self, client: Client, policies: _Policies, past: bool, at: float, fixed: Mapping[str, object]
    ) -> Restriction | None:
        """What is left of the right to these events; None if the attribute cannot be seen by it at all."""
        within = {"from": self._question.within.start, "to": self._question.within.end} if past else None
        ask = Ask(Holder(client.credential), Right.SUBSCRIBE, self._question.type, fixed, within)
        (granted,) = await policies.rights.grants([ask], at)
        left = granted.restrictions.get(self._question.type)
        if left is None or (left.visible is not None and self._question.attribute not in left.visible):
            return None
        return left

    def _narrowed(self, policies: _Policies) -> Narrowed | None:
        names = tuple(each for each in policies.named if each in self._names)
        return Narrowed(tuple(self._names[each].id for each in names), names) if names else None

    def _readable(self, host: str, span: Span, past: bool) -> Iterator[tuple[Span, frozenset[str] | None]]:
        if past and host and host == self._question.broker:  # its own history opens without keys of the type
            yield span, None
            return
        for when, readable in self._evidence.keys.readable(host, self._question.attribute, self._every):
            for each in common([span], [when]):
                yield each, readable

    async def ask(self, accesses: Iterable[PossibleAccess], events: Collection[Event]) -> None:
        """Have policies asked what is left to whoever asks for these very events, where that matters."""
        for narrowed in {each.narrowed for each in accesses if each.narrowed is not None}:
            for values in {narrowed.values(event) for event in events} - narrowed.known.keys():
                narrowed.known[values] = await self._granted(narrowed, values)

    async def _granted(self, narrowed: Narrowed, values: Values) -> Enforcement | None:
        source = self._sources[narrowed]
        fixed = narrowed.fixed(values)
        left = await self._left(source.client, source.policies, source.past, source.at, fixed)
        return None if left is None else source.policies.enforcement(left)


def _read(bundle: Bundle, evidence: Evidence, pep: Enforcer) -> _Policies:
    rules = [file for file in bundle.files if file.kind is FileKind.RULES]
    bodies = [rule.body for file in rules for rule in parse_rules(file.text)]
    defined = {each.name: len(each.parameters) for each in bodies if isinstance(each, FluentRule)}
    fluents, moments = Fluents(), dict[str, list[float]]()
    for mark in evidence.marks:
        fluent = Fluent(mark.name, mark.arguments)
        (fluents.initiate if mark.begins else fluents.terminate)(fluent, mark.at)
        moments.setdefault(mark.name, []).append(mark.at)
    context = Context(fluents, defined, rates=_Unlimited())
    named = sorted({name for file in bundle.files for name in _SUB.findall(file.text)})
    rights = Rights(pep, evidence.catalogue, predicates=GENERIC)
    return _Policies(rights, Rulebook(evidence.catalogue, SECRET, context), tuple(named), moments)


def _terms(interaction: Interaction) -> Iterator[str]:
    conditions = [each.where for each in interaction.permits]
    conditions += [condition for each in interaction.bars for condition in (each.where, each.filter)]
    conditions += [each.where for each in interaction.changes]
    for each in conditions:
        yield from term_texts(each)
