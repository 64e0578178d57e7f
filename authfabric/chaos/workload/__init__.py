"""The load on a fabric in a chaos run: questions, events and policy pushes."""

from typing import TYPE_CHECKING

from authz.lazy import lazily

if TYPE_CHECKING:
    from authfabric.chaos.workload.event_load import Client, EventLoad
    from authfabric.chaos.workload.pep_load import Asking
    from authfabric.chaos.workload.policies import (
        ACTION,
        ATTRIBUTES,
        DOMAIN,
        FORBIDDEN,
        TYPE,
        lies,
        policy_file,
        policy_of,
    )
    from authfabric.chaos.workload.policy_pushes import Releaser

__all__ = [
    "ACTION", "ATTRIBUTES", "DOMAIN", "FORBIDDEN", "TYPE", "Asking", "Client", "EventLoad", "Releaser",
    "lies", "policy_file", "policy_of",
]  # fmt: skip

__getattr__ = lazily(
    __name__,
    {
        ".event_load": "EventLoad Client",
        ".pep_load": "Asking",
        ".policies": "ACTION ATTRIBUTES DOMAIN FORBIDDEN TYPE lies policy_file policy_of",
        ".policy_pushes": "Releaser",
    },
)
