"""Subscribers are told of every event that they should have got and did not, before they get a later one."""

from __future__ import annotations

from time import time

import msgspec
import pytest

from authz import Identity
from bus.stores import Acknowledgement
from pubsub_core import EventsMissed, Gap, GapReason
from pubsub_core.carriage.parcel import Contents, Parcel, read_parcel
from pubsub_core.carriage.receiving import LATE, UNPROVED
from pubsub_core.delivery import send_window
from pubsub_core.events.batch_signature import WINDOW
from pubsub_core.events.gap import CLOCK_MARGIN
from pubsub_core.messages import Taken
from tests.pubsub_core.kinds import PITO
from tests.pubsub_core.net import Net, net
from tests.pubsub_core.pair import Pair
from tests.pubsub_core.streams import Stream, untold
from tests.pubsub_core.test_failures import metric
from tests.pubsub_core.town import NEWS
from tests.waiting import eventually


@pytest.fixture
async def kind(place):
    return await place.define("News", *NEWS)


async def publish(publisher, numbers) -> None:
    for number in numbers:
        await publisher.publish(score=number)
    await publisher.flush()


async def test_a_client_that_does_not_read_gets_a_gap_and_keeps_its_session(place, kind, monkeypatch):
    """It is told how many are missing, and of when; others miss nothing."""
    monkeypatch.setattr(send_window.SendWindow.__init__, "__defaults__", (64, 256))
    monkeypatch.setattr("pubsub_core.client.inbox.ACKNOWLEDGE", 16)
    service = await place.broker("north")
    writer, lazy, keen = [await place.client(name, "north") for name in ("ann", "bob", "cid")]
    unread, read = (
        Stream(await lazy.subscriber(kind.name), "score"),
        Stream(await keen.subscriber(kind.name), "score"),
    )
    publisher, start = await writer.publisher(kind.name), time()
    for number in range(1000):
        await publish(publisher, [number])
        await read.until(number)
    await publish(publisher, [1000])
    await unread.until(1000)
    (gap,) = unread.gaps
    assert (gap.type.name, gap.reason) == (kind.name, GapReason.SLOW_CONSUMER)
    assert gap.count == 1001 - len(unread.numbers) > 500
    assert start <= gap.from_ < gap.to <= time()
    assert unread.numbers[:64] == list(range(64)), "what was on its way comes before the gap"
    assert not untold(unread.read)
    assert read.numbers == list(range(1000))
    assert lazy.sessions_begun == 1
    assert "durable name" in gap.detail, "it says what to do"
    assert metric(service, "gaps_total", reason="slow-consumer") == 1


async def test_a_session_that_begins_anew_tells_its_readers_before_anything_later(place, kind, monkeypatch):
    monkeypatch.setattr("pubsub_core.client.keep_alive.KEEPALIVE_SECONDS", 0.05)
    service = await place.broker("north")
    writer, reader = await place.client("ann", "north"), await place.client("bob", "north")
    stream = Stream(await reader.subscriber(kind.name), "score")
    publisher = await writer.publisher(kind.name)
    await publish(publisher, range(10))
    await stream.until(4)
    (session,) = [each for each in service.broker.sessions.values() if each.subscriptions]
    service.broker.close(session)  # without a word
    await publish(publisher, range(10, 20))
    await eventually(lambda: reader.sessions_begun == 2)
    await publish(publisher, range(20, 30))
    await stream.until(29)
    assert [each for each in stream.numbers if each < 10] == list(range(10)), "what had come is read"
    (gap,) = stream.gaps
    assert gap.reason is GapReason.SESSION
    assert gap.count is None
    assert gap.from_ <= time() - CLOCK_MARGIN
    assert not untold(stream.read)


async def test_a_gap_cannot_be_taken_for_an_event(place, kind, caplog):
    service = await place.broker("north")
    reader = await place.client("bob", "north")
    subscriber = await reader.subscriber(kind.name)
    service.broker.close(next(iter(service.broker.sessions.values())))
    await reader.restrictions(kind.name)  # for which it needs another session
    gap = await anext(subscriber)
    assert isinstance(gap, Gap)
    with pytest.raises(EventsMissed, match=f"events of `{kind.name}` may be missing .session.: the session"):
        gap["score"]
    assert "may be missing" in caplog.text
    assert subscriber.gaps == 1


def subscribed() -> Net:
    """A subscriber at `b`, of what is published at `a`."""
    made = net("a", "b")
    made.subscribe("b")
    made.pass_()
    made.publish("a", 1.0)
    assert made.seen("b") == {(1, 1.0): 1}
    assert not made.missed("b")
    return made


