"""Creating the consumers by which brokers read parcels: by the broker, or by the access control service.

Whoever makes a consumer says what it reads and where that is delivered, whatever it may hear itself. So on a bus that
refuses strangers a broker asks for its consumers, is given those of the types that it may carry, and fetches by them.
"""

from __future__ import annotations

from collections.abc import Collection
from typing import Protocol

import msgspec

from bus.errors import StoreUnavailable
from bus.nats import Connection
from bus.stores.jetstream_api import CONSUMER, Answer, ConsumerMissing, ask_again, read_answer, request
from bus.wire import Unpack, pack, subjects

ACK_WAIT_SECONDS = 3600.0
"""Seconds before the server redelivers: so long that a consumer that lost something is replaced first."""
MAX_ACK_PENDING = 16_384
"""Maximum unacknowledged parcels: they wait for keys, or for acknowledgements to be sent."""
ANSWER_SECONDS = 5.0
"""How long it may take to answer what is asked about a consumer."""
READERS = 4
"""Maximum parts of the stream that one broker rereads at the same time."""
UNUSED_SECONDS = 60.0
"""Seconds without a request after which the server removes a rereading consumer."""
MAX_FILTERS = 4_096
"""Maximum filter subjects of one consumer."""
NOWHERE = subjects.parcel("", subjects.TypePlace("=", "=", "="))
"""Matches no parcel: a consumer without a filter would get all of them."""

_FOLLOWING: dict[str, object] = {
    "ack_policy": "all",
    "ack_wait": int(ACK_WAIT_SECONDS * 1e9),
    "max_ack_pending": MAX_ACK_PENDING,
}
"""Configuration of a consumer that follows the stream."""
_READING: dict[str, object] = {
    "ack_policy": "none",
    "inactive_threshold": int(UNUSED_SECONDS * 1e9),
    "mem_storage": True,
    "num_replicas": 1,
}
"""Configuration of a consumer that rereads a part of the stream."""


class _Place(msgspec.Struct, frozen=True):
    consumer_seq: int = 0
    stream_seq: int = 0


class _Config(msgspec.Struct, frozen=True):
    filter_subjects: list[str] = []


class ConsumerInfo(Answer, frozen=True):
    """How a consumer stands."""

    name: str = ""
    config: _Config = _Config()
    delivered: _Place = _Place()
    ack_floor: _Place = _Place()
    num_pending: int = 0

    @property
    def filters(self) -> frozenset[str]:
        """By which it selects."""
        return frozenset(self.config.filter_subjects) - {NOWHERE}


class CarryRequest(msgspec.Struct, frozen=True, array_like=True):
    """What a broker asks of the access control service."""

    records: tuple[tuple[str, bytes], ...] = ()
    """Records of its own that it has just published: each below its place, and what it says."""
    stream: str = ""
    """The stream for which it wants a consumer; none, if it only asks which types it may carry."""
    name: str = ""
    filters: tuple[str, ...] = ()
    after: int | None = None
    """The consumer begins after this number; None for the end of the stream."""
    action: str = "create"
    """Or `update`, or `delete`."""


class CarryAnswer(msgspec.Struct, frozen=True, array_like=True):
    """What became of it."""

    rights: str = ""
    """What stands for the types that the broker may carry now."""
    info: bytes = b""
    """The server's answer about the consumer."""
    problem: str = ""


unpack_carry_request = Unpack(CarryRequest)
_unpack_answer = Unpack(CarryAnswer)


def consumer_names(owner: str) -> tuple[str, str]:
    """The consumers of whoever has this place: two, so that one can take the place of the other."""
    return f"{owner}-0", f"{owner}-1"


def reader_names(owner: str) -> tuple[str, ...]:
    """The consumers by which whoever has this place reads parts of the stream again."""
    return tuple(f"{owner}-r{number}" for number in range(READERS))


def owner_of(consumer: str) -> str:
    """The place that a consumer belongs to."""
    return consumer.rpartition("-")[0]


class ConsumerKeeper(Protocol):
    """Makes and deletes consumers of event streams."""

    async def put(
        self, action: str, stream: str, name: str, filters: Collection[str], after: int | None
    ) -> ConsumerInfo:
        """Create or update a consumer. Raises StoreUnavailable."""
        ...

    async def delete(self, stream: str, name: str) -> None:
        """Delete a consumer, if there is one. Raises StoreUnavailable."""
        ...


class DirectKeeper:
    """Makes consumers itself, as whoever may.

    While nobody leads, it asks again what changes nothing more the second time.
    """

    def __init__(self, connection: Connection) -> None:
        self._connection = connection

    async def put(
        self, action: str, stream: str, name: str, filters: Collection[str], after: int | None
    ) -> ConsumerInfo:
        return read_answer(await self.ask(action, stream, name, filters, after), ConsumerInfo)

    async def delete(self, stream: str, name: str) -> None:
        await self._connection.ask(f"{CONSUMER}.DELETE.{stream}.{name}", b"", ANSWER_SECONDS)

    async def ask(
        self, action: str, stream: str, name: str, filters: Collection[str], after: int | None
    ) -> bytes:
        """The server's answer, as it is."""
        start: dict[str, object] = {"deliver_policy": "new"}
        if after is not None:
            start = {"deliver_policy": "by_start_sequence", "opt_start_seq": after + 1}
        config = {
            "durable_name": name,
            "name": name,
            "filter_subjects": sorted(filters) or [NOWHERE],
            **(_READING if name in reader_names(owner_of(name)) else _FOLLOWING),
            **start,
        }
        wanted = {"stream_name": stream, "config": config, "action": action}
        subject = f"{CONSUMER}.CREATE.{stream}.{name}"
        return await ask_again(self._connection, subject, msgspec.json.encode(wanted), ANSWER_SECONDS)

    async def info(self, stream: str, name: str) -> ConsumerInfo | None:
        """How a consumer stands; None if there is none, which is not for a server without a leader to say."""
        try:
            where = f"{CONSUMER}.INFO.{stream}.{name}"
            return await request(self._connection, where, ConsumerInfo, seconds=ANSWER_SECONDS, again=True)
        except ConsumerMissing:
            return None


class AskingKeeper:
    """Has the access control service make consumers."""

    def __init__(self, connection: Connection, owner: str) -> None:
        self._connection = connection
        self._owner = owner

    async def put(
        self, action: str, stream: str, name: str, filters: Collection[str], after: int | None
    ) -> ConsumerInfo:
        wanted = CarryRequest((), stream, name, tuple(filters), after, action)
        return read_answer((await self.ask(wanted)).info, ConsumerInfo)

    async def delete(self, stream: str, name: str) -> None:
        await self.ask(CarryRequest((), stream, name, action="delete"))

    async def ask(self, wanted: CarryRequest) -> CarryAnswer:
        """What the service says. Raises StoreUnavailable."""
        reply = await self._connection.ask(subjects.carry(self._owner), pack(wanted), ANSWER_SECONDS)
        answer = _unpack_answer(reply)
        if answer.problem:
            raise StoreUnavailable(answer.problem)
        return answer


def keeper_for(connection: Connection, owner: str) -> DirectKeeper | AskingKeeper:
    """Whoever makes the consumers of a broker: where strangers are refused, the access control service."""
    return DirectKeeper(connection) if connection.credentials is None else AskingKeeper(connection, owner)
