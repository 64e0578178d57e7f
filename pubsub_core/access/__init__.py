"""What a client may: rights, restrictions, obligations, their enforcement and its disclosure."""

from pubsub_core.access.disclosure import Disclosures
from pubsub_core.access.enforcement import GENERIC, Enforcement, Generic
from pubsub_core.access.rate_usage import Ledger
from pubsub_core.access.restriction import Restriction, widened
from pubsub_core.access.rights import CONTEXT, Ask, Granted, Holder, Rights, type_object

__all__ = [
    "CONTEXT", "GENERIC", "Ask", "Disclosures", "Enforcement", "Generic", "Granted", "Holder", "Ledger",
    "Restriction", "Rights", "type_object", "widened",
]  # fmt: skip
