"""The access control service on the bus: admits connections, applies revocations and limits rates.

Any number of replicas may run with the same key. Each arrival is decided by one of them; every revocation is heard
by all, from a store that also serves those who start later. While none runs, nobody new is let in, nothing can be
revoked, and those connected stay until their session ends.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import ssl
from collections import deque
from collections.abc import Callable, Iterable
from time import monotonic
from typing import Self

from cachetools import LRUCache, TTLCache

from authz import AuthFabricError, PublicKey
from authz.spki import Notice, Revocations
from bus.errors import BadMessage, NotConnected, StoreUnavailable
from bus.feeds import RevocationFeed
from bus.identity import Credentials
from bus.nats import AccessAnswer, Connection, Relocation, carried_mark, refusal
from bus.runtime import in_background
from bus.server import ACCOUNT, Arrival, Carried, Connected, ServiceKeys, System, admit, read_arrival, refuse
from bus.services import CopyRepair, Limits, responding_by_subject, set_up
from bus.stores import STORAGE, StorageClass, open_carriage
from bus.wire import pack, subjects
from pdp.access.carried_types import CarriageRights
from pdp.access.connection_accounting import ConnectionAccounting
from pdp.access.control import AccessControl, Admitted, NotAdmitted, read_label
from pdp.access.notice_store import NoticeStore

START_SECONDS = 30.0
RETRY_SECONDS = 0.5
WATCH_SECONDS = 1.0
MOST_WATCH_SECONDS = 60.0
"""Maximum pause between attempts to gather the connections at one server."""
SWEEP_SECONDS = 3600.0
"""Seconds between two removals of revocations of what has expired."""
MOST_COMPARE_PAUSE = 5.0
"""Maximum pause between attempts to compare copies while a server is away."""
_CALLOUT = "$SYS.REQ.USER.AUTH"
_QUEUE = "access"
_BUSY = refusal("too many at once")
_MOST_ENDING = 65_536
_RECENT = 10.0
"""Seconds after its admission in which a connection may be missing from the server's list."""

_log = logging.getLogger("authfabric.access")


