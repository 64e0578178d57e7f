"""Pages of the past between brokers: asked for until they come, and answered from the history here."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import secrets
from collections.abc import AsyncIterator, Iterable, Iterator, Sequence

import msgspec

from authz import PublicKey
from authz.errors import UNREADABLE, AuthFabricError
from authz.predicate import TRUE, Or, Predicate
from authz.predicate.cost import PEER_COMPARISONS, check_cost
from bus.errors import BadMessage
from bus.wire import pack, subjects
from pubsub_core.broker import Broker
from pubsub_core.carriage import Peer
from pubsub_core.errors import InvalidEvent
from pubsub_core.events import WINDOW, Encoded, decode, decode_all, encode
from pubsub_core.history import (
    Keeper,
    MarksFound,
    MarksWanted,
    PageFound,
    PageWanted,
    Past,
    PastBox,
    Span,
    common,
    periods,
    unpack_past,
    unpack_past_box,
)
from pubsub_core.keys import CannotOpen, lock, unlock
from pubsub_core.replay.fluent_marks import tell_marks

AGAIN_SECONDS = 2.0
"""Seconds without an answer after which a page is asked for again (retransmission)."""
SOON_SECONDS = 0.05
PATIENCE_SECONDS = 15.0
"""Seconds without any answer after which a broker is given up."""
AT_ONCE = 4
CHUNK = 512
"""Events of a page decoded in one call."""
MOST_ASKED = 256

_log = logging.getLogger("authfabric.history")


class PastUnknown(AuthFabricError):
    """What a broker has kept cannot be had: `problem` says why."""

    def __init__(self, broker: str, problem: str) -> None:
        super().__init__(f"`{broker}` {problem}")
        self.broker = broker
        self.problem = problem


def _decoded(raws: Sequence[msgspec.Raw]) -> Iterator[list[Encoded]]:
    """The events of a page, some at a time, so that what is worked on stays in the processor's cache.

    Raises InvalidEvent at the first that is none.
    """
    for start in range(0, len(raws), CHUNK):
        some = raws[start : start + CHUNK]
        try:
            found = list(zip(decode_all(some), some, strict=True))
        except InvalidEvent:
            yield from ([(decode(each), each)] for each in some)
        else:
            yield found


class Pages:
    """Asks other brokers for pages, and answers them."""

    def __init__(self, broker: Broker) -> None:
        self._broker, self._setting = broker, broker.setting
        self.keeper: Keeper | None = None
        """The history here, if there is one."""
        self._expected: dict[bytes, asyncio.Future[PageFound | MarksFound]] = {}
        self._turns = asyncio.Semaphore(AT_ONCE)
        self._tasks: set[asyncio.Task[None]] = set()

    async def ask(self, name: str, wanted: PageWanted) -> tuple[PageFound, Iterable[Sequence[Encoded]]]:
        """A page of what a broker has, which may be this one, and the events in it, some at a time.

        Of this one's own page, events are decoded as they are taken, which may raise InvalidEvent, and more may be
        among them than the filter lets through. Raises PastUnknown.
        """
        own = name == self._setting.name
        found = await self._look(None, wanted) if own else await self._ask(name, wanted)
        if not isinstance(found, PageFound) or found.problem:
            raise PastUnknown(name, found.problem or "has answered something else")
        try:
            return found, _decoded(found.events) if own else [
                list(self._dated(self._opened(name, wanted, found)))
            ]
        except (CannotOpen, AuthFabricError, *UNREADABLE):
            raise PastUnknown(name, "has sent what cannot be opened") from None

    async def ask_marks(self, name: str, wanted: MarksWanted) -> MarksFound:
        """When a fluent began and ended, as another broker knows it. Raises PastUnknown."""
        found = await self._ask(name, wanted)
        if not isinstance(found, MarksFound) or found.problem:
            raise PastUnknown(name, found.problem or "has answered something else")
        return found

    async def _ask(self, name: str, wanted: PageWanted | MarksWanted) -> PageFound | MarksFound:
        loop = asyncio.get_running_loop()
        heard = loop.time()
        while loop.time() - heard < PATIENCE_SECONDS:
            peer = self._broker.peers.get(name)
            if peer is None or not peer.secret or wanted.type not in peer.carries:
                await asyncio.sleep(SOON_SECONDS)
                continue
            found = await self._try(peer, self._sealed(wanted))
            if found is not None and not found.later:
                return found
            heard = loop.time() if found is not None else heard
            await asyncio.sleep(SOON_SECONDS)
        raise PastUnknown(name, f"did not answer within {PATIENCE_SECONDS:g} s")

    async def _try(self, peer: Peer, wanted: PageWanted | MarksWanted) -> PageFound | MarksFound | None:
        id_ = secrets.token_bytes(16)
        answer: asyncio.Future[PageFound | MarksFound] = asyncio.get_running_loop().create_future()
        self._expected[id_] = answer
        try:
            self._send(peer, msgspec.structs.replace(wanted, id=id_))
            async with asyncio.timeout(AGAIN_SECONDS):
                return await answer
        except TimeoutError:
            return None
        finally:
            del self._expected[id_]

    def _sealed(self, wanted: PageWanted | MarksWanted) -> PageWanted | MarksWanted:
        """The question as another broker may read it: a filter about sealed values is sealed."""
        if (
            isinstance(wanted, MarksWanted)
            or wanted.type not in self._setting.vault.sealed
            or wanted.filter is None
        ):
            return wanted
        key = self._setting.identity.public.raw
        sealed = self._setting.vault.seal_filters(wanted.type, [wanted.filter], key, self._setting.now())
        return msgspec.structs.replace(wanted, filter=None, sealed=sealed)

    def hear(self, data: bytes) -> None:
        """Take what another broker asks or answers. Raises BadMessage."""
        message = unpack_past_box(data)
        peer = self._broker.peers.get(message.sender)
        try:
            if peer is None or not peer.secret:
                raise CannotOpen
            content = unpack_past(unlock(peer.secret, self._purpose(peer.name, True), message.box)).content
        except (CannotOpen, BadMessage):
            self._broker.counts.untrusted += 1
            return
        if isinstance(content, MarksWanted):
            self._send(peer, tell_marks(self._broker, peer, content))
        elif isinstance(content, PageFound | MarksFound):
            answer = self._expected.get(content.id)
            if answer is not None and not answer.done():
                answer.set_result(content)
        elif len(self._tasks) < MOST_ASKED:  # otherwise it is asked again
            task = asyncio.get_running_loop().create_task(self._answer(peer, content))
            self._tasks.add(task)
            task.add_done_callback(self._tasks.discard)

    async def _answer(self, peer: Peer, wanted: PageWanted) -> None:
        async with self._turns:
            if not self._broker.presence.trusts(peer.key, wanted.type):
                found = PageFound(wanted.id, problem="does not trust us with events of this type")
            else:
                found = await self._look(peer, wanted)
            self._send(peer, found)

    async def _look(self, peer: Peer | None, wanted: PageWanted) -> PageFound:
        """A page from here, for a broker or, with None, for ourselves."""
        if self.keeper is None:
            return PageFound(wanted.id, keeps=False)
        try:
            known, within = self._filter(peer, wanted), self._within(wanted)
            page = await self.keeper.page(wanted, known, within, near=peer is None)
            return self._found(peer, wanted, page)
        except AuthFabricError as error:
            _log.warning("a page of the past cannot be given: %s", error)
            return PageFound(wanted.id, problem="cannot read its history at the moment: its log says why")

    def _filter(self, peer: Peer | None, wanted: PageWanted) -> Predicate:
        if peer is None:
            return wanted.filter or TRUE
        asked = self._asked(peer, wanted)
        check_cost(asked, PEER_COMPARISONS)
        return asked

    def _asked(self, peer: Peer, wanted: PageWanted) -> Predicate:
        """The filter by which another broker asks."""
        if wanted.type not in self._setting.vault.sealed:
            return wanted.filter or TRUE
        known = self._setting.vault.open_filters(wanted.type, wanted.sealed, PublicKey.parse(peer.key).raw)
        return known[0] if len(known) == 1 else Or(known)

    def _within(self, wanted: PageWanted) -> Sequence[Span]:
        start = float("-inf") if wanted.start is None else wanted.start
        end = float("inf") if wanted.end is None else wanted.end
        context = self._setting.rules.context
        return common([Span(start, end)], periods(context, wanted.during, wanted.not_during))

    def _found(self, peer: Peer | None, wanted: PageWanted, page: PageFound) -> PageFound:
        """The page as a broker may have it."""
        if peer is None or wanted.type not in self._setting.vault.sealed or not page.events:
            return page
        events = list(map(decode, page.events))
        # The keys of the time when they were published may be gone: they are sealed as if that were now.
        now = self._setting.now()
        columns = self._setting.vault.seal_many([msgspec.structs.replace(each, time=now) for each in events])
        times = [each.time for each in events]
        return msgspec.structs.replace(page, events=[], columns=columns or b"", times=times)

    def _opened(self, name: str, wanted: PageWanted, found: PageFound) -> Iterable[Encoded]:
        """The events of another's page, as far as they can be read here. Raises CannotOpen, InvalidEvent."""
        if found.columns:
            return self._unsealed(name, found)
        if found.events and wanted.type in self._setting.vault.sealed:
            raise CannotOpen
        opened = zip(map(decode, found.events), found.events, strict=True)
        return (each for each in opened if each[0].type == wanted.type)

    def _unsealed(self, name: str, found: PageFound) -> Iterator[Encoded]:
        peer = self._broker.peers.get(name)
        opened = self._setting.vault.open_many(found.columns, peer.key if peer is not None else "")
        for event, time in zip(opened, found.times, strict=True):
            event = msgspec.structs.replace(event, time=time)
            yield event, msgspec.Raw(encode(event))

    def _dated(self, events: Iterable[Encoded]) -> Iterator[Encoded]:
        """Those of another broker's events that can have been published by now, as is asked of present ones."""
        latest = self._setting.now() + WINDOW
        for each in events:
            if 0.0 <= each[0].time <= latest:
                yield each
            else:
                self._broker.counts.forged += 1

    def _send(self, peer: Peer, content: PageWanted | PageFound | MarksWanted | MarksFound) -> None:
        box = lock(peer.secret, self._purpose(peer.name, False), pack(Past(content)))
        self._setting.send(
            subjects.past(self._setting.domain, peer.name), pack(PastBox(self._setting.name, box))
        )

    def _purpose(self, other: str, incoming: bool) -> str:
        """What a message is sealed for: the way it goes."""
        own = self._setting.name
        return f"past {other}>{own}" if incoming else f"past {own}>{other}"

    @contextlib.asynccontextmanager
    async def answering(self) -> AsyncIterator[None]:
        """For the length of the block."""
        try:
            yield
        finally:
            for task in tuple(self._tasks):
                task.cancel()
