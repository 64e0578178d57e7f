"""What is known of the world: only what is watched, and only while its channel is heard."""

from __future__ import annotations

import pytest

from pdp.oasis import Atom, Instance, Variable
from pdp.oasis.errors import NotWatched
from pdp.sessions import Alive, Asserted, Changed, Retracted, Revoked
from pdp.sessions.environment import Environment

TREATS = Instance("treats", ("d1", "p1"))
OTHER = Instance("treats", ("d2", "p2"))
CHANNEL = "fact/treats"


def watching(channel: str = CHANNEL, patience: float | None = None) -> Environment:
    environment = Environment()
    environment.watch(channel, 0, patience)
    return environment


def known(environment: Environment) -> set[Instance]:
    return set(environment.facts(Atom("treats", (Variable("d"), Variable("p"))), {}))


def test_what_nobody_watches_is_not_known():
    environment = Environment()
    environment.hear(Asserted(TREATS), 0)
    environment.hear(Changed("hour", 9), 0)
    assert known(environment) == set()
    assert environment.context == {}
    with pytest.raises(NotWatched):
        environment.load(CHANNEL, [Asserted(TREATS)])


def test_facts_come_and_go_by_event():
    environment = watching()
    environment.hear(Asserted(TREATS), 0)
    environment.hear(Asserted(OTHER), 0)
    environment.hear(Retracted(TREATS), 0)
    assert known(environment) == {OTHER}


def test_a_retraction_between_watching_and_reading_is_not_undone_by_what_was_read():
    environment = watching()
    environment.hear(Retracted(TREATS), 0)
    environment.load(CHANNEL, [Asserted(TREATS), Asserted(OTHER)])
    assert known(environment) == {OTHER}


def test_an_assertion_between_watching_and_reading_is_kept():
    environment = watching()
    environment.hear(Asserted(TREATS), 0)
    environment.load(CHANNEL, [])
    assert known(environment) == {TREATS}


def test_a_snapshot_after_watching_anew_ends_what_it_does_not_mention():
    environment = watching()
    environment.load(CHANNEL, [Asserted(TREATS), Asserted(OTHER)])
    environment.watch(CHANNEL, 1)
    assert set(environment.load(CHANNEL, [Asserted(OTHER)])) == {Retracted(TREATS), Asserted(OTHER)}
    assert known(environment) == {OTHER}
    environment.watch("context/hour", 1)
    environment.hear(Changed("hour", 9), 1)
    environment.watch("context/hour", 2)
    environment.load("context/hour", [])
    assert environment.context == {}


def test_a_second_snapshot_needs_a_second_watch():
    environment = watching()
    environment.load(CHANNEL, [])
    with pytest.raises(NotWatched):
        environment.load(CHANNEL, [])


def test_a_snapshot_speaks_only_for_its_own_channel():
    environment = watching()
    environment.load(CHANNEL, [Changed("hour", 9), Asserted(Instance("other"))])
    assert environment.context == {}
    assert list(environment.facts(Atom("other"), {})) == []


def test_a_channel_silent_beyond_its_patience_is_forgotten_with_all_it_said():
    environment = watching(patience=5)
    environment.hear(Asserted(TREATS), 0)
    environment.hear(Alive(CHANNEL), 4)
    assert environment.forget_silent(9) == ()
    assert environment.forget_silent(9.1) == (CHANNEL,)
    assert known(environment) == set()
    environment.hear(Asserted(TREATS), 10)
    assert known(environment) == set()


def test_an_appointment_counts_as_revoked_while_its_issuer_cannot_be_heard():
    environment = Environment()
    assert environment.revoked("K", "1")
    environment.watch("issuer/K", 0, 5)
    assert not environment.revoked("K", "1")
    environment.forget_silent(6)
    assert environment.revoked("K", "1")


def test_a_revocation_is_never_forgotten():
    environment = Environment()
    environment.hear(Revoked("K", "1"), 0)
    environment.watch("issuer/K", 1)
    environment.load("issuer/K", [Revoked("K", "2")])
    assert environment.revoked("K", "1")
    assert environment.revoked("K", "2")
    assert not environment.revoked("K", "3")


def test_facts_are_found_by_any_parameter_that_is_known():
    environment = watching()
    for number in range(100):
        environment.hear(Asserted(Instance("treats", (f"d{number}", f"p{number % 10}"))), 0)
    d, p = Variable("d"), Variable("p")
    assert list(environment.facts(Atom("treats", (d, p)), {"d": "d7"})) == [Instance("treats", ("d7", "p7"))]
    assert len(list(environment.facts(Atom("treats", (d, "p3")), {}))) == 10
    assert list(environment.facts(Atom("treats", (d, "none")), {})) == []