class AccessService:
    """`async with AccessService(url, keys, control, clock, tls)`: strangers are refused for the length of the block."""

    def __init__(
        self,
        url: str,
        keys: ServiceKeys,
        control: AccessControl,
        clock: Callable[[], float],
        tls: ssl.SSLContext | None,
        census: ConnectionAccounting | None = None,
        name: str = "access",
        audit: bool = False,
        carriage: CarriageRights | None = None,
    ) -> None:
        """With `audit` there is a stream in which members record what they decide and are told.

        `carriage` says which types brokers may carry; without it, none.
        """
        self.control = control
        self.census = ConnectionAccounting() if census is None else census
        if carriage is not None:
            control.carried = self._carried
        self.admitted = 0
        self.refused = 0
        self._keys = keys
        self._audit = audit
        self._clock = clock
        self._carriage = carriage
        self._known_rights: LRUCache[str, Carried] = LRUCache(_MOST_ENDING)
        """What the marks stand for that connections have."""
        self._system_bus, self._callout, self.member = (
            Connection(url, name=f"{name}-{each}", credentials=Credentials(identity, tls=tls))
            for each, identity in (
                ("system", keys.system),
                ("callout", keys.callout),
                ("member", keys.member),
            )
        )
        self._callout.avoid = self.member.avoid = self._is_astray
        self._relocation = Relocation(self._system_bus)
        self._system = System(self._system_bus, ACCOUNT)
        self._feed = RevocationFeed(self.member, self._heed)
        self._notices = NoticeStore(self.member, control, clock)
        self.copies = CopyRepair(self.member, lambda: self._storage)
        self._looking = False
        self._recent: deque[tuple[float, Arrival, Admitted]] = deque()
        self._ending: TTLCache[tuple[str, int], bool] = TTLCache(_MOST_ENDING, WATCH_SECONDS)
        """Whom the servers were asked to disconnect a moment ago: their lists may still show them."""
        self._back = asyncio.Event()
        """Set when the connection is back."""
        self._stack = contextlib.AsyncExitStack()

    async def __aenter__(self) -> Self:
        async with contextlib.AsyncExitStack() as stack:
            for connection in (self._system_bus, self.member, self._callout):
                await stack.enter_async_context(connection)
            await self._set_up()
            await self._wait(await stack.enter_async_context(self._feed))
            if self._carriage is not None:
                await stack.enter_async_context(
                    self._carriage.serving(self.member, self._reassess, self._put_out_writer)
                )
            await self._system.listen(self.census.came, self.census.left)
            await stack.enter_async_context(
                responding_by_subject(
                    self.member, [subjects.revoke("*")], self._take_back, Limits(), busy=_BUSY, queue=_QUEUE
                )
            )
            await self._callout.listen(_CALLOUT, self._on_arrival, _QUEUE)
            await self._callout.flush()
            in_background(stack, self._watch)
            in_background(stack, self._sweep)
            in_background(stack, self._stay_together)
            in_background(stack, self._compare_copies)
            self.member.on_ready.append(self._back.set)
            stack.callback(self.member.on_ready.remove, self._back.set)
            in_background(stack, self._restore_streams)
            self._stack = stack.pop_all()
        return self

    async def __aexit__(self, *_: object) -> None:
        await self._stack.aclose()

    async def _set_up(self) -> None:
        """Have every store made before anybody is let in who could make it otherwise. Raises StoreUnavailable."""
        end = monotonic() + START_SECONDS
        while True:
            try:
                return await set_up(self.member, self._audit, self._storage)
            except StoreUnavailable:  # a cluster may not have come together yet
                if monotonic() > end:
                    raise
                await asyncio.sleep(RETRY_SECONDS)

    @property
    def _storage(self) -> Iterable[StorageClass]:
        return STORAGE if self._carriage is None else self._carriage.storage

    async def _restore_streams(self) -> None:
        """Make the streams in memory anew that went with their server: no broker may."""
        while True:
            await self._back.wait()
            self._back.clear()
            try:
                await open_carriage(self.member, self._storage)
            except StoreUnavailable:
                await asyncio.sleep(RETRY_SECONDS)
                self._back.set()

    async def _wait(self, feed: RevocationFeed) -> None:
        """Let nobody in before everything is known that was taken back. Raises StoreUnavailable."""
        if not await feed.first_look(START_SECONDS):
            raise StoreUnavailable(f"what was revoked must be known first: {feed.problem}")

    @property
    def revocations_read_at(self) -> float:
        """When the revocations were last read to their end, by the monotonic clock; -inf if they never were."""
        return self._feed.read_at

    @property
    def able(self) -> bool:
        """Whether it can let anybody in: it hears the servers, and knows what was revoked."""
        age = monotonic() - self._feed.read_at
        connected = self._system_bus.ready and self._callout.ready
        return connected and age <= self.control.rules.revocations_seconds

    async def revocations(self) -> Revocations:
        """All that was taken back by now. Raises StoreUnavailable if that cannot be told."""
        await self._feed.catch_up()
        return self.control.verifier.revocations

    def _on_arrival(self, subject: str, reply: str, payload: bytes, headers: bytes) -> None:
        now = self._clock()
        try:
            arrival = read_arrival(payload)
        except BadMessage as error:
            _log.warning("%s", error)
            return
        try:
            admitted = self._decide(arrival, now)
        except NotAdmitted as error:
            self.refused += 1
            _log.warning("%s", error)
            answer = refuse(arrival, self._keys.issuer, now)
        else:
            self.admitted += 1
            self._remember(now, arrival, admitted)
            answer = admit(arrival, admitted.admission, self._keys.issuer, ACCOUNT, now)
        with contextlib.suppress(NotConnected):
            self._callout.send(reply, answer)

    def _decide(self, arrival: Arrival, now: float) -> Admitted:
        who = self.control.identify(arrival)
        key, rules = str(who.key), self.control.rules
        age = monotonic() - self._feed.read_at
        if age > rules.revocations_seconds:
            raise NotAdmitted(key, f"is refused: what was revoked could not be read for {age:.0f} s")
        if self.census.banned(key, now):
            raise NotAdmitted(key, "is refused: it took more than its share a moment ago")
        if self.census.count(key) >= rules.connections:
            raise NotAdmitted(key, f"is refused: it has {rules.connections} connections already")
        return self.control.empower(who, now)

    def _remember(self, now: float, arrival: Arrival, admitted: Admitted) -> None:
        while self._recent and self._recent[0][0] < now - _RECENT:
            self._recent.popleft()
        self._recent.append((now, arrival, admitted))

    async def _take_back(self, subject: str, payload: bytes) -> bytes:
        """Store a revocation; whoever follows the store, this one too, then acts on it."""
        try:
            notice = await self._notices.take(subject.rpartition(".")[2], payload)
        except AuthFabricError as error:
            return refusal(str(error))
        self._heed(notice)
        return pack(AccessAnswer())

    def _heed(self, notice: Notice) -> None:
        self.control.accept(notice, self._clock())
        if not self._looking:  # one look is enough for all that are heard together
            self._looking = True
            asyncio.get_running_loop().call_soon(self._act)

    def _act(self) -> None:
        """Disconnect whoever rests on what was taken back, wherever they are."""
        self._looking = False
        for admission in [each for each in self._recent if self.control.revoked(each[2].marks)]:
            self._recent.remove(admission)  # from now on, the servers' lists show whether it is still there
            _, arrival, admitted = admission
            self._end(arrival.server, arrival.number, str(admitted.key))
        self._look(self._end_revoked)

    def _end_revoked(self, page: list[Connected]) -> None:
        for each in page:
            key, marks = read_label(each.label)
            if self.control.revoked(marks):
                self._end(each.server, each.number, key)
            elif self._exceeds_carriage(key, carried_mark(each.label)):
                self._end(each.server, each.number, key, "a type that it could carry was taken from it")

    def _carried(self, place: str) -> Carried:
        """What a broker may carry, remembered by its mark."""
        assert self._carriage is not None
        carried = self._carriage.carried(place)
        self._known_rights[carried.mark] = carried
        return carried

    def _exceeds_carriage(self, key: str, mark: str) -> bool:
        """Whether a connection was admitted to carry more than it may now; one that may carry more asks by itself."""
        if not mark or self._carriage is None:
            return False
        now = self._carried(subjects.place(PublicKey.parse(key)))
        before = self._known_rights.get(mark)
        return now.mark != mark and (before is None or not now.covers(before))

    def _reassess(self) -> None:
        """Disconnect whoever could carry what it may not carry any more."""
        for _, arrival, admitted in tuple(self._recent):
            if self._exceeds_carriage(str(admitted.key), admitted.carried):
                self._end(arrival.server, arrival.number, str(admitted.key), "it may carry less than before")
        self._look(self._end_revoked)

    def _put_out_writer(self, place: str) -> None:
        """Disconnect whoever has written more records than it may."""

        def put_out(page: list[Connected]) -> None:
            for each in page:
                key, marks = read_label(each.label)
                if marks and subjects.place(PublicKey.parse(key)) == place:
                    self.census.ban(key, self._clock())
                    self._end(each.server, each.number, key, "it has written more records than it may")

        self._look(put_out)

    def _end(self, server: str, number: int, key: str, why: str = "what it presented was revoked") -> None:
        """Disconnect one; if it is still there a look later, again."""
        if (server, number) in self._ending:
            return
        self._ending[server, number] = True
        _log.warning(f"`%s` is disconnected: {why}", key)
        with contextlib.suppress(NotConnected):
            self._system.disconnect(server, number)

    async def _watch(self) -> None:
        """Look at everybody once a second: those who take too much, or were revoked and are still here, are put out."""
        while True:
            self._look(self._inspect)
            if self._system.alone or not self._feed.read.is_set():
                self._relocation.missed()
            else:
                self._relocation.found()
            await asyncio.sleep(WATCH_SECONDS)

    async def _stay_together(self) -> None:
        """Keep the three connections at one server: where it is cut off, that is noticed for all of them."""
        connections, pause = (self._callout, self.member), WATCH_SECONDS
        while True:
            await asyncio.sleep(pause)
            for connection in connections:
                if connection.ready and self._is_astray(connection.server):
                    with contextlib.suppress(NotConnected):
                        await connection.move(self._is_astray)
            in_vain = any(
                connection.ready and self._is_astray(connection.server) for connection in connections
            )
            pause = min(2 * pause, MOST_WATCH_SECONDS) if in_vain else WATCH_SECONDS

    async def _compare_copies(self) -> None:
        """Compare what the servers keep whenever one was started anew, and now and then; heal what is damaged."""
        pause = WATCH_SECONDS
        while True:
            await asyncio.sleep(pause)
            try:
                await self.copies.check(self._system.servers)
                pause = WATCH_SECONDS
            except StoreUnavailable:  # not all of them are there
                pause = min(2 * pause, MOST_COMPARE_PAUSE)

    def _is_astray(self, server: str) -> bool:
        """Whether that is another server than the one that is watched."""
        return self._system_bus.ready and server != self._system_bus.server

    async def _sweep(self) -> None:
        """Drop revocations of what has expired, here and from the store."""
        while True:
            self.control.forget(self._clock())
            with contextlib.suppress(StoreUnavailable):  # the next time will do
                await self._notices.sweep()
            await asyncio.sleep(SWEEP_SECONDS)

    def _inspect(self, page: list[Connected]) -> None:
        self._end_revoked(page)
        self._put_out(page)

    def _put_out(self, page: list[Connected]) -> None:
        now = self._clock()
        for each in self.census.look(page, now):
            key, marks = read_label(each.label)
            if not marks:
                continue  # it is one of our own
            _log.warning("`%s` is disconnected: it takes more than its share", key)
            self.census.ban(key, now)
            with contextlib.suppress(NotConnected):
                self._system.disconnect(each.server, each.number)

    def _look(self, on_page: Callable[[list[Connected]], None]) -> None:
        with contextlib.suppress(NotConnected):
            forget = self._system.look(on_page)
            asyncio.get_running_loop().call_later(WATCH_SECONDS, forget)
