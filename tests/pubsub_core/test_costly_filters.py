"""Filters that cost much: on a real broker they are refused before they do, and nobody else waits."""

from __future__ import annotations

import asyncio

import pytest

from authz.errors import InvalidSyntax
from pubsub_core.client.client import CallRefused
from pubsub_core.errors import Refused
from tests.pubsub_core.town import NEWS, rule, take

COSTLY = {
    r"headline MATCHES '" + r"\w" * 2000 + "'": "takes too much to search for",
    r"headline MATCHES '\w{500}'": "takes too much to search for",
    " OR ".join(rf"headline MATCHES '\w{{90}}{n}'" for n in range(250)): "takes too much to search for",
    " OR ".join(f"score = {n}" for n in range(300)): "at most 256 comparisons",
    f"headline LIKE '*{'a' * 500}b*'": "at most 256 characters",
    "score IN (" + ", ".join(map(str, range(5000))) + ")": "at most 8,192 characters",
    f"score = {'9' * 5000}": "cannot be read",
    "(" * 3000 + "score = 1" + ")" * 3000: "",
    "NOT " * 1500 + "score = 1": "nested too deeply",
}
"""Filters, with what a client is told of each."""


@pytest.mark.timeout(60)  # a broker that compiles them is busy for longer, and answers nobody
async def test_a_costly_filter_is_refused_and_others_are_served_meanwhile(place):
    kind = await place.define("News", *NEWS)
    await place.broker("north")
    mallory, ann = await place.client("mallory", "north"), await place.client("ann", "north")
    publisher, subscriber = await ann.publisher(kind.name), await ann.subscriber(kind.name)
    attacks = [asyncio.create_task(mallory.subscriber(kind.name, each)) for each in COSTLY]
    for score in range(20):
        await publisher.publish(score=score)
        await publisher.flush()
        assert await take(subscriber, 1) == [{"score": score}]
    outcomes = await asyncio.gather(*attacks, return_exceptions=True)
    for outcome, told in zip(outcomes, COSTLY.values(), strict=True):
        if told:
            assert isinstance(outcome, CallRefused | InvalidSyntax)
            assert told in str(outcome)
        else:
            assert not isinstance(outcome, BaseException), "parentheses alone cost nothing"


async def test_of_a_filter_nobody_is_told_more_than_that_it_is_not_permitted_to_subscribe(place):
    kind = await place.define("News", *NEWS)
    await place.release(rule("connect", action_id="connect"))
    await place.broker("north")
    mallory = await place.client("mallory", "north")
    for filter_ in (r"headline MATCHES '\w{500}'", "colour = 'red'"):
        with pytest.raises(Refused, match="is not permitted") as refused:
            await mallory.subscriber(kind.name, filter_)
        assert "headline" not in str(refused.value)
