"""What a key group manager decides: who is given which keys. Pure but for the groups it is handed."""

from __future__ import annotations

from dataclasses import dataclass

from authz import AuthFabricError, Identity
from authz.errors import UNREADABLE
from authz.spki import Verifier
from pubsub_core.key_groups.admission import entitle
from pubsub_core.key_groups.key_group import KeyGroup, MemberRecord, Rules
from pubsub_core.key_groups.keyed_type import KeyedType
from pubsub_core.key_groups.messages import (
    MAX_AGE,
    REQUEST_DOMAIN,
    Introduction,
    Request,
    decode_request,
    decode_signed_request,
    introductions,
)
from pubsub_core.key_groups.plan_history import Ways
from pubsub_core.keys import KEY_BYTES, AdmissionRefused, Plan, derive


@dataclass(frozen=True, slots=True)
class Admission:
    """A request that was found in order: who asks, and what was asked."""

    name: str
    request: Request
    members: dict[str, MemberRecord]
    """What is to be known of the asker in each group."""


class KeyDistribution:
    """The manager of one type's key groups: its identity, its rules, and its judgement."""

    def __init__(
        self,
        identity: Identity,
        keyed: KeyedType,
        plan: Plan,
        verifier: Verifier,
        rules: Rules = Rules(),
        appointment: bytes = b"",
    ) -> None:
        """`appointment` is signed by the type's owner, unless that is who manages."""
        self.identity = identity
        self.keyed = keyed
        self.ways = Ways(plan.of(keyed.id), rules)
        self.verifier = verifier
        self._appointment = appointment

    @property
    def plan(self) -> Plan:
        return self.ways.plan

    @property
    def rules(self) -> Rules:
        return self.ways.rules

    def introduce(self, exchange: bytes, now: float) -> bytes:
        """Who we are, signed."""
        ways = self.ways
        words = Introduction(
            self.keyed.id,
            exchange,
            ways.plan,
            ways.rules,
            self._appointment,
            ways.since,
            now,
            tuple(ways.groups(now).keys() - ways.plan.by_id.keys()),
        )
        return introductions.sign(words, self.identity)

    def judge(self, data: bytes, now: float) -> Admission:
        """Find a request in order. Raises AdmissionRefused."""
        try:
            signed = decode_signed_request(data)
            request = decode_request(signed.content)
            capability = self.verifier.verify(request.chain, now).capability
            # Whoever the capability names must have signed: that closes the loop.
            capability.subject.verify(signed.signature, REQUEST_DOMAIN + signed.content)
        except UNREADABLE:
            raise AdmissionRefused("the request cannot be read") from None
        except AuthFabricError as error:
            raise AdmissionRefused(str(error)) from None
        self._check(request, now)
        members, groups = {}, self.ways.groups(now)
        for id_ in request.groups:
            group = groups.get(id_)
            if group is None:
                raise AdmissionRefused(f"there is no key group `{id_}`")
            tenure = entitle(capability, self.keyed.name, self.keyed.names_in(group))
            own_key = derive(request.own_key, "member", bytes.fromhex(id_))
            members[id_] = MemberRecord(own_key, tenure, 0, request.at, request.chain)
        return Admission(str(capability.subject), request, members)

    def admit(self, group: KeyGroup, admission: Admission, now: float) -> bool:
        """Have a request take effect in one of its groups; says whether that is a change. Raises AdmissionRefused."""
        name, asked = admission.name, admission.members[group.id]
        known = group.members.get(name)
        if known is not None and known.asked > asked.asked:
            raise AdmissionRefused("the request is older than one that was heeded already")
        if admission.request.leave:
            group.leave(name, asked.asked)
            return known is not None
        if known is not None and _same(known, asked) and known.tenure.covers(now):
            return False  # it has missed something, and asks again
        group.admit(name, asked, now)
        return True

    def review(self, group: KeyGroup, now: float) -> bool:
        """Evict whoever's capability was taken back; says whether that was anyone."""
        gone = [name for name, member in group.members.items() if not self._sound(member, now)]
        for name in gone:
            group.evict(name, now)
        return bool(gone)

    def _sound(self, member: MemberRecord, now: float) -> bool:
        if not member.tenure.covers(now):
            return True  # it has ended anyway, and the schedule knows
        try:
            self.verifier.verify(member.chain, now)
        except AuthFabricError:
            return False
        return True

    def _check(self, request: Request, now: float) -> None:
        if request.manager != str(self.identity.public):
            raise AdmissionRefused("the request is for another manager")
        if not abs(request.at - now) <= MAX_AGE:
            raise AdmissionRefused(f"the clocks differ by more than {MAX_AGE:g} s")
        if len(request.own_key) != KEY_BYTES or not request.groups:
            raise AdmissionRefused("the request names no groups, or brings no key of its own")


def _same(known: MemberRecord, asked: MemberRecord) -> bool:
    return not known.tenure.left and (known.own_key, known.chain) == (asked.own_key, asked.chain)
