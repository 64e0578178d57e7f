"""The rules that bind one client's use of one type, as the PDPs have returned them with a permission.

Of ALLOW, one must hold for each event. All RESTRICT that apply bind, silently. TRANSFORM makes other events of it. A
rule that applies takes the place of those that it overrides, whether or not it is overridden itself: so, with rules
that override each other in no circle, one that is overridden by nothing is always left.
"""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from graphlib import CycleError, TopologicalSorter
from math import inf

from authz.errors import InvalidSyntax
from authz.predicate import TRUE, And, Or, Predicate, paths
from authz.predicate.filter import EVENT
from authz.rules import (
    Allow,
    AutoReplay,
    Call,
    FluentRule,
    Point,
    Rate,
    Restrict,
    Rule,
    Transform,
    parse_rules,
)
from authz.rules.terms import term_texts
from pubsub_core.errors import InvalidFilter, InvalidObligation
from pubsub_core.rules.condition import Known, bind_condition, event_part
from pubsub_core.rules.context import Context, attributes_in, read_term
from pubsub_core.types import Attribute

MOST_PUSHED = 32
"""Maximum alternatives pushed down to other brokers; beyond, they pass on everything."""


@dataclass(frozen=True, slots=True)
class Permit:
    """A client may have events of which this holds."""

    id: str
    where: Predicate
    rate: Rate | None = None
    """How fast past events may be had."""


def _speed(permit: Permit) -> float:
    """Events in a second."""
    return inf if permit.rate is None else permit.rate.count / permit.rate.seconds


@dataclass(frozen=True, slots=True)
class Bar:
    """Of the events of which `where` holds, a client gets those that pass the filter."""

    id: str
    where: Predicate
    filter: Predicate
    overrides: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Change:
    """Events of which `where` holds become others."""

    id: str
    where: Predicate
    source: str
    """The name of the type that the rule is about: the event's own, or one that it extends."""
    to: str
    """The name of the type that they become."""
    steps: tuple[Call, ...]
    overrides: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Replaying:
    """Past events are sent when something happens."""

    id: str
    rule: AutoReplay


@dataclass(frozen=True, slots=True)
class Interaction:
    """All rules about one client and one type. Conditions are by UUID."""

    version: str
    """The version of the type by whose names the rules were read."""
    known: Known
    permits: tuple[Permit, ...] = ()
    bars: tuple[Bar, ...] = ()
    changes: tuple[Change, ...] = ()
    replays: tuple[Replaying, ...] = ()

    @property
    def slowest(self) -> Permit | None:
        """The permit by which past events may be had as fast as it says: no event is let through faster than it may be.

        That is the fastest of those that let everything through. Without such a one it depends on the event which of
        them does, and so the slowest counts.
        """
        always = [each for each in self.permits if each.where == TRUE]
        if always:
            return max(always, key=_speed)
        return min(self.permits, key=_speed, default=None)

    def needs(self, names: Mapping[str, Attribute]) -> frozenset[str]:
        """The attributes, by UUID, without which nobody can tell whether these rules apply."""
        rules: list[Permit | Bar | Change] = [*self.permits, *self.bars, *self.changes]
        conditions = [*(each.where for each in rules), *(each.filter for each in self.bars)]
        found = {str(path.keys[0]) for each in conditions for path in paths(each) if path.root == EVENT}
        spoken = {name for each in conditions for text in term_texts(each) for name in attributes_in(text)}
        return frozenset(found | {names[each].id for each in spoken if each in names})

    @property
    def pushed(self) -> Predicate:
        """What can be said of all events that could be let through."""
        overriding: list[Bar | Change] = [*self.bars, *self.changes]
        overridden = {id_ for each in overriding for id_ in each.overrides}
        always = [each.filter for each in self.bars if each.where == TRUE and each.id not in overridden]
        parts = [event_part(each) for each in always[:MOST_PUSHED]]
        if 0 < len(self.permits) <= MOST_PUSHED:
            parts.append(event_part(Or(tuple(each.where for each in self.permits))))
        found = tuple(each for each in parts if each != TRUE)
        return found[0] if len(found) == 1 else And(found)


@dataclass(frozen=True, slots=True)
class About:
    """The type and the client for whom rules are read."""

    names: Mapping[str, Attribute]
    version: str
    types: tuple[str, ...]
    """The names of the type and of those that it extends."""
    known: Known
    point: Point = Point.NOTIFY


def read_interaction(obligations: Sequence[Mapping[str, object]], about: About) -> Interaction:
    """What these obligations, each with `interaction` and `rule`, say together. Raises InvalidObligation."""
    reader = _Reader(about)
    for each in obligations:
        text, id_ = each.get("interaction"), each.get("rule", "")
        if not isinstance(text, str) or not isinstance(id_, str) or each.keys() - {"interaction", "rule"}:
            raise InvalidObligation("interaction", "must be the text of one rule, beside its `rule`")
        reader.add(_parsed(text), id_, text)
    return reader.result()


