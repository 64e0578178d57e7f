"""A chaos run from start to end: steps with bounds, and samples of what processes use."""

from typing import TYPE_CHECKING

from authfabric.chaos.runner.chaos_run import SMALL, Cast, ChaosRun, run
from authz.lazy import lazily

if TYPE_CHECKING:
    from authfabric.chaos.runner.whole_fabric import whole_fabric

__all__ = ["SMALL", "Cast", "ChaosRun", "run", "whole_fabric"]

__getattr__ = lazily(__name__, {".whole_fabric": "whole_fabric"})  # which needs what jobs on Spark need
