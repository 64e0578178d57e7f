"""Everything that reads what strangers send, by the name of its fuzz target.

Where something is read only if it is signed, whatever arrives is signed first: any member has a key. An exception that
is not one of the fabric's own is a find.
"""

from __future__ import annotations

import contextlib
import io
from collections.abc import Callable, Mapping
from pathlib import Path
from types import ModuleType
from typing import TypeAlias, cast

import msgspec

from authfabric.backup import archive
from authfabric.commands.events.event_bridge import Bridge
from authz import AuthFabricError
from authz.authority.introduction import Introduction
from authz.release import _SEAL as RELEASE
from authz.release import PREPARATION, Released
from authz.rules import parse_rules, parse_term
from bus.feeds import held_releases_service as held
from bus.nats import access_client as access
from bus.services import attribute_client as attributes
from bus.stores import consumer_keeper as consumers
from bus.wire import messages, role_messages, shared_decisions, subjects
from bus.wire.envelope import VERSION, Unpack
from pdp.abac.reader import read_policies
from pdp.bundle.bundle import _SEAL as BUNDLE
from pdp.bundle.bundle import MAGIC, Bundle
from pdp.oasis.parser import parse as parse_roles
from pubsub_core import Publisher
from pubsub_core import messages as events
from pubsub_core.carriage.parcel import HEAD, Parcel, sign_parcel
from pubsub_core.carriage.records import HELLO, TOLD
from pubsub_core.events.event import Shape, decode
from pubsub_core.history import page_messages as past
from pubsub_core.history.fluent_periods import read_fluent
from pubsub_core.key_groups import messages as keys
from pubsub_core.messages import BROKER_KEY, CALL
from pubsub_core.trust.broker_trust import Web
from pubsub_core.trust.credential import Credentials
from pubsub_core.types import Attribute, AttributeType
from pubsub_core.types.filter_binding import check_filter
from pubsub_core.types.signature import SignedType
from sdp_cache.snapshots.snapshot import PREAMBLE, Snapshot, message
from tests.authz.predicates import parse_predicate
from tests.fuzz.gateway import READERS as GATEWAY
from tests.fuzz.readers import arrival, certificate, chain, link, notice, text, token
from tests.fuzz.records import KEY, MANAGERS, NOW, RECORDS, opening, sealed
from tests.pubsub_core.net import KIND, NAMES, net
from tests.pubsub_core.pair import Pair
from tests.sdp_cache.snapshots.test_snapshot import ORIGIN

Reader: TypeAlias = Callable[[bytes], object]

COMMAND = role_messages.command_seal("shop")
KINDS = {
    each.value: Attribute(each.value, f"{number:032x}", each) for number, each in enumerate(AttributeType)
}
SHAPE = Shape({each.id: each for each in KINDS.values()})
PUBLISHER = cast(Publisher, None)
"""To whom a bridge gives what it has read, which is not looked at here."""
_ARCHIVE = Path("backup")
_NET = net("a", "b")
_PAIR = Pair()
_PREFIX = bytes([VERSION])


def _unpacking(*modules: ModuleType) -> dict[str, Reader]:
    """Every reader of messages in these modules, with the version in front of what it reads."""
    found = {
        f"{module.__name__}.{name}": each
        for module in modules
        for name, each in vars(module).items()
        if isinstance(each, Unpack)
    }
    return {name: lambda data, read=read: read(_PREFIX + data) for name, read in found.items()}  # type: ignore[misc]


def _text(read: Callable[[str], object]) -> Reader:
    return lambda data: read(data.decode("utf-8", "replace"))


def _record(what: str, data: bytes) -> None:
    _NET.brokers["a"].presence.hear(subjects.broker_record("met", "b", f"{what}.x"), data)
    _NET.log.clear()


def _hello(data: bytes) -> None:
    _record("hello", sealed(HELLO, data))


def _told(data: bytes) -> None:
    """From a broker that is known and trusted."""
    _record("type", sealed(TOLD, data, _NET.brokers["b"].setting.identity))


