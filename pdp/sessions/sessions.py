"""The sessions of a domain: roles are activated by proof, watched while they last, and fall with what they rest on.

A state machine without I/O. Events, snapshots and the time are handed in; what ended as a consequence is handed back.
Nothing happens between calls: whoever drives it calls `advance` before asking, and as often as timers matter.
"""

from __future__ import annotations

import heapq
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from itertools import count

from authz import Entity, Identity
from authz.request import Attributes
from pdp.oasis import Atom, Instance, NotEntitled, Rulebook, SessionInUse, UnknownSession, Variable
from pdp.sessions.activation import Proof, Search, Shortfall
from pdp.sessions.appointment import Appointment
from pdp.sessions.environment import Changed, Environment, Event, Retracted, Revoked
from pdp.sessions.membership import (
    TIME,
    AppointmentName,
    ChannelName,
    ContextName,
    Deactivation,
    Ground,
    Holding,
    Membership,
    Memberships,
)
from pdp.sessions.session import HeldRole, Kept, Session, View, rule_text


@dataclass(frozen=True, slots=True)
class Refusal:
    """Why a role was not activated: what each rule for it lacked, or which roles were meant."""

    role: str
    shortfalls: tuple[Shortfall, ...] = ()
    candidates: tuple[Instance, ...] = ()
    """More than one if the role was asked for with open parameters, and they do not follow."""

    def __str__(self) -> str:
        if self.candidates:
            return (
                f"`{self.role}` may be "
                + " or ".join(f"`{each}`" for each in self.candidates)
                + ": say which"
            )
        return "; ".join(map(str, self.shortfalls)) or f"no rule gives `{self.role}`"


@dataclass(frozen=True, slots=True)
class Draft:
    """An appointment somebody wants to give: its content, to whom, and for how long."""

    content: Instance
    holder: str
    serial: str
    expires: float | None = None
    bound: bool = False
    """Whether it ends with the session in which it is given."""


@dataclass(frozen=True, slots=True)
class Cascade:
    """What ended: roles here, and appointments, of which their issuer's channel must tell everyone else."""

    deactivated: tuple[Deactivation, ...] = ()
    revoked: tuple[Revoked, ...] = ()


