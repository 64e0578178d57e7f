"""What is kept in NATS: releases, records and shared state, each changed by compare-and-set."""

from bus.stores.consumer_keeper import (
    MAX_FILTERS,
    AskingKeeper,
    CarryAnswer,
    CarryRequest,
    ConsumerInfo,
    DirectKeeper,
    consumer_names,
    keeper_for,
    owner_of,
    reader_names,
    unpack_carry_request,
)
from bus.stores.content_collection import collect_content
from bus.stores.parcel_consumer import Consumer
from bus.stores.parcel_delivery import Arrived
from bus.stores.parcel_reader import ParcelReader, PartDiscarded
from bus.stores.parcel_stream import (
    STORAGE,
    InvalidStorage,
    ParcelPublisher,
    StorageClass,
    acknowledged_number,
    open_carriage,
    purge_records,
    put_record,
    read_records,
)
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
from bus.stores.stream_copies import Group, look_at_group, read_copies, resize, step_down
from bus.stores.stream_reader import read_stream, rights
from bus.stores.stream_states import ConsumerState, Copy, StreamState, consumer_states, stream_states

__all__ = [
    "DIFFERENT_CONFIGURATION", "HISTORY", "MAX_FILTERS", "SECONDS", "STORAGE", "Arrived", "AskingKeeper",
    "CarryAnswer", "CarryRequest", "Consumer", "ConsumerInfo", "ConsumerState", "Copy", "DirectKeeper", "Group",
    "InvalidStorage", "ParcelPublisher", "ParcelReader", "PartDiscarded", "Record", "RecordChanged",
    "RecordStore", "ReleaseStore", "StateMoved", "StateStore", "StorageClass", "Stored", "StreamState",
    "acknowledged_number", "chunk_hashes", "collect_content", "consumer_names", "consumer_states", "keeper_for",
    "look_at_group", "open_bucket", "open_carriage", "owner_of", "purge_records", "put_record", "read_copies",
    "read_records", "read_stream", "reader_names", "resize", "rights", "step_down", "stream_states",
    "unpack_carry_request", "within", "writer",
]  # fmt: skip
