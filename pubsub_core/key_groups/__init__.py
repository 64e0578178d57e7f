"""Key groups: the one-way function trees that give out data keys, their manager and their members."""

from pubsub_core.key_groups.appointment_store import Managers
from pubsub_core.key_groups.key_distribution import KeyDistribution
from pubsub_core.key_groups.key_group import Rules
from pubsub_core.key_groups.keyed_type import KeyedType
from pubsub_core.key_groups.manager_service import KeyManager
from pubsub_core.key_groups.member_service import KeyClient
from pubsub_core.key_groups.messages import Appointment, appointments
from pubsub_core.key_groups.oft_member import Member
from pubsub_core.key_groups.oft_tree import Tree
from pubsub_core.key_groups.plan_history import GRACE
from pubsub_core.key_groups.state_marks import StateMarks
from pubsub_core.key_groups.status import GroupStatus, KeyStatus

__all__ = [
    "GRACE",
    "Appointment",
    "GroupStatus",
    "KeyClient",
    "KeyDistribution",
    "KeyManager",
    "KeyStatus",
    "KeyedType",
    "Managers",
    "Member",
    "Rules",
    "StateMarks",
    "Tree",
    "appointments",
]  # fmt: skip
