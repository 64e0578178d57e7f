"""The sessions of a domain as role services keep them: records go in and come out, and roles follow from them.

Several services keep the same sessions, each with all of them in memory; what they share are records. Invariants: a
role is active here only if a rule in force gives it and all that is marked in that rule holds by the records taken;
whatever happens here that the records do not say yet is in `unsaved`.
"""

from __future__ import annotations

import heapq
from collections import defaultdict
from collections.abc import Iterable
from dataclasses import dataclass

from msgspec.structs import replace

from authz import Entity
from pdp.bundle import Entities, keys_of
from pdp.oasis import Domains, RolesUnavailable, Rulebook, UnknownSession
from pdp.sessions.appointment import Appointment
from pdp.sessions.facts import FactBase, Told, heard
from pdp.sessions.membership import Deactivation
from pdp.sessions.record import ContextRecord, FactRecord, Record, RevokedRecord, SessionRecord, stands
from pdp.sessions.sessions import Sessions

_AHEAD = "newer policies than are known here are in force elsewhere"


@dataclass(frozen=True, slots=True)
class Realm:
    """One domain of rules, and the sessions under them."""

    rulebook: Rulebook
    sessions: Sessions


@dataclass(frozen=True, slots=True)
class Activity:
    """Roles that are active, and when the first of them ends by itself."""

    roles: tuple[str, ...]
    until: float | None


