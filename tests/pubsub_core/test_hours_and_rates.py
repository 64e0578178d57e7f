"""Hours and rates of capabilities, at real brokers on a real server."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import pytest

from authz import Identity
from authz.spki import Capability, Right, parse_authority
from pubsub_core.access.rate_usage import FEW, Ledger
from pubsub_core.access.restriction import Metered
from pubsub_core.errors import InvalidEvent
from tests.pubsub_core.kinds import MET, PITO
from tests.pubsub_core.town import take

TOWNS = ("Soho", "Leeds", "Soho", "Leeds", "Soho", "Leeds")
YEAR = "31622400 seconds"
"""A period that does not end while a test runs."""


def hours(begin: int, end: int) -> str:
    """Those between so many hours from now and so many."""
    now = datetime.now(UTC)
    return "when: " + "-".join(f"{now + timedelta(hours=each):%H:%M}" for each in (begin, end))


OPEN, CLOSED = hours(-2, 2), hours(4, 6)


async def published(client, kind, towns=TOWNS) -> None:
    publisher = await client.publisher(kind.name)
    for number, town in enumerate(towns):
        await publisher.publish(place=town, score=number)
    await publisher.flush()


def grants(kind, *several: str, action: str = "subscribe") -> str:
    """The grants of one capability, after the line that names the type."""
    return f"\ntype: {kind.name}\n".join(f"action: {action}\n{each}" for each in several)


@pytest.mark.parametrize(
    ("when", "seen"), [(OPEN, ["Soho", "Leeds"] * 3), (CLOSED, ["Leeds"] * 3)], ids=["open", "closed"]
)
async def test_a_grant_with_hours_takes_nothing_from_the_others(owned, when, seen):
    kind, client = owned
    orders = [f'attributes: place = "Soho", score\n{when}', 'attributes: place = "Leeds", score']
    reader, _ = await client("bob", grants(kind, *orders))
    witness, _ = await client("eve", grants(kind, ""))
    theirs, every = await reader.subscriber(kind.name), await witness.subscriber(kind.name)
    writer, _ = await client("ann", grants(kind, "", action="publish"))
    await published(writer, kind, (*TOWNS, "Leeds"))
    assert len(await take(every, 7)) == 7
    assert [each["place"] for each in await take(theirs, len(seen) + 1)] == [*seen, "Leeds"]
    assert theirs.unread == 0


@pytest.mark.parametrize("bound", [CLOSED, OPEN, f"rate: 1 per {YEAR}"], ids=["closed", "open", "rate"])
async def test_a_bound_grant_that_comes_first_takes_nothing_from_one_that_shows_less_always(owned, bound):
    kind, client = owned
    orders = [f"attributes: place, score\n{bound}", "attributes: place"]
    reader, _ = await client("bob", grants(kind, *orders))
    theirs = await reader.subscriber(kind.name)
    writer, _ = await client("ann", grants(kind, "", action="publish"))
    await published(writer, kind)
    events = await take(theirs, 6)
    assert [each["place"] for each in events] == list(TOWNS)
    assert not any("score" in each for each in events), "by the other grant, which is bound"


async def test_outside_its_hours_a_grant_delivers_and_publishes_nothing(owned):
    kind, client = owned
    late, _ = await client("bob", grants(kind, CLOSED))
    witness, _ = await client("eve", grants(kind, ""))
    nothing, every = await late.subscriber(kind.name), await witness.subscriber(kind.name)
    silent, _ = await client("cid", grants(kind, CLOSED, action="publish"))
    with pytest.raises(InvalidEvent, match="a restriction excludes it"):
        await published(silent, kind)
    writer, _ = await client("ann", grants(kind, OPEN, action="publish"))
    await published(writer, kind, ["York"])
    assert [each["place"] for each in await take(every, 1)] == ["York"]
    assert every.unread == nothing.unread == 0


async def test_a_rate_is_counted_for_a_client_however_often_it_subscribes(owned):
    """Subscribing again, or connecting again, begins no period anew."""
    kind, client = owned
    key, rate = Identity.generate(), f"rate: 3 per {YEAR}"
    witness, _ = await client("eve", grants(kind, ""))
    every = await witness.subscriber(kind.name)
    writer, _ = await client("ann", grants(kind, "", action="publish"))
    reader, _ = await client("bob", grants(kind, rate), key)
    first = await reader.subscriber(kind.name)
    await published(writer, kind)
    assert len(await take(every, 6)) == 6
    assert [each["score"] for each in await take(first, 3)] == [0, 1, 2]
    await first.cancel()
    again = await reader.subscriber(kind.name)
    elsewhere, _ = await client("bob", grants(kind, rate), key)
    anew = await elsewhere.subscriber(kind.name)
    await published(writer, kind)
    assert len(await take(every, 6)) == 6
    assert first.unread == again.unread == anew.unread == 0


async def test_a_publishers_rate_is_kept_and_another_grant_goes_on(owned):
    kind, client = owned
    witness, _ = await client("eve", grants(kind, ""))
    every = await witness.subscriber(kind.name)
    few = f"attributes: place, score\nrate: 2 per {YEAR}"
    large = "attributes: place, score\nwhere: score >= 4"
    writer, _ = await client("ann", grants(kind, few, large, action="publish"))
    with pytest.raises(InvalidEvent, match="a restriction excludes it"):
        await published(writer, kind)
    assert [each["score"] for each in await take(every, 4)] == [0, 1, 4, 5]
    with pytest.raises(InvalidEvent, match="a restriction excludes it"):
        await published(writer, kind)
    assert [each["score"] for each in await take(every, 2)] == [4, 5]
    assert every.unread == 0


def metered(condition: str) -> Metered:
    authority = parse_authority(f"type: x\naction: subscribe\n{condition}")
    return Metered(Capability(PITO.public, MET.public, False, authority), Right.SUBSCRIBE, "x")


def test_counts_of_periods_that_are_over_are_forgotten_and_others_are_not():
    ledger, minute, year = Ledger(), metered("rate: 1 per minute"), metered(f"rate: 1 per {YEAR}")
    assert ledger.use("bob", year, 0.0)
    for number in range(2 * FEW):
        assert ledger.use(str(number), minute, 60.0 * number)
    assert len(ledger) <= FEW + 1
    assert not ledger.use("bob", year, 60.0 * 2 * FEW)
