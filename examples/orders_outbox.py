"""A shop whose orders and the events about them commit together: `pip install 'authfabric[history]'`.

`python orders_outbox.py URL BROKER DOMAIN KEY CREDENTIAL DATABASE` takes an order a second, and relays the events.
Without arguments it shows what stands in the outbox of a database in memory.
"""

import asyncio
import sys
from getpass import getpass
from pathlib import Path
from time import time

from sqlalchemy import Column, Engine, Integer, MetaData, String, Table, create_engine, insert
from sqlalchemy.exc import IntegrityError

from authfabric.files import read_encoded
from bus.identity import load_key
from pubsub_core.client import EventClient
from pubsub_core.outbox import Outbox, Relay

METADATA = MetaData()
ORDERS = Table("orders", METADATA, Column("number", Integer, primary_key=True), Column("item", String))
OUTBOX = Outbox(METADATA)


def take_order(engine: Engine, number: int, item: str) -> None:
    """The order and its event, or neither: a number that was taken already raises IntegrityError."""
    with engine.begin() as transaction:
        OUTBOX.add(transaction, "shop.Ordered", number=number, item=item)
        transaction.execute(insert(ORDERS).values(number=number, item=item))


async def main(url: str, broker: str, domain: str, key: str, credential: str, database: str) -> None:
    engine = create_engine(database)
    METADATA.create_all(engine)
    identity, shown = load_key(Path(key), getpass), read_encoded(Path(credential))
    async with (
        EventClient.connect(url, broker=broker, domain=domain, identity=identity, credential=shown) as client,
        asyncio.TaskGroup() as group,
    ):
        relaying = group.create_task(Relay(engine, OUTBOX, client).run())
        for number in range(1, 61):
            await asyncio.to_thread(take_order, engine, number, "book")
            await asyncio.sleep(1)
        relaying.cancel()


def show() -> None:
    """An order, and the same once more, which leaves neither a row nor an event."""
    engine = create_engine("sqlite://")
    METADATA.create_all(engine)
    for item in ("book", "pen"):
        try:
            take_order(engine, 1, item)
        except IntegrityError:
            print(f"no order for a {item}: the number is taken")
    for entry in OUTBOX.next_batch(engine, time()):
        print(f"to be published: {entry.type} {entry.values}")


if __name__ == "__main__":
    show() if len(sys.argv) == 1 else asyncio.run(main(*sys.argv[1:]))
