"""What a policy change may alter, so that caches forget exactly that; and how the feed says that it is alive.

The promise of a change, on which every cache relies: about a request that lies in the `where` of none of its
effects, the same things decide after the change as before. A condition on an attribute that PDPs look up for
themselves has no place in a `where`, since nobody else can test it; leaving it out only widens the `where`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Literal, TypeAlias

import msgspec

from authz.errors import InvalidPredicate
from authz.predicate import TRUE, And, Equal, Overlaps, Path, Predicate, Prefix, compile_predicate, widen
from authz.request import Entity, Request

ROLES = Path("subject", ("roles",))
"""Where a request lists the active roles of its subject, by name."""


class Touched(msgspec.Struct, frozen=True, array_like=True, tag="touched"):
    """A policy was added, altered or removed: `where` holds wherever its old or its new form applies."""

    where: Predicate


class _Assignment(msgspec.Struct, frozen=True, array_like=True):
    role: str
    object: str
    action: str
    holders: tuple[str, ...] = ()
    """The role and all roles senior to it, if requests list roles; empty if anyone may be affected."""

    @property
    def where(self) -> Predicate:
        permission = (Equal(Path("object"), self.object), Equal(Path("action"), self.action))
        return And((*permission, Overlaps(ROLES, self.holders)) if self.holders else permission)


class Granted(_Assignment, frozen=True, tag="granted"):
    """The role received this permission, and nothing else about the permission changed."""


class Revoked(_Assignment, frozen=True, tag="revoked"):
    """The role lost this permission and has it by no other grant; nothing else about it changed."""


class Relabelled(msgspec.Struct, frozen=True, array_like=True, tag="relabelled"):
    """A subject or an object has another label now, and nothing else about it changed."""

    kind: Literal["subject", "object"]
    id: str

    @property
    def where(self) -> Predicate:
        return Equal(Path(self.kind), self.id)


class RelabelledBelow(msgspec.Struct, frozen=True, array_like=True, tag="relabelled-below"):
    """Subjects or objects whose ids start so may have other labels now, and nothing else about them changed.

    It is no field of `Relabelled`: whoever does not know this effect must refuse the change, not take it for less.
    """

    kind: Literal["subject", "object"]
    prefix: str

    @property
    def where(self) -> Predicate:
        return Prefix(Path(self.kind), self.prefix)


Effect: TypeAlias = Touched | Granted | Revoked | Relabelled | RelabelledBelow


class PolicyChange(msgspec.Struct, frozen=True):
    """A step from one epoch to the next."""

    epoch: int
    previous: int
    """The epoch this step starts from. A cache at any other epoch has missed a change."""
    effects: tuple[Effect, ...] = ()
    whole: bool = False
    """Nothing is known about what changed: everything may have."""
    juniors: dict[str, tuple[str, ...]] | None = None
    """The role hierarchy from now on, each role with those directly below it; None if it stays as it was."""


class Heartbeat(msgspec.Struct, frozen=True):
    """The feed's heartbeat: at the instant `at` its newest change was number `sequence`, to epoch `epoch`.

    It extends leases. The instant is when the sender asked the store, by the sender's clock. A sender cut off from the
    store has nothing new to say, and must not say the old again with a new time.
    """

    epoch: int
    sequence: int
    at: float


def compile_reach(changes: Iterable[PolicyChange]) -> Callable[[Entity, str], bool]:
    """Whether any of these changes may be about an action on an object, whoever asks and in whatever context."""
    changes = tuple(changes)
    if any(each.whole for each in changes):
        return lambda object, action: True
    wide = {_reach(effect.where) for each in changes for effect in each.effects}
    if TRUE in wide:
        return lambda object, action: True
    try:
        tests = [compile_predicate(each) for each in wide]
    except InvalidPredicate:
        return lambda object, action: True
    anybody = Entity("?")

    def reaches(object: Entity, action: str) -> bool:
        request = Request(anybody, object, Entity(action))
        return any(test(request) for test in tests)

    return reaches


def _reach(where: Predicate) -> Predicate:
    """What a condition says of object and action, true at least wherever the whole may be."""
    return widen(where, lambda path: path.root in ("subject", "context"))
