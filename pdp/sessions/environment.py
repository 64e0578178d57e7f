"""What is known about the world, and for how long it may be believed: facts, context and revocations by channel.

The invariant: something is known only while the channel that would report its end is watched and not silent. So a
change between looking and listening cannot be missed, and a cut line fails closed.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from typing import TypeAlias

from pdp.oasis import Atom, Bindings, Constant, Instance, NotWatched, Variable


@dataclass(frozen=True, slots=True)
class Asserted:
    """A fact has become true."""

    fact: Instance

    @property
    def channel(self) -> str:
        return fact_channel(self.fact.name)


@dataclass(frozen=True, slots=True)
class Retracted:
    """A fact is true no longer."""

    fact: Instance

    @property
    def channel(self) -> str:
        return fact_channel(self.fact.name)


@dataclass(frozen=True, slots=True)
class Changed:
    """An attribute of the context has this value now; None if it has none."""

    name: str
    value: object

    @property
    def channel(self) -> str:
        return context_channel(self.name)


@dataclass(frozen=True, slots=True)
class Revoked:
    """An appointment counts no longer."""

    issuer: str
    serial: str

    @property
    def channel(self) -> str:
        return issuer_channel(self.issuer)


@dataclass(frozen=True, slots=True)
class Alive:
    """Nothing has changed, and the channel is still there to say so."""

    channel: str


Event: TypeAlias = Asserted | Retracted | Changed | Revoked | Alive


def fact_channel(relation: str) -> str:
    return f"fact/{relation}"


def context_channel(name: str) -> str:
    return f"context/{name}"


def issuer_channel(issuer: str) -> str:
    return f"issuer/{issuer}"


@dataclass(slots=True)
class _Channel:
    heard: float
    patience: float | None
    settled: set[object] | None = field(default_factory=set)
    """What was reported since the watch began, and so better known than from a snapshot; None once one is loaded."""


class Environment:
    """The state of the world as heard over channels. It reads no clock: `now` is passed in."""

    def __init__(self) -> None:
        self.context: dict[str, object] = {}
        self._facts: dict[str, Relation] = {}
        self._revoked: set[tuple[str, str]] = set()
        self._channels: dict[str, _Channel] = {}

    def watch(self, channel: str, now: float, patience: float | None = None) -> None:
        """Begin to listen. A channel silent for longer than its patience, in seconds, is no longer believed."""
        self._channels[channel] = _Channel(now, patience)

    def watched(self, channel: str) -> bool:
        return channel in self._channels

    def hear(self, event: Event, now: float) -> None:
        """Take in an event. Over a channel that is not watched, only a revocation is believed."""
        channel = self._channels.get(event.channel)
        if channel is not None:
            channel.heard = now
            if channel.settled is not None:
                channel.settled.add(_subject(event))
        if channel is not None or isinstance(event, Revoked):
            self._apply(event)

    def load(self, channel: str, snapshot: Iterable[Event]) -> tuple[Event, ...]:
        """Take in all there is to say on a channel, as read after the watch began; returns what is new by it.

        What has been heard since the watch began counts more, being at least as recent. What was known before and is in
        neither has ended. Raises NotWatched if no watch has begun since the last snapshot.
        """
        state = self._channels.get(channel)
        if state is None or state.settled is None:
            raise NotWatched(channel)
        told = {_subject(event): event for event in snapshot if event.channel == channel}
        ended = {subject: event for subject, event in self._ends(channel) if subject not in told}
        events = [event for subject, event in (ended | told).items() if subject not in state.settled]
        for event in events:
            self._apply(event)
        state.settled = None
        return tuple(events)

    def forget_silent(self, now: float) -> tuple[str, ...]:
        """Stop believing channels that have been silent too long; what they said is forgotten. Returns them."""
        silent = tuple(
            name
            for name, state in self._channels.items()
            if state.patience is not None and now - state.heard > state.patience
        )
        for name in silent:
            self.unwatch(name)
        return silent

    def unwatch(self, channel: str) -> None:
        """Stop listening, and so forget what the channel has said."""
        self._channels.pop(channel, None)
        kind, _, name = channel.partition("/")
        if kind == "fact":
            self._facts.pop(name, None)
        elif kind == "context":
            self.context.pop(name, None)

    def revoked(self, issuer: str, serial: str) -> bool:
        """Whether an appointment has ended, or would end unheard."""
        return not self.watched(issuer_channel(issuer)) or (issuer, serial) in self._revoked

    def facts(self, pattern: Atom, bindings: Bindings) -> Iterable[Instance]:
        """The facts that may match the pattern under the bindings, and perhaps some that do not."""
        relation = self._facts.get(pattern.name)
        return relation.candidates(pattern, bindings) if relation is not None else ()

    def _ends(self, channel: str) -> Iterator[tuple[object, Event]]:
        """What would be said if everything known from a channel ended, by what it is about."""
        kind, _, name = channel.partition("/")
        if kind == "fact" and name in self._facts:
            yield from ((fact, Retracted(fact)) for fact in self._facts[name].facts)
        elif kind == "context" and name in self.context:
            yield name, Changed(name, None)

    def _apply(self, event: Event) -> None:
        match event:
            case Revoked(issuer, serial):
                self._revoked.add((issuer, serial))
            case Asserted(fact):
                self._facts.setdefault(fact.name, Relation()).add(fact)
            case Retracted(fact):
                self._facts.setdefault(fact.name, Relation()).remove(fact)
            case Changed(name, None):
                self.context.pop(name, None)
            case Changed(name, value):
                self.context[name] = value


class Relation:
    """The facts of one name, found by any one of their parameters."""

    def __init__(self) -> None:
        self.facts: dict[Instance, None] = {}
        self._by_param: dict[tuple[int, Constant], dict[Instance, None]] = {}

    def add(self, fact: Instance) -> None:
        self.facts[fact] = None
        for place in enumerate(fact.params):
            self._by_param.setdefault(place, {})[fact] = None

    def remove(self, fact: Instance) -> None:
        self.facts.pop(fact, None)
        for place in enumerate(fact.params):
            facts = self._by_param.get(place, {})
            facts.pop(fact, None)
            if not facts:
                self._by_param.pop(place, None)

    def candidates(self, pattern: Atom, bindings: Bindings) -> Iterable[Instance]:
        """The shortest list that holds every match, in the order the facts became known."""
        best = self.facts
        for place, term in enumerate(pattern.args):
            value = bindings.get(term.name) if isinstance(term, Variable) else term
            if value is not None:
                found = self._by_param.get((place, value), {})
                best = min(best, found, key=len)
        return tuple(best)


def _subject(event: Event) -> object:
    """What an event is about: of two events about the same thing, the later one tells how it is."""
    match event:
        case Asserted(fact) | Retracted(fact):
            return fact
        case Changed(name):
            return name
        case Revoked(issuer, serial):
            return issuer, serial
        case Alive(channel):
            return channel
