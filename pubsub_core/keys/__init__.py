"""Encryption: values sealed under the keys of groups of brokers, and channels between two parties."""

from pubsub_core.keys.channel import Channel, Channels, Offer
from pubsub_core.keys.cover_traffic import open_box, read_box, seal_box
from pubsub_core.keys.derivation import KEY_BYTES, derive
from pubsub_core.keys.errors import (
    AdmissionRefused,
    CannotOpen,
    InvalidPlan,
    KeyAwaited,
    KeyMissing,
    ManagersUnknown,
    ManagerUnable,
    ManagerUntrusted,
    MarksUnknown,
    OutOfStep,
    PlanReplaced,
    StateUnreadable,
)
from pubsub_core.keys.filters import SealedFilter, open_filter, seal_filter
from pubsub_core.keys.hybrid import Question, Secrets, ask, lock, unlock
from pubsub_core.keys.network_secrets import lock_anew_for_network, lock_for_network, unlock_in_network
from pubsub_core.keys.opening import Opened, Opener
from pubsub_core.keys.plan import Group, Plan
from pubsub_core.keys.ring import DataKey, KeyRing, mark
from pubsub_core.keys.sealing import Binding, Sealed, Sealer

__all__ = [
    "KEY_BYTES",
    "AdmissionRefused",
    "Binding",
    "CannotOpen",
    "Channel",
    "Channels",
    "DataKey",
    "Group",
    "InvalidPlan",
    "KeyAwaited",
    "KeyMissing",
    "KeyRing",
    "ManagerUnable",
    "ManagerUntrusted",
    "ManagersUnknown",
    "MarksUnknown",
    "Offer",
    "Opened",
    "Opener",
    "OutOfStep",
    "Plan",
    "PlanReplaced",
    "Question",
    "Sealed",
    "SealedFilter",
    "Sealer",
    "Secrets",
    "StateUnreadable",
    "ask",
    "derive",
    "lock",
    "lock_anew_for_network",
    "lock_for_network",
    "mark",
    "open_box",
    "open_filter",
    "read_box",
    "seal_box",
    "seal_filter",
    "unlock",
    "unlock_in_network",
]
