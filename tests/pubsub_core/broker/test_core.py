"""What becomes of events between two brokers, without a network: proofs, replays, trust, and policies that change."""

from __future__ import annotations

from math import inf, nan

import msgspec
import pytest

from authz.predicate import Order, Path
from bus.errors import BadMessage
from bus.stores import Acknowledgement
from bus.wire import subjects
from pubsub_core.access.enforcement import Enforcement
from pubsub_core.access.restriction import Restriction
from pubsub_core.carriage.parcel import Parcel
from pubsub_core.delivery.dispatcher import Dispatcher
from pubsub_core.delivery.subscription_table import Subscription
from pubsub_core.events.batch_signature import WINDOW, all_digests
from pubsub_core.events.event import MAX_EVENT_BYTES, decode, encode
from pubsub_core.events.gap import GapReason
from pubsub_core.keys.sealing import Sealed
from pubsub_core.messages import Taken
from pubsub_core.trust.vouches import ALL, withdraw
from tests.pubsub_core.kinds import PITO, THIEF
from tests.pubsub_core.pair import KIND, NAMES, Pair

CAR = {"numberplate": "A1", "location": "Soho", "speed": 31.0}
FAST = {**CAR, "speed": 99.0}
ID = {name: each.id for name, each in NAMES.items()}


UNTIMELY = (inf, nan, -inf, -1.0, 1000.0 + 2 * WINDOW)
"""Times that no event has; whoever reads from the newest event on would miss everything after such a one."""


def attribute(name: str) -> Path:
    return Path("event", (ID[name],))


def test_events_reach_a_subscriber_at_another_broker_in_the_bytes_in_which_they_were_published(pair):
    pair.subscribe("speed > 50")
    bundle = pair.bundle(CAR, FAST)
    assert pair.publish(bundle) == Taken(1)
    (parcel,) = pair.parcels()
    assert list(map(bytes, parcel.contents.events)) == list(map(bytes, bundle.events))
    pair.receive(parcel)
    assert pair.seen() == [(1, FAST)]


def test_a_bundle_that_comes_again_is_taken_once_and_one_out_of_order_is_asked_for(pair):
    pair.subscribe()
    one, two = pair.bundle(CAR), pair.bundle(FAST)
    assert pair.publish(two).expected == 1
    assert pair.publish(one) == pair.publish(one) == Taken(1)
    assert pair.publish(two) == Taken(2)
    pair.carry()
    assert pair.seen() == [(1, CAR), (1, FAST)]


def test_a_bundle_that_somebody_else_signed_or_that_was_altered_is_refused(pair):
    pair.subscribe()
    assert "signature" in pair.publish(pair.bundle(CAR, signer=THIEF)).problem
    pair._number = 0
    bundle = pair.bundle(CAR, FAST)
    altered = msgspec.structs.replace(bundle, events=bundle.events[:1])
    assert "signature" in pair.publish(altered).problem
    stolen = msgspec.structs.replace(bundle, proof=msgspec.structs.replace(bundle.proof, by=b"b" * 32))
    assert "signature" in pair.publish(stolen).problem
    assert pair.publish(bundle) == Taken(1)
    assert pair.home.counts.forged == 3


def test_one_bad_event_is_refused_by_name_and_the_others_go_on(pair):
    pair.subscribe()
    taken = pair.publish(pair.bundle(CAR, {**CAR, "speed": "fast"}, FAST))
    assert [(place, name) for place, name, _ in taken.refused] == [(1, "speed")]
    pair.carry()
    assert pair.seen() == [(1, CAR), (1, FAST)]


def test_after_a_good_event_of_its_kind_a_bad_one_is_refused_for_the_same_reasons(pair):
    first = pair.bundle(CAR)
    assert not pair.publish(first).refused
    good = decode(first.events[0])
    bad = [
        msgspec.structs.replace(good, publisher=b"x" * 32),
        msgspec.structs.replace(good, type="0" * 32),
        msgspec.structs.replace(good, version="0" * 32),
        msgspec.structs.replace(good, attributes={"0" * 32: 1}),
        msgspec.structs.replace(good, attributes=dict.fromkeys(good.attributes, "x" * MAX_EVENT_BYTES)),
        msgspec.structs.replace(good, sealed=Sealed(b"", 0, b"", ())),
        *(msgspec.structs.replace(good, time=at) for at in UNTIMELY),
    ]
    alone = [pair.publish(pair.signed([msgspec.Raw(encode(each))])).refused for each in bad]
    together = pair.publish(pair.signed([msgspec.Raw(encode(each)) for each in (good, *bad, good)])).refused
    assert [place for place, _, _ in together] == list(range(1, len(bad) + 1))
    assert [each[1:] for each in together] == [refused[1:] for (refused,) in alone]


