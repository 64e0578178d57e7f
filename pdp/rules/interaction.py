"""Rules of interaction control as policies: who may receive events, and what brokers are obliged to in return.

Singh, Eyers and Bacon, Controlling historical information dissemination in publish/subscribe (2008), let each broker
hold its rules. Here decision points do, and judge of each what they can know; see docs/design/interaction-control.md.
Invariant: a type that rules speak of is received only where an ALLOW lets it be, and then every rule that may apply is
among the obligations.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace

from authz.decision import Effect
from authz.errors import InvalidSyntax
from authz.predicate import FALSE, TRUE, And, Equal, Names, Overlaps, Path, Predicate, Scalar
from authz.rules import (
    Allow,
    AllowDuring,
    Asking,
    AutoReplay,
    FluentRule,
    Point,
    Restrict,
    Rule,
    Transform,
    write_rule,
)
from pdp.abac import Policy
from pdp.oasis import RoleHierarchy, Rulebook
from pdp.rules.rule_file import RuleFile, check_labels
from pdp.rules.split import both, either, split
from pdp.rules.translation import translate

SUBSCRIBE, REPLAY, TRANSFORM, OBSERVE = "subscribe", "replay", "transform", "observe"
CONTEXT = "/context"
"""The object of rights to observe context; the fluents that replays name stand below it."""
ACTIONS: Mapping[Asking, str] = {Asking.SUBSCRIPTION: SUBSCRIBE, Asking.REPLAY: REPLAY}


@dataclass(frozen=True, slots=True)
class Part:
    """One alternative of a rule: what a decision point judges of it, and the rule with what is left."""

    rule: Rule
    judged: Predicate
    left: Rule


@dataclass(frozen=True, slots=True)
class Interaction:
    """All rules of a bundle, and the policies that they are."""

    files: tuple[RuleFile, ...] = ()
    policies: tuple[Policy, ...] = ()
    sources: Mapping[str, tuple[str, Rule]] = field(default_factory=dict)
    """By policy, the file and the rule that it came from."""

    @classmethod
    def of(cls, files: Sequence[RuleFile], seniors: RoleHierarchy | None = None) -> Interaction:
        """Raises InvalidSyntax for rules that cannot stand together."""
        check_labels(files)
        return _Compiler(seniors or RoleHierarchy(Rulebook())).compile(files)


class _Compiler:
    def __init__(self, seniors: RoleHierarchy) -> None:
        self._seniors = seniors
        self._policies: list[Policy] = []
        self._sources: dict[str, tuple[str, Rule]] = {}
        self._gates: dict[tuple[str, str], list[Predicate]] = defaultdict(list)
        """What must be so for an ALLOW to apply, by type and action: one of these."""
        self._governed: dict[tuple[str, str], None] = {}

    def compile(self, files: Sequence[RuleFile]) -> Interaction:
        parts = [(file, rule, self._parts(file, rule)) for file in files for rule in file.rules]
        for _, rule, several in parts:
            if isinstance(rule.body, Allow):
                self._gates[rule.body.type, ACTIONS[rule.body.asking]] += [each.judged for each in several]
        for file, rule, several in parts:
            self._add(file, rule, several)
        self._policies += [_closed(type_, action) for type_, action in self._governed]
        return Interaction(tuple(files), tuple(self._policies), self._sources)

    def _parts(self, file: RuleFile, rule: Rule) -> list[Part]:
        body = rule.body
        if isinstance(body, FluentRule):
            return [Part(rule, And(()), rule)]
        try:
            alternatives = split(body.where, rule.place)
            if isinstance(body, AllowDuring) and any(each.left != TRUE for each in alternatives):
                problem = "`ALLOW REPLAY DURING` may depend on the user, `sub` and `context` only"
                raise InvalidSyntax(problem, *rule.place)
            return [
                Part(
                    rule,
                    translate(each.judged, self._seniors, rule.place),
                    replace(rule, body=replace(body, where=each.left)),
                )
                for each in alternatives
            ]
        except InvalidSyntax as error:
            raise error.within(file.source) from None

    def _add(self, file: RuleFile, rule: Rule, parts: Sequence[Part]) -> None:
        name = file.name(rule)
        for number, part in enumerate(parts, 1):
            own = name if len(parts) == 1 else f"{name}/{number}"
            duty: dict[str, object] = {"interaction": write_rule(part.left), "rule": name}
            obligations = () if isinstance(rule.body, AllowDuring) else (duty,)
            condition = self._condition(part)
            if condition != FALSE:
                said = write_rule(replace(rule, label="")).partition("\n")[0]
                self._policies.append(
                    Policy(own, Effect.ALLOW, condition, description=said, obligations=obligations)
                )
                self._sources[own] = file.source, rule

    def _condition(self, part: Part) -> Predicate:
        match part.rule.body:
            case FluentRule():
                return And((_OBSERVED, Equal(Path("action"), OBSERVE)))
            case AllowDuring(fluent=fluent):
                named = Equal(Path("object"), f"{CONTEXT}/{fluent}")
                return both([named, Equal(Path("action"), REPLAY), part.judged])
            case Transform(type=type_, point=Point.PUBLISH):
                return both([*_asked(type_, TRANSFORM), part.judged])
            case Allow(type=type_, asking=asking):
                self._governed[type_, ACTIONS[asking]] = None
                return both([*_asked(type_, ACTIONS[asking]), part.judged])
            case AutoReplay(type=type_):
                return self._where_allowed(type_, (SUBSCRIBE,), part.judged)
            case Restrict(type=type_) | Transform(type=type_):
                return self._where_allowed(type_, (SUBSCRIBE, REPLAY), part.judged)

    def _where_allowed(self, type_: str, actions: Sequence[str], judged: Predicate) -> Predicate:
        """Where a rule binds: it lets nobody in, so an ALLOW must."""
        self._governed |= dict.fromkeys((type_, each) for each in actions)
        ways = [
            both([Equal(Path("action"), each), either(merged(self._gates[type_, each]))])
            for each in actions
            if self._gates[type_, each]
        ]
        return both([Equal(Path("object"), f"/types/{type_}"), either(ways), judged])


def merged(ways: Sequence[Predicate]) -> list[Predicate]:
    """The same alternatives, with all that only ask for a role in one: every rule that binds repeats them."""
    lists: dict[Path, dict[Scalar, None]] = {}
    named: dict[Path, dict[str, None]] = {}
    others: list[Predicate] = []
    for each in ways:
        if isinstance(each, Overlaps):
            lists.setdefault(each.path, {}).update(dict.fromkeys(each.values))
        elif isinstance(each, Names):
            named.setdefault(each.path, {}).update(dict.fromkeys(each.values))
        else:
            others.append(each)
    return [
        *(Names(path, tuple(values)) for path, values in named.items()),
        *(Overlaps(path, tuple(values)) for path, values in lists.items()),
        *others,
    ]


_OBSERVED = Equal(Path("object"), CONTEXT)


def _asked(type_: str, action: str) -> tuple[Predicate, Predicate]:
    return Equal(Path("object"), f"/types/{type_}"), Equal(Path("action"), action)


def _closed(type_: str, action: str) -> Policy:
    """Rules cannot be got round: where none of them allows, other policies do not either."""
    return Policy(
        f"rules:{type_}:{action}",
        Effect.DENY,
        And(_asked(type_, action)),
        description=f"rules speak of `{type_}`, and none of them allows this",
    )
