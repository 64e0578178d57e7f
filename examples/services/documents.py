"""What the example services share: their documents, what they decide by, and how an obligation is met."""

import os
from contextlib import AbstractAsyncContextManager, AbstractContextManager
from pathlib import Path
from typing import Any

from pep import Enforcer, SyncEnforcer

POLICIES = Path(__file__).parent / "policies"
DOCUMENTS: dict[str, dict[str, Any]] = {
    "1": {"title": "Ann's contract", "salary": 5000},
    "2": {"title": "Menu", "salary": 0},
}


def enforcer() -> AbstractAsyncContextManager[Enforcer]:
    """The fabric that the environment names, or else an engine in this process."""
    return Enforcer.connect() if "AUTHFABRIC_NATS_URL" in os.environ else Enforcer.local(POLICIES)


def sync_enforcer() -> AbstractContextManager[SyncEnforcer]:
    """The same for threads."""
    return SyncEnforcer.connect() if "AUTHFABRIC_NATS_URL" in os.environ else SyncEnforcer.local(POLICIES)


def mask(fields: list[str], result: Any) -> Any:
    """Meets `{mask: [salary]}`: leaves these fields out."""
    return {name: value for name, value in result.items() if name not in fields}
