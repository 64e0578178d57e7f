"""What travels between PEPs and PDPs. New fields come last and have defaults."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from typing import Literal, TypeAlias

import msgspec
from msgspec import structs

from authz import Decision, Entity, Identity, PublicKey, Request
from authz.errors import InvalidKey, InvalidSignature
from authz.explanation import Explanation
from authz.request import Attributes
from authz.scope import Scope
from bus.errors import BadMessage
from bus.wire.envelope import Unpack

MAX_QUESTIONS = 1024
"""Maximum requests in one message."""
_MOST_DISTINCT = 256
"""Maximum distinct decisions that an index of one byte can address."""


_MARK_BYTES = 16
_ANNOUNCEMENT = b"authfabric announcement 1\0"
_STATUS = b"authfabric member status 1\0"
_encode = msgspec.msgpack.Encoder().encode


class Questions(msgspec.Struct, frozen=True, array_like=True, gc=False):
    """Requests that one PEP asks at once; whoever serves the subject they came on can answer all of them."""

    requests: list[Request]
    budget: float = 0.0
    """Seconds after which the asker no longer waits; 0 if it does not say."""
    asker: bytes = b""
    """The asker's agreement key, if it wants to be able to tell who answers."""
    number: int = 0
    """One that this asker has used for no other message, so that no answer fits two."""
    trace: str = ""
    """The asker's span, as a W3C `traceparent`; empty if nobody follows these questions."""


class RawQuestions(msgspec.Struct, frozen=True, array_like=True, gc=False):
    """Questions with each request still encoded: how they are sent, and how one bad request is told from the rest."""

    requests: list[msgspec.Raw]
    budget: float = 0.0
    asker: bytes = b""
    number: int = 0
    trace: str = ""


class Answers(msgspec.Struct, frozen=True, array_like=True, gc=False):
    """One answer for each question, in order; None where this replica is too busy to answer."""

    decisions: list[Decision | None] = []
    problem: str = ""
    """Why the questions as a whole could not be read, if they could not."""
    which: bytes = b""
    """For each question the place of its answer in `decisions`, if some stand for several; else they stand in order."""

    @classmethod
    def of(cls, decisions: Sequence[Decision | None]) -> Answers:
        """Answers in which a decision that was made once for several questions stands once.

        Those with obligations stand for one question each: whoever fulfils them may change them.
        """
        if is_one(decisions) and decisions[0] is not None and not decisions[0].obligations:
            return cls([decisions[0]], which=bytes(len(decisions)))
        marks = list(map(id, decisions))
        distinct = dict(zip(marks, decisions, strict=True))
        if len(distinct) > min(len(marks) // 2, _MOST_DISTINCT) or any(
            d is not None and d.obligations for d in distinct.values()
        ):
            return cls(list(decisions))
        places = dict(zip(distinct, range(len(distinct)), strict=True))
        return cls(list(distinct.values()), which=bytes(map(places.__getitem__, marks)))

    def in_order(self) -> list[Decision | None]:
        """The answer to each question. Raises BadMessage if one is missing."""
        if not self.which:
            return self.decisions
        try:
            return list(map(self.decisions.__getitem__, self.which))
        except IndexError:
            raise BadMessage("which", "names a decision that is not there") from None


def is_one(decisions: Sequence[Decision | None]) -> bool:
    """Whether several are one and the same: found much sooner than which of them are."""
    if len(decisions) < 2 or decisions[0] is not decisions[-1]:
        return False
    return decisions.count(decisions[0]) == len(decisions)


class Announcement(msgspec.Struct, frozen=True, array_like=True, gc=False):
    """What some replica serves: scopes in text form, good for `ttl` seconds; withdrawn if that is 0."""

    scopes: list[str]
    ttl: float
    introduction: bytes = b""
    """By what right it answers; nothing if it does not say."""
    at: float = 0.0
    """When it was signed, in Unix time."""
    signature: bytes = b""
    """By the key that is introduced, over scopes, lifetime and time; nothing if none is."""
    source: bytes = b""
    """What tells its replica from others that announce themselves, for those who count them."""

    def signed(self) -> bytes:
        """What the signature is over."""
        return _ANNOUNCEMENT + _encode((self.scopes, self.ttl, self.at))