def following(parcel: Parcel, **contents) -> Parcel:
    """The next parcel of the same sender, with other contents, for which it signs."""
    changed = msgspec.structs.replace(parcel.contents, **{"digests": b"", **contents})
    return msgspec.structs.replace(parcel, number=parcel.number + 1, contents=changed)


def test_other_brokers_refuse_what_was_forged_and_then_look_at_everything_from_there():
    pair = Pair(share=0.0)
    pair.subscribe()
    pair.publish(pair.bundle(CAR))
    (good,) = pair.parcels()

    def forged(parcel: Parcel) -> Parcel:
        return following(parcel, proof=msgspec.structs.replace(good.contents.proof, nonce=pair.nonce()))

    one = forged(good)
    pair.receive(one)
    assert pair.away.counts.forged == 0, "with no share verified, nothing is looked at"
    assert len(pair.seen()) == 1
    pair.away.setting.scrutiny.share = 1.0
    two = forged(one)
    pair.receive(two)
    assert pair.away.counts.forged == 1
    pair.away.setting.scrutiny.share = 0.0
    three = forged(two)
    pair.receive(three)
    assert pair.away.counts.forged == 2, "whoever was caught is looked at without exception"
    pair.receive(following(three, proof=good.contents.proof))
    assert len(pair.seen()) == 2


def test_an_event_that_is_not_among_those_signed_is_refused(pair):
    pair.subscribe("speed > 50")
    pair.publish(pair.bundle(CAR, FAST))
    (parcel,) = pair.parcels()
    (other,) = pair.bundle({**FAST, "numberplate": "X"}).events
    pair.receive(following(parcel, events=[parcel.contents.events[0], other]))
    assert pair.away.counts.forged == 1
    assert pair.seen() == []


def test_a_parcel_that_was_altered_after_its_broker_signed_it_is_refused():
    pair = Pair(share=0.0)
    pair.subscribe()
    pair.publish(pair.bundle(CAR, FAST))
    ((subject, data),) = pair.stream
    (other,) = pair.bundle({**FAST, "numberplate": "X"}).events
    head, events, *rest = msgspec.msgpack.decode(data, type=tuple[bytes, list[msgspec.Raw], bytes])
    for altered in ([events[0], other], events[:1], [events[0], *events], events[::-1], []):
        pair.away.receive(1, subject, pair.now, encode((head, altered, *rest)))
    assert pair.away.counts.forged == 5
    assert pair.seen() == []
    pair.carry()
    assert pair.seen() == [(1, CAR), (1, FAST)]


@pytest.mark.parametrize("at", UNTIMELY)
def test_an_event_of_another_time_than_there_is_is_not_taken_from_other_brokers(at):
    pair = Pair(share=0.0)
    pair.subscribe()
    pair.publish(pair.bundle(CAR))
    (parcel,) = pair.parcels()
    late = msgspec.structs.replace(decode(parcel.contents.events[0]), time=at)
    pair.receive(following(parcel, events=[msgspec.Raw(encode(late))]))
    assert pair.away.counts.forged == 1
    assert pair.seen() == []


def test_a_replayed_parcel_and_one_that_was_stored_too_late_are_refused(pair):
    pair.subscribe()
    pair.publish(pair.bundle(CAR))
    (parcel,) = pair.parcels()
    pair.receive(parcel)
    pair.receive(parcel)
    assert pair.away.counts.replayed == 1
    pair.publish(pair.bundle(FAST))
    (late,) = pair.parcels()
    pair.now += WINDOW + 1
    pair.receive(late)
    assert pair.away.counts.replayed == 2
    assert pair.seen() == [(1, CAR)]
    assert [each.reason for each in pair.missed()] == [GapReason.CARRIAGE], (
        "it may have been a broker's delay"
    )


def test_a_replay_of_what_a_broker_published_before_it_restarted_is_refused(pair):
    pair.subscribe()
    pair.publish(pair.bundle(CAR))
    (before,) = pair.parcels()
    pair.receive(before)
    pair.now += 1
    pair.receive(
        msgspec.structs.replace(
            following(before, proof=pair.bundle(FAST).proof, events=[]),
            boot=before.boot + 1,
            number=1,
            time=pair.now,
        )
    )
    pair.receive(before)
    assert pair.away.counts.replayed == 1
    assert pair.seen() == [(1, CAR)]


