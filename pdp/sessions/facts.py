"""What role services were told about the world, and which of it counts under which rules.

A rulebook says whose word counts for what, by name: `trust KEY for treats`. So one record may be true in one domain and
mean nothing in another.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Mapping
from typing import TypeAlias

from authz.predicate import paths
from pdp.oasis import Constraint, Fact, Rulebook
from pdp.sessions.environment import (
    Asserted,
    Changed,
    Event,
    Retracted,
    Revoked,
    context_channel,
    fact_channel,
    issuer_channel,
)
from pdp.sessions.membership import TIME
from pdp.sessions.record import ContextRecord, FactRecord, RevokedRecord

Told: TypeAlias = FactRecord | ContextRecord | RevokedRecord


class FactBase:
    """Everything told, by the name of its record."""

    def __init__(self) -> None:
        self._told: dict[str, Told] = {}

    def get(self, name: str) -> Told | None:
        return self._told.get(name)

    def take(self, record: Told) -> None:
        self._told[record.name] = record

    def drop(self, name: str) -> None:
        self._told.pop(name, None)

    def __iter__(self) -> Iterator[Told]:
        return iter(self._told.values())

    def snapshot(self, rulebook: Rulebook) -> Mapping[str, list[Event]]:
        """All there is to say under some rules, by channel: every channel that the rules depend on is there."""
        events: dict[str, list[Event]] = defaultdict(list)
        for channel in channels(rulebook):
            events[channel] = []
        for record in self:
            event = heard(record, rulebook)
            if not isinstance(event, Retracted):
                events[event.channel].append(event)
        return events


def heard(record: Told, rulebook: Rulebook) -> Event:
    """What a record comes to under some rules."""
    match record:
        case RevokedRecord(issuer, serial):
            return Revoked(issuer, serial)
        case FactRecord(fact, holds, key):
            return Asserted(fact) if holds and trusts(rulebook, key, fact.name) else Retracted(fact)
        case ContextRecord(attribute, value, key):
            return Changed(attribute, value if trusts(rulebook, key, attribute) else None)


def trusts(rulebook: Rulebook, key: str, name: str) -> bool:
    """Whether a key's word counts for appointments, facts or attributes of this name."""
    return key in rulebook.trust.get(name, frozenset())


def channels(rulebook: Rulebook) -> Iterator[str]:
    """Where all would be reported that can matter under some rules."""
    conditions = [
        each for rules in rulebook.activations.values() for rule in rules for each in rule.conditions
    ]
    constraints = [each for rule in rulebook.appointings for each in rule.constraints]
    for condition in (*conditions, *constraints):
        if isinstance(condition, Fact):
            yield fact_channel(condition.atom.name)
        elif isinstance(condition, Constraint):
            for path in paths(condition.predicate):
                if path.root == "context" and path.keys[0] != TIME:
                    yield context_channel(str(path.keys[0]))
    for keys in rulebook.trust.values():
        yield from map(issuer_channel, keys)
