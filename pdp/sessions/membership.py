"""Who is in which role, and what that depends on: the graph along which deactivation cascades.

The membership rule of a role is the tagged part of the activation rule by which it was activated. Invariant: every
membership in the graph has all it rests on; taking something away takes everything that rests on it, at once. Since a
role can only rest on roles that were active before it, the graph has no cycles.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Self, TypeAlias

from authz.predicate import Predicate, paths
from pdp.oasis import PRINCIPAL, Activation, Bindings, Constraint, Instance, Prerequisite
from pdp.sessions.activation import Proof
from pdp.sessions.appointment import Appointment
from pdp.sessions.environment import context_channel, fact_channel, issuer_channel

TIME = "time"
"""The attribute of the context that is always there: `context.time`, in Unix seconds."""


@dataclass(frozen=True, slots=True)
class Holding:
    """A role in a session."""

    session: str
    role: Instance


@dataclass(frozen=True, slots=True)
class AppointmentName:
    """An appointment, by what identifies it."""

    issuer: str
    serial: str


@dataclass(frozen=True, slots=True)
class ContextName:
    """An attribute of the context, whose change calls for a fresh look."""

    name: str


@dataclass(frozen=True, slots=True)
class ChannelName:
    """A channel that must be heard."""

    name: str


Ground: TypeAlias = Holding | AppointmentName | Instance | ContextName | ChannelName
"""What a membership may rest on; an Instance is a fact."""


@dataclass(frozen=True, slots=True)
class Membership:
    """A role that is active: the rule that gave it, and what of that rule must stay true."""

    session: str
    role: Instance
    rule: Activation
    bindings: Bindings
    grounds: frozenset[Ground] = frozenset()
    constraints: tuple[Predicate, ...] = ()
    until: float | None = None
    """When it ends by itself, in Unix seconds."""

    @classmethod
    def of(cls, session: str, proof: Proof) -> Self:
        """What the tagged conditions of the proof's rule come to."""
        tagged = [(condition, support) for condition, support in proof.supports if condition.member]
        ends = [
            each.expires for _, each in tagged if isinstance(each, Appointment) and each.expires is not None
        ]
        return cls(
            session,
            proof.role,
            proof.rule,
            proof.bindings,
            frozenset(
                ground for condition, support in tagged for ground in _grounds(session, condition, support)
            ),
            tuple(condition.predicate for condition, _ in tagged if isinstance(condition, Constraint)),
            min(ends, default=None),
        )

    @property
    def holding(self) -> Holding:
        return Holding(self.session, self.role)


def _grounds(session: str, condition: object, support: object) -> Iterator[Ground]:
    """What must stay as it is for a condition to stay true, with the channels that would report a change."""
    if isinstance(condition, Constraint):
        for path in paths(condition.predicate):
            if path.root == "context":
                name = str(path.keys[0])
                yield ContextName(name)
                if name != TIME:
                    yield ChannelName(context_channel(name))
    elif isinstance(support, Appointment):
        yield AppointmentName(support.issuer, support.serial)
        yield ChannelName(issuer_channel(support.issuer))
    elif isinstance(support, Instance) and isinstance(condition, Prerequisite):
        yield Holding(session, support)
    elif isinstance(support, Instance) and support.name != PRINCIPAL:
        yield support
        yield ChannelName(fact_channel(support.name))


@dataclass(frozen=True, slots=True)
class Deactivation:
    """A role that is active no longer, and why."""

    session: str
    role: Instance
    cause: str

    def __str__(self) -> str:
        return f"`{self.role}` in session `{self.session}`: {self.cause}"


class Memberships:
    """All active roles, with an index from what they rest on."""

    def __init__(self) -> None:
        self._held: dict[Holding, Membership] = {}
        self._resting: dict[Ground, dict[Holding, None]] = {}

    def __iter__(self) -> Iterator[Membership]:
        return iter(self._held.values())

    def get(self, holding: Holding) -> Membership | None:
        return self._held.get(holding)

    def add(self, membership: Membership) -> None:
        self._held[membership.holding] = membership
        for ground in membership.grounds:
            self._resting.setdefault(ground, {})[membership.holding] = None

    def resting_on(self, ground: Ground) -> tuple[Membership, ...]:
        return tuple(self._held[each] for each in self._resting.get(ground, ()))

    def collapse(self, roots: Iterable[tuple[Holding, str]]) -> tuple[Deactivation, ...]:
        """Take these away, each for its cause, and all that rests on them."""
        pending = list(roots)
        gone: list[Deactivation] = []
        for holding, cause in pending:
            if (membership := self._held.pop(holding, None)) is not None:
                self._release(membership)
                gone.append(Deactivation(holding.session, holding.role, cause))
                lost = f"`{holding.role}` is no longer active"
                pending.extend((each, lost) for each in self._resting.get(holding, ()))
        return tuple(gone)

    def _release(self, membership: Membership) -> None:
        for ground in membership.grounds:
            resting = self._resting[ground]
            del resting[membership.holding]
            if not resting:
                del self._resting[ground]
