"""A replay delivers what a live subscription would have been sent under the same policies, and nothing else."""

from __future__ import annotations

import random

from pubsub_core.history.retention import HistorySetting, KeepRule, Search
from tests.pubsub_core.conftest import place
from tests.pubsub_core.history.databases import postgresql, url
from tests.pubsub_core.town import rule
from tests.waiting import eventually

__all__ = ["place", "postgresql", "url"]

ATTRIBUTES = (("drug", "string"), ("patient", "string"), ("amount", "integer"))
DRUGS = ("morphine", "codeine", "aspirin")
LAST = -1
"""The amount of an event that every policy lets through."""
ROUNDS = 6


def condition(draw: random.Random) -> str:
    """Some condition about events, of comparisons that the database can judge and of some that it cannot."""
    tests = [
        f"drug = '{draw.choice(DRUGS)}'",
        f"drug CONTAINS '{draw.choice('mrsi')}'",
        f"amount {draw.choice(('<', '>='))} {draw.randrange(30)}",
        f"NOT patient = 'p{draw.randrange(3)}'",
    ]
    return f" {draw.choice(('and', 'or'))} ".join(draw.sample(tests, draw.randrange(1, 4)))


def obligations(draw: random.Random) -> str:
    hidden = draw.choice(("", "{hidden: [patient]}, ", "{attributes: [drug, amount]}, "))
    return f'[{hidden}{{filter: "({condition(draw)}) or amount = {LAST}"}}]'


def policies(draw: random.Random) -> str:
    """Who reads is bound in the same way, whether it is the present or the past."""
    duty = obligations(draw)
    plain = "".join(rule(each, action_id=each) for each in ("connect", "advertise", "publish"))
    return plain + "".join(rule(each, duty, action_id=each) for each in ("subscribe", "replay"))


async def test_the_past_is_what_the_present_was_under_whatever_policies(url, place):
    draw = random.Random(url.partition(":")[0])
    kind = await place.define("Prescribe", *ATTRIBUTES)
    rules = (KeepRule(search={"drug": Search.BLIND, "amount": Search.CLEAR}),)
    service = await place.broker("met", history=HistorySetting(url, b"h" * 32, rules))
    await place.release(policies(draw))
    nurse, reader = await place.client("nurse", "met"), await place.client("reader", "met")
    await eventually(lambda: service.claims.epoch)
    compared = 0
    for _ in range(ROUNDS):
        epoch = await place.release(policies(draw))
        await eventually(lambda epoch=epoch: service.claims.epoch >= epoch)
        wanted = draw.choice(("", "amount < 20", "drug = 'morphine' or amount < 0"))
        subscriber = await reader.subscriber(kind.name, wanted)
        publisher = await nurse.publisher(kind.name)
        for number in (*range(40), LAST):
            drug, patient = draw.choice(DRUGS), f"p{draw.randrange(3)}"
            await publisher.publish(drug=drug, patient=patient, amount=number)
        await publisher.flush()
        live = []
        while not live or live[-1]["amount"] != LAST:
            live.append(await anext(subscriber))
        start = min(each.time for each in live)
        await subscriber.cancel()
        past = [each async for each in await reader.replay(kind.name, wanted, from_=start)]
        assert [dict(each.attributes) for each in past] == [dict(each.attributes) for each in live]
        compared += len(past)
    assert compared > 2 * ROUNDS