class Sessions:
    """All sessions under one rulebook."""

    def __init__(self, rulebook: Rulebook, now: float) -> None:
        self._rulebook = rulebook
        self._now = now
        self._environment = Environment()
        self._memberships = Memberships()
        self._sessions: dict[str, Session] = {}
        self._timers: list[tuple[float, int, Membership]] = []
        self._ticket = count()

    # Sessions

    def open(self, session: str, principal: str, attributes: Attributes | None = None) -> None:
        """Begin a session for a principal who has been authenticated; its attributes stay as they are given."""
        if session in self._sessions:
            raise SessionInUse(session)
        self._sessions[session] = Session(session, Entity(principal, attributes or {}))

    def close(self, session: str) -> Cascade:
        """Log out: every role of the session ends, and so do the appointments bound to it."""
        closed = self._sessions.get(session)
        if closed is None:
            return Cascade()
        gone = self._collapse((Holding(session, role), "logged out") for role in closed.roles)
        del self._sessions[session]
        ended = tuple(Revoked(each.issuer, each.serial) for each in closed.bound)
        return Cascade(gone + tuple(each for event in ended for each in self.hear(event)), ended)

    def keep(self, session: str) -> Kept:
        """What it takes to go on with a session elsewhere."""
        kept = self._session(session)
        held = (self._memberships.get(Holding(session, role)) for role in kept.roles)
        return Kept(
            tuple(kept.appointments.values()),
            tuple(kept.bound),
            tuple(HeldRole(each.role, rule_text(each.rule), each.bindings) for each in held if each),
        )

    def restore(self, session: str, principal: Entity, kept: Kept) -> tuple[Deactivation, ...]:
        """Go on with a session as it was kept, in place of what is known of it; returns the roles that ended meanwhile.

        Each role must be given by a rule that is still there, and all that is marked in it must hold. Certificates were
        verified when they were presented; what counts now is whether their issuers are still trusted.
        """
        self.drop(session)
        restored = self._sessions[session] = Session(session, principal, bound=list(kept.bound))
        for each in kept.appointments:
            if each.issuer in self._rulebook.trust.get(each.name, frozenset()):
                restored.appointments[each.issuer, each.serial] = each
        gone: list[Deactivation] = []
        for held in kept.held:
            proof = self._reprove(session, held)
            if proof is not None:
                self._enter(restored, proof)
            else:
                gone.append(Deactivation(session, held.role, "what it rests on is there no longer"))
        return tuple(gone)

    def drop(self, session: str) -> None:
        """Forget a session that goes on elsewhere: nothing else ends by it."""
        known = self._sessions.pop(session, None)
        if known is not None:
            self._memberships.collapse([(Holding(session, role), "") for role in known.roles])

    def present(self, session: str, appointment: Appointment) -> None:
        """Show a certificate. Raises InvalidAppointment or InvalidSignature if it does not count here."""
        holder = self._session(session)
        appointment.check(holder.principal.id, self._rulebook.trust.get(appointment.name, frozenset()))
        holder.appointments[appointment.issuer, appointment.serial] = appointment

    def roles(self, session: str) -> tuple[Instance, ...]:
        """The active roles, in the order of their activation."""
        return tuple(self._session(session).roles)

    def attributes(self, session: str) -> Attributes:
        """What a session tells a decision point about its principal: the active roles as text."""
        return {"roles": [str(role) for role in self.roles(session)]}

    def until(self, session: str) -> float | None:
        """When the first of its active roles will end by itself; None if none will."""
        held = (self._memberships.get(Holding(session, role)) for role in self.roles(session))
        return min((each.until for each in held if each and each.until is not None), default=None)

    # Roles

    def activate(self, session: str, role: str | Atom) -> Membership | Refusal:
        """Activate a role. `_` for a parameter, or a bare name, leaves it to the rules to find the values."""
        view = self._view(session)
        searches = list(self._searches(view, role))
        found: dict[Instance, Proof] = {}
        for search in searches:
            for proof in search.proofs():
                found.setdefault(proof.role, proof)
                if search.determined:
                    break
                if len(found) > 1:
                    return Refusal(str(role), candidates=tuple(found))
        if not found:
            return Refusal(str(role), tuple(search.shortfall for search in searches))
        return self._enter(view.session, next(iter(found.values())))

    def deactivate(self, session: str, role: Instance) -> tuple[Deactivation, ...]:
        """Give up a role, and with it all that rests on it."""
        self._session(session)
        return self._collapse([(Holding(session, role), "given up")])

    # Appointments

    def appoint(self, session: str, draft: Draft, issuer: Identity) -> Appointment:
        """Give an appointment, signed in the domain's name. Raises NotEntitled if no role of the session may."""
        view = self._view(session)
        role = view.appointing_role(self._rulebook.appointings, draft.content)
        if role is None:
            raise NotEntitled(view.session.principal.id, "give", str(draft.content))
        appointment = Appointment(
            str(issuer.public),
            draft.serial,
            draft.content.name,
            draft.content.params,
            draft.holder,
            self._now,
            draft.expires,
            view.session.principal.id,
            role,
            session if draft.bound else "",
        ).signed(issuer)
        if draft.bound:
            view.session.bound.append(appointment)
        return appointment

    def revoke(self, appointment: Appointment, by: str | None) -> Cascade:
        """End an appointment; `by` is a session, or None for the system.

        Its appointer may, and whoever is in the role it was given by and could give it now. Others get NotEntitled.
        """
        if by is not None:
            self.may_revoke(appointment, by)
        event = Revoked(appointment.issuer, appointment.serial)
        return Cascade(self.hear(event), (event,))

    def may_revoke(self, appointment: Appointment, by: str) -> None:
        """Raise NotEntitled unless an appointment may be revoked in this session."""
        view = self._view(by)
        rules = [rule for rule in self._rulebook.appointings if rule.role.name == appointment.role]
        own = view.session.principal.id == appointment.appointer
        if not own and view.appointing_role(rules, appointment.content) is None:
            raise NotEntitled(view.session.principal.id, "revoke", str(appointment.content))

    # The world

    def watch(self, channel: str, patience: float | None = None) -> None:
        """Say that this channel is listened to from now on; silence beyond `patience` seconds ends all it carried."""
        self._environment.watch(channel, self._now, patience)

    def load(self, channel: str, snapshot: Iterable[Event]) -> tuple[Deactivation, ...]:
        """Hand in all there is to say on a channel, as read after its watch began; returns the roles that end by it.

        Raises NotWatched if no watch has begun since the last snapshot.
        """
        events = self._environment.load(channel, snapshot)
        return self._collapse([root for event in events for root in self._shaken(event)])

    def hear(self, event: Event) -> tuple[Deactivation, ...]:
        """Hand in what a channel reports; returns the roles that end by it."""
        self._environment.hear(event, self._now)
        return self._collapse(self._shaken(event))

    def advance(self, now: float) -> tuple[Deactivation, ...]:
        """Let time pass; returns the roles that end by expiry, by a constraint on the time, or by silence."""
        self._now = max(self._now, now)
        silent = self._environment.forget_silent(self._now)
        roots = [each for name in silent for each in self._all_on(ChannelName(name), f"`{name}` is silent")]
        while self._timers and self._timers[0][0] <= self._now:
            due = heapq.heappop(self._timers)[2]
            if self._memberships.get(due.holding) is due:
                roots.append((due.holding, "its appointment expired"))
        return self._collapse([*roots, *self._failing(TIME)])

    def adopt(self, rulebook: Rulebook) -> tuple[Deactivation, ...]:
        """Put other rules in force; returns the roles that end.

        A role ends if its rule is not among them any more; and every role does if seniority or trust has changed, since
        whatever rested on the old order must be proved anew.
        """
        old, self._rulebook = self._rulebook, rulebook
        same = (old.seniorities, old.trust) == (rulebook.seniorities, rulebook.trust)
        kept = {(rule.role, rule.conditions) for rules in rulebook.activations.values() for rule in rules}
        for session in self._sessions.values():
            for name, each in tuple(session.appointments.items()):
                if each.issuer not in rulebook.trust.get(each.name, frozenset()):
                    del session.appointments[name]
        return self._collapse(
            (each.holding, "the rules have changed")
            for each in self._memberships
            if not same or (each.rule.role, each.rule.conditions) not in kept
        )

    # How it is done

    def _session(self, session: str) -> Session:
        if session not in self._sessions:
            raise UnknownSession(session)
        return self._sessions[session]

    def _view(self, session: str) -> View:
        return View(self._session(session), self._environment, self._now)

    def _reprove(self, session: str, held: HeldRole) -> Proof | None:
        """Why a role may still be held: the marked conditions of the rule that gave it, with the values it had."""
        for rule in self._rulebook.activations.get(held.role.name, ()):
            if rule_text(rule) == held.rule:
                marked = replace(rule, conditions=tuple(each for each in rule.conditions if each.member))
                wanted = Atom(held.role.name, held.role.params)
                search = Search(marked, wanted, self._view(session), held.bindings)
                found = next(search.proofs(), None)
                return None if found is None else Proof(rule, found.bindings, found.supports)
        return None

    def _searches(self, view: View, role: str | Atom) -> Iterator[Search]:
        wanted = _wanted(role) if isinstance(role, str) else role
        full = self._rulebook.full(wanted)
        for rule in self._rulebook.activations.get(full.name, ()):
            bare = isinstance(role, str) and not wanted.args
            args = tuple(Variable("_") for _ in rule.role.args) if bare else full.args
            yield Search(rule, Atom(full.name, args), view)

    def _enter(self, session: Session, proof: Proof) -> Membership:
        active = self._memberships.get(Holding(session.id, proof.role))
        if active is not None:
            return active
        membership = Membership.of(session.id, proof)
        self._memberships.add(membership)
        session.roles[proof.role] = self._rulebook.implied(proof.role)
        if membership.until is not None:
            heapq.heappush(self._timers, (membership.until, next(self._ticket), membership))
        return membership

    def _shaken(self, event: Event) -> Iterable[tuple[Holding, str]]:
        """The roles from under which an event takes the ground, and how."""
        match event:
            case Retracted(fact):
                return self._all_on(fact, f"`{fact}` is no longer true")
            case Revoked(issuer, serial):
                return self._all_on(AppointmentName(issuer, serial), f"appointment `{serial}` was revoked")
            case Changed(name):
                return self._failing(name)
        return ()

    def _all_on(self, ground: Ground, cause: str) -> Iterator[tuple[Holding, str]]:
        return ((each.holding, cause) for each in self._memberships.resting_on(ground))

    def _failing(self, name: str) -> Iterator[tuple[Holding, str]]:
        """Roles with a constraint on this attribute of the context that holds no longer."""
        for each in self._memberships.resting_on(ContextName(name)):
            view = self._view(each.session)
            for constraint in each.constraints:
                if not view.holds(constraint, each.bindings):
                    yield each.holding, f"`{constraint}` is no longer true"
                    break

    def _collapse(self, roots: Iterable[tuple[Holding, str]]) -> tuple[Deactivation, ...]:
        gone = self._memberships.collapse(roots)
        for each in gone:
            self._sessions[each.session].roles.pop(each.role, None)
        return gone


def _wanted(text: str) -> Atom:
    """A role as somebody asks for it: values are constants, and `_` leaves one open."""
    instance = Instance.parse(text)
    return Atom(instance.name, tuple(Variable("_") if value == "_" else value for value in instance.params))
