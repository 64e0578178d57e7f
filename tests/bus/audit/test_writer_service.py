"""Every decision reaches the audit stream, in a chain, without its caller waiting; what is missing there is named."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Sequence

import pytest
from nats.js.api import DiscardPolicy

from authz import Decision, Entity, Identity, Request
from bus import Connection, NatsServer
from bus.audit import (
    AuditStore,
    AuditTrail,
    AuditWriter,
    Break,
    ChainVerifier,
    SignedHead,
    read_head,
    read_record,
    writer_service,
)
from bus.audit.records import sign_head, writer_name
from bus.wire.envelope import pack
from bus.wire.messages import AuditPage
from bus.wire.subjects import AUDIT, audit
from tests.waiting import PATIENCE, eventually

ALLOW = Decision(True)


def asked(number: int) -> Request:
    return Request.of("ann", f"/{number}", "read")


@pytest.fixture
async def server() -> AsyncIterator[NatsServer]:
    async with NatsServer(jetstream=True) as running:
        yield running


@pytest.fixture
async def bus(server) -> AsyncIterator[Connection]:
    async with Connection(server.url) as connection:
        yield connection


async def verify(bus: Connection) -> ChainVerifier:
    store = AuditStore(bus, "shop")
    heads = [read_head(data, writer) async for writer, data in store.heads()]
    kept = await store.kept()
    chains = ChainVerifier(whole=kept.start == 1)
    async for page in store.read():
        chains.take(page.writer, page.records)
    chains.finish([head for head in heads if head is not None], kept.start)
    return chains


async def test_what_a_writer_held_when_it_failed_is_stored_when_it_is_started_again(bus, monkeypatch):
    store, failing = AuditStore(bus, "shop"), [True]
    append = store.append

    async def broken(writer: str, records: Sequence[bytes], key: str) -> int:
        if failing:
            failing.clear()
            raise RuntimeError("out of luck")
        return await append(writer, records, key)

    monkeypatch.setattr(store, "append", broken)
    async with AuditWriter(store, "pep-1") as writer:
        writer.record(asked(1), ALLOW)
        await eventually(lambda: not failing)
        writer.record(asked(2), ALLOW)
        assert await writer.recorded()
    chains = await verify(bus)
    assert not chains.broken
    assert chains.writers[writer.trail.writer].head == writer.trail.head
    assert writer.trail.head.sequence == 2


async def test_everything_recorded_is_stored_in_order_by_the_time_the_writer_leaves(bus):
    async with (
        AuditWriter(AuditStore(bus, "shop"), "pep-1") as one,
        AuditWriter(AuditStore(bus, "shop"), "pep-2") as two,
    ):
        for number in range(300):
            one.record(asked(number), ALLOW)
            two.record(asked(number), ALLOW)
    chains = await verify(bus)
    assert not chains.broken
    assert {name: each.head for name, each in chains.writers.items()} == {
        one.trail.writer: one.trail.head,
        two.trail.writer: two.trail.head,
    }
    assert all(each.closed for each in chains.writers.values())
    pages = [page async for page in AuditStore(bus, "shop").read()]
    records = [
        read_record(each) for page in pages if page.writer == one.trail.writer for each in page.records
    ]
    assert [each.request for each in records] == [asked(number) for number in range(300)]
    assert len(pages) < 20


async def test_the_store_of_another_domain_is_not_read(bus):
    async with AuditWriter(AuditStore(bus, "elsewhere"), "pep-1") as writer:
        writer.record(asked(1), ALLOW)
    assert (await verify(bus)).writers == {}


async def test_while_the_store_is_away_records_wait_and_beyond_the_limit_they_are_counted(
    server, bus, caplog, monkeypatch
):
    monkeypatch.setattr("bus.audit.writer_service.AGAIN_SECONDS", 0.05)
    async with AuditWriter(AuditStore(bus, "shop"), "pep-1", limit=10) as writer:
        writer.record(asked(0), ALLOW)
        await eventually(lambda: writer.stored == 1)
        await server.stop()
        writer.record(asked(1), ALLOW)
        await eventually(lambda: writer.problem)
        for number in range(2, 100):
            writer.record(asked(number), ALLOW)
        assert (len(writer.trail), writer.trail.dropped) == (10, 88)
        await server.start()
        await eventually(lambda: writer.stored == writer.trail.head.sequence and not len(writer.trail))
    chains = await verify(bus)
    verified = chains.writers[writer.trail.writer]
    assert (verified.broken, verified.dropped, verified.head) == (None, 88, writer.trail.head)
    assert len([each for each in caplog.records if "wait to be audited" in each.message]) == 1


async def test_what_is_stored_twice_is_kept_once(bus):
    store = AuditStore(bus, "shop")
    for _ in range(2):
        await store.append("pep-1", [b"record"], "1")
    assert [page.records async for page in store.read()] == [[b"record"]]


def chain(count: int) -> list[bytes]:
    trail = AuditTrail("pep-1")
    for number in range(count):
        trail.record(asked(number), ALLOW, 0.0)
    return trail.drain(1.0)


@pytest.mark.parametrize(
    ("stored", "broken"),
    [
        (lambda r: [r[:2], r[3:]], Break(3, "is missing: the next is number 4")),
        (lambda r: [r[1:]], Break(1, "is missing: the next is number 2")),
        (lambda r: [r[:2], [b"junk"], r[2:]], Break(3, "is unreadable")),
        (lambda r: [r[:1], r[2:3], r[1:2]], Break(2, "is missing: the next is number 3")),
    ],
)
async def test_the_first_gap_or_break_is_named(bus, stored, broken):
    store = AuditStore(bus, "shop")
    for number, page in enumerate(stored(chain(5))):
        await store.append("pep-1", page, str(number))
    chains = await verify(bus)
    assert chains.broken == {"pep-1": broken}


async def test_a_page_that_is_none_breaks_its_writers_chain_and_no_other(bus):
    store = AuditStore(bus, "shop")
    await store.append("pep-1", chain(2), "1")
    bus.send(audit("shop", "pep-2"), b"junk")
    bus.send(audit("shop", "pep-3"), pack(AuditPage(chain(1))))
    await bus.flush()
    chains = await verify(bus)
    assert chains.broken == {
        "pep-2": Break(1, "is unreadable"),
        "pep-3": Break(1, "is by `pep-1`, not by `pep-3`"),
    }


def test_where_the_oldest_were_discarded_a_chain_may_begin_later():
    records = chain(5)
    chains = ChainVerifier(whole=False)
    chains.take("pep-1", records[2:])
    assert (chains.broken, chains.starts) == ({}, {"pep-1": 3})


class Writer:
    """Someone who stores a chain of five, or part of it, and says where it ends."""

    def __init__(self, bus: Connection) -> None:
        self.identity = Identity.generate()
        self.name = writer_name("pep", self.identity.public)
        self._store = AuditStore(bus, "shop")
        self.trail = AuditTrail(self.name)
        for number in range(5):
            self.trail.record(asked(number), ALLOW, 0.0)
        self.records = self.trail.drain(1.0)

    async def store(self, count: int) -> None:
        if count:
            await self._store.append(self.name, self.records[:count], "1")

    async def say(self, signer: Identity | None = None, **altered) -> None:
        said = {"sequence": 5, "digest": self.trail.head.digest, "page": 1, "closed": True} | altered
        head = SignedHead(self.name, **said)
        await self._store.put_head(self.name, sign_head(head, signer or self.identity))


@pytest.mark.parametrize(
    ("stored", "said", "broken"),
    [
        (5, {}, None),
        (5, {"sequence": 4, "closed": False}, None),
        (3, {}, Break(4, "is missing: its writer has written 5")),
        (3, {"closed": False}, Break(4, "is missing: its writer has written 5")),
        (0, {}, Break(1, "is missing, and all others up to number 5")),
        (0, {"page": 0}, None),
        (5, {"digest": bytes(32)}, Break(5, "is not what its writer wrote")),
        (5, {"sequence": 4}, Break(5, "was added after its writer had ended")),
    ],
)
async def test_what_is_missing_at_the_end_shows_against_what_the_writer_said(bus, stored, said, broken):
    writer = Writer(bus)
    await writer.store(stored)
    await writer.say(**said)
    assert (await verify(bus)).broken == ({} if broken is None else {writer.name: broken})


async def test_nobody_else_can_say_where_a_chain_ends(bus):
    writer = Writer(bus)
    await writer.store(3)
    await writer.say(Identity.generate(), sequence=3)
    verified = (await verify(bus)).writers[writer.name]
    assert (verified.broken, verified.closed) == (None, None)


async def test_a_writer_that_crashes_has_said_where_it_stood_a_moment_ago(bus, monkeypatch):
    monkeypatch.setattr("bus.audit.writer_service.HEAD_SECONDS", 0.01)
    async with AuditWriter(AuditStore(bus, "shop"), "pep-1") as writer:
        writer.record(asked(0), ALLOW)
        store = AuditStore(bus, "shop")
        await eventually(lambda: writer.stored)
        while not (heads := [read_head(data, name) async for name, data in store.heads()]):
            pass
        assert [(head.sequence, head.digest, head.closed) for head in heads if head] == [
            (*writer.trail.head, False)
        ]


async def test_what_a_full_store_never_took_is_told_as_lost_by_its_writers_signed_word(bus, monkeypatch):
    monkeypatch.setattr(writer_service, "FINISH_SECONDS", 0.2)
    store = AuditStore(bus, "shop")
    async with AuditWriter(store, "pep", limit=3) as writer:
        writer.record(asked(0), ALLOW)
        await eventually(lambda: writer.stored == 1)
        config = (await bus.jetstream().stream_info(AUDIT)).config
        config.max_bytes, config.discard = (
            1,
            DiscardPolicy.NEW,
        )  # it takes nothing more, and its heads' stream does
        await bus.jetstream().update_stream(config)
        for number in range(1, 9):
            writer.record(asked(number), ALLOW)
    chains = await verify(bus)
    verified = chains.writers[writer.trail.writer]
    assert (verified.broken, verified.head.sequence, verified.closed) == (None, 1, True)
    assert verified.dropped == 8


async def test_who_keeps_waits_for_room_and_nothing_is_dropped(server, bus, monkeypatch):
    monkeypatch.setattr(writer_service, "AGAIN_SECONDS", 0.05)
    loop = asyncio.get_running_loop()
    async with AuditWriter(AuditStore(bus, "shop"), "pep", limit=3) as writer:
        (mark,) = await writer.keep([(asked(0), ALLOW)], loop.time() + PATIENCE)
        assert (writer.stored, writer.has(mark)) == (1, True)
        await server.stop()
        several = [(asked(number), ALLOW) for number in range(1, 21)]
        marks = await writer.keep(several, loop.time() + 0.2)
        assert 3 <= len(marks) < 20
        assert not any(map(writer.has, marks))
        await server.start()
        rest = await writer.keep(several[len(marks) :], loop.time() + PATIENCE)
        assert all(map(writer.has, marks + rest))
    verified = (await verify(bus)).writers[writer.trail.writer]
    assert (verified.broken, verified.dropped, verified.head.sequence) == (None, 0, 21)


async def test_what_is_altered_while_its_asker_waits_is_kept_as_it_was_asked(bus):
    attributes: dict[str, object] = {"team": "red"}
    until = asyncio.get_running_loop().time() + PATIENCE
    async with AuditWriter(AuditStore(bus, "shop"), "pep") as writer:
        request = Request.of(Entity("ann", attributes), "/1", "read")
        keeping = asyncio.create_task(writer.keep([(request, ALLOW)], until))
        await asyncio.sleep(0)  # it is noted now, and not yet encoded
        assert len(writer.trail) == 1
        attributes["team"] = object()
        assert [writer.has(mark) for mark in await keeping] == [True]
        assert [writer.has(mark) for mark in await writer.keep([(request, ALLOW)], until)] == [False]
    assert (await verify(bus)).writers[writer.trail.writer].dropped == 1
    (page,) = [page async for page in AuditStore(bus, "shop").read() if len(page.records) == 1][:1]
    assert read_record(page.records[0]).request.subject.attributes == {"team": "red"}


async def test_the_store_does_not_have_what_could_not_be_encoded(bus):
    store = AuditStore(bus, "shop")
    odd = Decision(True, obligations=({"name": object()},))
    async with AuditWriter(store, "pep-1") as writer:
        until = asyncio.get_running_loop().time() + PATIENCE
        marks = await writer.keep([(asked(1), ALLOW), (asked(2), odd), (asked(3), ALLOW)], until)
        assert [writer.has(each) for each in marks] == [True, False, True]
    (chain,) = (await verify(bus)).writers.values()
    assert chain.dropped == 1