class ExplainQuery(msgspec.Struct, frozen=True, array_like=True, gc=False):
    """A request whose decision is to be explained."""

    request: Request
    asker: bytes = b""
    """The asker's agreement key, if it wants to be able to tell who answers."""
    number: int = 0
    """One that this asker has used for no other message, so that no answer fits two."""


class Explained(msgspec.Struct, frozen=True, array_like=True, gc=False):
    """The explanation, or why there is none."""

    explanation: Explanation | None = None
    problem: str = ""


class SearchQuery(msgspec.Struct, frozen=True, array_like=True, gc=False):
    """Two of subject, object and action; the third is sought among the entities that a replica knows."""

    wanted: Literal["subject", "object", "action"]
    subject: Entity | None = None
    object: Entity | None = None
    action: Entity | None = None
    context: Attributes = {}
    limit: int = 100
    cursor: str = ""
    """Where the page before this one ended; empty for the first."""
    under: str = ""
    """How the ids sought begin; empty for all."""
    asker: bytes = b""
    """The asker's agreement key, if it wants to be able to tell who answers."""
    number: int = 0
    """One that this asker has used for no other message, so that no answer fits two."""


class ScopeQuery(msgspec.Struct, frozen=True, array_like=True, gc=False):
    """A subject and an action; the objects below a name are sought, as a predicate."""

    subject: Entity
    action: Entity
    under: str
    context: Attributes = {}
    asker: bytes = b""
    """The asker's agreement key, if it wants to be able to tell who answers."""
    number: int = 0
    """One that this asker has used for no other message, so that no answer fits two."""


class ScopeAnswer(msgspec.Struct, frozen=True, array_like=True, gc=False):
    """The scope, or why there is none, and where the reason stands."""

    scope: Scope | None = None
    problem: str = ""
    place: str = ""
    unavailable: bool = False
    """Whether the reason is none of the policies: something failed, or is not there, and may be another time."""


class SearchPage(msgspec.Struct, frozen=True, array_like=True, gc=False):
    """Some of what was found, by id, in order. With a cursor there may be more, even if this page is short."""

    found: tuple[str, ...] = ()
    cursor: str = ""
    epoch: int = 0
    problem: str = ""
    """Why nothing was searched, if that is so."""
    depends: tuple[str, ...] = ()
    """Policies that could apply and look at facts of the context that were not given, by name."""


MemberKind: TypeAlias = Literal["pdp", "sdp", "roles", "broker"]
"""What applies policies."""


class MemberDetails(msgspec.Struct, frozen=True, array_like=True):
    """What a member says of itself to a roll call that asks for more than its release."""

    calls: tuple[bytes, ...]
    """The calls that this answers: it was signed after they were made."""
    version: str
    started: float
    """When its process began to follow releases, in Unix time by its own clock."""
    since: float
    """When its release came into force there; 0 if none is."""
    trust: tuple[bytes, ...]
    """The keys whose releases count for it."""
    signer: bytes
    """The key that signed its release; empty if it has none."""
    load: dict[str, float] = {}
    """What its process counts and measures, by name."""
    lacks: tuple[str, ...] = ()
    """The rights that servers have refused it, by name."""
    latencies: tuple[int, ...] = ()
    """How many of its answers took how long, in the buckets of `bus.runtime.Latencies`; empty if it gives none."""
    pid: int = 0
    """The id of its process; 0 if it does not say."""
    host: str = ""
    """The machine on which that is the id."""


