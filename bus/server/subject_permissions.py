"""From a capability to the subjects its holder may use: exactly those, and never all for want of any.

A holder must be allowed to `connect` to a network, which is a domain of the fabric; what else it may do there
follows from its other rights. What subjects cannot express, such as conditions on content, binds all the same,
where content is seen.

Three habits of the NATS server are provided for (measured: docs/design/admission.md). It weighs the subject of a
subscription as if it were a name, so `a.>` passes where `a.*` is allowed: whatever ends in `*` comes with a denial
of all that lies below. And a denial inside what is allowed filters message by message, so exceptions hold for
wildcards too. Its own rule for answers (`allow_responses`) is not used: whoever asks names where to answer, so a
member who asks itself could publish anywhere.
"""

from __future__ import annotations

import hashlib
from collections.abc import Collection, Iterable, Iterator
from dataclasses import dataclass
from functools import reduce

from authz.spki import Capability, Grant, Kind, Right
from bus.server import role_subjects as members
from bus.wire import subjects

_NONE: frozenset[str] = frozenset()
_ANY = "*"


@dataclass(frozen=True, slots=True)
class Permissions:
    """The subjects that a connection may publish and subscribe to, as NATS writes them. A denial is stronger."""

    publish: frozenset[str] = _NONE
    subscribe: frozenset[str] = _NONE
    publish_denied: frozenset[str] = _NONE
    subscribe_denied: frozenset[str] = _NONE

    def union(self, other: Permissions) -> Permissions:
        """What either gives, as far as subjects can say that: what one denies, the other must allow as a whole."""
        return Permissions(
            self.publish | other.publish,
            self.subscribe | other.subscribe,
            _left(self.publish_denied, other.publish, other.publish_denied)
            | _left(other.publish_denied, self.publish, self.publish_denied),
            _left(self.subscribe_denied, other.subscribe, other.subscribe_denied)
            | _left(other.subscribe_denied, self.subscribe, self.subscribe_denied),
        )


@dataclass(frozen=True, slots=True)
class Carried:
    """The types that a broker may carry where it has the right to `carry`."""

    allowed: frozenset[tuple[str, str]] = frozenset()
    """The word for an owner's key, and the UUID of a type of that owner; each may be `*` for all."""
    denied: frozenset[tuple[str, str]] = frozenset()
    """Of those, what it may not carry all the same."""
    storage: frozenset[str] = frozenset()
    """The storage classes besides those that there are everywhere."""

    def allows(self, owner: str, type_: str) -> bool:
        """Whether it may carry a type of an owner."""
        of = {(owner, type_), (owner, _ANY), (_ANY, type_), (_ANY, _ANY)}
        return not self.allowed.isdisjoint(of) and self.denied.isdisjoint(of)

    def with_mark(self, place: str) -> Carried:
        """The same, and the marks by which whoever has this place knows how far it has read a stream."""
        mark = subjects.parcel_place(subjects.mark("", place))
        return Carried(self.allowed | {(mark.owner, mark.type)}, self.denied, self.storage)

    def covers(self, other: Carried) -> bool:
        """Whether whoever may carry this may carry all that the other says."""
        allowed = all(self.allows(*each) for each in other.allowed)
        return allowed and self.denied <= other.denied

    @property
    def mark(self) -> str:
        """What stands for exactly this."""
        said = repr([sorted(each) for each in (self.allowed, self.denied, self.storage)])
        return hashlib.blake2b(said.encode(), digest_size=12).hexdigest()


NOTHING_CARRIED = Carried()


def permissions(
    capability: Capability,
    grants: Iterable[Grant],
    domains: Collection[str] = (),
    carried: Carried = NOTHING_CARRIED,
) -> Permissions:
    """What the holder may publish and subscribe to by these grants; nothing, unless one of them lets it connect.

    A prefix of networks stands for those of the known domains that lie below it. Whoever may `carry` in a network does
    so with the types in `carried`.
    """
    held = tuple(grants)
    networks = {each for grant in held if grant.allows(Right.CONNECT) for each in _networks(grant, domains)}
    if not networks:
        return Permissions()
    place = subjects.place(capability.subject)
    private, answered = f"{subjects.inbox(capability.subject)}.>", f"{subjects.answers(place)}.>"
    mail = {members.mail(network, place) for network in networks}
    common = {*members.COMMON, private, answered} | (
        {subjects.revoke(place)} if capability.delegate else set()
    )
    parts = (part for grant in held for part in _parts(grant, place, networks, domains, carried))
    return reduce(
        Permissions.union, parts, Permissions(frozenset(common), frozenset({private, answered, *mail}))
    )


