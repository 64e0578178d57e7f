"""Secure event types: who owns them, what they are called, and which attributes their events have.

A type is known everywhere by its UUID, which follows from its owner's key and its name, and each version of it by
another, which follows from its content: no other definition can have them. Attributes keep theirs through every
version and in every sub-type. So events and filters name attributes by UUID alone, a renamed attribute is
still the same one, and the names that people use do not travel with events (Pesonen and Bacon, Secure event
types in content-based, multi-domain publish/subscribe systems, SEM 2005).
"""

from __future__ import annotations

import enum
import hashlib
import re
from collections.abc import Callable, Iterable
from functools import lru_cache
from uuid import UUID

import msgspec

from authz import PublicKey
from authz.errors import InvalidKey
from bus.wire import subjects
from pubsub_core.errors import InvalidType

MAX_ATTRIBUTES = 256
MAX_NAME_BYTES = 512
DEFAULT_BITS = 8
"""Default bits of the digest by which events are routed."""
MAX_BITS = 16

NewId = Callable[[], UUID]
"""What draws UUIDs."""

_encode = msgspec.msgpack.Encoder(order="deterministic").encode

_STORAGE = re.compile(r"[a-z][a-z0-9]{0,31}")
_ID = re.compile(r"[0-9a-f]{32}")
_TYPE_NAME = re.compile(r"[A-Za-z][A-Za-z0-9_-]*(\.[A-Za-z][A-Za-z0-9_-]*)*")
_ATTRIBUTE_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]*(-[A-Za-z0-9_]+)*")


class AttributeType(enum.StrEnum):
    """What an attribute's values are."""

    STRING = "string"
    INTEGER = "integer"
    FLOAT = "float"
    BOOLEAN = "boolean"
    TIMESTAMP = "timestamp"
    """Unix time in seconds; written in filters as 2030-01-31T23:59:59Z."""
    BYTES = "bytes"
    GEO = "geopoint"
    """An object with `lat` and `lon`, in degrees."""


ROUTABLE = (AttributeType.STRING, AttributeType.INTEGER, AttributeType.BOOLEAN)
"""Types of attributes by which events can be routed: equal values have equal digests."""


class Attribute(msgspec.Struct, frozen=True):
    """One attribute. Only its UUID is what it is; its name and type may differ between versions."""

    name: str
    id: str
    """A UUID, as 32 hexadecimal digits."""
    type: AttributeType

    def __post_init__(self) -> None:
        if not _ATTRIBUTE_NAME.fullmatch(self.name) or len(self.name) > MAX_NAME_BYTES:
            raise InvalidType("attributes", f"`{self.name}` must be a word of letters, digits, `_` and `-`")
        check_id("attributes", self.id)


class Parent(msgspec.Struct, frozen=True):
    """The type that another extends: the version whose attributes it inherits."""

    id: str
    version: str

    def __post_init__(self) -> None:
        check_id("parent", self.id)
        check_id("parent", self.version)


class Carriage(msgspec.Struct, frozen=True):
    """How the events of a type travel between brokers. It is the same in all versions of the type."""

    storage: str = subjects.FILE
    """The storage class of the stream that keeps them on the way."""
    routed: str = ""
    """The UUID of the attribute by whose value they are routed; nothing if they go to all who want the type."""
    bits: int = DEFAULT_BITS
    """How much of the keyed digest of that value servers see: values fall into so many bits of buckets."""

    def __post_init__(self) -> None:
        if not _STORAGE.fullmatch(self.storage):
            raise InvalidType(
                "storage", f"`{self.storage}` must be a word of up to 32 small letters and digits"
            )
        if self.routed:
            check_id("routed", self.routed)
        if not 1 <= self.bits <= MAX_BITS:
            raise InvalidType("bits", f"must be 1 to {MAX_BITS}, not {self.bits}")


AS_USUAL = Carriage()


