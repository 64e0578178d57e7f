"""Rules as text, in the one layout that `authfabric rules fmt` gives: what is written is read back as equal rules."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import UTC, datetime

from authz.predicate import TRUE, Predicate
from authz.predicate.filter import write_filter
from authz.rules.syntax import (
    Allow,
    AllowDuring,
    AutoReplay,
    FluentRule,
    Restrict,
    Rule,
    Scope,
    Transform,
    Trigger,
    When,
)
from authz.rules.terms import write_interval


def write_rule(rule: Rule) -> str:
    """One rule, a clause to each line."""
    first, *more = _clauses(rule)
    label = f"{rule.label}: " if rule.label else ""
    return "\n    ".join([label + first, *more]) + "\n"


def _clauses(rule: Rule) -> Iterator[str]:
    match rule.body:
        case Allow(type=type_, asking=asking, where=where, rate=rate):
            yield f"ALLOW {asking.upper()} {type_}"
            yield from _where(where)
            if rate is not None:
                yield f"AT MOST {rate.count} PER '{write_interval(rate.seconds)}'"
        case AllowDuring(fluent=fluent, where=where):
            yield f"ALLOW REPLAY DURING {fluent}"
            yield from _where(where)
        case Restrict(type=type_, filter=filter_, where=where, overrides=overrides):
            yield f"RESTRICT DELIVERY OF {type_}"
            yield from _where(where)
            yield f"FILTER {write_filter(filter_)}"
            yield from _overrides(overrides)
        case Transform() as body:
            yield f"TRANSFORM EVENT {body.type} TO {body.to} ON {body.point}"
            yield f"EXECUTE {' THEN '.join(map(str, body.steps))}"
            yield from _where(body.where)
            yield from _overrides(body.overrides)
        case AutoReplay() as body:
            yield f"AUTO REPLAY EVENT TYPE {body.type}"
            yield from _span(body)
            yield from _where(body.where)
            if body.filter != TRUE:
                yield f"FILTER {write_filter(body.filter)}"
            yield " ".join([f"ON {body.trigger}", *_where(body.trigger_where)])
        case FluentRule() as body:
            yield f"FLUENT {body.name}({', '.join(body.parameters)})"
            yield f"INITIATED BY {_triggers(body.initiated)}"
            yield f"TERMINATED BY {_triggers(body.terminated)}"
            if body.scope is not Scope.LOCAL:
                yield body.scope.upper()


def _where(where: Predicate) -> Iterator[str]:
    if where != TRUE:
        yield f"WHERE {write_filter(where)}"


def _overrides(labels: tuple[str, ...]) -> Iterator[str]:
    if labels:
        yield f"OVERRIDES {', '.join(labels)}"


def _span(body: AutoReplay) -> Iterator[str]:
    if body.start is not None:
        yield f"FROM {_when(body.start)}"
    if body.end is not None:
        yield f"TO {_when(body.end)}"
    if body.during is not None:
        yield f"{'NOT ' if body.during.inverted else ''}DURING {body.during.fluent}"


def _when(when: When) -> str:
    if isinstance(when, float):
        return f"'{datetime.fromtimestamp(when, UTC).isoformat()}'"
    return str(when)


def _triggers(triggers: tuple[Trigger, ...]) -> str:
    return " OR BY ".join(
        " ".join([f"{each.type}({', '.join(each.arguments)})", *_where(each.where)]) for each in triggers
    )
