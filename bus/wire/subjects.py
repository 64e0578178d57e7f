"""The grammar of NATS subjects: the one place where they are built.

A question goes out on `af.ask.MODE.DOMAIN.SUBJECT.OBJECT….ACTION`, its object path split into tokens. A scope is
asked on the same grammar with `=many` for what varies, so that a replica subscribed to any scope that contains it
receives it, and no other: `sales.>` hears `sales.=many.=many` and `sales.q1.read`; `sales.*` hears only the latter
kind. `=many` cannot be spelled by a name, since `=` in names is always escaped.
"""

from __future__ import annotations

import base64
import enum
import hashlib
import re
from typing import NamedTuple

from authz import PublicKey, Request
from bus.errors import InvalidScope
from bus.wire.scopes import Kind, Scope
from bus.wire.store_names import AUDIT as AUDIT
from bus.wire.store_names import AUDIT_HEADS as AUDIT_HEADS
from bus.wire.store_names import BROKERS as BROKERS
from bus.wire.store_names import CONTENT as CONTENT
from bus.wire.store_names import CONTEXT as CONTEXT
from bus.wire.store_names import DURABLES as DURABLES
from bus.wire.store_names import ISSUED as ISSUED
from bus.wire.store_names import KEYS as KEYS
from bus.wire.store_names import NEWEST as NEWEST
from bus.wire.store_names import PARCELS as PARCELS
from bus.wire.store_names import RELEASES as RELEASES
from bus.wire.store_names import REVOCATIONS as REVOCATIONS
from bus.wire.store_names import ROLES as ROLES
from bus.wire.store_names import TYPES as TYPES
from bus.wire.topics import Topic, request_roles

ROOT = "af"
ANNOUNCE, WHO = f"{ROOT}.scopes", f"{ROOT}.scopes.who"
MAX_SUBJECT = 4000
QUEUE = "pdp"
RELEASED = f"{ROOT}.released"
"""Below this, the server itself repeats each release as soon as it is stored."""
AUDITED = f"{ROOT}.audit"
"""Below this, each decider records its decisions."""
AUDITED_UP_TO = f"{ROOT}.audited-up-to"
"""Below this, each decider says how many decisions it has recorded."""

_GUARDED = "_R_"
"""Below this, streams take in. No client may name a subject that begins so as the one to answer on, or servers
would write their answers wherever a member likes (measured: docs/design/admission.md)."""
_WRITTEN = f"{_GUARDED}.kv"
"""Below this, buckets are written."""

REVOKE = f"{ROOT}.access.revoke"
"""Below this, each in their own place, members tell the access control service that a capability is taken back."""
RENEW = f"{ROOT}.access.renew"
"""Where the access control service is asked for a capability."""

ANSWERS = "_INBOX.*.*.*"
"""Where those who may answer questions do so. Each question has a word of its own there that nobody can guess."""
_INBOX_BYTES = 16
_ENTITY_BYTES = 16
MANY = "=many"
WHOLE = "_"
"""The route of events whose type names no routing attribute, and the epoch of its key."""
FILE = "file"
"""The storage class of types that name none."""
_MARK = "mark"
_PLAIN = re.compile(r"[A-Za-z0-9_-]+")
_MAILBOX = re.compile(r"\w+\.\w+", re.ASCII)
_UNSAFE = re.compile(rb"[^A-Za-z0-9_-]")


class Mode(enum.StrEnum):
    """Who is to answer: any one of the replicas interested, or all of them; or who is to explain."""

    ANY = "any"
    ALL = "all"
    EXPLAIN = "explain"


DECIDING = (Mode.ANY, Mode.ALL)


def token(name: str) -> str:
    """One subject token that stands for exactly this name."""
    if _PLAIN.fullmatch(name):
        return name
    return _UNSAFE.sub(lambda m: b"=%02X" % m[0][0], name.encode("utf-8", "surrogatepass")).decode() or "="


def untoken(text: str) -> str:
    """The name a token stands for."""
    if text == "=":
        return ""
    raw = re.sub(rb"=([0-9A-F]{2})", lambda m: bytes([int(m[1], 16)]), text.encode())
    return raw.decode("utf-8", "surrogatepass")


def path_tokens(path: str) -> str:
    """An object's path as tokens, one for each segment; a leading slash is an empty first segment."""
    return ".".join(map(token, path.split("/")))


def question(mode: Mode, scope: Scope) -> str:
    """Where to ask what lies in the scope."""
    domain = token(scope.domain)
    match scope.kind:
        case Kind.BROADCAST:
            return _asked(mode, scope, MANY)
        case Kind.DOMAIN:
            return _asked(mode, scope, domain, MANY)
        case Kind.PREFIX:
            return _asked(mode, scope, domain, MANY, *_prefix(scope.object), MANY, MANY)
        case Kind.OBJECT:
            return _asked(mode, scope, domain, MANY, path_tokens(scope.object), MANY)
        case Kind.TUPLE:
            action = token(scope.action)
            return _asked(mode, scope, domain, token(scope.subject), path_tokens(scope.object), action)


