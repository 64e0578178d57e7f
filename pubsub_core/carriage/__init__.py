"""Between brokers: parcels of events, sealed once and published once, and signed records of who is there."""

from pubsub_core.carriage.carrier_rights_service import CarrierRightsService
from pubsub_core.carriage.clock_skew import MAX_SKEW, Clocks
from pubsub_core.carriage.parcel import Contents, Parcel, read_parcel, sign_parcel
from pubsub_core.carriage.presence import Presence
from pubsub_core.carriage.receiving import Read, Receiving
from pubsub_core.carriage.records import MAX_NAME_LENGTH, Hello, Peer, word_record
from pubsub_core.carriage.routing import Routing
from pubsub_core.carriage.sending import Publish, Sending
from pubsub_core.carriage.unknown_brokers import NotVouched, UnknownBrokers

__all__ = [
    "MAX_NAME_LENGTH",
    "MAX_SKEW",
    "CarrierRightsService",
    "Clocks",
    "Contents",
    "Hello",
    "NotVouched",
    "Parcel",
    "Peer",
    "Presence",
    "Publish",
    "Read",
    "Receiving",
    "Routing",
    "Sending",
    "UnknownBrokers",
    "read_parcel",
    "sign_parcel",
    "word_record",
]