def test_a_parcel_that_was_discarded_before_it_was_read_is_a_gap(pair):
    pair.subscribe()
    for each in (CAR, FAST, CAR):
        pair.publish(pair.bundle(each))
    first, _, last = pair.parcels()
    pair.receive(first)
    pair.receive(last)
    assert pair.seen() == [(1, CAR), (1, CAR)]
    assert [each.reason for each in pair.missed()] == [GapReason.CARRIAGE]
    assert pair.away.counts.lost == 1


def test_a_bundle_may_come_in_several_parcels(pair):
    pair.subscribe()
    pair.publish(pair.bundle(CAR, FAST, runs=[1, 1]))
    (parcel,) = pair.parcels()
    digests = all_digests(parcel.contents.events, [1, 1])
    part = parcel
    for place, raw in enumerate(parcel.contents.events):
        for _ in range(2):
            part = following(part, events=[raw], places=[place], runs=[1], digests=digests)
            pair.receive(part)
    assert pair.seen() == [(1, CAR), (1, FAST)]
    assert pair.away.counts.replayed == 2


def test_what_comes_from_a_stranger_or_a_broker_not_trusted_with_the_type_is_refused(pair):
    pair.subscribe()
    pair.publish(pair.bundle(CAR))
    (parcel,) = pair.parcels()
    pair.receive(parcel, signer=THIEF)
    pair.away.presence._web.learn(withdraw(pair.home.setting.identity.public, [ALL], pair.now, PITO))
    pair.receive(parcel)
    assert pair.away.counts.untrusted == 2
    assert pair.seen() == []


def test_a_parcel_counts_on_its_own_subject_only(pair):
    pair.subscribe()
    pair.publish(pair.bundle(CAR))
    (parcel,) = pair.parcels()
    pair.receive(parcel, subject=subjects.parcel("ccs", KIND.place))
    assert pair.away.counts.forged == 1
    assert pair.seen() == []


def test_a_bundle_is_taken_when_the_stream_has_it_and_not_before(pair):
    pending = []
    pair.home.sending.publish = lambda *about: pending.append(about)
    answers: list[Taken] = []
    pair.home.publish(pair.bundle(CAR), answers.append)
    pair.home.publish(pair.bundle(FAST), answers.append)
    assert len(pending) == 1, "one after the other, so that their order is kept"
    assert answers == []
    pending[0][-1](Acknowledgement.STORED)
    assert answers == [Taken(1)]
    pending[1][-1](Acknowledgement.STORED)
    assert answers == [Taken(1), Taken(2)]


def test_events_that_are_published_again_after_a_restart_have_the_same_id_and_no_other_has(pair):
    sent = []

    def publish(subject, id_, make, done) -> None:
        sent.append((id_, make()))
        done(Acknowledgement.STORED)

    pair.home.sending.publish = publish
    bundle = pair.bundle(CAR)
    pair.publish(bundle)
    again = Pair()
    again.home.setting.identity = pair.home.setting.identity
    restarted = type(pair.home.sending)(
        again.home.setting,
        again.home.counts,
        lambda type_: True,
        pair.home.sending.publish,
        again.home.routing,
    )
    again.home.sending = restarted
    again.publish(again.signed(bundle.events))
    pair.publish(pair.bundle(FAST))
    ids = [id_ for id_, _ in sent]
    assert ids[0] == ids[1] != ids[2]
    assert len(ids[0]) < 100


def test_nothing_of_an_owner_out_of_reach_is_delivered(pair):
    pair.subscribe()
    pair.away.presence._web.expected = frozenset({str(PITO.public)})
    pair.publish(pair.bundle(CAR))
    pair.carry()
    pair.away.presence._web.expected = frozenset()
    pair.publish(pair.bundle(FAST))
    pair.carry()
    assert pair.seen() == [(1, FAST)], "what came meanwhile is stale, and is not delivered later"


def test_a_broker_vouches_for_what_it_changed():
    pair = Pair(restriction=Restriction(forced={ID["location"]: "Victoria"}))
    pair.subscribe()
    pair.publish(pair.bundle(CAR))
    (parcel,) = pair.parcels()
    proof = parcel.contents.proof
    assert proof.by == pair.home.setting.identity.public.raw
    pretended = msgspec.structs.replace(proof, by=THIEF.public.raw, nonce=pair.nonce())
    forged = following(parcel, proof=pretended)
    pair.receive(forged)
    assert pair.away.counts.forged == 1
    pair.receive(following(forged, proof=proof))
    assert pair.seen() == [(1, {**CAR, "location": "Victoria"})]


