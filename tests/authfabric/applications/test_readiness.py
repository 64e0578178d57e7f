"""How long the brokers of an application are waited for."""

from __future__ import annotations

from authfabric.applications.readiness import Patience


def test_each_process_that_is_started_anew_is_waited_for_as_long_as_the_first():
    patience = Patience(60.0)
    assert not patience.is_over("east does not run", 1_000.0)
    assert not patience.is_over("east does not run", 1_060.0)
    assert not patience.is_over("west does not run", 1_061.0)
    assert not patience.is_over("west does not run", 1_121.0)
    assert patience.is_over("west does not run", 1_122.0)


def test_a_broker_that_ends_again_and_again_is_not_waited_for_without_end():
    patience = Patience(60.0)
    for now in range(0, 60, 2):
        assert not patience.is_over("east does not answer", float(now))
        assert not patience.is_over("east has ended by SIGKILL", now + 1.0)
    assert patience.is_over("east does not answer", 62.0)
