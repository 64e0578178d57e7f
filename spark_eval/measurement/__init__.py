"""Experiments run live: PDPs that fail on schedule, response times by every way to a PDP, and recovery."""

from typing import TYPE_CHECKING

from authz.lazy import lazily

if TYPE_CHECKING:
    from spark_eval.measurement.fabric_service import Shipped, ShippedFabric
    from spark_eval.measurement.hit_rates import count_hits
    from spark_eval.measurement.hosts import remote_hosts
    from spark_eval.measurement.live_service import WrongAnswer, live_measurements
    from spark_eval.measurement.measurement import Measurement
    from spark_eval.measurement.recovery_service import (
        Answer,
        Strike,
        Whole,
        WholeFabric,
        count_strikes,
        recovery_measurements,
    )
    from spark_eval.measurement.response_service import count_requests, response_measurements

__all__ = [
    "Answer", "Measurement", "Shipped", "ShippedFabric", "Strike", "Whole", "WholeFabric", "WrongAnswer",
    "count_hits", "count_requests", "count_strikes", "live_measurements", "recovery_measurements", "remote_hosts",
    "response_measurements",
]  # fmt: skip

# PDP processes import modules of this room: they need not carry Spark and plots.
__getattr__ = lazily(
    __name__,
    {
        ".fabric_service": "Shipped ShippedFabric",
        ".hit_rates": "count_hits",
        ".hosts": "remote_hosts",
        ".live_service": "WrongAnswer live_measurements",
        ".measurement": "Measurement",
        ".recovery_service": "Answer Strike Whole WholeFabric count_strikes recovery_measurements",
        ".response_service": "count_requests response_measurements",
    },
)
