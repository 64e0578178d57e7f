"""Event types: definitions, their versions, signatures, names and owners, and filters bound to them."""

from pubsub_core.types.edit import Added, Edit, Removed, Renamed, Retyped, apply, find
from pubsub_core.types.event_type import (
    DEFAULT_BITS,
    MAX_BITS,
    ROUTABLE,
    Attribute,
    AttributeType,
    Carriage,
    EventType,
    check_id,
    type_id,
)
from pubsub_core.types.filter_binding import bind_filter, check_filter, name_filter
from pubsub_core.types.names import EVERY, Names, below
from pubsub_core.types.owner_policy import (
    MAX_POLICY_BYTES,
    POLICY,
    OwnerPolicies,
    OwnerPolicy,
    sign_policy,
)
from pubsub_core.types.registry import Catalogue
from pubsub_core.types.signature import REMOVAL, UNREAD, SignedType, removal
from pubsub_core.types.versions import CONVERSIONS, Reader, reader

__all__ = [
    "CONVERSIONS", "DEFAULT_BITS", "EVERY", "MAX_BITS", "MAX_POLICY_BYTES", "POLICY", "REMOVAL", "ROUTABLE",
    "UNREAD", "Added", "Attribute", "AttributeType", "Carriage", "Catalogue", "Edit", "EventType", "Names",
    "OwnerPolicies", "OwnerPolicy", "Reader", "Removed", "Renamed", "Retyped", "SignedType", "apply", "below",
    "bind_filter", "check_filter", "check_id", "find", "name_filter", "reader", "removal", "sign_policy",
    "type_id",
]  # fmt: skip
