"""Types, identities and catalogues that the tests of the event service share."""

from __future__ import annotations

from itertools import count
from uuid import UUID

from authz import Identity
from authz.spki import Capability, Validity, encode_chain, parse_authority
from pubsub_core.types.event_type import AttributeType, EventType
from pubsub_core.types.registry import Catalogue
from pubsub_core.types.signature import SignedType

PITO = Identity.from_seed(b"p" * 32)
MET = Identity.from_seed(b"m" * 32)
THIEF = Identity.from_seed(b"t" * 32)
NOW = 1000.0

SIGHTING = (
    ("numberplate", AttributeType.STRING),
    ("location", AttributeType.STRING),
    ("time", AttributeType.TIMESTAMP),
    ("speed", AttributeType.FLOAT),
)


def ids():
    """UUIDs in a row, for tests that compare."""
    numbers = count(1)
    return lambda: UUID(int=next(numbers))


def sighting(new_id=None, name="uk.gov.pito.Numberplate", **more) -> EventType:
    return EventType.new(name, PITO.public, SIGHTING, new_id or ids(), **more)


def chain_of(grants: str, *, to: Identity = MET, by: Identity = PITO):
    """A chain of one link, from an owner to somebody."""
    return (Capability(by.public, to.public, False, parse_authority(grants), Validity()).sign(by),)


def encoded(grants: str, **parties) -> bytes:
    return encode_chain(chain_of(grants, **parties))


def catalogue_of(*definitions: EventType, signer: Identity = PITO) -> Catalogue:
    catalogue = Catalogue()
    for each in definitions:
        catalogue.accept(SignedType.sign(each, signer), NOW)
    return catalogue
