"""Rights: what the PDPs, and the owners of types by their capabilities, leave a client of what it asks for.

The broker's PEP asks about the type and everything related to it in one go. A sub-type about which no policy says
anything is treated like the type it extends. Where the broker knows the owner of a type, the client needs a
capability from that owner besides. Whatever was not answered is not granted.
"""

from __future__ import annotations

import contextlib
import logging
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from typing import NamedTuple, TypeAlias

from authz import AuthFabricError, Decision, Entity, PublicKey, Reason, Request
from authz.predicate import paths
from authz.spki import Capability, Grant, Kind, Owners, Right, Validity, Verifier
from pep import Enforcer
from pubsub_core.access.obligation import Reader
from pubsub_core.access.owner_points import OwnerPoints
from pubsub_core.access.restriction import UNRESTRICTED, Restriction, either
from pubsub_core.access.type_object import type_object
from pubsub_core.errors import InvalidObligation
from pubsub_core.trust import Credential
from pubsub_core.types import Catalogue, EventType

_log = logging.getLogger("authfabric.events")

ACTIONS: Mapping[Right, tuple[str, ...]] = {
    Right.PUBLISH: ("advertise", "publish"),
    Right.SUBSCRIBE: ("subscribe",),
}
"""What the PDPs are asked for each right: all of it must be permitted."""
REPLAY = "replay"
"""The action asked for past events instead of `subscribe`."""
CONTEXT = "/context"
"""The object below which fluents stand that select past events."""
TRANSFORM = "transform"
"""The action whose obligations say by which rules a publisher's events are transformed."""
ASKED = (*(action for actions in ACTIONS.values() for action in actions), REPLAY, TRANSFORM)
"""All actions that PDPs are asked about a type."""
Reach: TypeAlias = Callable[[Entity, str], bool]
"""Whether a change of policies may be about an action on an object."""


@dataclass(frozen=True, slots=True)
class Holder:
    """A client, by its credential and the capability chains it has shown."""

    credential: Credential
    chains: tuple[bytes, ...] = ()

    @property
    def parameters(self) -> dict[str, object]:
        """What `$name` in an obligation may stand for."""
        return {
            **self.credential.attributes,
            "subject": self.credential.name,
            "domain": self.credential.domain,
        }


@dataclass(frozen=True, slots=True)
class Ask:
    """A client wants to publish or receive events of a type and its sub-types."""

    holder: Holder
    right: Right
    type: str
    """The type's UUID."""
    fixed: Mapping[str, object] = field(default_factory=dict)
    """The attributes, by name, that the client's filter gives a value: policies know them as `sub`."""
    past: Mapping[str, object] | None = None
    """For past events: from when to when they are wanted, and so on, which policies can see too."""
    fluents: tuple[str, ...] = ()
    """The fluents by which past events are chosen: each must be permitted, since what comes tells when it held."""

    @property
    def needed(self) -> tuple[str, ...]:
        """What must be permitted."""
        return ACTIONS[self.right] if self.past is None else (REPLAY,)

    @property
    def actions(self) -> tuple[str, ...]:
        """All that the PDPs are asked."""
        return (*self.needed, TRANSFORM) if self.right is Right.PUBLISH else self.needed

    @property
    def context(self) -> dict[str, object] | None:
        """What they are told with it."""
        told: dict[str, object] = {"sub": dict(self.fixed)} if self.fixed else {}
        return {**told, **(self.past or {})} or None


@dataclass(frozen=True, slots=True)
class Granted:
    """What is left of it, by the UUIDs of the types concerned."""

    restrictions: Mapping[str, Restriction] = field(default_factory=dict)
    expires: float | None = None
    """Unix time after which it must be asked again."""
    answered: bool = True
    """Whether the fabric answered everything; otherwise it is worth asking again soon."""
    detail: str = ""


class _Asked(NamedTuple):
    """What the PDPs are asked about an `Ask`, by the definitions that there were at the time."""

    ask: Ask
    related: tuple[EventType, ...]
    """The type, what it extends and what extends it, each after what it extends."""
    family: tuple[EventType, ...]
    """The type and what extends it."""
    about_types: Mapping[tuple[str, str], Request]
    """By type and action."""
    about_fluents: Mapping[str, Request]


class _Left(NamedTuple):
    """What is left of a right over one type, and until when that is certain."""

    restriction: Restriction
    end: float | None = None


def _end(validity: Validity, now: float) -> float | None:
    """When a capability has to be looked at again: when it ends, or when news of revocations would be too old."""
    ends = [now + each.seconds for each in validity.rechecks]
    return min(ends if validity.end is None else [*ends, validity.end], default=None)


