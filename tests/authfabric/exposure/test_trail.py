"""What the audit trail tells of who asked, with which credential, and who was shown what."""

from __future__ import annotations

import pytest

from authfabric.exposure import Client, Trail
from authz import Decision, Entity, Request
from bus.audit import AuditRecord, Disclosure
from pubsub_core.events import Event
from pubsub_core.history import Span
from pubsub_core.trust import Credential

ALLOW, DENY = Decision(True), Decision(False)


@pytest.fixture
def trail():
    with Trail(["/types/Seen"], ["Seen"], "patient", Span(10, 20)) as trail:
        yield trail


def decided(at, name, thing, action, decision=ALLOW, **attributes):
    subject = Entity(name, {"key": "k", "domain": "d", **attributes})
    return AuditRecord("w", 1, b"", at, Request.of(subject, thing, action), decision)


def shown(at, name, *events, attributes=("patient",), kind="Seen"):
    told = Disclosure(
        name, kind, kind, attributes, ("rule",), tuple((b"p", number, time) for number, time in events)
    )
    return AuditRecord("w", 1, b"", at, disclosed=told)


def test_who_was_shown_the_attribute_is_counted_once_for_each_event(trail):
    trail.take(
        [
            shown(30.0, "ann", (1, 11.0), (2, 12.0)),
            shown(40.0, "ann", (2, 12.0), (3, 25.0)),  # one again, and one that was published later
            shown(50.0, "ann", (4, 14.0), attributes=("ward",)),
            shown(60.0, "bob", (1, 11.0), kind="Other"),
        ]
    )
    assert trail.shown() == {"ann": (2, 30.0, 30.0)}
    assert trail.was_shown("ann", Event("t", "v", b"p", 12.0, 2, {}))
    assert not trail.was_shown("ann", Event("t", "v", b"q", 12.0, 2, {}))
    assert not trail.was_shown("bob", Event("t", "v", b"p", 11.0, 1, {}))


def test_only_what_was_allowed_counts_as_asked(trail):
    trail.take(
        [
            decided(1.0, "ann", "/types/Seen", "subscribe"),
            decided(2.0, "ann", "/types/Seen", "replay"),
            decided(3.0, "ann", "/types/Seen", "replay", DENY),
            decided(4.0, "ann", "/types/Other", "replay"),
            decided(5.0, "ann", "/types/Seen", "publish"),
        ]
    )
    assert (trail.asked["ann"].count, trail.asked["ann"].first, trail.asked["ann"].last) == (2, 1.0, 2.0)


def test_a_credential_counts_until_its_holder_is_seen_with_another(trail):
    trail.take(
        [
            decided(1.0, "ann", "/brokers/east", "connect", ward="1"),
            decided(2.0, "ann", "/types/Seen", "subscribe", ward="1"),
            decided(9.0, "ann", "/brokers/west", "connect", DENY, ward="2"),
            decided(9.0, "bob", "/brokers/east", "connect"),
        ]
    )
    known = [Client(Credential("k", "bob", "d", 99.0), Span(end=99.0), ("east",))]
    found = [(each.credential.attributes, each.span, each.brokers) for each in trail.clients(known)]
    assert found == [
        ({"ward": "1"}, Span(end=9.0), ("east", "west")),
        ({"ward": "2"}, Span(9.0), ("east", "west")),
    ]
