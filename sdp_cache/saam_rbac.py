"""SAAM-RBAC: from bare yes and no to what single roles may do, and from that to further answers.

After Wei, Crampton, Beznosov and Ripeanu, "Authorization Recycling in RBAC Systems" (SACMAT 2008). A
permission about which roles alone decide (`Basis.ROLES`) has a set G of roles that hold it, unknown here; a
request with active roles R, closed under juniors if there is a hierarchy, is allowed exactly if R meets G.
Invariants, per permission: every role in `minus` is outside G, and every set in `plus` meets G. Hence R
within `minus` is a deny, and a set A of `plus` with A - minus within R is an allow. `plus` keeps the sets
as they came: were roles taken out of them for good, a set would claim too much once such a role is granted.

Only the PDP can say that roles alone decide. Deny {a}, deny {b}, allow {a, b} is what a policy asking for
both roles answers, and nothing in the answers, nor in their certificates, warns of it before it is too
late.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import NamedTuple, TypeAlias

from authz import Basis, Decision, Inference, Reason, Request
from authz.change import ROLES, Effect, Granted, Revoked
from authz.predicate import And, Equal, Path, disjoint
from sdp_cache.bounded import SecondChance
from sdp_cache.change_log import ChangeLog, Pin
from sdp_cache.role_masks import Mask, RoleMasks, bits

METHOD = "saam-rbac"
MAX_SETS = 256
"""Allowed role sets kept for one permission; the oldest make room."""

Permission: TypeAlias = tuple[str, str]
"""Object and action, by id."""

_ROLES = str(ROLES.keys[0])


class Source(NamedTuple):
    """The answer something was learned from."""

    answer: str
    policies: tuple[str, ...] = ()


class Verdict(NamedTuple):
    """What follows for a request, and from which answers."""

    allowed: bool
    answers: tuple[str, ...]
    policies: tuple[str, ...] = ()


class Knowledge:
    """What is known of one permission, with an index.

    The index holds the clauses A - minus: those of a single role in `_single`, every other one under one of
    its roles, that which fewest stand under. So a clause within R is found by looking under the roles of R,
    not by trying all.
    """

    __slots__ = (
        "_denied",
        "_grouped",
        "_groups",
        "_minus",
        "_plus",
        "_single",
        "_sure",
        "confirmed",
        "epoch",
        "used",
    )

    def __init__(self, epoch: int) -> None:
        self.epoch = epoch
        """The epoch under which all of this is true."""
        self.confirmed = epoch
        """The last epoch under which a PDP said that roles alone decide."""
        self.used = False
        self._minus: Mask = 0
        self._denied: dict[Mask, str] = {}
        self._plus: dict[Mask, Source] = {}
        self._index()

    def decide(self, roles: Mask, complete: bool = True) -> Verdict | None:
        """The answer for these roles, if one follows; not `complete` if there are others, never met."""
        if complete and not roles & ~self._minus:
            return Verdict(False, self._refusals(roles))
        if known := roles & self._sure:
            return self._allowed_by(self._single[known & -known])
        for role in bits(roles & self._grouped):
            for clause, allowed in self._groups[role]:
                if not clause & ~roles:
                    return self._allowed_by(allowed)
        return None

    def deny(self, roles: Mask, answer: str) -> bool:
        """Learn that these roles were refused. False if that contradicts what was known."""
        new = roles & ~self._minus
        self._minus |= new
        self._denied.update((role, answer) for role in bits(new))
        return not any(new & allowed for allowed in self._plus) or self._index()

    def allow(self, roles: Mask, source: Source) -> bool:
        """Learn that these roles were let through. False if that contradicts what was known."""
        if roles in self._plus:
            return True
        if len(self._plus) >= MAX_SETS:
            self._plus = dict(list(self._plus.items())[MAX_SETS // 2 :])
            self._index()
        self._plus[roles] = source
        return self._insert(roles)

    def grant(self, roles: Mask) -> None:
        """These roles may hold the permission from now on."""
        self._minus &= ~roles
        for role in bits(roles):
            self._denied.pop(role, None)
        self._index()

    def revoke(self, role: Mask, affected: Mask, change: str) -> bool:
        """This role holds the permission no longer, and perhaps all those affected do not."""
        self._plus = {allowed: source for allowed, source in self._plus.items() if not allowed & affected}
        self._minus |= role
        self._denied.update((each, change) for each in bits(role))
        return self._index()

    def _index(self) -> bool:
        self._sure: Mask = 0
        self._single: dict[Mask, Mask] = {}
        self._grouped: Mask = 0
        self._groups: dict[Mask, list[tuple[Mask, Mask]]] = {}
        return all(map(self._insert, self._plus))

    def _insert(self, allowed: Mask) -> bool:
        clause = allowed & ~self._minus
        if not clause:
            return False
        if clause & (clause - 1) == 0:
            self._sure |= clause
            self._single.setdefault(clause, allowed)
        elif not clause & self._sure:
            role = min(bits(clause), key=lambda each: len(self._groups.get(each, ())))
            self._grouped |= role
            self._groups.setdefault(role, []).append((clause, allowed))
        return True

    def _allowed_by(self, allowed: Mask) -> Verdict:
        source = self._plus[allowed]
        return Verdict(True, (source.answer, *self._refusals(allowed & self._minus)), source.policies)

    def _refusals(self, roles: Mask) -> tuple[str, ...]:
        return tuple(dict.fromkeys(self._denied[role] for role in bits(roles)))


class SaamRbac:
    """What is known of each permission that roles alone decide about."""

    __slots__ = ("_juniors", "_known", "_log", "_roles", "contradictions")

    def __init__(
        self, log: ChangeLog, juniors: Mapping[str, Sequence[str]] | None = None, size: int = 100_000
    ) -> None:
        self._log = log
        self._known: SecondChance[Permission, Knowledge] = SecondChance(size)
        self.rearrange(juniors or {})
        self.contradictions = 0
        """How often answers under one epoch contradicted each other: a PDP claims `Basis.ROLES` wrongly."""

    def __len__(self) -> int:
        return len(self._known)

    def infer(self, request: Request, now: float) -> Decision | None:
        """What follows for the request's active roles, if roles alone decide about its permission."""
        knowledge = self._current(request.object.id, request.action.id)
        roles = self._roles.read(request.subject.attributes.get(_ROLES))
        if knowledge is None or roles is None:
            return None
        verdict = knowledge.decide(*roles)
        if verdict is None or self._log.touched(request, knowledge.confirmed, besides=(Granted, Revoked)):
            return None
        knowledge.used = True
        return Decision(
            verdict.allowed,
            Reason.POLICY if verdict.allowed else Reason.NO_POLICY,
            verdict.policies,
            epoch=self._log.epoch,
            inferred=Inference(METHOD, verdict.answers),
        )

    def learn(self, request: Request, decision: Decision, answer: str) -> None:
        """Learn from an answer of the current epoch, if it followed from roles alone and never expires."""
        if decision.basis is not Basis.ROLES or decision.expires is not None:
            return
        roles = self._admit(request.subject.attributes.get(_ROLES))
        if roles is None:
            return
        object_, action = request.object.id, request.action.id
        knowledge = self._current(object_, action)
        if knowledge is None:
            knowledge = self._known[object_, action] = Knowledge(self._log.epoch)
        knowledge.confirmed = self._log.epoch
        if decision.allowed:
            consistent = knowledge.allow(roles, Source(answer, decision.policies))
        else:
            consistent = knowledge.deny(roles, answer)
        if not consistent:
            self.contradictions += 1
            self._known.pop((object_, action))

    def clear(self) -> None:
        self.rearrange(self._juniors)

    def rearrange(self, juniors: Mapping[str, Sequence[str]]) -> None:
        """Start over, with this hierarchy: each role with those directly below it."""
        self._juniors = juniors
        self._roles = RoleMasks(juniors)
        self._known.clear()

    def _admit(self, names: object) -> Mask | None:
        """These roles, starting over if there are too many new ones; None if they are no list of names."""
        if not isinstance(names, (list, tuple)) or not all(isinstance(name, str) for name in names):
            return None
        roles = self._roles.admit(names)
        if roles is None:
            self.clear()
            roles = self._roles.admit(names)
        return roles

    def _current(self, object_: str, action: str) -> Knowledge | None:
        """What is known of a permission, brought up to the current epoch; None if nothing is left."""
        knowledge = self._known[object_, action]
        if knowledge is None or knowledge.epoch == self._log.epoch:
            return knowledge
        if knowledge.epoch >= self._log.floor and all(
            self._survives(knowledge, (object_, action), effect, pin)
            for effect, pin in self._log.since(knowledge.epoch)
        ):
            knowledge.epoch = self._log.epoch
            return knowledge
        self._known.pop((object_, action))
        return None

    def _survives(self, knowledge: Knowledge, permission: Permission, effect: Effect, pin: Pin) -> bool:
        """Let an effect act on what is known of a permission; False if nothing can be kept.

        An effect about one subject leaves G alone, since G is about everyone; that subject itself is not
        answered for until a PDP confirms that roles alone decide.
        """
        if isinstance(effect, (Granted, Revoked)):
            return (effect.object, effect.action) != permission or self._reassign(knowledge, effect)
        if pin is not None and pin[0] == "subject":
            return True
        here = And((Equal(Path("object"), permission[0]), Equal(Path("action"), permission[1])))
        return disjoint(effect.where, here)

    def _reassign(self, knowledge: Knowledge, effect: Granted | Revoked) -> bool:
        role = self._roles.bit(effect.role)
        affected = role
        if (
            not self._roles.hierarchical
        ):  # seniors, of which nothing is known here, gain and lose with the role
            if not effect.holders:
                return False
            for holder in effect.holders:
                affected |= self._roles.bit(holder)
        if isinstance(effect, Granted):
            knowledge.grant(affected)
            return True
        return knowledge.revoke(role, affected, f"revoked from `{effect.role}`")
