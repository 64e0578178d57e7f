"""Where a bridge gets messages from: a plain NATS subject, or a Kafka topic."""

from __future__ import annotations

import asyncio
import contextlib
import logging
from collections.abc import AsyncIterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Literal, Protocol

import msgspec

from authz import AuthFabricError
from authz.extras import needing
from bus.identity import read_private
from bus.nats import Connection

if TYPE_CHECKING:
    from aiokafka import AIOKafkaConsumer

KAFKA = "kafka://"
BATCH = 512
"""Messages that are published together."""
MOST_WAITING = 65_536
"""Messages of a plain subject that may wait for the broker; what comes beyond is dropped, and counted."""
POLL_MS = 200

_log = logging.getLogger("authfabric.bridge")


class SourceAway(AuthFabricError):
    """What a bridge is to read from cannot be reached, or has not what is asked for."""


class InvalidKafkaSettings(AuthFabricError):
    """A file that does not say how to connect to Kafka."""


class Source(Protocol):
    """Messages, in batches."""

    dropped: int
    """Messages for which there was no room."""

    async def read(self) -> Sequence[bytes]:
        """The next messages, no more than BATCH; waits until there are some."""

    def rest(self) -> Sequence[bytes]:
        """Messages that have come, were not read, and would not come again."""

    async def settle(self) -> None:
        """What was read is published: it need not come again."""


class NatsSource:
    """A plain NATS subject, which keeps nothing: what is not heard now does not come again."""

    def __init__(self) -> None:
        self.dropped = 0
        self._waiting: asyncio.Queue[bytes] = asyncio.Queue(MOST_WAITING)

    @classmethod
    @contextlib.asynccontextmanager
    async def open(cls, url: str, subject: str) -> AsyncIterator[NatsSource]:
        source = cls()
        async with Connection(url, name="event-bridge") as plain:
            await plain.listen(subject, lambda subject, reply, data, headers: source._hear(bytes(data)))
            await plain.flush()
            yield source

    def _hear(self, data: bytes) -> None:
        try:
            self._waiting.put_nowait(data)
        except asyncio.QueueFull:
            self.dropped += 1

    async def read(self) -> Sequence[bytes]:
        first = await self._waiting.get()
        return [first, *self._taken(BATCH - 1)]

    def rest(self) -> Sequence[bytes]:
        return self._taken(MOST_WAITING)

    def _taken(self, most: int) -> list[bytes]:
        return [self._waiting.get_nowait() for _ in range(min(most, self._waiting.qsize()))]

    async def settle(self) -> None:
        pass


class KafkaSettings(msgspec.Struct, forbid_unknown_fields=True, frozen=True):
    """How to connect to Kafka, in the words of its clients."""

    security_protocol: Literal["PLAINTEXT", "SSL", "SASL_PLAINTEXT", "SASL_SSL"] = "PLAINTEXT"
    sasl_mechanism: Literal["PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512"] = "SCRAM-SHA-512"
    sasl_plain_username: str | None = None
    sasl_plain_password: str | None = None
    ssl_cafile: str | None = None
    ssl_certfile: str | None = None
    ssl_keyfile: str | None = None

    @classmethod
    def read(cls, path: Path | None) -> KafkaSettings:
        """From a file that nobody else may read. Raises InvalidKafkaSettings, KeyFileRefused."""
        if path is None:
            return cls()
        try:
            return msgspec.yaml.decode(read_private(path), type=cls)
        except msgspec.MsgspecError as error:
            raise InvalidKafkaSettings(f"`{path}`: {error}") from None


class KafkaSource:
    """A topic, read by a consumer group: it goes on after the last message that was published as an event."""

    dropped = 0

    def __init__(self, consumer: AIOKafkaConsumer) -> None:
        self._consumer = consumer

    @classmethod
    @contextlib.asynccontextmanager
    async def open(
        cls, servers: str, topic: str, group: str, settings: KafkaSettings
    ) -> AsyncIterator[KafkaSource]:
        """Raises SourceAway."""
        with needing("kafka"):
            from aiokafka import AIOKafkaConsumer
            from aiokafka.errors import KafkaConnectionError, KafkaError
            from aiokafka.helpers import create_ssl_context
        encrypted = settings.security_protocol.endswith("SSL")
        try:
            consumer = AIOKafkaConsumer(
                topic,
                bootstrap_servers=servers,
                group_id=group,
                client_id="authfabric-bridge",
                auto_offset_reset="earliest",
                enable_auto_commit=False,
                security_protocol=settings.security_protocol,
                ssl_context=create_ssl_context(
                    cafile=settings.ssl_cafile, certfile=settings.ssl_certfile, keyfile=settings.ssl_keyfile
                )
                if encrypted
                else None,
                sasl_mechanism=settings.sasl_mechanism,
                sasl_plain_username=settings.sasl_plain_username,
                sasl_plain_password=settings.sasl_plain_password,
            )
            try:
                await consumer.start()
                if topic not in await consumer.topics():
                    raise SourceAway(f"there is no topic `{topic}` at `{servers}`, or nobody may see it")
                yield cls(consumer)
            finally:
                await consumer.stop()
        except KafkaConnectionError:
            raise SourceAway(
                f"Kafka at `{servers}` does not let the bridge in: what is logged above says why"
            ) from None
        except (KafkaError, OSError, ValueError) as error:
            raise SourceAway(f"Kafka at `{servers}`: {error}") from None

    async def read(self) -> Sequence[bytes]:
        while True:
            found = await self._consumer.getmany(timeout_ms=POLL_MS, max_records=BATCH)
            if batch := [record.value or b"" for records in found.values() for record in records]:
                return batch

    def rest(self) -> Sequence[bytes]:
        return ()

    async def settle(self) -> None:
        from aiokafka.errors import KafkaError

        try:
            await self._consumer.commit()
        except KafkaError as error:
            _log.warning("Kafka was not told how far the bridge is, so that some may come again: %s", error)


@contextlib.asynccontextmanager
async def open_source(
    url: str, name: str, group: str, settings: KafkaSettings
) -> AsyncIterator[NatsSource | KafkaSource]:
    """What the URL means: `kafka://host:9092,host:9092`, or a NATS server."""
    if url.startswith(KAFKA):
        async with KafkaSource.open(url.removeprefix(KAFKA), name, group, settings) as kafka:
            yield kafka
    else:
        async with NatsSource.open(url, name) as nats:
            yield nats
