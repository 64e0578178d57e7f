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
        pa.field("counted", pa.string(), nullable=False),  # from where times to failure count
        pa.field("spaces", pa.string(), nullable=False),  # which objects PDPs have in common
        # the requests: one, or consecutive ones together
        pa.field("run", pa.int32(), nullable=False),
        pa.field("batch", pa.int32(), nullable=False),  # rows of one batch are not independent of each other
        pa.field("request", pa.int32(), nullable=False),  # the first one's number within the run
        pa.field("requests", pa.int32(), nullable=False),
        pa.field("failed", pa.int32(), nullable=False),
        pa.field("recycled", pa.int32(), nullable=False),
        pa.field("asked", pa.float64()),  # replicas that the questions were delivered to, where known
        pa.field("at", pa.float64()),  # seconds from the first request of the run, where measured
        pa.field("seconds", pa.float64()),  # until the answer, where measured
    ]
)
"""What happened to requests: in live runs one row each, in simulations one row for each run."""

CELL = ("pdps", "overlap", "mttf", "mttr", "common", "strategy", "cache", "counted", "spaces")
"""The columns that tell one cell from another."""

LIVE, SIMULATION = "live", "simulation"
"""The sources of a trace."""
P2P, PUBSUB = "p2p", "pubsub"
"""The variants of the availability experiment: each request to the PEP's own PDP, or to whoever serves its object."""

MASKS = pa.schema(
    [
        pa.field("id", pa.string()),
        pa.field("action", pa.int32()),  # with objects: the number of the action
        pa.field("mask", pa.binary()),
        pa.field("keys", pa.binary()),  # what the joins of the plan compare: msgpack
        pa.field("present", pa.binary()),  # the attributes that any entity of the batch has
        pa.field(
            "mistyped", pa.binary()
        ),  # the attributes that any of them has as another type than expected
        pa.field("problem", pa.string()),  # why a row is no entity; it has nothing else then
    ]
)
"""Entities under a plan, as tasks hand them back."""

ROLES = pa.schema([pa.field("role", pa.string(), nullable=False)])
"""The roles of subjects."""

ATTRIBUTES = pa.schema([pa.field("id", pa.string()), pa.field("attributes", pa.string())])
"""Entities with some of their attributes, as JSON."""

DECISIONS = pa.schema(
    [
        pa.field("class", pa.int64(), nullable=False),  # permissions of one class are decided alike
        pa.field("bucket", pa.int32(), nullable=False),  # the subjects from 32,768 times this number on
        pa.field(
            "allowed", pa.binary(), nullable=False
        ),  # a bit for each of them, as Spark's bitmap functions have it
        pa.field("asking", pa.binary()),  # who must ask a PDP; null if nobody must
        pa.field("allows", pa.int64(), nullable=False),  # how many are allowed
        pa.field("asks", pa.int64(), nullable=False),  # how many must ask
    ]
)
"""Decisions, 32,768 in a row. Who is neither allowed nor asking is denied."""

COUNTS = pa.schema(
    [
        pa.field("class", pa.int64(), nullable=False),
        pa.field("allows", pa.int64(), nullable=False),
        pa.field("asks", pa.int64(), nullable=False),
    ]
)
"""How many subjects a class of permissions is allowed to."""

SUBJECTS = pa.schema(
    [
        pa.field("subject", pa.string(), nullable=False),
        pa.field("position", pa.int64(), nullable=False),  # its bit: 32,768 times the bucket and what remains
        pa.field("mask", pa.binary(), nullable=False),
        pa.field("keys", pa.binary()),
    ]
)
PERMISSIONS = pa.schema(
    [
        pa.field("object", pa.string(), nullable=False),
        pa.field("action", pa.string(), nullable=False),
        pa.field("class", pa.int64(), nullable=False),
        pa.field("mask", pa.binary(), nullable=False),
        pa.field("keys", pa.binary()),
    ]
)

REQUESTS = pa.schema(
    [
        pa.field("time", pa.timestamp("us", tz="UTC")),
        pa.field("subject", pa.string(), nullable=False),
        pa.field("object", pa.string(), nullable=False),
        pa.field("action", pa.string(), nullable=False),
        pa.field("subject_attributes", pa.string()),  # attributes and context are JSON objects, null for none
        pa.field("object_attributes", pa.string()),
        pa.field("action_attributes", pa.string()),
        pa.field("context", pa.string()),
        pa.field("effect", pa.string()),  # allow or deny, as it was answered
    ]
)
"""Requests that were asked: one row each, as the audit log has them."""

AUDITED = pa.schema(
    [
        pa.field("page", pa.int64(), nullable=False),  # its number in the stream
        pa.field("place", pa.int32(), nullable=False),  # of the record within the page
        pa.field("writer", pa.string(), nullable=False),
        pa.field("sequence", pa.int64()),  # the record's number in its writer's chain
        *(pa.field(each.name, each.type) for each in REQUESTS),
        pa.field("reason", pa.string()),
        pa.field("policies", pa.list_(pa.string())),
        pa.field("epoch", pa.int64()),
        pa.field("inferred", pa.string()),  # by which cache; null if a PDP was asked
        pa.field("dropped", pa.int64()),  # how many decisions its writer did not record
        pa.field("record", pa.binary()),  # as it was written; null if its page cannot be read
    ]
)
"""Records of the audit stream. Only those of decisions have a subject."""

ROWS = pa.schema(
    [
        pa.field("subject", pa.string(), nullable=False),
        pa.field("object", pa.string(), nullable=False),
        pa.field("action", pa.string(), nullable=False),
        pa.field("effect", pa.string(), nullable=False),  # allow or ask; what is not there is denied
    ]
)
"""Decisions, one in a row."""

TALLIES = pa.schema(
    [
        pa.field("what", pa.string(), nullable=False),  # class, subject or bit
        pa.field("kind", pa.int8(), nullable=False),  # which change
        pa.field("key", pa.int64(), nullable=False),  # number of the class or bit; of subjects, the first
        pa.field("count", pa.int64(), nullable=False),
        pa.field("data", pa.binary(), nullable=False),  # whole numbers: examples, or a count for each subject
    ]
)
"""What changes between two sets of policies, counted."""

SEEN = pa.schema(
    [
        pa.field("subject", pa.string(), nullable=False),
        pa.field("object", pa.string(), nullable=False),
        pa.field("action", pa.string(), nullable=False),
        pa.field("roles", pa.list_(pa.string()), nullable=False),  # of the subject
        pa.field("count", pa.int64(), nullable=False),  # how often it was asked
        pa.field("before", pa.string(), nullable=False),
        pa.field("after", pa.string(), nullable=False),
        pa.field("policies_before", pa.list_(pa.string()), nullable=False),
        pa.field("policies_after", pa.list_(pa.string()), nullable=False),
    ]
)
"""Requests that were asked, decided by two sets of policies."""
