"""Signed definitions: who signed one, and by what right if it was not the owner.

A definition has one encoding, and that is what is signed, with the time. The owner's signature holds until the owner
signs that the type is taken out. Somebody else's holds for an edit, if the capability chain that comes with it, rooted
at the owner, grants this key the right to each single change (and, where the grant lists attributes, to each attribute
changed) at the time it is looked at.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import msgspec

from authz import AuthFabricError, Identity, PublicKey
from authz.crypto import Seal
from authz.errors import InvalidSignature
from authz.spki import (
    Certificate,
    ChainRefused,
    Kind,
    MalformedCertificate,
    Owners,
    Reduced,
    Resource,
    Revocations,
    Right,
    decode_chain,
    encode_chain,
    verify,
)
from pubsub_core.errors import TypeRefused
from pubsub_core.types.edit import RIGHTS, Added, edits
from pubsub_core.types.event_type import EventType, type_id, version_id

UNREAD = "?"
"""The name shown for a definition that cannot be read."""
DOMAIN = b"authfabric event type 2\0"
"""Goes before what is signed, so that no signature made for another purpose serves as one of these."""
MAX_BYTES = 256 * 1024
MAX_INSTALL = 8
"""Maximum certificate chains by which others let an owner define a type: one for each domain."""
_NO_REVOCATIONS = Revocations()

_encode = msgspec.msgpack.Encoder(order="deterministic").encode


class Removal(msgspec.Struct, frozen=True):
    """An owner's removal of the versions of its type that were signed up to a time."""

    name: str
    at: float


REMOVAL = Seal("event type removal", Removal)


def removal(name: str, at: float, owner: Identity) -> bytes:
    """A signed removal of a type, valid everywhere."""
    return REMOVAL.sign(Removal(name, at), owner)


class SignedType(msgspec.Struct, frozen=True):
    """A definition with its signature. Nothing of it is true before it is verified."""

    definition: EventType
    signer: str
    signature: bytes
    chain: bytes = b""
    """The capability chain of a signer who is not the owner."""
    at: float = 0.0
    """When it was signed: whatever takes the type out later takes this out, too."""
    install: tuple[bytes, ...] = ()
    """The capability chains by which those who are trusted with its name let its owner define it."""

    def __post_init__(self) -> None:
        if len(self.install) > MAX_INSTALL:
            raise TypeRefused(self.definition.name, f"it may bring {MAX_INSTALL} certificates to install it")

    @classmethod
    def sign(
        cls,
        definition: EventType,
        signer: Identity,
        chain: Iterable[Certificate] = (),
        at: float = 0.0,
        install: Iterable[Sequence[Certificate]] = (),
    ) -> SignedType:
        """`at` is when it is signed: without it, it does not count once its owner has ever taken the type out."""
        links = tuple(chain)
        signature = signer.sign(_to_sign(definition, at))
        installs = tuple(map(encode_chain, install))
        encoded = encode_chain(links) if links else b""
        return cls(definition, str(signer.public), signature, encoded, at, installs)

    @property
    def rests_on_certificates(self) -> bool:
        """Whether it counts only while somebody else's certificates do."""
        return bool(self.chain or self.definition.extend or self.install)

    def encode(self) -> bytes:
        return _encode(self)

    @classmethod
    def decode(cls, data: bytes) -> SignedType:
        """Read what `encode` wrote. Raises TypeRefused."""
        if len(data) > MAX_BYTES:
            raise TypeRefused(UNREAD, f"it has {len(data)} bytes, and at most {MAX_BYTES} are read")
        try:
            return msgspec.msgpack.decode(data, type=cls)
        except (msgspec.MsgspecError, UnicodeError, RecursionError, AuthFabricError) as error:
            raise TypeRefused("?", f"it cannot be read: {error}") from None

    def verify(
        self,
        previous: EventType | None,
        parent: EventType | None,
        at: float,
        revocations: Revocations = _NO_REVOCATIONS,
    ) -> EventType:
        """The definition, if it was rightly made. Raises TypeRefused.

        `previous` and `parent` are the verified definitions that it names.
        """
        definition = self.definition
        self._check_signature()
        if definition.parent is not None:
            _check_parent(definition, parent, at, revocations)
        if self.signer != definition.owner:
            self._check_edits(previous, at, revocations)
        elif previous is not None:
            edits(previous, definition)
        if definition.id != type_id(definition.name, definition.owner):
            raise TypeRefused(definition.name, "its UUID belongs to another type")
        if definition.version != version_id(definition):
            raise TypeRefused(definition.name, "its version's UUID belongs to another definition")
        return definition

    def _check_signature(self) -> None:
        try:
            PublicKey.parse(self.signer).verify(self.signature, _to_sign(self.definition, self.at))
        except (InvalidSignature, AuthFabricError) as error:
            raise TypeRefused(self.definition.name, str(error)) from None

    def _check_edits(self, previous: EventType | None, at: float, revocations: Revocations) -> None:
        """Each change needs its right, held by the signer at the owner's word."""
        definition = self.definition
        if previous is None:
            raise TypeRefused(
                definition.name, "only its owner can sign a first version, or an edit of one not known here"
            )
        reduced = _reduce(definition, self.chain, at, revocations)
        if str(reduced.capability.subject) != self.signer:
            raise TypeRefused(definition.name, "the capability chain is somebody else's")
        for edit in edits(previous, definition):
            names = {edit.attribute.name}
            if not _granted(reduced, RIGHTS[type(edit)], definition.name, names):
                word = "new " if isinstance(edit, Added) else ""
                problem = (
                    f"`{RIGHTS[type(edit)]}` of the {word}attribute `{edit.attribute.name}` is not granted"
                )
                raise TypeRefused(definition.name, problem)


def _to_sign(definition: EventType, at: float) -> bytes:
    return DOMAIN + _encode(definition) + _encode(at)


def _check_parent(
    definition: EventType, parent: EventType | None, at: float, revocations: Revocations
) -> None:
    named = definition.parent
    if parent is None or named is None or (parent.id, parent.version) != (named.id, named.version):
        raise TypeRefused(definition.name, "the definition that it extends is not known here")
    if parent.owner == definition.owner:
        return
    reduced = _reduce(parent, definition.extend, at, revocations)
    if str(reduced.capability.subject) != definition.owner:
        raise TypeRefused(definition.name, "the right to extend was granted to somebody else")
    if not _granted(reduced, Right.EXTEND, parent.name, set()):
        raise TypeRefused(definition.name, f"the right to extend `{parent.name}` is not granted")


def _reduce(of: EventType, chain: bytes, at: float, revocations: Revocations) -> Reduced:
    """What the chain proves about this type, whose owner is the root of all rights over it."""
    owners = Owners([(Resource(Kind.TYPE, of.name), of.owner_key)])
    try:
        return verify(decode_chain(chain or encode_chain(())), owners, at, revocations)
    except (ChainRefused, MalformedCertificate) as error:
        raise TypeRefused(of.name, f"the capability chain does not hold: {error}") from None


def _granted(reduced: Reduced, right: Right, name: str, attributes: set[str]) -> bool:
    grants = reduced.capability.authority.select(right, name)
    return any(grant.attributes is None or attributes <= grant.attributes for grant in grants)
