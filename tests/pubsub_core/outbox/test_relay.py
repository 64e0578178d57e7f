"""A row and its event commit together, and the event is published once, whatever becomes of the relay."""

from __future__ import annotations

import asyncio
import importlib.util
from collections.abc import Iterator
from pathlib import Path

import pytest
from sqlalchemy import Engine, create_engine, select
from sqlalchemy.exc import IntegrityError

from authz import Identity
from pubsub_core.outbox import Outbox, Relay
from tests.pubsub_core.conftest import place
from tests.pubsub_core.history.databases import postgresql, url
from tests.pubsub_core.town import take
from tests.waiting import eventually

__all__ = ["place", "postgresql", "url"]

EXAMPLE = Path(__file__).parents[3] / "examples" / "orders_outbox.py"
ORDERED = [("number", "integer"), ("item", "string")]


@pytest.fixture(scope="module")
def shop():
    spec = importlib.util.spec_from_file_location("orders_outbox", EXAMPLE)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.fixture
def engine(shop, url) -> Iterator[Engine]:
    engine = create_engine(url)
    shop.METADATA.create_all(engine)
    yield engine
    engine.dispose()


async def test_a_row_and_its_event_commit_together_and_reach_a_subscriber(shop, engine, place, monkeypatch):
    kind = await place.define("Ordered", *ORDERED)
    add = Outbox.add
    monkeypatch.setattr(
        Outbox, "add", lambda self, within, type_, **values: add(self, within, kind.name, **values)
    )
    await place.broker("north")
    reader, writer = await place.client("bob", "north"), await place.client("shop", "north")
    subscriber = await reader.subscriber(kind.name)
    shop.take_order(engine, 1, "book")
    with pytest.raises(IntegrityError):
        shop.take_order(engine, 1, "pen")
    shop.take_order(engine, 2, "ink")
    relay = Relay(engine, shop.OUTBOX, writer)
    running = asyncio.create_task(relay.run())
    assert await take(subscriber, 2) == [{"number": 1, "item": "book"}, {"number": 2, "item": "ink"}]
    await eventually(lambda: shop.OUTBOX.count(engine) == 0)
    shop.take_order(engine, 3, "cup")
    assert await take(subscriber, 1) == [{"number": 3, "item": "cup"}]
    running.cancel()
    with engine.connect() as connection:
        assert [row.item for row in connection.execute(select(shop.ORDERS))] == ["book", "ink", "cup"]


async def test_what_a_relay_has_published_and_not_taken_out_is_not_delivered_again(
    shop, engine, place, monkeypatch
):
    kind = await place.define("Ordered", *ORDERED)
    await place.broker("north")
    await place.broker("south")
    key = Identity.generate()
    near, far = [await (await place.client("bob", at)).subscriber(kind.name) for at in ("north", "south")]

    def add(*numbers: int) -> None:
        with engine.begin() as transaction:
            for number in numbers:
                shop.OUTBOX.add(transaction, kind.name, number=number)

    def killed(self, engine, batch):
        raise KeyboardInterrupt

    add(1, 2)
    with monkeypatch.context() as patched:
        patched.setattr(Outbox, "remove", killed)
        async with place.connected("shop", "north", key) as client:
            with pytest.raises(KeyboardInterrupt):
                await Relay(engine, shop.OUTBOX, client).step()
    add(3)
    async with place.connected("shop", "north", key) as client:
        relay = Relay(engine, shop.OUTBOX, client)
        assert [await relay.step(), await relay.step(), await relay.step()] == [2, 1, 0]
    for each in (near, far):
        assert [event["number"] for event in await take(each, 3)] == [1, 2, 3]
        assert each.unread == 0


async def test_an_event_that_does_not_fit_its_type_is_left_out_and_in_the_way_of_no_other(
    shop, engine, place
):
    kind = await place.define("Ordered", *ORDERED)
    await place.broker("north")
    subscriber = await (await place.client("bob", "north")).subscriber(kind.name)
    with engine.begin() as transaction:
        shop.OUTBOX.add(transaction, kind.name, number="many")
        shop.OUTBOX.add(transaction, kind.name, number=2)
    relay = Relay(engine, shop.OUTBOX, await place.client("shop", "north"))
    assert await relay.step() == 2
    assert (relay.published, relay.refused) == (1, 1)
    assert await take(subscriber, 1) == [{"number": 2}]


def test_a_batch_stays_as_it_is_until_it_was_published(shop, engine):
    def add(*numbers: int) -> None:
        with engine.begin() as transaction:
            for number in numbers:
                shop.OUTBOX.add(transaction, "shop.Ordered", number=number)

    add(1, 2, 3)
    first = shop.OUTBOX.next_batch(engine, 1000.0, most=2)
    add(4)
    again = shop.OUTBOX.next_batch(engine, 2000.0)
    assert again == first
    assert [each.time for each in first] == [1000.0, 1000.0]
    shop.OUTBOX.remove(engine, first)
    assert [each.values["number"] for each in shop.OUTBOX.next_batch(engine, 3000.0)] == [3, 4]
