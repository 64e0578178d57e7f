"""Where a policy demands it, nothing is delivered before the audit stream has that it is."""

from __future__ import annotations

import asyncio

from bus.audit import AuditStore, read_record
from bus.errors import StoreUnavailable
from tests.pubsub_core.conftest import place
from tests.pubsub_core.town import NEWS, OPEN, rule, take
from tests.waiting import eventually

__all__ = ["place"]


async def test_nothing_is_delivered_before_the_audit_stream_has_it(place, monkeypatch):
    kind = await place.define("News", *NEWS)
    await place.release(OPEN + rule("told", "[{record: before}]", subject_id="bob", action_id="subscribe"))
    audit = AuditStore(place.bus, place.domain)
    await audit.create()
    await place.broker("north")
    ann, bob, cid = [await place.client(name, "north") for name in ("ann", "bob", "cid")]
    theirs, others = await bob.subscriber(kind.name), await cid.subscriber(kind.name)
    publisher = await ann.publisher(kind.name)
    append, tried = AuditStore.append, asyncio.Event()

    async def away(self, *page):
        tried.set()
        raise StoreUnavailable("it is away")

    monkeypatch.setattr(AuditStore, "append", away)
    for score in (1, 2):
        await publisher.publish(headline="x", score=score)
    assert [each["score"] for each in await take(others, 2)] == [1, 2], "of whom it is not demanded"
    await tried.wait()
    assert theirs.unread == 0
    monkeypatch.setattr(AuditStore, "append", append)
    assert [each["score"] for each in await take(theirs, 2)] == [1, 2]
    disclosed = [
        found.disclosed
        async for page in audit.read()
        for each in page.records
        if (found := read_record(each)) is not None and found.disclosed is not None
    ]
    assert {(each.subject, each.attributes) for each in disclosed} == {("bob", ("headline", "score"))}
    assert len({event for each in disclosed for event in each.events}) == 2


async def test_where_nothing_is_recorded_what_has_to_be_is_not_delivered(place):
    kind = await place.define("News", *NEWS)
    await place.release(OPEN + rule("told", "[{record: before}]", subject_id="bob", action_id="subscribe"))
    north = await place.broker("north", disclosures=False)
    ann, bob = [await place.client(name, "north") for name in ("ann", "bob")]
    theirs, publisher = await bob.subscriber(kind.name), await ann.publisher(kind.name)
    await publisher.publish(score=1)
    await eventually(lambda: north.broker.counts.withheld == 1)
    assert theirs.unread == 0
