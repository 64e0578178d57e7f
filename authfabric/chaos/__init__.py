"""Chaos testing: a fabric under random faults, recorded, and the record checked against what is promised."""

from typing import TYPE_CHECKING

from authz.lazy import lazily

if TYPE_CHECKING:
    from authfabric.chaos.checker import Verdict, check
    from authfabric.chaos.faults import FaultKind
    from authfabric.chaos.record import read
    from authfabric.chaos.runner import SMALL, Cast, ChaosRun, run, whole_fabric

__all__ = ["SMALL", "Cast", "ChaosRun", "FaultKind", "Verdict", "check", "read", "run", "whole_fabric"]

__getattr__ = lazily(
    __name__,
    {
        ".checker": "Verdict check",
        ".faults": "FaultKind",
        ".record": "read",
        ".runner": "SMALL Cast ChaosRun run whole_fabric",
    },
)
