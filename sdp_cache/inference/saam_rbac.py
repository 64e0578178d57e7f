"""SAAM-RBAC: from bare yes and no to what roles may do, and from that to further answers.

Invariant: what is known of a permission (see role_knowledge) was taught by answers that followed from roles
alone (`Basis.ROLES`), and is true under the epoch it is stamped with.

Roles are those that requests carry, or, where PDPs look them up, those that decisions name (`Decision.roles`): what a
request carries then does not count. A subject's roles are kept as long as the PDP says that they may be relied on, and
an answer inferred from them expires with them. Which of both it is, is the same for all answers under one epoch.

Only the PDP can say that roles alone decide. Deny {a}, deny {b}, allow {a, b} is what a policy asking for
both roles answers, and nothing in the answers, nor in their certificates, warns of it before it is too
late.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TypeAlias

from authz import Basis, Decision, Inference, Reason, Request
from authz.change import ROLES, Effect, Granted, Revoked
from authz.decision import HeldRoles
from authz.predicate import And, Equal, Path, disjoint
from sdp_cache.inference.clock_cache import WeightedClockCache, places
from sdp_cache.inference.role_knowledge import Knowledge, Source
from sdp_cache.inference.role_masks import Mask, RoleMasks
from sdp_cache.validity import ChangeLog, Pin

METHOD = "saam-rbac"

Permission: TypeAlias = tuple[str, str]
"""Object and action, by id."""

_ROLES = str(ROLES.keys[0])


class _Holder:
    """The roles of a subject that a PDP has looked up."""

    __slots__ = ("answer", "roles", "used")

    def __init__(self, roles: HeldRoles, answer: str) -> None:
        self.roles = roles
        self.answer = answer
        self.used = False

    @property
    def weight(self) -> int:
        return places(self.roles.names)


class SaamRbac:
    """What is known of each permission that roles alone decide about."""

    __slots__ = ("_holders", "_juniors", "_known", "_log", "_looked_up", "_roles", "contradictions")

    def __init__(
        self, log: ChangeLog, juniors: Mapping[str, Sequence[str]] | None = None, size: int = 100_000
    ) -> None:
        self._log = log
        self._known: WeightedClockCache[Permission, Knowledge] = WeightedClockCache(size)
        self._holders: WeightedClockCache[str, _Holder] = WeightedClockCache(size)
        """The roles of subjects, by id, where PDPs look them up."""
        self._looked_up = False
        self.rearrange(juniors or {})
        self.contradictions = 0
        """How often answers under one epoch contradicted each other: a PDP claims `Basis.ROLES` wrongly."""

    def __len__(self) -> int:
        return len(self._known)

    def infer(self, request: Request, now: float) -> Decision | None:
        """What follows for the subject's roles, if roles alone decide about the request's permission."""
        knowledge = self._current(request.object.id, request.action.id)
        if knowledge is None:
            return None
        holder = self._holder(request.subject.id, now) if self._looked_up else None
        if self._looked_up and holder is None:
            return None
        sent = request.subject.attributes.get(_ROLES)
        roles = self._roles.read(sent if holder is None else holder.roles.names)
        verdict = None if roles is None else knowledge.decide(*roles)
        if verdict is None or self._log.touched(request, knowledge.confirmed, besides=(Granted, Revoked)):
            return None
        knowledge.used = True
        answers = verdict.answers
        if holder is not None:
            holder.used = True
            answers = tuple(dict.fromkeys((*answers, holder.answer)))
        return Decision(
            verdict.allowed,
            Reason.POLICY if verdict.allowed else Reason.NO_POLICY,
            verdict.policies,
            epoch=self._log.epoch,
            expires=None if holder is None else holder.roles.until,
            inferred=Inference(METHOD, answers),
        )

    def learn(self, request: Request, decision: Decision, answer: str) -> None:
        """Learn from an answer of the current epoch that followed from roles alone.

        What expires teaches nothing, unless that is because the roles were looked up: which roles may do what does not
        expire with them.
        """
        if decision.basis is not Basis.ROLES or (decision.expires is not None and decision.roles is None):
            return
        if self._looked_up is not (decision.roles is not None):
            self.clear()
            self._looked_up = decision.roles is not None
        sent = request.subject.attributes.get(_ROLES)
        roles = self._admit(sent if decision.roles is None else decision.roles.names)
        if roles is None:
            return
        if decision.roles is not None:
            self._hold(request.subject.id, decision.roles, answer)
        object_, action = request.object.id, request.action.id
        knowledge = self._current(object_, action)
        if knowledge is None:
            knowledge = Knowledge(self._log.epoch)
        knowledge.confirmed = self._log.epoch
        if decision.allowed:
            consistent = knowledge.allow(roles, Source(answer, decision.policies))
        else:
            consistent = knowledge.deny(roles, answer)
        if consistent:
            self._known.keep((object_, action), knowledge)
        else:
            self.contradictions += 1
            self._known.pop((object_, action), None)

    def _holder(self, subject: str, now: float) -> _Holder | None:
        """A subject with its roles, while these may be relied on."""
        holder = self._holders[subject]
        if holder is not None and now >= holder.roles.until:
            del self._holders[subject]
            return None
        return holder

    def _hold(self, subject: str, roles: HeldRoles, answer: str) -> None:
        """Keep what was looked up last: that may be relied on longest."""
        known = self._holders[subject]
        if known is None or roles.until >= known.roles.until:
            self._holders.keep(subject, _Holder(roles, answer))

    def clear(self) -> None:
        self.rearrange(self._juniors)

    def rearrange(self, juniors: Mapping[str, Sequence[str]]) -> None:
        """Start over, with this hierarchy: each role with those directly below it."""
        self._juniors = juniors
        self._roles = RoleMasks(juniors)
        self._known.clear()
        self._holders.clear()

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
        affected = role = self._roles.bit(effect.role)
        if not effect.holders:
            return (
                False  # who else gains or loses is not known: roles with parameters are in no hierarchy here
            )
        if not self._roles.hierarchical:
            # Seniors, of which nothing is known here, gain and lose with the role.
            for holder in effect.holders:
                affected |= self._roles.bit(holder)
        if isinstance(effect, Granted):
            knowledge.grant(affected)
            return True
        return knowledge.revoke(role, affected, f"revoked from `{effect.role}`")
