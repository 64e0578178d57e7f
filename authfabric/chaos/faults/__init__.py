"""The faults of a chaos run: planned by seed, injected and undone."""

from authfabric.chaos.faults.attackers import Attackers
from authfabric.chaos.faults.injector import HEAL_SECONDS, Faults
from authfabric.chaos.faults.plan import FaultKind, Lane, schedule
from authfabric.chaos.faults.store_faults import StoreFaults
from authfabric.chaos.faults.stream_watch import StoreWatch

__all__ = [
    "HEAL_SECONDS", "Attackers", "FaultKind", "Faults", "Lane", "StoreFaults", "StoreWatch", "schedule",
]  # fmt: skip