def test_what_the_stream_discards_before_it_was_read_is_told_before_what_comes_later():
    made = subscribed()
    made.away = {"b"}
    for speed in (2.0, 3.0, 4.0):
        made.publish("a", speed)
    made.stream[1:3] = [("x.x.x.x.x.x.x.x", "", 0.0, b"")] * 2
    made.away = set()
    made.pass_()
    (missed,) = made.missed("b")
    assert "2 parcels" in missed
    assert set(made.seen("b")) == {(1, 1.0), (1, 4.0)}
    assert made.brokers["b"].counts.lost == 2


def test_who_was_out_of_reach_reads_everything_in_order_when_it_is_back():
    made = subscribed()
    made.away = {"b"}
    for speed in (2.0, 3.0):
        made.publish("a", speed)
        made.pass_(20.0, "a")
    made.away = set()
    made.pass_()
    assert list(made.seen("b")) == [(1, 1.0), (1, 2.0), (1, 3.0)]
    assert not made.missed("b")


def test_who_subscribes_again_is_told_of_no_gap():
    made = subscribed()
    made.unsubscribe("b")
    made.brokers["b"].receiving.forget(made.brokers["b"].subscriptions.wants())
    made.publish("a", 2.0)
    made.subscribe("b")
    made.publish("a", 3.0)
    assert not made.missed("b")
    assert set(made.seen("b")) == {(1, 1.0), (1, 3.0)}


def test_what_is_published_while_policies_change_stays_in_the_stream_until_it_can_be_delivered():
    pair = Pair()
    pair.subscribe()
    pair.away.hold()
    for speed in (1.0, 2.0, 3.0):
        pair.publish(pair.bundle({"speed": speed}))
    pair.carry()
    assert not pair.seen()
    pair.away.release()
    assert [values["speed"] for _, values in pair.seen()] == [1.0, 2.0, 3.0]
    assert not pair.missed()


def test_what_was_stored_too_late_to_be_believed_is_told():
    pair = Pair()
    pair.subscribe()
    pair.publish(pair.bundle({"speed": 0.0}))
    pair.carry()
    pair.publish(pair.bundle({"speed": 1.0}))
    pair.now += WINDOW + 1
    pair.carry()
    assert [values["speed"] for _, values in pair.seen()] == [0.0]
    assert [each.reason for each in pair.missed()] == [GapReason.CARRIAGE]


def test_what_is_kept_back_while_the_owner_is_out_of_reach_is_told():
    pair = Pair()
    pair.subscribe()
    pair.away.presence._web.expected = frozenset({str(PITO.public)})
    pair.publish(pair.bundle({"speed": 1.0}, {"speed": 2.0}))
    pair.carry()
    assert not pair.seen()
    assert [each.reason for each in pair.missed()] == [GapReason.OWNER]


def speeds(pair: Pair) -> list[object]:
    return [values["speed"] for _, values in pair.seen()]


def published(*speeds: float) -> tuple[Pair, list[Parcel]]:
    """Parcels that have been published one after the other, and not read by the subscriber's broker."""
    pair = Pair()
    pair.subscribe()
    for speed in speeds:
        pair.publish(pair.bundle({"speed": speed}))
        pair.now += 1.0
    return pair, pair.parcels()


def test_what_is_read_again_is_no_gap_whatever_came_between():
    pair, parcels = published(1.0, 2.0)
    later = [msgspec.structs.replace(each, boot=each.boot + 5, time=pair.now) for each in parcels]
    for each in (*parcels, *parcels, *later, *parcels, *later):
        pair.receive(each)
    assert speeds(pair) == [1.0, 2.0]
    assert not pair.missed()


def test_what_a_broker_publishes_that_restarted_with_its_clock_set_back_is_told_and_given_when_that_is_right():
    pair, parcels = published(1.0, 2.0, 3.0)
    pair.receive(parcels[0])
    early = msgspec.structs.replace(parcels[1], boot=parcels[0].boot - 5, number=1, time=parcels[0].time - 5)
    pair.receive(early)
    pair.receive(early)
    (missed,) = pair.missed()
    assert (missed.reason, missed.detail) == (GapReason.CARRIAGE, LATE)
    assert missed.start < early.time
    pair.receive(msgspec.structs.replace(parcels[2], boot=early.boot, number=2))
    assert speeds(pair) == [1.0, 3.0]
    assert len(pair.missed()) == 1


