"""Why somebody receives an event as they do: what PDPs judge of each rule, what brokers do, and what is then seen."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field

import msgspec

from authfabric.interaction.inferred_types import define, guess
from authz import AuthFabricError, Entity, Request
from authz.explanation import Explanation, PolicyExplanation
from authz.predicate import TRUE, Predicate
from authz.predicate.filter import write_filter
from authz.rules import FluentRule, parse_rules
from authz.rules.terms import term_texts
from pdp.bundle import PolicySet
from pdp.rules import SUBSCRIBE
from pdp.rules import Interaction as Rules
from pubsub_core.errors import EventError
from pubsub_core.events import Event, Shape
from pubsub_core.rules import (
    About,
    Bar,
    Case,
    Change,
    Context,
    Fluent,
    Fluents,
    Interaction,
    Judge,
    Permit,
    Row,
    Rulebook,
    compile_condition,
    make_step,
    read_interaction,
    read_term,
    reshape,
)
from pubsub_core.types import Catalogue

SECRET = b"explained"
"""Noise and pseudonyms are drawn from it; every broker has another."""


@dataclass(frozen=True, slots=True)
class Situation:
    """Who asks for what, and what is so meanwhile."""

    subject: Entity
    type: str
    action: str = SUBSCRIBE
    fixed: Mapping[str, object] = field(default_factory=dict)
    """The attributes that the filter of the request gives a value."""
    event: Mapping[str, object] | None = None
    facts: Sequence[Fluent] = ()
    """What holds: fluents, and calls of functions that are true."""
    functions: frozenset[str] = frozenset()
    tables: Mapping[str, Mapping[str, Row]] = field(default_factory=dict)
    now: float = 0.0

    @property
    def replayed(self) -> bool:
        return self.action != SUBSCRIBE

    @property
    def request(self) -> Request:
        return Request.of(self.subject, f"/types/{self.type}", self.action, {"sub": dict(self.fixed)})


class RuleRemark(msgspec.Struct, frozen=True):
    """What becomes of one rule."""

    rule: str
    kind: str
    concerns: bool
    """Whether it concerns this subject and request, as far as a PDP knows."""
    lacking: tuple[str, ...] = ()
    """What would have to be so for it to."""
    left: str = ""
    """The condition that is left for the broker; empty if none is."""
    applies: bool | None = None
    """Whether it applies to the event; None without one, or if that cannot be found out."""
    passes: bool | None = None
    """Whether the event passes the filter of a restriction."""
    overridden: tuple[str, ...] = ()
    """The rules that take its place."""
    problem: str = ""


class Seen(msgspec.Struct, frozen=True):
    """An event as it is delivered."""

    type: str
    attributes: dict[str, object]


class RuleReport(msgspec.Struct, frozen=True):
    """The whole answer."""

    request: str
    allowed: bool
    rules: tuple[RuleRemark, ...]
    seen: tuple[Seen, ...] | None = None
    """What is delivered of the event; None without one."""
    obligations: tuple[dict[str, object], ...] = ()
    withheld: str = ""
    """Why nothing is delivered of the event."""


def explain_rules(rules: Rules, situation: Situation, types: Catalogue | None = None) -> RuleReport:
    """What the rules say of the situation. Without `types`, they are guessed from the event."""
    explanation = PolicySet(interaction=rules).engine().explain(situation.request)
    decision = explanation.decision
    remarks = tuple(_judged(rules, explanation))
    report = RuleReport(str(situation.request), decision.allowed, remarks, obligations=decision.obligations)
    if situation.event is None or not decision.allowed:
        return report
    try:
        return _Broker(rules, situation, types).complete(report)
    except AuthFabricError as error:
        return msgspec.structs.replace(report, seen=(), withheld=str(error))


def _judged(rules: Rules, explanation: Explanation) -> Iterable[RuleRemark]:
    """Each rule about the type and action, in the order of the files."""
    by_rule: dict[str, list[PolicyExplanation]] = {}
    kinds: dict[str, str] = {}
    order = {policy.id: number for number, policy in enumerate(rules.policies)}
    for each in sorted(explanation.policies, key=lambda each: order[each.policy]):
        duties = next(policy for policy in rules.policies if policy.id == each.policy).obligations
        for duty in duties:
            by_rule.setdefault(str(duty["rule"]), []).append(each)
            kinds[str(duty["rule"])] = _kind(str(duty["interaction"]))
    texts = _left(explanation.decision.obligations)
    for name, several in by_rule.items():
        nearest = min(several, key=lambda each: (not each.applies, len(each.changes)))
        lacking = () if nearest.applies else tuple(map(str, nearest.changes))
        yield RuleRemark(name, kinds[name], nearest.applies, lacking, " OR ".join(texts.get(name, ())))


def _left(obligations: Iterable[Mapping[str, object]]) -> dict[str, list[str]]:
    """What is left of the conditions of rules, by their names."""
    found: dict[str, list[str]] = {}
    for duty in obligations:
        (rule,) = parse_rules(str(duty["interaction"]))
        if not isinstance(rule.body, FluentRule) and rule.body.where != TRUE:
            found.setdefault(str(duty["rule"]), []).append(write_filter(rule.body.where))
    return found


def _kind(text: str) -> str:
    (rule,) = parse_rules(text)
    return {"Allow": "ALLOW", "Restrict": "RESTRICT", "Transform": "TRANSFORM"}.get(
        type(rule.body).__name__, "AUTO REPLAY"
    )


class _Facts:
    """Functions that are true of what is listed, and false of all else."""

    def __init__(self, names: frozenset[str], facts: Iterable[Fluent]) -> None:
        self._names = names
        self._facts = frozenset(facts)

    def __contains__(self, name: object) -> bool:
        return name in self._names

    def call(self, name: str, arguments: Sequence[object]) -> object:
        return (name, tuple(arguments)) in self._facts


class _Broker:
    """What a broker would do with the obligations."""

    def __init__(self, rules: Rules, situation: Situation, types: Catalogue | None) -> None:
        self._situation = situation
        self._guessed = types is None
        self._types = types if types is not None else guess(situation.type, situation.event or {}, rules)
        self._source = self._types.named(situation.type)
        self._context = _context(rules, situation)

    def complete(self, report: RuleReport) -> RuleReport:
        interaction = read_interaction(report.obligations, self._about())
        event = self._event()
        found = {each.id: self._try(each.where, event, interaction) for each in _parts(interaction)}
        filters = {each.id: self._try(each.filter, event, interaction) for each in interaction.bars}
        remarks = _overridden([_applied(each, found, filters) for each in report.rules], interaction)
        if self._guessed:
            self._guess_results(interaction, remarks)
        book = Rulebook(self._types, SECRET, self._context)
        told = msgspec.structs.replace(report, rules=tuple(remarks))
        try:
            shown = Judge(interaction, book).apply(event, self._situation.now, past=self._situation.replayed)
        except EventError as error:
            return msgspec.structs.replace(told, seen=(), withheld=str(error))
        if shown is None:
            return msgspec.structs.replace(told, seen=(), withheld=_reason(remarks))
        return msgspec.structs.replace(told, seen=tuple(map(self._seen, shown.events)))

    def _about(self) -> About:
        subject = self._situation.subject
        user = {**subject.attributes, "subject": subject.id}
        lineage = tuple(each.name for each in self._types.lineage(self._source.id))
        version = self._source.version
        known = {"user": user, "sub": self._situation.fixed}
        return About(self._types.names(version), version, lineage, known)

    def _event(self) -> Event:
        values = Shape(self._types.attributes(self._source.version)).by_id(self._situation.event or {})
        return Event(self._source.id, self._source.version, b"publisher", self._situation.now, 1, values)

    def _try(self, condition: Predicate, event: Event, interaction: Interaction) -> bool | str:
        """Whether a condition holds of the event, or why that cannot be found out."""
        names = self._types.names(interaction.version)
        terms = {text: read_term(text, names, self._context) for text in term_texts(condition)}
        case = Case(event, self._situation.now, interaction.known, terms, self._situation.replayed, [])
        try:
            return compile_condition(condition)(case)
        except EventError as error:
            return str(error)

    def _guess_results(self, interaction: Interaction, remarks: Iterable[RuleRemark]) -> None:
        """Take whatever comes of the event for what the types it becomes are like."""
        active = {each.rule for each in remarks if each.applies and not each.overridden}
        by_type: dict[str, list[Change]] = {}
        for each in interaction.changes:
            if each.id in active:
                by_type.setdefault(each.to, []).append(each)
        kinds = {name: each.type for name, each in self._types.names(self._source.version).items()}
        for to, changes in by_type.items():
            steps = [make_step(call) for each in changes for call in each.steps]
            if to != self._source.name:
                define(self._types, to, reshape(steps, kinds))

    def _seen(self, event: Event) -> Seen:
        attributes = self._types.attributes(event.version)
        values = {attributes[id_].name: value for id_, value in event.attributes.items()}
        return Seen(self._types.version(event.version).name, values)


def _parts(interaction: Interaction) -> list[Permit | Bar | Change]:
    return [*interaction.permits, *interaction.bars, *interaction.changes]


def _applied(
    remark: RuleRemark, found: Mapping[str, bool | str], filters: Mapping[str, bool | str]
) -> RuleRemark:
    applies = found.get(remark.rule)
    if isinstance(applies, str):
        return msgspec.structs.replace(remark, problem=applies)
    passes = filters.get(remark.rule) if applies else None
    if isinstance(passes, str):
        return msgspec.structs.replace(remark, applies=applies, problem=passes)
    return msgspec.structs.replace(remark, applies=applies, passes=passes)


def _reason(remarks: Sequence[RuleRemark]) -> str:
    if not any(each.kind == "ALLOW" and each.applies for each in remarks):
        return "no ALLOW applies to this event"
    bars = [f"`{each.rule}`" for each in remarks if each.passes is False and not each.overridden]
    return f"held back by {', '.join(bars)}"


def _overridden(remarks: Sequence[RuleRemark], interaction: Interaction) -> list[RuleRemark]:
    active = {each.rule for each in remarks if each.applies}
    others: list[Bar | Change] = [*interaction.bars, *interaction.changes]
    return [
        msgspec.structs.replace(
            remark,
            overridden=tuple(
                each.id
                for each in others
                if each.id in active and remark.applies and remark.rule in each.overrides
            ),
        )
        for remark in remarks
    ]


def _context(rules: Rules, situation: Situation) -> Context:
    fluents = Fluents()
    defined = {each.name: len(each.arguments) for each in situation.facts}
    for each in situation.facts:
        fluents.initiate(each, situation.now)
    for file in rules.files:
        for rule in file.rules:
            if isinstance(rule.body, FluentRule):
                defined[rule.body.name] = len(rule.body.parameters)
    return Context(fluents, defined, situation.tables, _Facts(situation.functions, situation.facts))