def _readable(reader: Reader, held: Iterable[tuple[Capability, Grant]], name: str) -> Iterator[Restriction]:
    """What each grant leaves; those that do not fit the type leave nothing. Raises InvalidObligation if none does."""
    problem, fits = None, False
    for capability, grant in held:
        try:
            yield reader.grant(capability, grant, name)
            fits = True
        except InvalidObligation as error:
            problem = error
    if problem is not None and not fits:
        raise problem


class Rights:
    """Asks on behalf of clients."""

    def __init__(
        self,
        pep: Enforcer,
        catalogue: Catalogue,
        owners: Owners | None = None,
        predicates: Iterable[str] = (),
        points: OwnerPoints | None = None,
    ) -> None:
        """`owners` are those without whose capability nobody uses their types, `points` their policies."""
        self._pep = pep
        self._catalogue = catalogue
        self._owners = owners
        self.verifier = Verifier(owners) if owners is not None else None
        self._predicates = tuple(predicates)
        self._points = points
        self.doubt: Callable[[], str] = lambda: ""
        """Why it is not known what was revoked; nothing if it is."""

    async def allows(self, holder: Holder, thing: Entity, action: str, at_least: int = 0) -> Decision:
        """One plain question."""
        return await self._pep.check(holder.credential.entity, thing, action, at_least=at_least)

    async def decide(self, subject: Entity, thing: Entity, action: str, at_least: int = 0) -> Decision:
        """One plain question about anybody."""
        return await self._pep.check(subject, thing, action, at_least=at_least)

    async def grants(self, asks: Sequence[Ask], now: float, at_least: int = 0) -> Iterator[Granted]:
        """What each may, by policies of this epoch or newer. All are asked at once, and worked out one by one."""
        asked = list(map(self._questions, asks))
        questions: dict[bytes | tuple[str, str, str], Request] = {}
        for each in asked:
            for request in (*each.about_types.values(), *each.about_fluents.values()):
                questions.setdefault(request.key, request)
        answers = await self._pep.check_many(questions.values(), at_least=at_least)
        decided = dict(zip(questions, answers, strict=True))
        return (self._granted(each, decided, now) for each in asked)

    def reached(self, types: Iterable[str], reaches: Reach) -> set[str]:
        """The types among these, and related to them, on which a change of policies may leave other rights."""
        related = {each.id: each for id_ in types for each in self._related(id_)}
        found = (
            id_
            for id_, each in related.items()
            if any(reaches(type_object(self._catalogue, each), action) for action in ASKED)
        )
        return {each.id for id_ in found for each in self._catalogue.family(id_)}

    def _related(self, id_: str) -> tuple[EventType, ...]:
        """The type, what it extends and what extends it, each after what it extends; nothing if it is gone."""
        if not self._catalogue.knows(id_):
            return ()
        return (*self._catalogue.lineage(id_)[:-1], *self._catalogue.family(id_))

    def _questions(self, ask: Ask) -> _Asked:
        subject, context, related = ask.holder.credential.entity, ask.context, self._related(ask.type)
        about_types = {
            (each.id, action): Request.of(subject, type_object(self._catalogue, each), action, context)
            for each in related
            for action in ask.actions
        }
        about_fluents = {
            each: Request.of(subject, Entity(f"{CONTEXT}/{each}"), REPLAY, context) for each in ask.fluents
        }
        family = self._catalogue.family(ask.type) if related else ()
        return _Asked(ask, related, family, about_types, about_fluents)

    def _granted(
        self, asked: _Asked, decided: Mapping[bytes | tuple[str, str, str], Decision], now: float
    ) -> Granted:
        ask = asked.ask
        owned = any(map(self._owner, asked.related))
        if owned and (doubt := self.doubt()):
            return Granted(answered=False, detail=f"what was revoked is not known yet: {doubt}")
        effective: dict[tuple[str, str], Decision] = {}
        for each in asked.related:
            for action in ask.actions:
                decision = decided[asked.about_types[each.id, action].key]
                if decision.reason is Reason.NO_POLICY and each.parent is not None:
                    decision = effective.get((each.parent.id, action), decision)
                effective[each.id, action] = decision
        named = {each: decided[request.key] for each, request in asked.about_fluents.items()}
        for fluent, decision in named.items():
            if not decision.allowed:
                problem = f"`replay` on `{CONTEXT}/{fluent}` must be allowed to choose by when it held"
                because = f": {decision.detail}" if decision.detail else ""
                return Granted(answered=decision.decided, detail=problem + because)
        restrictions: dict[str, Restriction] = {}
        ends = [each.expires for each in (*effective.values(), *named.values()) if each.expires is not None]
        for each in asked.family:
            if each.version not in self._catalogue:  # it was taken out meanwhile
                continue
            left = self._left(ask, each, {action: effective[each.id, action] for action in ask.actions}, now)
            if left is not None:
                restrictions[each.id] = left.restriction
                ends += [] if left.end is None else [left.end]
        denials = [
            each for (_, action), each in effective.items() if action != TRANSFORM and not each.allowed
        ]
        return Granted(
            restrictions,
            min(ends, default=None),
            all(each.decided for each in effective.values()),
            denials[-1].detail if denials and not restrictions else "",
        )

    def _left(
        self, ask: Ask, definition: EventType, decisions: Mapping[str, Decision], now: float
    ) -> _Left | None:
        """What the decisions, by action, and the owner's capability leave of one type; None if nothing."""
        needed = [decisions[action] for action in ask.needed]
        altered = decisions.get(TRANSFORM)
        if not all(each.allowed for each in needed) or (altered is not None and not altered.decided):
            return None
        reader = self._reader(ask, definition)
        try:
            obliged = reader.obligations([duty for each in needed for duty in each.obligations])
            if altered is not None and altered.allowed:
                obliged &= reader.rules(altered.obligations)
            owned = self._capability(ask, definition, reader, now)
            said = self._said_by_owners(ask, definition, reader)
        except InvalidObligation as error:
            _log.warning("%s is not granted on `%s`: %s", ask.right, definition.name, error)
            return None
        if owned is None or said is None:
            return None
        left = obliged & owned.restriction & said
        spoken_of = {str(path.keys[0]) for path in paths(left.filter)}.union(
            *(each.attributes.values() for each in left.checks)
        )
        foreign = self._catalogue.retyped(definition.version, spoken_of)
        return _Left(replace(left, foreign=foreign) if foreign else left, owned.end)

    def _said_by_owners(self, ask: Ask, definition: EventType, reader: Reader) -> Restriction | None:
        """What the policies of the type's owner, and of those whose types it extends, leave; None if nothing.

        Rules of each bind by themselves, so that none lets through what another's would not. Raises InvalidObligation.
        """
        left = UNRESTRICTED
        if self._points is None:
            return left
        for action in ask.actions:
            thing = type_object(self._catalogue, definition)
            request = Request.of(ask.holder.credential.entity, thing, action, ask.context)
            for decision in self._points.decide(request, definition):
                if action == TRANSFORM:
                    found = reader.rules(decision.obligations) if decision.allowed else UNRESTRICTED
                elif decision.allowed:
                    found = reader.obligations(decision.obligations)
                else:
                    return None
                left &= replace(found, rules=None, owned=() if found.rules is None else (found.rules,))
        return left

    def _reader(self, ask: Ask, definition: EventType) -> Reader:
        return Reader(
            self._catalogue.names(definition.version),
            ask.holder.parameters,
            ask.right,
            self._predicates,
            definition.version,
            tuple(map(self._catalogue.label, self._catalogue.lineage(definition.id))),
            ask.fixed,
            partial(self._catalogue.ever_called, definition.id),
        )

    def _capability(self, ask: Ask, definition: EventType, reader: Reader, now: float) -> _Left | None:
        """What the owner's capability leaves; None if one is needed and there is none."""
        owner = self._owner(definition)
        if self.verifier is None or owner is None:
            return _Left(UNRESTRICTED)
        if owner != definition.owner_key:  # whatever its owner grants, the name is somebody else's
            return None
        held = [
            (capability, grant)
            for capability in self._shown(ask.holder, now)
            for grant in capability.authority.select(ask.right, definition.name)
        ]
        if not held:
            return None
        left = list(_readable(reader, held, definition.name))
        ends = [end for capability, _ in held if (end := _end(capability.validity, now)) is not None]
        return _Left(either(left), min(ends, default=None))

    def _owner(self, definition: EventType) -> PublicKey | None:
        """Who owns a type of this name, if that is known: then only a capability rooted there will do."""
        return self._owners.owner(Kind.TYPE, definition.name) if self._owners is not None else None

    def _shown(self, holder: Holder, now: float) -> Iterator[Capability]:
        """The capabilities that a client has shown, and that hold."""
        assert self.verifier is not None
        for chain in holder.chains:
            with contextlib.suppress(AuthFabricError):
                capability = self.verifier.verify(chain, now).capability
                if str(capability.subject) == holder.credential.key:
                    yield capability