def doubtful(how: list[Acknowledgement]) -> tuple[Pair, list[Parcel]]:
    """A scene, and the parcels of events of the speeds 0, 1 ..., whose acknowledgements were these."""
    pair, waiting, parcels = Pair(), [], []
    pair.subscribe()
    pair.home.sending.publish = lambda *each: waiting.append(each)
    for speed, each in enumerate(how):
        pair.home.publish(pair.bundle({"speed": float(speed)}), lambda _: None)
        _, _, make, done = waiting.pop()
        parcels.append(read_parcel(make()).value)
        done(each)
        pair.now += 1.0
    return pair, parcels


STORED, KNOWN, DOUBTFUL = Acknowledgement.STORED, Acknowledgement.KNOWN, Acknowledgement.DOUBTFUL


@pytest.mark.parametrize(
    ("how", "came", "lost"),
    [
        ([STORED, DOUBTFUL, STORED, STORED], [0, 2, 3], 0),  # another broker's stands there
        ([STORED, DOUBTFUL, STORED, STORED], [0, 1, 2, 3], 0),  # its own does
        ([STORED, DOUBTFUL, STORED, STORED], [0, 3], 2),  # the third surely
        ([STORED, DOUBTFUL, STORED, STORED], [0, 1, 3], 1),
        ([STORED, STORED, DOUBTFUL, STORED], [0, 3], 1),  # the second, which was stored
        ([STORED, DOUBTFUL, DOUBTFUL, STORED], [0, 3], 0),
        ([STORED, DOUBTFUL, DOUBTFUL, STORED], [0, 1, 3], 0),
        ([STORED, DOUBTFUL, KNOWN, STORED], [0, 3], 0),
        ([DOUBTFUL, STORED, STORED], [1, 2], 0),
        ([STORED, KNOWN, STORED, STORED], [0, 3], 1),
    ],
)
def test_what_another_broker_may_have_published_is_no_gap_and_what_was_stored_and_does_not_come_is(
    how, came, lost
):
    pair, parcels = doubtful(how)
    for each in came:
        pair.receive(parcels[each])
    assert speeds(pair) == [float(each) for each in came]
    assert pair.away.counts.lost == lost
    assert len(pair.missed()) == (lost > 0)


def test_the_first_parcels_after_a_restart_are_missed_too():
    pair, parcels = published(1.0, 2.0)
    pair.receive(parcels[0])
    pair.receive(msgspec.structs.replace(parcels[1], boot=parcels[1].boot + 5, number=3))
    (missed,) = pair.missed()
    assert "2 parcels" in missed.detail
    assert speeds(pair) == [1.0, 2.0]


def test_what_waited_long_for_the_stream_is_believed_all_the_same(monkeypatch):
    pair, waiting = Pair(), []
    pair.subscribe()
    monkeypatch.setattr(pair.home.sending, "publish", lambda *each: waiting.append(each))
    taken: list[Taken] = []
    pair.home.publish(pair.bundle({"speed": 1.0}), taken.append)
    pair.now += WINDOW + 10
    ((subject, _, make, done),) = waiting
    pair.stream.append((subject, make()))
    done(Acknowledgement.STORED)
    pair.carry()
    assert taken
    assert speeds(pair) == [1.0]
    assert not pair.missed()


@pytest.mark.parametrize("forged", ["proof", "old", "event"])
def test_what_a_trusted_broker_signed_and_nobody_can_believe_is_told(forged):
    pair, (parcel,) = published(1.0)
    contents, home = parcel.contents, pair.home.setting
    assert contents is not None
    proof = contents.proof
    if forged == "proof":
        proof = proof.sign(Identity.generate(), contents.digests)
    elif forged == "old":
        proof = msgspec.structs.replace(proof, time=proof.time - WINDOW - 5)
        proof = proof.sign(pair.publisher, contents.digests)
    else:
        contents = Contents(proof, [msgspec.Raw(b"\x01")]).with_digests()
        proof = home.vouch(proof, contents.digests)
    pair.receive(msgspec.structs.replace(parcel, contents=msgspec.structs.replace(contents, proof=proof)))
    assert not pair.seen()
    (missed,) = pair.missed()
    assert (missed.reason, missed.detail) == (GapReason.CARRIAGE, UNPROVED)


def test_what_somebody_signed_who_is_not_trusted_is_no_gap():
    pair, (parcel,) = published(1.0)
    pair.receive(parcel, Identity.generate())
    assert not pair.seen()
    assert not pair.missed()