class SessionState:
    """Everything known about sessions. It reads no clock: `advance` before anything else."""

    def __init__(self, now: float) -> None:
        self.now = now
        self.epoch = 0
        self.realms: dict[str, Realm] = {}
        self.world = FactBase()
        self.unsaved: dict[str, Record] = {}
        """Records to be stored, by name."""
        self.changed: dict[str, str] = {}
        """Sessions whose roles have changed, each with its principal, until somebody takes note and clears it."""
        self._subjects: dict[str, Entity] = {}
        self._records: dict[str, SessionRecord] = {}
        self._of: dict[str, dict[str, None]] = defaultdict(dict)
        """The sessions of each principal."""
        self._ahead: dict[str, SessionRecord] = {}
        """Sessions looked at by policies that are not in force here yet."""
        self._over: dict[str, SessionRecord] = {}
        """Sessions that have ended, so that none begins a second time."""
        self._timers: list[tuple[float, str]] = []

    # What is known

    def __len__(self) -> int:
        return len(self._records)

    def session(self, id: str) -> SessionRecord:
        """Raises UnknownSession."""
        if id not in self._records:
            raise UnknownSession(id)
        return self._records[id]

    def knows(self, id: str) -> bool:
        """Whether there is such a session, or was one not long ago."""
        return id in self._records or id in self._ahead or id in self._over

    def sessions_of(self, principal: str) -> tuple[str, ...]:
        return tuple(self._of.get(principal, ()))

    def realm_of(self, record: SessionRecord) -> Realm:
        return self.realms[record.rules]

    def activity(self, principal: str) -> Activity:
        """The roles of a principal, over all sessions. Raises RolesUnavailable while they are not known."""
        if any(each.principal == principal for each in self._ahead.values()):
            raise RolesUnavailable(_AHEAD)
        return self._activity(map(self.session, self.sessions_of(principal)))

    def activity_in(self, session: str) -> Activity:
        """The roles of one session. Raises RolesUnavailable while they are not known, or UnknownSession."""
        if session in self._ahead:
            raise RolesUnavailable(_AHEAD)
        return self._activity([self.session(session)])

    def _activity(self, records: Iterable[SessionRecord]) -> Activity:
        roles: dict[str, None] = {}
        ends: list[float] = []
        for record in records:
            sessions = self.realm_of(record).sessions
            roles.update((str(role), None) for role in sessions.roles(record.id))
            ends.append(record.until)
            if (until := sessions.until(record.id)) is not None:
                ends.append(until)
        return Activity(tuple(roles), min(ends, default=None))

    def speaks_for(self, key: str, principal: str) -> bool:
        """Whether whoever has the key is the principal: the key itself, or a subject that the policies give it to."""
        if principal == key:
            return True
        entity = self._subjects.get(principal)
        return entity is not None and key in keys_of(entity)

    def known(self, name: str) -> Record | None:
        """What is known here under the name of a record."""
        id = name.removeprefix("session.")
        sessions = (self._records, self._ahead, self._over)
        return next((each[id] for each in sessions if id in each), None) or self.world.get(name)

    # What changes

    def advance(self, now: float) -> None:
        """Let time pass: appointments, facts and sessions may end by it."""
        self.now = max(self.now, now)
        for realm in self.realms.values():
            self._fall(realm.sessions.advance(self.now))
        while self._timers and self._timers[0][0] <= self.now:
            self._expire(heapq.heappop(self._timers)[1])

    def adopt(self, domains: Domains | None, entities: Entities, epoch: int) -> None:
        """Put these policies in force, and check every role again."""
        self.epoch = epoch
        self._subjects = dict(entities.subjects)
        names = domains.names if domains is not None else ()
        self.realms = {name: self._realm(domains.rulebook(name)) for name in names if domains is not None}
        for record in (*self._records.values(), *self._ahead.values()):
            self._restore(record)

    def take(self, records: Iterable[Record]) -> None:
        """Take over what the store says, in place of what is known here."""
        several = list(records)
        for record in several:  # the world first: what a session rests on may have been told again after it
            self.unsaved.pop(record.name, None)
            if not isinstance(record, SessionRecord):
                self.tell(record)
        for record in several:
            if isinstance(record, SessionRecord):
                self.unsaved.pop(record.name, None)
                over = self._over.get(record.id)
                if over is not None and not record.ended:
                    self.save(over)  # that is final, whoever says otherwise
                else:
                    self._restore(record)

    def tell(self, record: Told) -> tuple[Deactivation, ...]:
        """Something was told; returns the roles that end by it."""
        self.world.take(record)
        if isinstance(record, (FactRecord, ContextRecord)) and record.until is not None:
            heapq.heappush(self._timers, (record.until, record.name))
        gone: list[Deactivation] = []
        for realm in self.realms.values():
            gone += realm.sessions.hear(heard(record, realm.rulebook))
        self._fall(gone)
        return tuple(gone)

    def save(self, record: Record) -> None:
        """Have a record stored."""
        self.unsaved[record.name] = record

    def open(self, record: SessionRecord) -> None:
        """Begin a session."""
        self._restore(record)
        self.save(record)

    def close(self, record: SessionRecord) -> tuple[Deactivation, ...]:
        """End a session, and the appointments bound to it."""
        fallout = self.realm_of(record).sessions.close(record.id)
        self._end(record)
        self._fall(fallout.deactivated)
        return fallout.deactivated

    def revoke(self, appointment: Appointment) -> tuple[Deactivation, ...]:
        """An appointment counts no longer."""
        record = RevokedRecord(appointment.issuer, appointment.serial, appointment.expires)
        self.save(record)
        return self.tell(record)

    def note(self, id: str, said: float | None = None) -> None:
        """Write down how a session stands, if its record does not say so; `said` is when it was last spoken to."""
        record = self._records.get(id)
        if record is None:
            return
        kept = self.realm_of(record).sessions.keep(id)
        latest = record.said if said is None or stands(record.said, said, self.now) else said
        current = replace(record, kept=kept, epoch=self.epoch, said=latest)
        if kept.held != record.kept.held:
            self.changed[record.id] = record.principal
        if current.kept != record.kept or current.said != record.said:
            self._records[id] = current
            self.save(current)

    def over(self, now: float) -> list[Record]:
        """What ended long ago, by a clock that may have been set back since."""
        now = min(now, self.now)
        return [each for each in (*self.world, *self._over.values()) if each.over(now)]

    def drop(self, record: Record) -> None:
        """Forget what ended long ago."""
        if isinstance(record, SessionRecord):
            self._over.pop(record.id, None)
        else:
            self.world.drop(record.name)

    # How it is done

    def _realm(self, rulebook: Rulebook) -> Realm:
        sessions = Sessions(rulebook, self.now)
        for channel, events in self.world.snapshot(rulebook).items():
            sessions.watch(channel)
            sessions.load(channel, events)
        return Realm(rulebook, sessions)

    def _restore(self, record: SessionRecord) -> None:
        """Put a session in place of what is known of it."""
        known = self._forget(record.id)
        if not record.ended and (known is None or known.until != record.until):
            heapq.heappush(self._timers, (record.until, record.name))
        if record.ended:
            self._over[record.id] = record
        elif self.now >= record.until or (record.epoch <= self.epoch and not self._may_last(record)):
            self._end(record)
        elif record.epoch > self.epoch:
            self._ahead[record.id] = record
        else:
            self._records[record.id] = record
            self._of[record.principal][record.id] = None
            principal = self._subjects.get(record.principal, Entity(record.principal))
            self.realm_of(record).sessions.restore(record.id, principal, record.kept)
            self.note(record.id)
            if known is not None and known.kept.held == self._records[record.id].kept.held:
                return
        self.changed[record.id] = record.principal

    def _may_last(self, record: SessionRecord) -> bool:
        return record.rules in self.realms and self.speaks_for(record.key, record.principal)

    def _forget(self, id: str) -> SessionRecord | None:
        """Take a session out, as if it had never been here."""
        self._ahead.pop(id, None)
        record = self._records.pop(id, None)
        if record is not None:
            del self._of[record.principal][id]
            if not self._of[record.principal]:
                del self._of[record.principal]
            if record.rules in self.realms:
                self.realm_of(record).sessions.drop(id)
        return record

    def _end(self, record: SessionRecord) -> None:
        """A session is no more, nor are the appointments bound to it."""
        self._forget(record.id)
        self.changed[record.id] = record.principal
        self._over[record.id] = replace(record, ended=True, epoch=self.epoch)
        self.save(self._over[record.id])
        for each in record.kept.bound:
            self.revoke(each)

    def _fall(self, gone: Iterable[Deactivation]) -> None:
        for id in dict.fromkeys(each.session for each in gone):
            self.note(id)

    def _expire_session(self, id: str) -> None:
        record, ahead = self._records.get(id), self._ahead.get(id)
        if record is not None and record.until <= self.now:
            self.close(record)
        elif ahead is not None and ahead.until <= self.now:
            self._end(ahead)

    def _expire(self, name: str) -> None:
        told = self.world.get(name)
        match told:
            case FactRecord(holds=True, until=float(until)) if until <= self.now:
                ended: Told = replace(told, holds=False, until=None)
            case ContextRecord(until=float(until)) if until <= self.now and told.value is not None:
                ended = replace(told, value=None, until=None)
            case _:
                self._expire_session(name.removeprefix("session."))
                return
        self.save(ended)
        self.tell(ended)
