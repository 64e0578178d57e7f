"""Experiments run live: PDPs that fail on schedule, response times by every way to a PDP, and recovery."""

from typing import TYPE_CHECKING

from authz.lazy import lazily

if TYPE_CHECKING:
    from spark_eval.measurement.fabric_service import Shipped, ShippedFabric
    from spark_eval.measurement.hit_rates import count_hits
    from spark_eval.measurement.hosts import remote_hosts
    from spark_eval.measurement.live_service import run_live
    from spark_eval.measurement.recovery_service import (
        Answer,
        Strike,
        Whole,
        WholeFabric,
        count_strikes,
        run_recovery,
    )
    from spark_eval.measurement.response_service import count_requests, run_response_times

__all__ = [
    "Answer", "Shipped", "ShippedFabric", "Strike", "Whole", "WholeFabric", "count_hits", "count_requests",
    "count_strikes", "remote_hosts", "run_live", "run_recovery", "run_response_times",
]  # fmt: skip

# PDP processes import modules of this room: they need not carry Spark and plots.
__getattr__ = lazily(
    __name__,
    {
        ".fabric_service": "Shipped ShippedFabric",
        ".hit_rates": "count_hits",
        ".hosts": "remote_hosts",
        ".live_service": "run_live",
        ".recovery_service": "Answer Strike Whole WholeFabric count_strikes run_recovery",
        ".response_service": "count_requests run_response_times",
    },
)
