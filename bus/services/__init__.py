"""Services on the bus and their clients: attributes, roles, searches, and answering within bounds."""

from bus.services.attribute_client import (
    PER_MESSAGE,
    EntityAttributes,
    announce_changes,
    ask_attributes,
    hearing_changes,
    serve_attributes,
)
from bus.services.explain_client import Explained, ExplanationRefused, ask_why, unpack_explain_request
from bus.services.provisioning import look_at_copies, set_up
from bus.services.responder import Limits, responding, responding_by_subject
from bus.services.role_client import (
    SESSION,
    SUBJECT,
    RoleClient,
    RoleRefused,
    SessionView,
    look_at_session,
    service_name,
)
from bus.services.search_client import SearchRefused, ask_search

__all__ = [
    "PER_MESSAGE", "SESSION", "SUBJECT", "EntityAttributes", "Explained", "ExplanationRefused", "Limits",
    "RoleClient", "RoleRefused", "SearchRefused", "SessionView", "announce_changes", "ask_attributes",
    "ask_search", "ask_why", "hearing_changes", "look_at_copies", "look_at_session", "responding",
    "responding_by_subject", "serve_attributes", "service_name", "set_up", "unpack_explain_request",
]  # fmt: skip
