"""What is kept in NATS: releases, records and shared state, each changed by compare-and-set."""

from bus.stores.content_collection import collect_content
from bus.stores.parcel_consumer import Consumer, consumer_names
from bus.stores.parcel_delivery import Arrived
from bus.stores.parcel_reader import ParcelReader, PartDiscarded, reader_names
from bus.stores.parcel_stream import ParcelPublisher, open_carriage, put_record, read_records
from bus.stores.record_store import Record, RecordChanged, RecordStore, writer
from bus.stores.release_store import (
    DIFFERENT_CONFIGURATION,
    HISTORY,
    SECONDS,
    ReleaseStore,
    Stored,
    chunk_hashes,
    open_bucket,
    within,
)
from bus.stores.state_store import StateMoved, StateStore
from bus.stores.stream_reader import read_stream, rights
from bus.stores.stream_states import ConsumerState, Copy, StreamState, consumer_states, stream_states

__all__ = [
    "DIFFERENT_CONFIGURATION", "HISTORY", "SECONDS", "Arrived", "Consumer", "ConsumerState", "Copy",
    "ParcelPublisher", "ParcelReader", "PartDiscarded", "Record", "RecordChanged", "RecordStore", "ReleaseStore",
    "StateMoved", "StateStore", "Stored", "StreamState", "chunk_hashes", "collect_content", "consumer_names",
    "consumer_states", "open_bucket", "open_carriage", "put_record", "read_records", "read_stream", "reader_names",
    "rights", "stream_states", "within", "writer",
]  # fmt: skip