def response(asker: str, number: int) -> str:
    """Where one asker waits for one response alone, as the experiments' PEPs do that subscribe to each."""
    return f"_INBOX.{token(asker)}.{number}"


def interest(mode: Mode, scope: Scope) -> str:
    """What a replica that serves the scope subscribes to."""
    domain = token(scope.domain)
    match scope.kind:
        case Kind.BROADCAST:
            return _asked(mode, scope, ">")
        case Kind.DOMAIN:
            return _asked(mode, scope, domain, ">")
        case Kind.PREFIX:
            return _asked(mode, scope, domain, "*", *_prefix(scope.object), ">")
        case Kind.OBJECT:
            return _asked(mode, scope, domain, "*", path_tokens(scope.object), "*")
        case Kind.TUPLE:
            return question(mode, scope)


def place(key: PublicKey) -> str:
    """The subject token of a key's own subjects."""
    digest = hashlib.blake2s(key.raw, digest_size=_INBOX_BYTES).digest()
    return base64.b32encode(digest).decode().rstrip("=")


def revoke(owner: str) -> str:
    """Where whoever has this place tells what is taken back; with `*`, where to hear all of them."""
    return f"{REVOKE}.{owner}"


def inbox(key: PublicKey) -> str:
    """Below this, servers answer whoever holds the key. No member may write there."""
    return f"_INBOX_{place(key)}"


def answers(owner: str) -> str:
    """Below this, members answer whoever has this place."""
    return f"_INBOX.{owner}"


def mailbox(domain: str, owner: str, name: str) -> str:
    """Where the brokers of a domain send what they have for a client: below its owner's place."""
    return f"{ROOT}.mail.{token(domain)}.{owner}.{name}"


def is_mailbox(subject: str, domain: str) -> bool:
    """Whether a broker of the domain may send there: elsewhere it could be taken for something else, and do harm."""
    return _MAILBOX.fullmatch(subject.removeprefix(f"{ROOT}.mail.{token(domain)}.")) is not None


def is_inbox(subject: str) -> bool:
    """Whether an answer may be sent there: elsewhere it could be taken for something else, and do harm."""
    return subject.startswith("_INBOX.")


def alarms(domain: str) -> str:
    """Where replicas report decisions that were not what they should have been."""
    return f"{ROOT}.alarms.{token(domain)}"


def attributes(domain: str, service: str) -> str:
    """Where an attribute service of a domain is asked."""
    return f"{ROOT}.attributes.{token(domain)}.{token(service)}"


def attributes_changed(domain: str, service: str) -> str:
    """Where an attribute service says whose attributes have changed."""
    return f"{attributes(domain, service)}.changed"


def entity_changed(domain: str, root: str, entity: str) -> str:
    """Where PDPs say that an entity's attributes have changed. Only who knows its name can tell which it is."""
    name = hashlib.blake2s(f"{root} {entity}".encode("utf-8", "surrogatepass"), digest_size=_ENTITY_BYTES)
    return f"{ROOT}.changed.{token(domain)}.{name.hexdigest()}"


def roles(domain: str) -> str:
    """Where the role service of a domain is spoken to."""
    return f"{ROOT}.roles.{token(domain)}"


def scope(domain: str | None) -> str:
    """Where to ask what may be listed in a domain; with None, where to hear that of all."""
    return f"{ROOT}.scope.{'*' if domain is None else token(domain)}"


def search(domain: str | None) -> str:
    """Where to search for who may do what in a domain; with None, where to hear the searches of all."""
    return f"{ROOT}.search.{'*' if domain is None else token(domain)}"


def released(domain: str) -> str:
    """Where to hear that the domain has a new release."""
    return f"{RELEASED}.{token(domain)}"


def members(domain: str) -> str:
    """Where everyone who applies the domain's policies says how far they are."""
    return f"{ROOT}.policy.{token(domain)}.members"


def roll_call(domain: str) -> str:
    """Where everyone who applies the domain's policies is asked to say how far they are."""
    return f"{ROOT}.policy.{token(domain)}.call"


def held(domain: str) -> str:
    """Where to ask the replicas which release they hold."""
    return f"{ROOT}.policy.{token(domain)}.held"


def roll(domain: str) -> str:
    """Where to ask all replicas for the members that they know."""
    return f"{ROOT}.policy.{token(domain)}.roll"


def roll_of_some(domain: str) -> str:
    """Where to ask a few of them."""
    return f"{roll(domain)}.some"


def prepare(domain: str) -> str:
    """Where those who compile the domain's policies are asked to do so before a release."""
    return f"{ROOT}.policy.{token(domain)}.prepare"


def audit(domain: str, writer: str) -> str:
    """Where a writer says which decisions it has given."""
    return f"{AUDITED}.{token(domain)}.{token(writer)}"


def recorded(bucket: str) -> str:
    """Below this, the server itself repeats each record of a bucket as soon as it is stored."""
    return f"{ROOT}.recorded.{token(bucket)}"


def kept(bucket: str, key: str) -> str:
    """Under which subject an entry of a bucket is kept, and read."""
    return f"$KV.{bucket}.{key}"


