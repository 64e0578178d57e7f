"""A stream is read on one subject, and whoever may read that may read no other."""

from __future__ import annotations

import json

import pytest

from authz import Decision, Request
from bus import Connection
from bus.audit import AuditStore, AuditWriter
from bus.errors import NotPermitted, StoreUnavailable
from bus.stores.stream_reader import BATCH, read_stream
from bus.wire.subjects import AUDIT
from tests.secured import PEP, secured

AUDITOR = "network: default\naction: connect|audit"


@pytest.fixture
async def jetstream_bus(jetstream_server):
    async with Connection(jetstream_server.url) as bus:
        yield bus


async def test_all_messages_are_read_in_order_and_from_where_one_wants(jetstream_bus):
    store = AuditStore(jetstream_bus, "reader")
    for number in range(2 * BATCH + 3):
        await store.append(f"w{number % 3}", [b"%d" % number], str(number))
    pages = [page async for page in store.read()]
    assert [page.records[0] for page in pages] == [b"%d" % number for number in range(2 * BATCH + 3)]
    assert [page.writer for page in pages[:4]] == ["w0", "w1", "w2", "w0"]
    later = [page async for page in store.read(pages[BATCH].number)]
    assert later == pages[BATCH + 1 :]
    assert [page async for page in store.read(pages[-1].number)] == []
    assert [page async for page in AuditStore(jetstream_bus, "empty").read()] == []


async def end_readers(bus: Connection, domain: str) -> None:
    """Delete whoever reads the audit of a domain, as the loss of a server would."""
    jetstream = bus.jetstream()
    for each in await jetstream.consumers_info(AUDIT):
        if f".{domain}." in str(each.config.filter_subject):
            await jetstream.delete_consumer(AUDIT, each.name)


class TestConsumersThatAreLost:
    @pytest.fixture
    async def written(self, jetstream_bus, monkeypatch) -> list[bytes]:
        monkeypatch.setattr("bus.stores.stream_reader.PAUSE_SECONDS", 0.0)
        store, records = AuditStore(jetstream_bus, "lost"), [b"%d" % number for number in range(3 * BATCH)]
        for record in records:
            await store.append("w", [record], f"lost-{record!r}")
        return records

    @pytest.mark.parametrize("read", [1, BATCH], ids=["while it sends", "before it is asked again"])
    async def test_another_goes_on_where_one_was(self, jetstream_bus, written, read):
        found = []
        async for page in AuditStore(jetstream_bus, "lost").read():
            found.append(page.records[0])
            if len(found) == read:
                await end_readers(jetstream_bus, "lost")
        assert found == written

    async def test_when_several_in_a_row_are_of_no_use_it_is_said(self, jetstream_bus, written, monkeypatch):
        monkeypatch.setattr("bus.stores.stream_reader.ATTEMPTS", 1)
        pages = AuditStore(jetstream_bus, "lost").read()
        found = [(await anext(pages)).records[0] for _ in range(BATCH)]
        assert found == written[:BATCH]
        await end_readers(jetstream_bus, "lost")
        with pytest.raises(StoreUnavailable):
            await anext(pages)


async def test_without_a_stream_there_is_nothing(jetstream_bus):
    assert [each async for each in read_stream(jetstream_bus, "nowhere", "af.nowhere.*")] == []


async def test_an_auditor_of_one_domain_reads_nothing_of_another(tmp_path):
    async with (
        secured(tmp_path) as (world, access),
        world.connect(AUDITOR) as auditor,
        world.connect("network: *\naction: connect|audit") as chief,
    ):
        for domain in ("default", "bank"):
            async with AuditWriter(AuditStore(access.member, domain), "pep") as writer:
                writer.record(Request.of("ann", f"/{domain}", "read"), Decision(True))
        own = [page async for page in AuditStore(auditor, "default").read()]
        assert (len(own), [name async for name, _ in AuditStore(auditor, "default").heads()]) == (
            1,
            [own[0].writer],
        )
        assert len([page async for page in AuditStore(chief, "bank").read()]) == 1
        with pytest.raises(NotPermitted):
            await anext(AuditStore(auditor, "bank").read())
        assert "permissions violation" in auditor.last_error.lower()
        for asked in ("af.audit.default.*", ""):  # what it may say, and what it would like
            for wish in ({"filter_subject": "af.audit.bank.*"}, {"filter_subjects": ["af.audit.bank.*"]}, {}):
                config = {"name": "mine", "ack_policy": "none", "deliver_policy": "all", **wish}
                body = json.dumps({"stream_name": AUDIT, "config": config}).encode()
                where = f"$JS.API.CONSUMER.CREATE.{AUDIT}.mine" + (f".{asked}" if asked else "")
                try:
                    assert "error" in json.loads(await auditor.ask(where, body, 0.5))
                except NotPermitted:
                    assert not asked, "it was not even heard"
        with pytest.raises(NotPermitted):
            await auditor.ask(f"$JS.API.STREAM.MSG.GET.{AUDIT}", b'{"seq": 2}', 0.5)
        async with world.connect(PEP) as pep:
            with pytest.raises(StoreUnavailable):
                await anext(AuditStore(pep, "default").read())
