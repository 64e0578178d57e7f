"""A schedule follows from its seed, and has every kind of fault."""

from __future__ import annotations

from itertools import islice

from authfabric.chaos.faults.plan import LANES, FaultKind, Lane, schedule


def test_the_same_seed_gives_the_same_faults_and_another_gives_others():
    def first(seed: int) -> list[object]:
        return list(islice(schedule(seed, Lane.MEMBERS, set(FaultKind)), 50))

    assert first(1) == first(1)
    assert first(1) != first(2)


def test_every_kind_comes_and_only_in_its_lane():
    for lane in Lane:
        kinds = {each.kind for each in islice(schedule(3, lane, set(FaultKind)), 100)}
        assert kinds == {kind for kind in FaultKind if LANES[kind] is lane}


def test_what_cannot_be_done_here_is_left_out():
    possible = {FaultKind.PDP_KILLED, FaultKind.PUSH}
    assert {each.kind for each in islice(schedule(3, Lane.MEMBERS, possible), 9)} == {FaultKind.PDP_KILLED}
    assert list(schedule(3, Lane.SERVERS, possible)) == []