def test_while_a_broker_is_held_nothing_is_delivered_and_nothing_is_lost(pair):
    subscription = pair.subscribe()
    pair.away.hold()
    pair.publish(pair.bundle(CAR, FAST))
    pair.carry()
    assert pair.seen() == []
    pair.grant(subscription, Restriction(filter=Order(attribute("speed"), ">", 50)))
    pair.away.release()
    assert pair.seen() == [(1, FAST)]


def test_however_large_events_are_all_that_was_not_received_is_sent_again(pair):
    pair.subscribe()
    large = [{**CAR, "numberplate": f"{number:050000}"} for number in range(20)]
    for each in large:
        pair.publish(pair.bundle(each))
    pair.carry()
    pair.sent.clear()
    pair.away.resend(pair.away.sessions["sub"], 2)
    assert pair.seen() == [(1, each) for each in large[2:]]


def test_an_event_that_cannot_be_looked_at_is_withheld_and_in_the_way_of_no_other(pair, monkeypatch):
    pair.subscribe(restriction=Restriction(visible=frozenset([ID["speed"]])))
    look, look_at_all = Enforcement.show, Enforcement.show_all

    def show(self, event, *about):
        if event.attributes[ID["speed"]] == CAR["speed"]:
            raise RecursionError
        return look(self, event, *about)

    def show_all(self, events):
        for each in events:
            show(self, each, 0, 0.0)
        return look_at_all(self, events)

    monkeypatch.setattr(Enforcement, "show", show)
    monkeypatch.setattr(Enforcement, "show_all", show_all)
    pair.publish(pair.bundle(CAR, FAST))
    pair.carry()
    assert pair.seen() == [(1, {"speed": FAST["speed"]})]
    assert pair.away.counts.withheld == 1
    assert not pair.missed(), "whether it could have been seen, nobody knows"


def test_a_type_that_is_held_is_not_sent_again_either_and_nothing_of_it_is_taken_from_publishers(pair):
    subscription = pair.subscribe()
    assert pair.publish(pair.bundle(CAR)) == Taken(1)
    pair.carry()
    assert pair.seen() == [(1, CAR)]
    pair.away.hold([KIND.id])
    pair.home.hold([KIND.id])
    session = pair.away.sessions["sub"]
    pair.away.resend(session, 0)
    answers: list[Taken] = []
    pair.home.publish(pair.bundle(CAR), answers.append)
    assert not answers
    assert pair.seen() == [(1, CAR)]
    pair.away.subscriptions.connect(subscription, {})
    pair.away.release([KIND.id])
    pair.home.release([KIND.id])
    pair.carry()
    assert answers == [Taken(2)]
    assert pair.seen() == [(1, CAR)], "it may no longer be seen"


def test_what_waits_for_a_client_is_not_sent_while_its_type_is_held(pair):
    subscription = pair.subscribe()
    session = pair.away.sessions["sub"]
    pair.away.hold()
    pair.publish(pair.bundle(CAR))
    pair.away.hold([KIND.id])
    pair.away.release()
    pair.carry()
    pair.away.flush(session)
    assert pair.seen() == []
    pair.grant(subscription, Restriction(visible=frozenset({NAMES["numberplate"].id})))
    pair.away.release([KIND.id])
    assert pair.seen() == [(1, {"numberplate": CAR["numberplate"]})]


def test_what_cannot_be_sent_to_one_client_is_in_the_way_of_no_other_and_of_no_publisher(pair, monkeypatch):
    pair.subscribe()
    flush = Dispatcher.flush

    def fail(self, session, held=()):
        if session.token == "broken":
            raise BadMessage("", "the message is too large")
        flush(self, session, held)

    broken = pair._session(pair.away, "broken")
    broken.subscriptions[1] = Subscription("broken", 1, KIND.id, "")
    pair.grant(broken.subscriptions[1], Restriction())
    monkeypatch.setattr(Dispatcher, "flush", fail)
    assert pair.publish(pair.bundle(CAR)) == Taken(1)
    pair.carry()
    assert pair.seen() == [(1, CAR)]
    assert list(pair.away.sessions) == ["sub"]
