"""Encrypted events: values sealed under the keys of groups of brokers, and the trees that give out those keys."""

from pubsub_core.keys.errors import CannotOpen, InvalidPlan, KeyMissing
from pubsub_core.keys.opening import Opened, Opener
from pubsub_core.keys.plan import Group, Plan
from pubsub_core.keys.ring import DataKey, KeyRing
from pubsub_core.keys.sealing import Binding, Sealed, Sealer

__all__ = [
    "Binding",
    "CannotOpen",
    "DataKey",
    "Group",
    "InvalidPlan",
    "KeyMissing",
    "KeyRing",
    "Opened",
    "Opener",
    "Plan",
    "Sealed",
    "Sealer",
]
