"""What is said to a role service, done: who may say it, what comes of it.

Invariant: nothing is done in a session but what its key has signed, in answer to a challenge younger than all answered
in it before; and nothing is believed of the world but from a key that a rule trusts for it.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from math import isfinite

import msgspec

from authz import Identity, PublicKey
from authz.errors import UNREADABLE
from bus.wire import Activate, Appoint, Begin, Deactivate, Deed, End, Look, Outcome, Revoke, Set, Tell
from pdp.oasis import CommandRefused, Instance, InvalidAppointment
from pdp.sessions.appointment import Appointment
from pdp.sessions.facts import Told, trusts
from pdp.sessions.membership import Deactivation
from pdp.sessions.record import Challenge, ContextRecord, FactRecord, SessionRecord, stands
from pdp.sessions.session_state import Realm, SessionState
from pdp.sessions.sessions import Draft, Refusal

MOST_SESSIONS = 100_000
MOST_OF_ONE = 64
"""Maximum sessions of one principal at a time."""
MOST_SHOWN = 64
"""Maximum certificates shown in one session."""
MOST_HELD = 256
"""Maximum active roles in one session."""


@dataclass(frozen=True, slots=True)
class CommandExecutor:
    """Executes commands."""

    keeper: SessionState
    issuer: Identity
    """Signs appointments, in the domain's name."""
    longest: float
    """Seconds that a session may last."""
    serial: Callable[[], str]
    """A new name for an appointment."""

    def do(self, deed: Deed, by: PublicKey, challenge: Challenge) -> Outcome:
        """Raises CommandRefused or another AuthFabricError; then nothing was done, but what was shown stays shown."""
        match deed:
            case Begin():
                return self._begin(deed, str(by), challenge)
            case Activate():
                return self._activate(self._own(deed.session, by, challenge), deed, challenge)
            case Deactivate():
                return self._deactivate(self._own(deed.session, by, challenge), deed, challenge)
            case Look():
                return self._look(self._own(deed.session, by, challenge))
            case End():
                return Outcome(ended=_said(self.keeper.close(self._own(deed.session, by, challenge))))
            case Appoint():
                return self._appoint(self._own(deed.session, by, challenge), deed, challenge)
            case Revoke():
                return self._revoke(deed, by, challenge)
            case Tell():
                return self._tell(deed, str(by), challenge)
            case Set():
                return self._set(deed, str(by), challenge)

    # Sessions

    def _begin(self, deed: Begin, key: str, challenge: Challenge) -> Outcome:
        principal = deed.principal or key
        if self.keeper.knows(challenge.nonce):
            raise CommandRefused("this was said before")
        if not self.keeper.speaks_for(key, principal):
            raise CommandRefused(
                f"`{key}` is not the key of `{principal}`: the policies say whose it is, by `key` among the subjects"
                " of an entities file"
            )
        if len(self.keeper.sessions_of(principal)) >= MOST_OF_ONE or len(self.keeper) >= MOST_SESSIONS:
            raise CommandRefused(f"too many sessions are open: `{principal}` may have {MOST_OF_ONE}")
        rules = self._rules(deed.rules)
        until = self.keeper.now + min(_seconds(deed.seconds) or self.longest, self.longest)
        record = SessionRecord(challenge.nonce, principal, key, rules, until, challenge.at, self.keeper.epoch)
        self.keeper.open(record)
        return Outcome(session=record.id, seconds=until - self.keeper.now)

    def _rules(self, asked: str) -> str:
        known = list(self.keeper.realms)
        if asked in known:
            return asked
        if not asked and len(known) == 1:
            return known[0]
        if not known:
            raise CommandRefused("no policies with role rules are in force")
        named = ", ".join(f"`{each}`" for each in known)
        raise CommandRefused(f"say which role rules count: those of {named}")

    def _look(self, record: SessionRecord) -> Outcome:
        sessions = self._realm(record).sessions
        until = min(filter(None, (record.until, sessions.until(record.id))))
        roles = tuple(map(str, sessions.roles(record.id)))
        return Outcome(session=record.id, roles=roles, seconds=until - self.keeper.now)

    # Roles

    def _activate(self, record: SessionRecord, deed: Activate, challenge: Challenge) -> Outcome:
        sessions = self._realm(record).sessions
        if len(record.kept.appointments) + len(deed.appointments) > MOST_SHOWN:
            raise CommandRefused(f"at most {MOST_SHOWN} certificates can be shown in one session")
        if len(record.kept.held) >= MOST_HELD:
            raise CommandRefused(f"at most {MOST_HELD} roles can be active in one session")
        for each in map(_appointment, deed.appointments):
            sessions.present(record.id, each)
        active = sessions.activate(record.id, deed.role)
        self.keeper.note(record.id, challenge.at)
        if isinstance(active, Refusal):
            raise CommandRefused(str(active))
        return Outcome(session=record.id, role=str(active.role))

    def _deactivate(self, record: SessionRecord, deed: Deactivate, challenge: Challenge) -> Outcome:
        realm, wanted = self._realm(record), Instance.parse(deed.role)
        name = realm.rulebook.names.get(wanted.name, wanted.name)
        found = [
            each
            for each in realm.sessions.roles(record.id)
            if each.name == name and wanted.params in ((), each.params)
        ]
        if len(found) != 1:
            named = " or ".join(f"`{each}`" for each in found)
            raise CommandRefused(
                f"`{deed.role}` may be {named}: say which" if found else f"`{wanted}` is not active"
            )
        gone = realm.sessions.deactivate(record.id, found[0])
        self.keeper.note(record.id, challenge.at)
        return Outcome(session=record.id, ended=_said(gone))

    # Appointments

    def _appoint(self, record: SessionRecord, deed: Appoint, challenge: Challenge) -> Outcome:
        seconds = _seconds(deed.seconds)
        draft = Draft(
            Instance.parse(deed.content),
            deed.holder,
            self.serial(),
            None if seconds is None else self.keeper.now + seconds,
            deed.bound,
        )
        appointment = self._realm(record).sessions.appoint(record.id, draft, self.issuer)
        self.keeper.note(record.id, challenge.at)
        return Outcome(session=record.id, appointment=msgspec.msgpack.encode(appointment))

    def _revoke(self, deed: Revoke, by: PublicKey, challenge: Challenge) -> Outcome:
        appointment = _appointment(deed.appointment)
        appointment.verify()
        if not self._trusted(appointment.issuer, appointment.name):
            raise CommandRefused(f"`{appointment.content}` counts nowhere: no rule trusts its issuer for it")
        if deed.session:
            record = self._own(deed.session, by, challenge)
            self._realm(record).sessions.may_revoke(appointment, record.id)
            self.keeper.note(record.id, challenge.at)
        elif str(by) != appointment.issuer:
            raise CommandRefused(
                f"`{by}` has not issued `{appointment.content}`: name a session in which it may be revoked"
            )
        return Outcome(session=deed.session, ended=_said(self.keeper.revoke(appointment)))

    # The world

    def _tell(self, deed: Tell, key: str, challenge: Challenge) -> Outcome:
        fact, seconds = Instance.parse(deed.fact), _seconds(deed.seconds)
        until = None if seconds is None or not deed.holds else self.keeper.now + seconds
        return self._learn(fact.name, FactRecord(fact, deed.holds, key, challenge.at, until))

    def _set(self, deed: Set, key: str, challenge: Challenge) -> Outcome:
        seconds = _seconds(deed.seconds)
        until = None if seconds is None or deed.value is None else self.keeper.now + seconds
        return self._learn(deed.name, ContextRecord(deed.name, deed.value, key, challenge.at, until))

    def _learn(self, name: str, record: FactRecord | ContextRecord) -> Outcome:
        if not self._trusted(record.key, name):
            raise CommandRefused(f"no rule trusts `{record.key}` for `{name}`")
        known: Told | None = self.keeper.world.get(record.name)
        if isinstance(known, (FactRecord, ContextRecord)) and stands(
            known.said, record.said, self.keeper.now
        ):
            raise CommandRefused("something newer was said about it", again=True)
        self.keeper.save(record)
        return Outcome(ended=_said(self.keeper.tell(record)))

    def _own(self, session: str, by: PublicKey, challenge: Challenge) -> SessionRecord:
        """The session, if it is the key's own and nothing said in it is newer."""
        record = self.keeper.session(session)
        if record.key != str(by):
            raise CommandRefused(f"the session `{session}` is not of the key `{by}`")
        if stands(record.said, challenge.at, self.keeper.now):
            raise CommandRefused("something newer was said in the session", again=True)
        return record

    def _trusted(self, key: str, name: str) -> bool:
        return any(trusts(realm.rulebook, key, name) for realm in self.keeper.realms.values())

    def _realm(self, record: SessionRecord) -> Realm:
        return self.keeper.realm_of(record)


def _appointment(data: bytes) -> Appointment:
    try:
        return msgspec.msgpack.decode(data, type=Appointment)
    except UNREADABLE:
        raise InvalidAppointment("?", "cannot be read") from None


def _seconds(given: float | None) -> float | None:
    if given is not None and not (isfinite(given) and given > 0):
        raise CommandRefused(f"{given:g} s is no time for something to last: give a positive number")
    return given


def _said(gone: Sequence[Deactivation]) -> tuple[str, ...]:
    return tuple(map(str, gone))
