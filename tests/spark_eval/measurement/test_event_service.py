"""The content-based event service, without processes: whom a notification reaches."""

from __future__ import annotations

from spark_eval.measurement.event_service import (
    EventService,
    Publish,
    Subscribe,
    Unsubscribe,
    answered,
    encode,
)
from spark_eval.measurement.frames import FrameLink


class Client(FrameLink):
    """Keeps what it is sent."""

    def __init__(self):
        super().__init__(lambda link, message: None, lambda link: None)
        self.got = []

    def send(self, message):
        self.got.append(message)


def test_a_notification_reaches_everyone_whose_filter_lets_it_through_once():
    service, pdp, other = EventService(), Client(), Client()
    for number, name in enumerate(["/a", "/b", "/a"]):
        service.take(pdp, encode(Subscribe(number, {"object": name})))
    service.take(other, encode(Subscribe(0, {"object": "/c"})))
    service.take(other, encode(Publish({"object": "/a"}, b"question")))
    assert (pdp.got, other.got) == ([b"question"], [])


def test_all_values_of_a_filter_must_be_there():
    service, pep = EventService(), Client()
    names = {"subject": "ann", "object": "/a", "action": "read"}
    service.take(pep, encode(Subscribe(1, answered(names))))
    service.take(pep, encode(Publish(answered({**names, "subject": "bob"}), b"no")))
    service.take(pep, encode(Publish({"object": "/a"}, b"no")))
    service.take(pep, encode(Publish(answered(names), b"yes")))
    assert pep.got == [b"yes"]


def test_who_unsubscribes_or_goes_is_forgotten():
    service, one, two = EventService(), Client(), Client()
    for client in (one, two):
        service.take(client, encode(Subscribe(1, {"object": "/a"})))
    service.take(one, encode(Unsubscribe(1)))
    assert len(service) == 1
    service.forget(two)
    service.take(two, encode(Publish({"object": "/a"}, b"question")))
    assert (len(service), one.got, two.got) == (0, [], [])


def test_messages_arrive_whole_however_they_are_cut():
    got = []
    sender, receiver = (
        FrameLink(lambda *_: None, lambda _: None),
        FrameLink(lambda _, m: got.append(m), lambda _: None),
    )
    wire = bytearray()

    class Transport:
        def write(self, data):
            wire.extend(data)

    sender.connection_made(Transport())
    for message in (b"one", b"", b"three" * 100):
        sender.send(message)
    for start in range(0, len(wire), 7):
        receiver.data_received(bytes(wire[start : start + 7]))
    assert got == [b"one", b"", b"three" * 100]
