"""What the history benchmark measures with: a publisher in a process of its own, and many events to find some among."""

from __future__ import annotations

import asyncio
import random
import sqlite3
import sys
from collections.abc import Iterator
from pathlib import Path
from time import perf_counter

import msgspec
import uvloop

from authz import Identity
from pubsub_core.client import EventClient
from pubsub_core.events import Event, encode
from pubsub_core.history import EventCipher, HistoryStore, Keeping, Search
from pubsub_core.types import AttributeType, EventType

ATTRIBUTES = [
    ("drug", AttributeType.STRING),
    ("prescriber", AttributeType.STRING),
    ("patient", AttributeType.STRING),
    ("amount", AttributeType.INTEGER),
]
DRUGS = 100
BATCH = 20_000


def values(number: int) -> dict[str, object]:
    return {
        "drug": f"drug{number * 7919 % DRUGS}",
        "prescriber": f"nurse{number % 977}",
        "patient": f"patient{number % 99_991}",
        "amount": number % 500,
    }


def fill(url: str, secret: bytes, broker: str, kind: EventType, count: int, start: float) -> None:
    """Store `count` events, one a second, which can be searched by drug without being read."""
    kinds = {each.id: each.type for each in kind.attributes}
    drug = next(each.id for each in kind.attributes if each.name == "drug")
    with HistoryStore(url, EventCipher(secret), broker) as store:
        store.keep(Keeping(kind.id, kinds, {drug: Search.BLIND}, name=kind.name))
        for first in range(0, count, BATCH):
            store.append(_events(kind, range(first, first + BATCH), start))


def _events(kind: EventType, numbers: range, start: float) -> Iterator[tuple[Event, bytes]]:
    publisher, ids = random.Random(0).randbytes(32), [each.id for each in kind.attributes]
    for number in numbers:
        named = dict(zip(ids, values(number).values(), strict=True))
        event = Event(kind.id, kind.version, publisher, start + number, number, named)
        yield event, encode(event)


def fetch(path: Path, secret: bytes, kind: EventType, drug: str, mapped: int = 0) -> int:
    """The same rows by SQL alone, all at once and unopened, by the driver that the history has: how many there are.

    The history reads its file through memory too; `mapped` bytes let this do so as well.
    """
    attribute = next(each.id for each in kind.attributes if each.name == "drug")
    query = f"SELECT * FROM events_{kind.id} WHERE blind_{attribute} = ? ORDER BY time, id"
    with sqlite3.connect(path) as connection:
        connection.execute(f"PRAGMA mmap_size = {mapped}")
        return len(connection.execute(query, [EventCipher(secret).blind(attribute, drug)]).fetchall())


async def publish(url: str, seed: str, credential: str, kind: str, broker: str, count: str) -> None:
    """Publish events as fast as the broker takes them; prints how long it took."""
    async with EventClient.connect(
        url,
        broker=broker,
        domain="bench",
        identity=Identity.from_seed(bytes.fromhex(seed)),
        credential=bytes.fromhex(credential),
    ) as client:
        publisher = await client.publisher(kind)
        while not publisher.interested:
            client.interest_changed.clear()
            await client.interest_changed.wait()
        start = perf_counter()
        for number in range(int(count)):
            await publisher.publish(**values(number))
            if number % 128 == 127:
                await asyncio.sleep(0)
        await publisher.flush()
        sys.stdout.write(msgspec.json.encode(perf_counter() - start).decode())


if __name__ == "__main__":
    uvloop.run(publish(*sys.argv[1:]))
