"""The audit stream in JetStream: pages of records, each page by one writer, in the order in which they were stored."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Callable, Sequence
from contextlib import aclosing, suppress
from dataclasses import dataclass

from nats.js import api
from nats.js.errors import BadRequestError, NotFoundError

from bus.errors import BadMessage, StoreFull, StoreUnavailable
from bus.nats import Connection, Subscription
from bus.stores import DIFFERENT_CONFIGURATION, read_stream, within
from bus.wire import AuditPage, pack, subjects, unpack_audit_page

MAX_BYTES = 4 * 1024**3
"""The size at which the stream discards its oldest pages, unless it was set up otherwise."""
MAX_HEAD_BYTES = 64 * 1024**2
"""Maximum bytes of the stream of heads; beyond, the heads of writers silent longest are discarded."""
_SHARES = (1, 4, 16, 64)
"""Divisors of the stream sizes, tried in order until the streams fit on the disk."""


@dataclass(frozen=True, slots=True)
class Page:
    """Some records of a writer; none if the page cannot be read."""

    number: int
    writer: str
    records: Sequence[bytes]


class AuditStore:
    """The decisions of one domain, in the connection's server."""

    def __init__(self, connection: Connection, domain: str, *, create: bool = True) -> None:
        """With `create` the streams are set up, if they are not, as soon as there is something to store."""
        self._connection = connection
        self._domain = domain
        self._create = create
        self._created = False

    async def append(self, writer: str, records: Sequence[bytes], key: str) -> int:
        """Store a page, once, however often it is tried with the same key; returns its number.

        Raises StoreUnavailable.
        """
        payload = pack(AuditPage(list(records)))
        return await self._publish(
            subjects.audit(self._domain, writer), payload, subjects.AUDIT, f"{subjects.token(writer)}.{key}"
        )

    async def put_head(self, writer: str, head: bytes) -> None:
        """Store where a writer's chain stands, in place of what stood there. Raises StoreUnavailable."""
        await self._publish(subjects.audit_head(self._domain, writer), head, subjects.AUDIT_HEADS)

    async def heads(self) -> AsyncGenerator[tuple[str, bytes]]:
        """The writers of the domain, each with the head it stored last. Raises StoreUnavailable."""
        subject = f"{subjects.AUDITED_UP_TO}.{subjects.token(self._domain)}.*"
        async with aclosing(read_stream(self._connection, subjects.AUDIT_HEADS, subject)) as messages:
            async for message in messages:
                yield subjects.untoken(message.subject.rpartition(".")[2]), message.data

    async def exists(self) -> bool:
        """Whether anybody has set the stream up. Raises StoreUnavailable."""
        try:
            await within(self._connection.jetstream().stream_info(subjects.AUDIT))
        except NotFoundError:
            return False
        return True

    async def create(self) -> None:
        """Set the streams up, unless they are. Raises StoreUnavailable."""
        config = api.StreamConfig(
            subjects.AUDIT,
            subjects=[f"{subjects.AUDITED}.>"],
            max_bytes=MAX_BYTES,
            deny_delete=True,
            deny_purge=True,
        )
        await self._add_stream(config)
        heads = api.StreamConfig(
            subjects.AUDIT_HEADS,
            subjects=[f"{subjects.AUDITED_UP_TO}.>"],
            max_bytes=MAX_HEAD_BYTES,
            max_msgs_per_subject=1,
        )
        await self._add_stream(heads)
        self._created = True

    async def read(self, after: int = 0) -> AsyncGenerator[Page]:
        """The pages that are kept, oldest first, beginning after a number. Raises StoreUnavailable."""
        subject = f"{subjects.AUDITED}.{subjects.token(self._domain)}.*"
        async with aclosing(read_stream(self._connection, subjects.AUDIT, subject, after)) as messages:
            async for message in messages:
                writer = subjects.untoken(message.subject.rpartition(".")[2])
                yield Page(message.number, writer, _records(message.data))

    async def kept(self) -> range:
        """The numbers of the pages that are kept, of any domain. Those before them were discarded."""
        try:
            info = await within(self._connection.jetstream().stream_info(subjects.AUDIT))
        except NotFoundError:
            return range(1, 1)
        return range(max(info.state.first_seq, 1), info.state.last_seq + 1)

    async def listen(self, on_news: Callable[[], None]) -> Subscription:
        """Call back whenever there may be a new page."""
        return await self._connection.listen(
            f"{subjects.AUDITED}.{subjects.token(self._domain)}.*", lambda *_: on_news()
        )

    async def _publish(self, subject: str, payload: bytes, stream: str, key: str = "") -> int:
        headers = {"Nats-Expected-Stream": stream} | ({"Nats-Msg-Id": key} if key else {})
        try:
            if self._create and not self._created:
                await self.create()
            publishing = self._connection.jetstream().publish(subject, payload, headers=headers)
            return int((await within(publishing)).seq)
        except StoreUnavailable:
            self._created = False
            raise

    async def _add_stream(self, config: api.StreamConfig) -> None:
        config.storage = api.StorageType.FILE
        config.discard = api.DiscardPolicy.OLD
        config.num_replicas = 3 if self._connection.clustered else 1
        js = self._connection.jetstream()
        try:
            with suppress(NotFoundError):  # members may look for it, and not make it
                await within(js.stream_info(config.name or ""))
                return
            await self._fit(config)
        except BadRequestError as error:
            if error.err_code != DIFFERENT_CONFIGURATION:
                raise StoreUnavailable(str(error)) from None

    async def _fit(self, config: api.StreamConfig) -> None:
        """Make the stream as large as it should be, or as the disk allows. Raises StoreFull."""
        whole = config.max_bytes or 0
        for share in _SHARES:
            config.max_bytes = whole // share
            try:
                await within(self._connection.jetstream().add_stream(config))
            except StoreFull:
                if share == _SHARES[-1]:
                    raise
            else:
                return


def _records(payload: bytes) -> Sequence[bytes]:
    try:
        return unpack_audit_page(payload).records
    except BadMessage:
        return ()