def written(bucket: str, key: str) -> str:
    """Where an entry of a bucket is written."""
    return f"{_WRITTEN}.{bucket}.{key}"


def key_manager(type_id: str) -> str:
    """Where the manager of a type's key groups is asked who it is."""
    return f"{ROOT}.keys.{token(type_id)}.manager"


def key_requests(type_id: str) -> str:
    """Where members ask the manager of a type's key groups for keys."""
    return f"{ROOT}.keys.{token(type_id)}.requests"


def key_changes(type_id: str) -> str:
    """Where the manager of a type's key groups tells of new keys."""
    return f"{ROOT}.keys.{token(type_id)}.changes"


def audit_head(domain: str, writer: str) -> str:
    """Where a writer says where its chain stands."""
    return f"{AUDITED_UP_TO}.{token(domain)}.{token(writer)}"


def wishes(domain: str) -> str:
    """Where those who would learn from decisions say from which."""
    return f"{ROOT}.wishes.{token(domain)}"


def lesson(domain: str, request: Request) -> str:
    """Where a signed decision about a request is published."""
    words = (token(domain), request_roles(request), path_tokens(request.object.id), token(request.action.id))
    return ".".join((ROOT, "said", *words))


def lessons(topic: Topic) -> str:
    """What someone who would learn from a topic subscribes to."""
    scope, roles = topic.scope, topic.roles or "*"
    words = [ROOT, "said", token(scope.domain), roles]
    match scope.kind:
        case Kind.PREFIX:
            words += [*_prefix(scope.object), ">"]
        case Kind.OBJECT:
            words += [path_tokens(scope.object), "*"]
        case _:
            words += [">"]
    return ".".join(words)


def broker(domain: str, name: str, what: str) -> str:
    """Where clients reach a broker: with `call`, `publish` or `received`."""
    return f"{ROOT}.events.{token(domain)}.{token(name)}.{what}"


class TypePlace(NamedTuple):
    """Where the parcels of a type are published: by its storage class, its owner and its UUID."""

    storage: str
    owner: str
    """The word for the owner's key."""
    type: str


def parcel(domain: str | None, type_: TypePlace, epoch: str = WHOLE, route: str = WHOLE) -> str:
    """Where a domain's brokers publish the events of a type; with None, those of all domains.

    The domain comes early, for accounts that export what their own brokers publish; the owner before the type, so that
    a vouch for all types of an owner is one permission.
    """
    return f"{_GUARDED}.ev.{type_.storage}.{_domain(domain)}.{type_.owner}.{type_.type}.{epoch}.{route}"


def parcels(domain: str | None, storage: str = "*", owner: str = "*", type_: str = "*") -> str:
    """The same of any type, or of some."""
    return parcel(domain, TypePlace(storage, owner, type_), "*", "*")


def mark(domain: str, owner: str) -> str:
    """Where a broker, by its place, publishes what tells it how far it has read the stream."""
    return parcel(domain, TypePlace(FILE, owner, _MARK))


def parcel_place(subject: str) -> TypePlace:
    """Which type the parcels on a subject are of."""
    _, _, storage, _, owner, type_, *_ = subject.split(".")
    return TypePlace(storage, owner, type_)


def of_all_domains(subject: str) -> tuple[str, ...]:
    """The patterns by which parcels of all domains are selected: by their route, their epoch or their type."""
    _, _, storage, _, owner, type_, epoch, route = subject.split(".")
    place = TypePlace(storage, owner, type_)
    return parcel(None, place, epoch, route), parcel(None, place, epoch, "*"), parcel(None, place, "*", "*")


def parcel_stream(storage: str) -> str:
    """The stream that keeps the parcels of a storage class."""
    return PARCELS if storage == FILE else f"{PARCELS}-{storage}"


def carry(owner: str) -> str:
    """Where a broker with this place asks for consumers of its own; with `*`, where to hear all of them."""
    return f"{ROOT}.access.carry.{owner}"


def carried(owner: str) -> str:
    """Where a broker with this place is told that it may carry other types than before."""
    return f"{ROOT}.access.carried.{owner}"


def broker_record(domain: str | None, owner: str, what: str) -> str:
    """Where whoever has this place publishes a record; the newest is kept. With None and `*`, those of everybody."""
    return f"{_GUARDED}.brokers.{_domain(domain)}.{owner}.{what}"


def past(domain: str | None, name: str) -> str:
    """Where a domain's brokers ask one other broker about the past; with None, where that one hears them."""
    return f"{ROOT}.past.{_domain(domain)}.{name if name == '*' else token(name)}"


def _domain(domain: str | None) -> str:
    return "*" if domain is None else token(domain)


def _prefix(path: str) -> list[str]:
    return [] if path == "/" else [path_tokens(path)]


def _asked(mode: Mode, scope: Scope, *words: str) -> str:
    subject = ".".join((ROOT, "ask", mode, *words))
    if len(subject) > MAX_SUBJECT:
        raise InvalidScope(
            f"`{scope}` is too long: its names need more than {MAX_SUBJECT} bytes in a NATS subject"
        )
    return subject