class MemberStatus(msgspec.Struct, frozen=True, array_like=True, gc=False):
    """How far someone who applies policies is: said after each change, to each roll call, and every few seconds."""

    member: str
    """A name that nobody else in the domain has."""
    kind: MemberKind
    domain: str
    epoch: int
    """The epoch by which it decides; 0 if by none."""
    ok: bool = True
    problem: str = ""
    """Why it is not at the newest release, if it knows."""
    lease: float | None = None
    """Seconds after a newer release was stored for which it may go on by an older one; None: without limit."""
    leaving: bool = False
    """Whether this is the last that will be heard of it: it has stopped."""
    at: float = 0.0
    """When it was signed, in Unix time by the member's own clock: what it said later counts."""
    signer: bytes = b""
    """The member's key: two with one name and different keys are two members."""
    signature: bytes = b""
    release: str = ""
    """The hash of the release by which it decides; empty if by none."""
    packed: bytes = b""
    """More about it, if a roll call asked for that: packed, so that what later versions add is signed too."""

    def sign(self, identity: Identity, at: float) -> MemberStatus:
        """The same, so that nobody else can say it in the member's name."""
        unsigned = structs.replace(self, at=at, signer=identity.public.raw, signature=b"")
        return structs.replace(unsigned, signature=identity.sign(_STATUS + _signed_part(unsigned)))

    @property
    def details(self) -> MemberDetails | None:
        """What it says besides; None if nothing that can be read."""
        try:
            return _unpack_details(self.packed) if self.packed else None
        except BadMessage:
            return None

    @property
    def mark(self) -> bytes:
        """What stands for the member, whatever it says."""
        return hashlib.blake2s(_encode((self.member, self.signer)), digest_size=_MARK_BYTES).digest()

    @property
    def authentic(self) -> bool:
        """Whether its signer said exactly this."""
        try:
            unsigned = structs.replace(self, signature=b"")
            PublicKey(self.signer).verify(self.signature, _STATUS + _signed_part(unsigned))
        except (InvalidKey, InvalidSignature):
            return False
        return True


def _signed_part(status: MemberStatus) -> bytes:
    """What a member signs. Without details it is what members of versions before details sign."""
    fields = structs.astuple(status)
    return _encode(fields if status.packed else fields[:-1])


class MemberListRequest(msgspec.Struct, frozen=True, array_like=True, gc=False):
    """Asks a replica for the members it knows, except those that the asker has heard itself."""

    heard: list[bytes] = []
    """The marks of the latter."""


class MemberList(msgspec.Struct, frozen=True, array_like=True, gc=False):
    """Members heard of lately, each with the seconds since."""

    members: list[tuple[MemberStatus, float]]


class Prepared(msgspec.Struct, frozen=True, array_like=True, gc=False):
    """How far a member is with a bundle that it was asked to prepare."""

    member: str
    done: bool
    problem: str = ""
    """Why it cannot be prepared, if that is so."""


class AuditPage(msgspec.Struct, frozen=True, array_like=True, gc=False):
    """Some audit records of one writer, as it encoded and chained them."""

    records: list[bytes]


unpack_audit_page = Unpack(AuditPage)


class Alarm(msgspec.Struct, frozen=True, array_like=True, gc=False):
    """A decision that was not what it should have been: the full case."""

    member: str
    domain: str
    against: str
    """What it was compared with."""
    request: Request
    decision: Decision
    other: Decision
    """What it should have been."""


unpack_explain_query = Unpack(ExplainQuery)
unpack_explained = Unpack(Explained)
unpack_search_query = Unpack(SearchQuery)
unpack_scope_query = Unpack(ScopeQuery)
unpack_scope_answer = Unpack(ScopeAnswer)
unpack_search_page = Unpack(SearchPage)
unpack_member_status = Unpack(MemberStatus)
_unpack_details = Unpack(MemberDetails)
unpack_member_list_request = Unpack(MemberListRequest)
unpack_member_list = Unpack(MemberList)
unpack_prepared = Unpack(Prepared)
unpack_request = Unpack(Request)
unpack_questions = Unpack(Questions)
unpack_raw_questions = Unpack(RawQuestions)
unpack_answers = Unpack(Answers)
unpack_announcement = Unpack(Announcement)
