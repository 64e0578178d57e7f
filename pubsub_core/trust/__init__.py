"""Who is believed: credentials of clients, and vouches for the brokers that may carry a type."""

from pubsub_core.trust.broker_trust import Web, beat
from pubsub_core.trust.client_trust import BrokerTrust
from pubsub_core.trust.credential import Credential, Credentials, check_own, issue, read_credential, signer_of
from pubsub_core.trust.owner_store import HeardOwners
from pubsub_core.trust.vouches import ALL, read_vouch, vouch, vouchers, withdraw

__all__ = [
    "ALL", "BrokerTrust", "Credential", "Credentials", "HeardOwners", "Web", "beat", "check_own", "issue",
    "read_credential", "read_vouch", "signer_of", "vouch", "vouchers", "withdraw",
]  # fmt: skip
