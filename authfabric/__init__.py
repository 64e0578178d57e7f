"""The application: the command line, `up`, the demo. The only place that wires everything.

For services, the common names of all packages: `from authfabric import Enforcer, EventClient`.
"""

TYPE_CHECKING = False  # as in typing, whose import takes longer than saying the version
if TYPE_CHECKING:
    from authz import Decision, Entity, Identity, Request
    from bus import Connection
    from pep import AccessDenied, Enforcer, SyncEnforcer
    from pubsub_core import EventClient, EventType

__version__ = "0.1.0"

__all__ = [
    "AccessDenied", "Connection", "Decision", "Enforcer", "Entity", "EventClient", "EventType", "Identity",
    "Request", "SyncEnforcer",
]  # fmt: skip

_HOMES = {
    "AccessDenied": "pep",
    "Connection": "bus",
    "Decision": "authz",
    "Enforcer": "pep",
    "Entity": "authz",
    "EventClient": "pubsub_core",
    "EventType": "pubsub_core",
    "Identity": "authz",
    "Request": "authz",
    "SyncEnforcer": "pep",
}
"""The package of each name: loaded when it is first used, and not to say which version this is."""


def __getattr__(name: str) -> object:
    if name not in _HOMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from importlib import import_module

    return getattr(import_module(_HOMES[name]), name)