def read_fluents(obligations: Iterable[Mapping[str, object]]) -> tuple[FluentRule, ...]:
    """The fluents among these obligations; others are of no concern. Raises InvalidObligation."""
    texts = [each["interaction"] for each in obligations if isinstance(each.get("interaction"), str)]
    bodies = [_parsed(str(text)).body for text in texts]
    return tuple(each for each in bodies if isinstance(each, FluentRule))


@lru_cache(maxsize=16_384)
def _parsed(text: str) -> Rule:
    try:
        (rule,) = parse_rules(text)
    except InvalidSyntax as error:
        raise InvalidObligation(text, f"cannot be read: {error}") from None
    except ValueError:
        raise InvalidObligation(text, "must be one rule") from None
    return rule


@dataclass(frozen=True, slots=True)
class _Names:
    """The attributes of a version: which those are follows from the version."""

    version: str
    names: Mapping[str, Attribute] = field(compare=False)


def _bound(predicate: Predicate, type_: _Names, known: Known) -> Predicate:
    """A condition by UUIDs. Raises InvalidFilter."""
    for text in term_texts(predicate):
        read_term(text, type_.names, Context())  # which says what is wrong with it
    return bind_condition(predicate, type_.names, known)


@lru_cache(maxsize=16_384)
def _bound_for_all(predicate: Predicate, type_: _Names) -> Predicate:
    """The same for a condition that is alike for all clients."""
    return _bound(predicate, type_, {})


class _Reader:
    """Gathers rules. A rule that comes in several alternatives is one rule, which applies if one of them does."""

    def __init__(self, about: About) -> None:
        self._about = about
        self._names = _Names(about.version, about.names)
        self._wheres: defaultdict[object, list[Predicate]] = defaultdict(list)

    def add(self, rule: Rule, id_: str, text: str) -> None:
        about, body = self._about, rule.body
        if isinstance(body, Transform) and body.point is not about.point:
            raise InvalidObligation(text, f"is not done on {about.point}")
        if about.point is Point.PUBLISH and not isinstance(body, Transform):
            raise InvalidObligation(text, "does not concern what is published")
        if not isinstance(body, Allow | Restrict | Transform | AutoReplay):
            raise InvalidObligation(text, "does not concern events that are delivered")
        if body.type not in about.types:
            raise InvalidObligation(text, f"is about another type than `{about.types[-1]}`")
        try:
            self._wheres[self._key(body, id_)].append(self._where(body))
        except InvalidFilter as error:
            raise InvalidObligation(text, f"does not fit the type: {error}") from None

    def _where(self, body: Allow | Restrict | Transform | AutoReplay) -> Predicate:
        if isinstance(body, AutoReplay):
            return TRUE  # what is left of it is about the moment of the trigger
        return self._bound(body.where)

    def _key(self, body: Allow | Restrict | Transform | AutoReplay, id_: str) -> object:
        match body:
            case Allow():
                return Permit(id_, TRUE, body.rate)
            case Restrict(filter=filter_, overrides=overrides):
                return Bar(id_, TRUE, self._bound(filter_), overrides)
            case Transform(type=type_, to=to, steps=steps, overrides=overrides):
                return Change(id_, TRUE, type_, to, steps, overrides)
            case AutoReplay():
                return Replaying(id_, body)

    def _bound(self, predicate: Predicate) -> Predicate:
        if all(path.root in ("", EVENT) for path in paths(predicate)):
            return _bound_for_all(predicate, self._names)
        return _bound(predicate, self._names, self._about.known)

    def result(self) -> Interaction:
        permits, bars, changes, replays = list[Permit](), list[Bar](), list[Change](), list[Replaying]()
        for key, wheres in self._wheres.items():
            where = TRUE if TRUE in wheres else wheres[0] if len(wheres) == 1 else Or(tuple(wheres))
            match key:
                case Permit(id=id_, rate=rate):
                    permits.append(Permit(id_, where, rate))
                case Bar(id=id_, filter=filter_, overrides=overrides):
                    bars.append(Bar(id_, where, filter_, overrides))
                case Change() as change:
                    changes.append(
                        Change(change.id, where, change.source, change.to, change.steps, change.overrides)
                    )
                case Replaying():
                    replays.append(key)
        _check_order([*bars, *changes])
        changes.sort(key=lambda each: _natural(each.id))
        about = self._about
        return Interaction(
            about.version, about.known, tuple(permits), tuple(bars), tuple(changes), tuple(replays)
        )


def _check_order(rules: Iterable[Bar | Change]) -> None:
    """Raise InvalidObligation if rules override each other in a circle: then none of them would be left."""
    order = TopologicalSorter[str]()
    for each in rules:
        order.add(each.id, *each.overrides)
    try:
        order.prepare()
    except CycleError as error:
        raise InvalidObligation(
            " > ".join(error.args[1]), "is a circle of rules that override each other"
        ) from None


def _natural(id_: str) -> tuple[str, int, str]:
    """Rules of one file in their order: `a.rules:9` before `a.rules:10`."""
    found = re.fullmatch(r"(.*?)(\d+)", id_)
    return (found[1], int(found[2]), id_) if found else (id_, -1, id_)
