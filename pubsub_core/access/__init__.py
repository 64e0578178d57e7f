"""What a client may: rights, restrictions, obligations, their enforcement and its disclosure."""

from pubsub_core.access.disclosure import Disclosures
from pubsub_core.access.enforcement import GENERIC, Enforcement, Generic
from pubsub_core.access.owner_points import OwnerPoints
from pubsub_core.access.rate_usage import Counted, Ledger
from pubsub_core.access.restriction import Restriction, widened
from pubsub_core.access.rights import CONTEXT, REPLAY, Ask, Granted, Holder, Reach, Rights
from pubsub_core.access.type_object import type_object

__all__ = [
    "CONTEXT", "GENERIC", "REPLAY", "Ask", "Counted", "Disclosures", "Enforcement", "Generic", "Granted", "Holder",
    "Ledger", "OwnerPoints", "Reach", "Restriction", "Rights", "type_object", "widened",
]  # fmt: skip
