"""What is wrong with rules that can be read: those that never apply, never have a say, or add nothing.

Sound, not complete: what is reported is so; some of what is so is not found.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from itertools import islice
from typing import NamedTuple, TypeAlias

from authz.change import ROLES
from authz.predicate import And, Predicate, covers, disjoint, satisfiable
from authz.rules import Allow, AllowDuring, Asking, AutoReplay, FluentRule, Point, Restrict, Rule, Transform
from pdp.bundle import Schema, misuses
from pdp.documents import Finding, Kind
from pdp.engine import CoverIndex
from pdp.rules import Interaction, overrides

MOST_COMPARISONS = 100_000
"""Maximum pairs of rules compared; beyond, some redundant rules are not found."""


class Named(NamedTuple):
    """A rule, what it is called, and the file it is in."""

    name: str
    rule: Rule
    source: str


_Found: TypeAlias = tuple[Named, Kind, str]


def check_interaction(interaction: Interaction, schema: Schema | None = None) -> Iterator[Finding]:
    """Everything found. `schema` lists the attributes that there are."""
    rules = [Named(file.name(rule), rule, file.source) for file in interaction.files for rule in file.rules]
    for named, kind, text in _remarks(rules):
        yield Finding(kind, named.source, *named.rule.place, text, named.name)
    for policy in interaction.policies if schema is not None else ():
        source, rule = interaction.sources.get(policy.id, ("", None))
        for misuse in misuses(policy.condition, schema or {}) if rule is not None else ():
            own = misuse.path == ROLES or misuse.path.keys[:1] == ("sub",)  # which the fabric itself sends
            kind = Kind.UNKNOWN_ATTRIBUTE if misuse.unknown else Kind.WRONG_TYPE
            if rule is not None and not own:
                yield Finding(kind, source, *rule.place, misuse.text, policy.id)


def _remarks(rules: Sequence[Named]) -> Iterator[_Found]:
    by_type: defaultdict[str, list[Named]] = defaultdict(list)
    for each in rules:
        match each.rule.body:
            case FluentRule():
                continue
            case AllowDuring(fluent=fluent):
                by_type[f"during {fluent}"].append(each)
            case body:
                by_type[body.type].append(each)
    for several in by_type.values():
        possible = [each for each in several if satisfiable(_where(each))]
        for each in several:
            if each not in possible:
                yield each, Kind.UNREACHABLE, f"`{each.name}` never applies: nothing meets its condition"
        for each in possible:
            yield from _filtered(each)
            yield from _uninvited(each, possible)
        yield from _overridden(possible)
        yield from _superfluous(possible)


def _where(named: Named) -> Predicate:
    body = named.rule.body
    return And(()) if isinstance(body, FluentRule) else body.where


def _filtered(named: Named) -> Iterator[_Found]:
    body = named.rule.body
    if isinstance(body, Restrict) and not satisfiable(And((body.where, body.filter))):
        yield named, Kind.UNREACHABLE, f"`{named.name}` lets no event through: nothing passes its filter"


def _uninvited(named: Named, several: Sequence[Named]) -> Iterator[_Found]:
    """Rules that let nobody in, about events that nobody is let in for."""
    body = named.rule.body
    if isinstance(body, Allow | AllowDuring | FluentRule) or (
        isinstance(body, Transform) and body.point is Point.PUBLISH
    ):
        return
    askings = {Asking.SUBSCRIPTION} if isinstance(body, AutoReplay) else set(Asking)
    allows = [
        each.rule.body
        for each in several
        if isinstance(each.rule.body, Allow) and each.rule.body.asking in askings
    ]
    if not allows:
        words = " or ".join(f"`ALLOW {each.upper()} {body.type}`" for each in Asking if each in askings)
        yield (
            named,
            Kind.UNREACHABLE,
            f"`{named.name}` never applies: nobody is allowed to receive it, write {words}",
        )
    elif all(disjoint(each.where, body.where) for each in allows):
        yield (
            named,
            Kind.UNREACHABLE,
            f"`{named.name}` never applies: nobody whom it describes is allowed to receive it",
        )


def _overridden(several: Sequence[Named]) -> Iterator[_Found]:
    by_label: Mapping[str, Named] = {each.rule.label: each for each in several if each.rule.label}
    for each in several:
        for label in overrides(each.rule):
            other = by_label.get(label)
            if other is not None and covers(_where(each), _where(other)):
                text = f"`{label}` never has a say: wherever it applies, `{each.name}` does, and overrides it"
                yield other, Kind.SHADOWED, text


def _superfluous(several: Sequence[Named]) -> Iterator[_Found]:
    """Rules that say nothing that another does not say as well; of two that say the same, the later."""
    loose = {label for each in several for label in overrides(each.rule)}
    index = CoverIndex((_where(each), each) for each in several)
    pairs = ((one, other) for one in several for other in index.candidates(_where(one)) if one is not other)
    order = {each: number for number, each in enumerate(several)}
    said = set[Named]()
    for one, other in islice(pairs, MOST_COMPARISONS):
        if one in said or other.rule.label in loose or not _says(other, one):
            continue
        if _says(one, other):
            if order[one] > order[other] and one.rule.label not in loose:
                said.add(one)
                yield one, Kind.DUPLICATE, f"`{one.name}` says the same as `{other.name}`"
        else:
            said.add(one)
            yield one, Kind.REDUNDANT, f"`{one.name}` adds nothing to what `{other.name}` says"


def _says(wide: Named, narrow: Named) -> bool:
    """Whether a rule says all that another does. Transformations are done one by one, so none stands for another."""
    match wide.rule.body, narrow.rule.body:
        case Allow() as more, Allow() as less:
            faster = more.rate is None or more.rate == less.rate
            return more.asking is less.asking and faster and covers(more.where, less.where)
        case AllowDuring() as more, AllowDuring() as less:
            return covers(more.where, less.where)
        case Restrict() as more, Restrict() as less:
            instead = set(less.overrides) <= set(more.overrides)
            return instead and covers(more.where, less.where) and covers(less.filter, more.filter)
    return False