def _parts(
    grant: Grant, place: str, networks: Collection[str], domains: Collection[str], carried: Carried
) -> Iterator[Permissions]:
    """What one grant means in the networks that its holder may connect to; `place` is the word for its key."""
    if grant.resource.kind in (Kind.NETWORK, Kind.ANY):
        own = {meet for each in _networks(grant, domains) for mine in networks for meet in _meet(each, mine)}
        yield from (_in_network(grant, network, place, carried) for network in own)
    if grant.allows(Right.DECIDE):
        yield from (_decide(grant, network) for network in networks)


def _in_network(grant: Grant, network: str, place: str, carried: Carried) -> Permissions:
    publish, subscribe, denied = set[str](), set[str](), set[str]()
    if grant.allows(Right.CONNECT):
        publish |= members.asking(network)
        subscribe |= members.hearing(network)
    if grant.allows(Right.INSTALL):
        publish |= members.releasing(network, place)
        subscribe |= members.installing(network)
    if grant.allows(Right.CARRY):
        publish |= members.carrying(network, place, carried.storage)
        publish |= {members.publishing(network, *each) for each in carried.allowed}
        denied |= {members.publishing(network, *each) for each in carried.denied}
        subscribe |= members.brokering(network, place)
    if grant.allows(Right.AUDIT):
        publish |= members.reading_audit(network)
        subscribe |= members.auditing(network)
    if grant.allows(Right.PROVIDE):
        publish |= members.keeping(network)
        subscribe |= members.providing(network)
    excepted = {each for name in grant.resource.exceptions for each in members.within(subjects.token(name))}
    if any(map(grant.allows, (Right.PROVIDE, Right.INSTALL, Right.CARRY))):
        publish.add(subjects.ANSWERS)
    return _guarded(publish, subscribe, excepted | denied, excepted)


def _decide(grant: Grant, network: str) -> Permissions:
    pattern = _ANY if grant.resource.kind is Kind.ANY else grant.resource.pattern
    subscribe = {members.asked_about(network, pattern)} | members.serving(network, whole=pattern == _ANY)
    denied = {members.asked_about(network, each) for each in grant.resource.exceptions}
    if pattern.endswith("/*"):  # the name of a prefix is none of those below it
        denied.add(members.asked_about(network, pattern[:-2] or "/"))
    return _guarded({*members.deciding(network), subjects.ANSWERS}, subscribe, set(), denied)


def _guarded(
    publish: set[str], subscribe: set[str], publish_denied: set[str], denied: set[str]
) -> Permissions:
    below = {f"{subject}.>" for subject in subscribe if subject.endswith(".*")}
    return Permissions(
        frozenset(publish),
        frozenset(subscribe),
        frozenset(publish_denied),
        frozenset(denied | below),
    )


def _networks(grant: Grant, domains: Collection[str]) -> set[str]:
    """The networks of a grant as tokens, `*` for all."""
    pattern = grant.resource.pattern
    if pattern == _ANY:
        return {_ANY}
    if not pattern.endswith(_ANY):
        return {subjects.token(pattern)}
    return {subjects.token(name) for name in domains if grant.resource.matches(Kind.NETWORK, name)}


def _meet(one: str, other: str) -> tuple[str, ...]:
    if one == other or other == _ANY:
        return (one,)
    return (other,) if one == _ANY else ()


def _left(denied: Iterable[str], allowed: Collection[str], also_denied: Collection[str]) -> frozenset[str]:
    """What stays denied although somebody else allows this: all of it, or where the other has denials within."""
    left = set[str]()
    for each in denied:
        whole = any(subset(each, other) for other in allowed)
        left.update(filter(None, (overlap(each, other) for other in also_denied)) if whole else (each,))
    return frozenset(left)


def overlap(one: str, other: str) -> str:
    """The subject that matches whatever both match; nothing if there is none such."""
    words = list[str]()
    mine, its = one.split("."), other.split(".")
    for number, (word, its_word) in enumerate(zip(mine, its, strict=False)):
        if ">" in (word, its_word):
            return ".".join([*words, *(its if word == ">" else mine)[number:]])
        if word != its_word and "*" not in (word, its_word):
            return ""
        words.append(its_word if word == "*" else word)
    return ".".join(words) if len(mine) == len(its) else ""


def subset(inner: str, outer: str) -> bool:
    """Whether whatever the subject `inner` matches, `outer` matches too."""
    words, others = inner.split("."), outer.split(".")
    for number, other in enumerate(others):
        if other == ">":
            return len(words) > number
        if number >= len(words) or words[number] == ">" or other not in ("*", words[number]):
            return False
    return len(words) == len(others)
