"""The audit trail: every decision given, in a hash chain for each writer, kept in a stream and verified from it."""

from typing import TYPE_CHECKING

from authz.lazy import lazily

if TYPE_CHECKING:
    from bus.audit.decision_filter import DecisionFilter
    from bus.audit.file_store import AuditFile
    from bus.audit.masking import MASKED, SALT, Mask
    from bus.audit.records import (
        AuditRecord,
        Disclosure,
        Followed,
        Head,
        SignedHead,
        Vouched,
        read_head,
        read_record,
    )
    from bus.audit.store import AuditStore, Page
    from bus.audit.trail import AuditTrail
    from bus.audit.verifier import Break, ChainVerifier, Verified, verify_chain
    from bus.audit.vouchers import Vouchers
    from bus.audit.writer_service import AuditWriter

__all__ = [
    "MASKED", "SALT", "AuditFile", "AuditRecord", "AuditStore", "AuditTrail", "AuditWriter", "Break", "ChainVerifier",
    "DecisionFilter", "Disclosure", "Followed", "Head", "Mask", "Page", "SignedHead", "Verified", "Vouched", "Vouchers",
    "read_head", "read_record", "verify_chain",
]  # fmt: skip

__getattr__ = lazily(
    __name__,
    {
        ".decision_filter": "DecisionFilter",
        ".file_store": "AuditFile",
        ".masking": "MASKED SALT Mask",
        ".records": "AuditRecord Disclosure Followed Head SignedHead Vouched read_head read_record",
        ".store": "AuditStore Page",
        ".trail": "AuditTrail",
        ".verifier": "Break ChainVerifier Verified verify_chain",
        ".vouchers": "Vouchers",
        ".writer_service": "AuditWriter",
    },
)
