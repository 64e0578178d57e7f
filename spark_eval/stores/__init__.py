"""What jobs read and write besides entities: requests, audit records and precomputed decisions."""

from spark_eval.stores.audit_store import NAME, PAGES_IN_BATCH, AuditSource, Stand, look
from spark_eval.stores.precomputed_store import (
    DECIDED,
    MANIFEST,
    SNAPSHOT,
    Earlier,
    Manifest,
    changed_buckets,
    read_earlier,
    read_rows,
    totals,
    write_changes,
    write_names,
)
from spark_eval.stores.request_store import InvalidRequests, Requests, open_decisions

__all__ = [
    "DECIDED", "MANIFEST", "NAME", "PAGES_IN_BATCH", "SNAPSHOT", "AuditSource", "Earlier", "InvalidRequests",
    "Manifest", "Requests", "Stand", "changed_buckets", "look", "open_decisions", "read_earlier", "read_rows", "totals",
    "write_changes", "write_names",
]  # fmt: skip
