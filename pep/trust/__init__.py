"""Whose answers count: trusted keys, deciders that were introduced, revocations and clocks."""

from pep.trust.authenticity import Authenticity, Refusal
from pep.trust.clock_skew import SKEW_SECONDS
from pep.trust.revocation_watch import RevocationWatch
from pep.trust.trust_store import (
    TRUST_VARIABLE,
    UNVERIFIED,
    Keys,
    Trust,
    Unverified,
    configured_keys,
    read_keys,
    trusted_roots,
)

__all__ = [
    "SKEW_SECONDS", "TRUST_VARIABLE", "UNVERIFIED", "Authenticity", "Keys", "Refusal", "RevocationWatch", "Trust",
    "Unverified", "configured_keys", "read_keys", "trusted_roots",
]  # fmt: skip
