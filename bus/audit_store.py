"""The stream of decisions given: pages of records, each by one writer, in the order in which they were stored."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Sequence
from dataclasses import dataclass

from nats.js import api
from nats.js.errors import BadRequestError, NotFoundError

from bus.connection import Connection, Subscription
from bus.envelope import pack
from bus.errors import BadMessage, StoreUnavailable
from bus.messages import AuditPage, unpack_audit_page
from bus.store import DIFFERENT_CONFIGURATION, within
from bus.subjects import AUDIT, AUDITED, audit, token, untoken

MAX_BYTES = 4 * 1024**3
"""Beyond so much the oldest pages are discarded, unless the stream was set up otherwise."""


@dataclass(frozen=True, slots=True)
class Page:
    """Some records of a writer; none if the page cannot be read."""

    number: int
    writer: str
    records: Sequence[bytes]


class AuditStore:
    """The decisions of one domain, in the connection's server."""

    def __init__(self, connection: Connection, domain: str) -> None:
        self._connection = connection
        self._domain = domain
        self._created = False

    async def append(self, writer: str, records: Sequence[bytes], key: str) -> None:
        """Store a page, once, however often it is tried with the same key. Raises StoreUnavailable."""
        try:
            if not self._created:
                await self._create()
            await self._publish(writer, records, key)
        except StoreUnavailable:
            self._created = False
            raise

    async def read(self, after: int = 0) -> AsyncIterator[Page]:
        """The pages that are kept, oldest first, beginning after a number. Raises StoreUnavailable."""
        subject = f"{AUDITED}.{token(self._domain)}.*"
        while True:
            reading = self._connection.jetstream().get_msg(AUDIT, seq=after + 1, subject=subject, next=True)
            try:
                message = await within(reading)
            except NotFoundError:
                return
            after = message.seq or 0
            writer = untoken((message.subject or "").rpartition(".")[2])
            yield Page(after, writer, _records(message.data or b""))

    async def kept(self) -> range:
        """The numbers of the pages that are kept, of any domain. Those before them were discarded."""
        try:
            info = await within(self._connection.jetstream().stream_info(AUDIT))
        except NotFoundError:
            return range(1, 1)
        return range(max(info.state.first_seq, 1), info.state.last_seq + 1)

    async def listen(self, on_news: Callable[[], None]) -> Subscription:
        """Call back whenever there may be a new page."""
        return await self._connection.listen(f"{AUDITED}.{token(self._domain)}.*", lambda *_: on_news())

    async def _publish(self, writer: str, records: Sequence[bytes], key: str) -> None:
        payload = pack(AuditPage(list(records)))
        headers = {"Nats-Msg-Id": f"{token(writer)}.{key}", "Nats-Expected-Stream": AUDIT}
        publishing = self._connection.jetstream().publish(
            audit(self._domain, writer), payload, headers=headers
        )
        await within(publishing)

    async def _create(self) -> None:
        config = api.StreamConfig(
            AUDIT,
            subjects=[f"{AUDITED}.>"],
            storage=api.StorageType.FILE,
            num_replicas=3 if self._connection.clustered else 1,
            max_bytes=MAX_BYTES,
            discard=api.DiscardPolicy.OLD,
            deny_delete=True,
            deny_purge=True,
        )
        try:
            await within(self._connection.jetstream().add_stream(config))
        except BadRequestError as error:
            if error.err_code != DIFFERENT_CONFIGURATION:
                raise StoreUnavailable(str(error)) from None
        self._created = True


def _records(payload: bytes) -> Sequence[bytes]:
    try:
        return unpack_audit_page(payload).records
    except BadMessage:
        return ()
