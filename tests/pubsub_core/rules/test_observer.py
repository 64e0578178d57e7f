"""Fluents as events begin and end them."""

from __future__ import annotations

import pytest

from authz.rules import FluentRule, parse_rules
from pubsub_core.rules.context import Context, Unknowable
from pubsub_core.rules.fluents import Fluent
from pubsub_core.rules.observer import Mark, Observer
from tests.pubsub_core.rules.ward import CATALOGUE, NAMES, READING, reading

RACING = """
FLUENT racing(who) INITIATED BY ward.reading(patient) WHERE pulse > 120
    TERMINATED BY ward.reading(patient) WHERE pulse < 100 SHARED
FLUENT seen(who, by) INITIATED BY ward.reading(patient, nurse) TERMINATED BY ward.left(patient, nurse)
"""


class Log(list[Mark]):
    def marks(self) -> list[Mark]:
        return list(self)

    def since(self, now: float) -> float:
        return float("-inf")


def rules(text: str = RACING) -> list[FluentRule]:
    return [each.body for each in parse_rules(text) if isinstance(each.body, FluentRule)]


@pytest.fixture
def observer() -> Observer:
    found = Observer(CATALOGUE, Context())
    found.define(rules())
    return found


def holds(observer: Observer, name: str, *things: str, at: float) -> bool:
    return observer._context.holds(name, things, at)


def test_an_event_begins_a_fluent_and_another_ends_it(observer):
    observer.hear(reading(at=10.0, patient="p", pulse=130), 10.0, local=True)
    observer.hear(reading(at=20.0, patient="p", pulse=110), 20.0, local=True)
    observer.hear(reading(at=30.0, patient="p", pulse=90), 30.0, local=True)
    assert [holds(observer, "racing", "p", at=at) for at in (9.0, 10.0, 29.0, 30.0)] == [
        False,
        True,
        True,
        False,
    ]
    assert not holds(observer, "racing", "q", at=15.0)


def test_a_late_event_is_put_in_its_place(observer):
    observer.hear(reading(at=30.0, patient="p", pulse=90), 30.0, local=True)
    observer.hear(reading(at=10.0, patient="p", pulse=130), 31.0, local=True)
    assert [holds(observer, "racing", "p", at=at) for at in (15.0, 35.0)] == [True, False]


def test_an_event_from_the_future_counts_when_it_is_heard(observer):
    observer.hear(reading(at=99.0, patient="p", pulse=130), 10.0, local=True)
    assert holds(observer, "racing", "p", at=10.0)


def test_other_brokers_events_count_for_shared_fluents_only(observer):
    event = reading(at=10.0, patient="p", nurse="n", pulse=130)
    observer.hear(event, 10.0, local=False)
    assert holds(observer, "racing", "p", at=11.0)
    assert not holds(observer, "seen", "p", "n", at=11.0)
    observer.hear(event, 10.0, local=True)
    assert holds(observer, "seen", "p", "n", at=11.0)
    assert {key: len(parts) for key, parts in observer.shared().items()} == {READING.id: 2}


def test_an_event_that_does_not_say_of_what_does_nothing(observer):
    observer.hear(reading(at=10.0, pulse=130), 10.0, local=True)
    assert len(observer._context.fluents) == 0


def test_what_was_heard_is_known_again_after_a_restart(observer):
    log = Log()
    observer.keep_in(log)
    observer.hear(reading(at=10.0, patient="p", pulse=130), 10.0, local=True)
    assert log == [Mark("racing", ("p",), 10.0, True)]
    again = Observer(CATALOGUE, Context())
    again.keep_in(log)
    again.define(rules())
    assert holds(again, "racing", "p", at=11.0)
    assert len(log) == 1
    assert again._context.fluents.during(Fluent("racing", ("p",)))[0].start == 10.0


def test_what_nobody_defines_is_unknown_rather_than_false(observer):
    with pytest.raises(Unknowable):
        holds(observer, "resting", "p", at=1.0)
    with pytest.raises(Unknowable):
        holds(observer, "racing", "p", "q", at=1.0)
    observer.doubt()
    with pytest.raises(Unknowable):
        holds(observer, "racing", "p", at=1.0)
    observer.hear(reading(at=10.0, patient="p", pulse=130), 10.0, local=True)
    observer.define(rules())
    assert holds(observer, "racing", "p", at=11.0), "it went on listening"


def test_a_definition_that_does_not_fit_is_said(caplog):
    observer = Observer(CATALOGUE, Context())
    observer.define(
        rules("FLUENT f(x) INITIATED BY ward.reading(colour) TERMINATED BY ward.reading(patient)")
    )
    assert "`f` is not followed by `ward.reading`" in caplog.text
    assert NAMES["patient"].id in observer.causes[READING.id][0].arguments
