"""Services on the bus and their clients: attributes, roles, and answering within bounds."""

from typing import TYPE_CHECKING

from authz.lazy import lazily

if TYPE_CHECKING:
    from bus.services.attribute_client import (
        PER_MESSAGE,
        EntityAttributes,
        announce_changes,
        ask_attributes,
        hearing_changes,
        serve_attributes,
    )
    from bus.services.copy_repair_service import CopyRepair
    from bus.services.entity_changes import hearing_of_entities, tell_changed
    from bus.services.provisioning import set_up
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

__all__ = [
    "PER_MESSAGE", "SESSION", "SUBJECT", "CopyRepair", "EntityAttributes", "Limits", "RoleClient", "RoleRefused",
    "SessionView", "announce_changes", "ask_attributes", "hearing_changes", "hearing_of_entities",
    "look_at_session", "responding", "responding_by_subject", "serve_attributes", "service_name", "set_up",
    "tell_changed",
]  # fmt: skip

__getattr__ = lazily(
    __name__,
    {
        ".attribute_client": "PER_MESSAGE EntityAttributes announce_changes ask_attributes hearing_changes"
        " serve_attributes",
        ".copy_repair_service": "CopyRepair",
        ".entity_changes": "hearing_of_entities tell_changed",
        ".provisioning": "set_up",
        ".responder": "Limits responding responding_by_subject",
        ".role_client": "SESSION SUBJECT RoleClient RoleRefused SessionView look_at_session service_name",
    },
)