class EventType(msgspec.Struct, frozen=True):
    """One version of a type's definition. Its owner's key is part of its name, so names cannot be stolen."""

    name: str
    owner: str
    """The owner's public key, as text."""
    id: str
    """The UUID of the type, `type_id` of its owner and name, the same in all its versions."""
    version: str
    """The UUID of this version, `version_id` of all else."""
    attributes: tuple[Attribute, ...]
    """Those of its own; the parent's come before them."""
    previous: str = ""
    """The version that this one was edited from."""
    parent: Parent | None = None
    extend: bytes = b""
    """The capability chain by which the parent's owner lets this one extend it, if they are not the same."""
    carried: Carriage | msgspec.UnsetType = msgspec.UNSET
    """How its events travel, if not as usual. Unset it is not written, as before there was a choice."""
    governs: bool | msgspec.UnsetType = msgspec.UNSET
    """Whether its owner has a policy, without which nobody uses it; unset it is not written."""

    def __post_init__(self) -> None:
        if not _TYPE_NAME.fullmatch(self.name) or len(self.name) > MAX_NAME_BYTES:
            raise InvalidType(
                "name", f"`{self.name}` must be words joined by dots, such as `uk.gov.Sighting`"
            )
        check_id("id", self.id)
        check_id("version", self.version)
        if self.previous:
            check_id("previous", self.previous)
        if len(self.attributes) > MAX_ATTRIBUTES:
            raise InvalidType("attributes", f"must be at most {MAX_ATTRIBUTES}")
        check_distinct(self.attributes)
        routed = next((each for each in self.attributes if each.id == self.carriage.routed), None)
        if routed is not None and routed.type not in ROUTABLE:
            allowed = ", ".join(ROUTABLE)
            raise InvalidType(
                "routed", f"`{routed.name}` is a {routed.type}, and events are routed by {allowed}"
            )
        try:
            PublicKey.parse(self.owner)
        except InvalidKey as error:
            raise InvalidType("owner", f"must be a public key: {error}") from None

    @classmethod
    def new(
        cls,
        name: str,
        owner: PublicKey,
        attributes: Iterable[tuple[str, AttributeType]],
        new_id: NewId,
        parent: EventType | None = None,
        extend: bytes = b"",
        *,
        routed: str = "",
        storage: str = subjects.FILE,
        bits: int = DEFAULT_BITS,
        governed: bool = False,
    ) -> EventType:
        """The first version of a type, with UUIDs drawn for it and its attributes.

        `routed` is the name of the attribute of its own by whose value events are routed, `governed` whether its owner
        has a policy. Raises InvalidType.
        """
        own = tuple(Attribute(each, new_id().hex, AttributeType(type_)) for each, type_ in attributes)
        inherits = Parent(parent.id, parent.version) if parent is not None else None
        id_ = type_id(name, str(owner))
        ids = {each.name: each.id for each in own}
        if routed and routed not in ids:
            raise InvalidType("routed", f"`{routed}` must be an attribute of its own")
        carriage = Carriage(storage, ids.get(routed, ""), bits)
        carried = msgspec.UNSET if carriage == AS_USUAL else carriage
        governs = governed or msgspec.UNSET
        return cls(name, str(owner), id_, id_, own, "", inherits, extend, carried, governs).as_version()

    def as_version(self) -> EventType:
        """The same, under the UUID that its content has as a version."""
        return msgspec.structs.replace(self, version=version_id(self))

    @property
    def full_name(self) -> str:
        """Its owner's key and then its name: what nobody else can call a type."""
        return f"{self.owner}/{self.name}"

    @property
    def owner_key(self) -> PublicKey:
        return PublicKey.parse(self.owner)

    @property
    def carriage(self) -> Carriage:
        """How its events travel between brokers."""
        return AS_USUAL if isinstance(self.carried, msgspec.UnsetType) else self.carried

    @property
    def governed(self) -> bool:
        """Whether nobody uses it where its owner's policy is not known. It is the same in all versions of the type."""
        return self.governs is True

    @property
    def place(self) -> subjects.TypePlace:
        """Where its events are published between brokers."""
        return subjects.TypePlace(self.carriage.storage, _owner_place(self.owner), self.id)

    def __str__(self) -> str:
        return self.name


def type_id(name: str, owner: str) -> str:
    """The UUID of the type that this owner calls so. Nobody else can have a type with this UUID."""
    return _uuid(b"type", owner.encode(), name.encode())


def version_id(definition: EventType) -> str:
    """The UUID of a version, from all else in it: no other definition can have it."""
    return _uuid(b"version", _encode(msgspec.structs.replace(definition, version=definition.id)))


@lru_cache(10_000)
def _owner_place(owner: str) -> str:
    return subjects.place(PublicKey.parse(owner))


def _uuid(*parts: bytes) -> str:
    """A UUID of version 8 (RFC 9562) from a hash of these parts."""
    digest = bytearray(hashlib.sha256(_encode(parts)).digest()[:16])
    digest[6] = digest[6] & 0x0F | 0x80
    digest[8] = digest[8] & 0x3F | 0x80
    return digest.hex()


def check_id(field: str, text: str) -> None:
    """Raise InvalidType unless the text is a UUID in the one spelling there is."""
    if not _ID.fullmatch(text):
        raise InvalidType(field, f"`{text}` must be a UUID of 32 hexadecimal digits")


def check_distinct(attributes: Iterable[Attribute]) -> None:
    """Raise InvalidType if two attributes have one name, or one UUID."""
    names, ids = set[str](), set[str]()
    for each in attributes:
        if each.name in names or each.id in ids:
            raise InvalidType(
                "attributes", f"`{each.name}` stands there twice: each name and UUID is used once"
            )
        names.add(each.name)
        ids.add(each.id)
