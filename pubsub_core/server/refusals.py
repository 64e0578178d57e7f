"""Refusals: why a broker does not do what a client asks, as a metric's label and as an error."""

from __future__ import annotations

from authz import AuthFabricError
from authz.errors import InvalidSignature
from bus.errors import BusError
from pubsub_core.errors import (
    CredentialRefused,
    DurableElsewhere,
    DurableRefused,
    Refused,
    SessionLost,
    UnknownType,
)
from pubsub_core.messages import Answer


def refusal(error: AuthFabricError) -> tuple[str, Answer]:
    """Why a call is refused, and the answer that says so."""
    match error:
        case CredentialRefused():
            return "credential", Answer(str(error), "refused")
        case Refused():
            return "permission", Answer(str(error), "refused")
        case InvalidSignature():
            return "signature", Answer(str(error), "refused")
        case UnknownType():
            return "type", Answer(str(error), "unknown")
        case SessionLost():
            return "session", Answer(error.problem, "lost")
        case DurableElsewhere():
            return "elsewhere", Answer(str(error), "elsewhere", host=error.broker)
        case DurableRefused():
            return "durable", Answer(error.problem, "durable")
        case BusError():
            return "bus", Answer(str(error), "failed")
    return "request", Answer(str(error), "invalid")
