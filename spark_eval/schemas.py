"""The schemas of what jobs read and write."""

from __future__ import annotations

import pyarrow as pa

TRACE = pa.schema(
    [
        # where the row comes from
        pa.field("source", pa.string(), nullable=False),  # live or simulation
        pa.field(
            "figure", pa.string(), nullable=False
        ),  # the factor studied; empty if the cell serves several
        pa.field(
            "variant", pa.string(), nullable=False
        ),  # what is compared: p2p and pubsub, or a factor's value
        # the cell
        pa.field("pdps", pa.int32(), nullable=False),
        pa.field("overlap", pa.float64(), nullable=False),
        pa.field("mttf", pa.float64(), nullable=False),
        pa.field("mttr", pa.float64(), nullable=False),
        pa.field("common", pa.float64(), nullable=False),
        pa.field("strategy", pa.string(), nullable=False),
        pa.field("cache", pa.string(), nullable=False),
        # the requests: one, or consecutive ones together
        pa.field("run", pa.int32(), nullable=False),
        pa.field("batch", pa.int32(), nullable=False),  # rows of one batch are not independent of each other
        pa.field("request", pa.int32(), nullable=False),  # the first one's number within the run
        pa.field("requests", pa.int32(), nullable=False),
        pa.field("failed", pa.int32(), nullable=False),
        pa.field("recycled", pa.int32(), nullable=False),
        pa.field("asked", pa.float64()),  # replicas that the questions were delivered to, where known
        pa.field("seconds", pa.float64()),  # until the answer, where measured
    ]
)
"""What happened to requests: in live runs one row each, in simulations one row for each run."""

CELL = ("pdps", "overlap", "mttf", "mttr", "common", "strategy", "cache")
"""The columns that tell one cell from another."""
