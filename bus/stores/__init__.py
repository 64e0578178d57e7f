"""What is kept in NATS: releases, records and shared state, each changed by compare-and-set."""

from typing import TYPE_CHECKING

from authz.lazy import lazily

if TYPE_CHECKING:
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
    from bus.stores.content_garbage_collection import collect_content
    from bus.stores.parcel_consumer import Consumer
    from bus.stores.parcel_delivery import Arrived
    from bus.stores.parcel_publisher import Acknowledgement, ParcelPublisher, acknowledged_number
    from bus.stores.parcel_reader import ParcelReader, PartDiscarded
    from bus.stores.parcel_stream import (
        STORAGE,
        InvalidStorage,
        StorageClass,
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
        release_entries,
        within,
    )
    from bus.stores.state_store import State, StateMoved, StateStore
    from bus.stores.stream_copies import (
        Group,
        Lack,
        compare_copies,
        look_at_group,
        read_copies,
        resize,
        step_down,
    )
    from bus.stores.stream_position import ask_time
    from bus.stores.stream_reader import read_stream, rights
    from bus.stores.stream_snapshot import (
        StreamHead,
        delete_empty,
        put_snapshot,
        stream_head,
        stream_names,
        take_snapshot,
    )
    from bus.stores.stream_state import ConsumerState, Copy, StreamState, consumer_states, stream_states

__all__ = [
    "DIFFERENT_CONFIGURATION", "HISTORY", "MAX_FILTERS", "SECONDS", "STORAGE", "Acknowledgement", "Arrived",
    "AskingKeeper", "CarryAnswer", "CarryRequest", "Consumer", "ConsumerInfo", "ConsumerState", "Copy",
    "DirectKeeper", "Group", "InvalidStorage", "Lack", "ParcelPublisher", "ParcelReader", "PartDiscarded", "Record",
    "RecordChanged", "RecordStore", "ReleaseStore", "State", "StateMoved", "StateStore", "StorageClass", "Stored",
    "StreamHead", "StreamState", "acknowledged_number", "ask_time", "chunk_hashes", "collect_content",
    "compare_copies", "consumer_names", "consumer_states", "delete_empty", "keeper_for", "look_at_group",
    "open_bucket", "open_carriage", "owner_of", "purge_records", "put_record", "put_snapshot", "read_copies",
    "read_records", "read_stream", "reader_names", "release_entries", "resize", "rights", "step_down",
    "stream_head", "stream_names", "stream_states", "take_snapshot", "unpack_carry_request", "within", "writer",
]  # fmt: skip

__getattr__ = lazily(
    __name__,
    {
        ".consumer_keeper": "MAX_FILTERS AskingKeeper CarryAnswer CarryRequest ConsumerInfo DirectKeeper"
        " consumer_names keeper_for owner_of reader_names unpack_carry_request",
        ".content_garbage_collection": "collect_content",
        ".parcel_consumer": "Consumer",
        ".parcel_delivery": "Arrived",
        ".parcel_reader": "ParcelReader PartDiscarded",
        ".parcel_publisher": "Acknowledgement ParcelPublisher acknowledged_number",
        ".parcel_stream": "STORAGE InvalidStorage StorageClass open_carriage purge_records put_record"
        " read_records",
        ".record_store": "Record RecordChanged RecordStore writer",
        ".release_store": "DIFFERENT_CONFIGURATION HISTORY SECONDS ReleaseStore Stored chunk_hashes"
        " open_bucket release_entries within",
        ".state_store": "State StateMoved StateStore",
        ".stream_copies": "Group Lack compare_copies look_at_group read_copies resize step_down",
        ".stream_position": "ask_time",
        ".stream_reader": "read_stream rights",
        ".stream_snapshot": "StreamHead delete_empty put_snapshot stream_head stream_names take_snapshot",
        ".stream_state": "ConsumerState Copy StreamState consumer_states stream_states",
    },
)
