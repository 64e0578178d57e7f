"""A chaos run from start to end: steps with bounds, and samples of what processes use."""

from authfabric.chaos.runner.chaos_run import SMALL, Cast, ChaosRun, run

__all__ = ["SMALL", "Cast", "ChaosRun", "run"]
