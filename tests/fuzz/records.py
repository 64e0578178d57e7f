"""Everything that reads what strangers write into stores and streams, or say to managers of keys."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, TypeAlias, cast

import msgspec

from authfabric.commands.trust import domain as domain_commands
from authz import Identity
from authz.crypto.seal import Seal, _Signed
from authz.predicate import TRUE
from bus.audit import records as audit
from bus.nats.access_client import CAPABILITY_REQUEST
from bus.services import attribute_client as attributes
from bus.stores import state_store
from bus.stores.consumer_keeper import ConsumerInfo
from bus.stores.jetstream_api import read_answer
from bus.wire import subjects
from pdp.access.domain import JOIN_REQUEST
from pdp.sessions.record import Seals
from pubsub_core.carriage import carrier_rights as carriers
from pubsub_core.events.event_cipher import EventCipher
from pubsub_core.key_groups import messages as keys
from pubsub_core.keys import Binding, DataKey, KeyRing, Plan, Sealer
from pubsub_core.keys.cover_traffic import read_box
from pubsub_core.keys.filters import SealedFilter, SealedTerm, open_filter
from pubsub_core.rules import TABLE
from pubsub_core.server import durable_service
from pubsub_core.trust import broker_trust as trust
from pubsub_core.types import POLICY, REMOVAL, Catalogue, OwnerPolicies
from tests.pubsub_core.keys.office import office

Reader: TypeAlias = Callable[[bytes], object]

KEY = Identity.from_seed(b"f" * 32)
NOW = 1_800_000_000.0
WRITER = audit.writer_name("pdp", KEY.public)
PLACE = subjects.place(KEY.public)
GROUPS = tuple(f"{number:032x}" for number in (1, 2))
BINDING = Binding("a" * 32, "b" * 32, b"p" * 32, NOW, 1, "filter")
_PLAN, _RING = Plan.each(GROUPS), KeyRing()
for _group in GROUPS:
    _RING.add(DataKey(_group, 1, 0.0, bytes.fromhex(_group) * 2))
SEALER = Sealer(_PLAN, _RING)
CIPHER = EventCipher(_RING)
CIPHER.learn(BINDING.type, _PLAN)
ROLES = Seals("shop", KEY)
TYPE = "a" * 32
_OFFICE = office(TYPE)


def sealed(seal: Seal[Any], content: bytes, by: Identity = KEY) -> bytes:
    """What a member signs, whatever it is."""
    return msgspec.msgpack.encode(_Signed(content, str(by.public), by.sign(seal._domain + content)))


def opening(*seals: Seal[Any]) -> dict[str, Reader]:
    """The readers of what is signed for these purposes."""
    return {each._purpose: lambda data, seal=each: seal.read(sealed(seal, data)) for each in seals}  # type: ignore[misc]


def _carrier(data: bytes) -> None:
    rights = carriers.CarrierRights()
    rights.hear(subjects.broker_record("met", PLACE, "carrier"), sealed(carriers._CARRIER, data))
    for place in rights.places:
        rights.carried(place, NOW)


def _filter(groups: tuple[str, ...], data: bytes) -> None:
    """A term under the outermost key."""
    term = SealedTerm(groups, SEALER.seal_for(groups[0], BINDING, (data,)))
    open_filter(SealedFilter(BINDING, TRUE, (term,)), _PLAN, _RING)


class _File:
    """Something that a file holds."""

    def __init__(self, data: bytes) -> None:
        self._data = data

    def read_bytes(self) -> bytes:
        return self._data


RECORDS: Mapping[str, Reader] = {
    "audit record": audit.read_record,
    "audit head": lambda data: audit.read_head(sealed(audit._HEAD, data), WRITER),
    "heartbeat": lambda data: trust.Web().hear(str(KEY.public), sealed(trust._BEAT, data), NOW),
    "carrier": _carrier,
    "policy": lambda data: OwnerPolicies(Catalogue(), print).accept(sealed(POLICY, data)),
    "table": lambda data: TABLE.open(sealed(TABLE, data), {KEY.public}),
    "state": state_store._read,
    "durable": durable_service._read,
    "consumer": lambda data: read_answer(data, ConsumerInfo),
    "box": read_box,
    "columns": CIPHER.open_many,
    "role record": lambda data: ROLES.open_record(sealed(ROLES._record, data)),
    "role challenge": lambda data: ROLES.open_challenge(sealed(ROLES._challenge, data)),
    "term": lambda data: _filter(GROUPS[:1], data),
    "layer": lambda data: _filter(GROUPS, data),
    "membership": lambda data: domain_commands._read_membership(cast(Path, _File(data))),
    **opening(
        REMOVAL,
        CAPABILITY_REQUEST,
        JOIN_REQUEST,
        attributes._seal("staff"),
        attributes._changes_seal("staff"),
    ),
}

MANAGERS: Mapping[str, Reader] = {
    "signed request": lambda data: _OFFICE.judge(data, NOW),
    "request": lambda data: _OFFICE.judge(
        keys.encode(keys.SignedRequest(data, KEY.sign(keys.REQUEST_DOMAIN + data))), NOW
    ),
    **opening(keys.appointments, keys.introductions, keys.changes),
}
