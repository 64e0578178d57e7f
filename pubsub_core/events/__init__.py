"""Events in the form in which they travel: encoded, encrypted, signed in batches, deduplicated."""

from pubsub_core.events.batch_filter import Encoded, select, sift
from pubsub_core.events.batch_signature import (
    DIGEST_BYTES,
    NONCE_BYTES,
    WINDOW,
    Nonces,
    Proof,
    Scrutiny,
    all_digests,
    check_places,
    digest,
)
from pubsub_core.events.deduplication import LOOKBACK, Seen
from pubsub_core.events.event import MAX_EVENT_BYTES, TOO_LARGE, Event, Shape, decode, encode
from pubsub_core.events.event_cipher import EventCipher
from pubsub_core.events.gap import CLOCK_MARGIN, Gap, GapReason, Missed, after
from pubsub_core.events.run import RunCheck, as_array, decode_all, lengths_of_runs

__all__ = [
    "CLOCK_MARGIN",
    "DIGEST_BYTES",
    "LOOKBACK",
    "MAX_EVENT_BYTES",
    "NONCE_BYTES",
    "TOO_LARGE",
    "WINDOW",
    "Encoded",
    "Event",
    "EventCipher",
    "Gap",
    "GapReason",
    "Missed",
    "Nonces",
    "Proof",
    "RunCheck",
    "Scrutiny",
    "Seen",
    "Shape",
    "after",
    "all_digests",
    "as_array",
    "check_places",
    "decode",
    "decode_all",
    "digest",
    "encode",
    "lengths_of_runs",
    "select",
    "sift",
]  # fmt: skip