def _parcel(data: bytes) -> None:
    """From a broker that is trusted with the type."""
    subject, by = subjects.parcel("met", KIND.place), _PAIR.home.setting.identity
    try:
        parcel = sign_parcel(msgspec.msgpack.decode(data, type=Parcel), by)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError, AuthFabricError):
        parcel = msgspec.msgpack.encode((sealed(HEAD, data, by), [], b""))
    _PAIR.away.receive(1, subject, _PAIR.now, parcel)
    _PAIR.sent.clear()


def _publication(data: bytes) -> None:
    """An event among those that a client has signed."""
    _PAIR.publish(_PAIR.signed([msgspec.Raw(data)]))
    _PAIR.sent.clear()


def _bridged(data: bytes, cloud: bool) -> None:
    """A message on a plain subject, up to where it is an event of a type with attributes of every kind."""
    SHAPE.by_id(Bridge(PUBLISHER, KINDS, cloud=cloud).values(data))


def _call(data: bytes) -> None:
    call = CALL.read(sealed(CALL, data)).value.call
    if isinstance(call, events.Subscribe):
        check_filter(call.filter, NAMES)


def _type(data: bytes) -> None:
    SignedType.decode(data).verify(None, None, NOW)


def _bundle_file(data: bytes) -> None:
    Bundle.open(MAGIC + sealed(BUNDLE, data), {KEY.public})


def _snapshot(data: bytes) -> None:
    """Everything but the key and the signature, which are put right."""
    head, _, length = PREAMBLE.unpack_from(data.ljust(PREAMBLE.size, b"\0"))
    signed = PREAMBLE.pack(head, KEY.public.raw, length) + data[PREAMBLE.size :]
    found = Snapshot.open(signed + KEY.sign(message(memoryview(signed))), {KEY.public}, ORIGIN)
    found.lookup("alice", "/o", "read")


TARGETS: Mapping[str, Mapping[str, Reader]] = {
    "certificates": {
        "chain": chain, "certificate": certificate, "notice": notice, "text": text, "token": token, "arrival": arrival,
        "link": link,
    },
    "envelopes": {
        **_unpacking(messages, role_messages, keys, access, shared_decisions, attributes, consumers, held),
        "introduction": Introduction.read,
        "preparation": lambda data: PREPARATION.read(sealed(PREPARATION, data)),
        "release": lambda data: Released.open(sealed(RELEASE, data), "shop", {KEY.public}),
        "command": lambda data: COMMAND.read(sealed(COMMAND, data)),
    },
    "calls": {
        "call": _call, "credential": lambda data: Credentials({"met": {KEY.public}}).open(data, NOW),
        **opening(BROKER_KEY),
    },
    "events": {
        "publication": _publication, "event": decode, **_unpacking(events, past),
        "item": lambda data: events.decode_item(msgspec.Raw(data)),
    },
    "plain": {
        "message": lambda data: _bridged(data, cloud=False), "cloud event": lambda data: _bridged(data, cloud=True),
    },
    "gateway": GATEWAY,
    "hellos": {
        "hello": _hello,
        "type": _told,
        "vouch": lambda data: Web().learn(data),
        "parcel": _parcel,
    },
    "records": RECORDS,
    "managers": MANAGERS,
    "types": {"type": _type},
    "filters": {"filter": _text(lambda text: check_filter(text, NAMES)), "fluent": _text(read_fluent)},
    "rules": {
        "rules": _text(parse_rules), "term": _text(parse_term), "predicate": _text(parse_predicate),
        "roles": _text(parse_roles),
    },
    "policies": {"policies": _text(read_policies)},
    "backups": {
        "head": lambda data: archive._read_header(_ARCHIVE, io.BytesIO(archive.MAGIC + data)),
        "part": lambda data: archive._part(_ARCHIVE, archive.Place(0, 0), data),
        "manifest": lambda data: archive.MANIFEST.read(sealed(archive.MANIFEST, data)),
    },
    "bundles": {"bundle": Bundle.unpack, "file": _bundle_file},
    "snapshots": {"snapshot": _snapshot},
}  # fmt: skip
"""The readers of each target, by name: the first byte of an input chooses one."""


def one_input(target: str, data: bytes) -> None:
    """Read an input. What is refused in the fabric's own words is well."""
    if data:
        readers = list(TARGETS[target].values())
        with contextlib.suppress(AuthFabricError):
            readers[data[0] % len(readers)](data[1:])
