"""Whoever is entitled has the key, whoever is not has not, and coming and going cost nothing meanwhile."""

import math

import msgspec
import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, rule

from pubsub_core.key_groups.group_keys import Membership
from pubsub_core.key_groups.key_group import GroupRecord, KeyGroup, MemberRecord, Rules
from pubsub_core.key_groups.rotation_schedule import Tenure
from pubsub_core.keys.errors import AdmissionRefused, OutOfStep
from pubsub_core.keys.ring import KeyRing

GROUP = "a" * 32
RULES = Rules(period=100.0, delay=20.0, lead=0.0)


class World:
    """A manager's group and brokers that follow it; some miss what is told."""

    def __init__(self) -> None:
        self.now = 1000.0
        self.group = KeyGroup(GroupRecord(GROUP), RULES)
        self.brokers: dict[str, Membership] = {}
        self.rings: dict[str, KeyRing] = {}
        self.tenures: dict[str, Tenure] = {}

    def join(self, name: str, tenure: Tenure) -> None:
        own_key = name.encode().ljust(32, b"k")
        self.group.admit(name, MemberRecord(own_key, tenure, 0, self.now), self.now)
        self.tenures[name] = tenure
        if name not in self.brokers:
            self.rings[name] = KeyRing()
            self.brokers[name] = Membership(GROUP, own_key, self.rings[name])
        self.brokers[name].take(self.group.welcome(name))

    def tell(self, *deaf: str) -> None:
        """Tell the last change to all, but for those who do not hear it."""
        for name, broker in self.brokers.items():
            if name in deaf or self.group.change is None:
                continue
            try:
                broker.follow(self.group.change)
            except OutOfStep:
                if name in self.group.members:
                    broker.take(self.group.welcome(name))

    def epochs(self, name: str) -> list[int]:
        return [key.epoch for key in self.rings[name].of(GROUP) or ()]

    def restart(self) -> None:
        data = msgspec.msgpack.encode(self.group.record())
        self.group = KeyGroup(msgspec.msgpack.decode(data, type=GroupRecord), RULES)


def test_the_first_member_is_given_a_key():
    world = World()
    world.join("a", Tenure(0.0))
    assert world.epochs("a") == [1]


def test_a_member_whose_capability_covers_the_key_joins_without_a_refresh():
    world = World()
    world.join("a", Tenure(0.0))
    world.join("b", Tenure(500.0))
    assert world.group.epoch == 1
    assert world.epochs("b") == [1]


def test_a_member_whose_capability_began_later_gets_no_earlier_key():
    world = World()
    world.join("a", Tenure(0.0))
    world.now = 1050.0
    world.join("b", Tenure(1040.0))
    world.tell()
    assert world.group.epoch == 2
    assert world.epochs("b") == [2]
    assert world.epochs("a") == [1, 2]


def test_a_refresh_is_held_off_until_the_capability_of_whoever_left_ends():
    world = World()
    for name, tenure in (("a", Tenure(0.0)), ("b", Tenure(0.0, 1030.0)), ("c", Tenure(0.0))):
        world.join(name, tenure)
    world.group.leave("b")
    assert not world.group.tick(1029.9)
    assert world.group.tick(1030.0)
    world.tell()
    assert world.epochs("a") == [1, 2]
    assert world.epochs("b") == [1]
    assert "b" not in world.group.members


def test_whoever_is_evicted_gets_no_key_from_then_on():
    world = World()
    for name in "abc":
        world.join(name, Tenure(0.0))
    world.group.evict("b", 1010.0)
    assert world.group.tick(1010.0)
    world.tell()
    assert world.group.keys[-1].start == 1010.0
    assert (world.epochs("a"), world.epochs("b"), world.epochs("c")) == ([1, 2], [1], [1, 2])


def test_a_planned_key_is_given_out_before_it_begins():
    group = KeyGroup(GroupRecord(GROUP), Rules(period=100.0, lead=2.0))
    group.admit("a", MemberRecord(b"k" * 32, Tenure(0.0), 0, 1000.0), 1000.0)
    assert not group.tick(1097.9)
    assert group.tick(1098.0)
    assert [key.start for key in group.keys] == [1000.0, 1100.0]


def test_a_key_that_a_joining_member_makes_necessary_begins_when_all_have_it():
    group = KeyGroup(GroupRecord(GROUP), Rules(lead=2.0))
    group.admit("a", MemberRecord(b"k" * 32, Tenure(0.0), 0, 1000.0), 1000.0)
    group.admit("b", MemberRecord(b"k" * 32, Tenure(1005.0), 0, 1010.0), 1010.0)
    assert [key.start for key in group.keys] == [1000.0, 1012.0]
    group.admit("c", MemberRecord(b"k" * 32, Tenure(1015.0, 1021.0), 0, 1020.0), 1020.0)
    with pytest.raises(AdmissionRefused):
        group.welcome("c")


def test_old_keys_are_forgotten_after_the_destruction_delay():
    world = World()
    world.join("a", Tenure(0.0))
    world.group.tick(1100.0)
    assert not world.group.tick(1119.9)
    assert world.group.tick(1120.0)
    assert [key.epoch for key in world.group.keys] == [2]


def test_a_member_that_was_away_catches_up_with_the_keys_it_missed():
    world = World()
    for name in "abc":
        world.join(name, Tenure(0.0))
    for time in (1100.0, 1115.0):
        world.group.evict("a" if time == 1100.0 else "x", time)
        world.group.tick(time)
        world.tell("b")
    world.join("b", Tenure(0.0))
    assert world.epochs("b") == world.epochs("c")


def test_when_the_last_has_left_nobody_who_was_there_knows_the_next_key():
    world = World()
    world.join("a", Tenure(0.0))
    world.group.evict("a", 1010.0)
    world.group.tick(1010.0)
    assert world.group.keys == ()
    world.now = 1020.0
    world.join("b", Tenure(0.0))
    assert world.group.keys[-1].secret not in [bytes(key._secret) for key in world.rings["a"].of(GROUP)]


def test_it_is_noted_from_when_to_when_brokers_could_have_keys():
    world = World()
    world.join("a", Tenure(0.0))
    world.now += 10
    world.join("b", Tenure(0.0))
    world.now += 10
    world.join("c", Tenure(1015.0))
    world.group.evict("b", world.now)
    world.now += 1
    world.group.tick(world.now)
    world.restart()
    began = {name: each.began for name, each in world.group.members.items()}
    assert began == {"a": 1000.0, "c": 1020.0}
    assert [(each.member, each.start) for each in world.group.held] == [("b", 1000.0)]
    assert 1021.0 <= world.group.held[0].end < 1022.0


class Coming(RuleBasedStateMachine):
    """Members come, go, are evicted, miss what is told, catch up; the manager restarts; time passes."""

    def __init__(self) -> None:
        super().__init__()
        self.world = World()
        self.entitled: dict[str, list[Tenure]] = {}

    @rule(name=st.sampled_from("abcdef"), ago=st.floats(0, 200), lasts=st.floats(1, 300) | st.just(math.inf))
    def join(self, name, ago, lasts):
        now = self.world.now
        tenure = Tenure(now - ago, now + lasts)
        self.world.join(name, tenure)
        self.entitled.setdefault(name, []).append(tenure)

    @rule(name=st.sampled_from("abcdef"))
    def leave(self, name):
        self.world.group.leave(name)

    @rule(name=st.sampled_from("abcdef"))
    def evict(self, name):
        now = self.world.now
        if name in self.world.group.members:
            self.world.group.evict(name, now)
            self.entitled[name] = [Tenure(each.start, min(each.end, now)) for each in self.entitled[name]]
            self.world.group.tick(now)

    @rule(seconds=st.floats(0, 150), deaf=st.sets(st.sampled_from("abcdef")))
    def pass_time(self, seconds, deaf):
        end = self.world.now + seconds
        while (due := self.world.group.next_refresh) is not None and due <= end:
            self.world.now = max(due, self.world.now)
            self.world.group.tick(self.world.now)
            self.world.tell(*deaf)
        self.world.now = end

    @rule()
    def restart(self):
        self.world.restart()

    @invariant()
    def all_who_are_entitled_have_the_key_once_they_have_asked(self):
        group = self.world.group
        for name, member in group.members.items():
            if member.tenure.stays(self.world.now):
                self.world.brokers[name].take(group.welcome(name))
                assert group.epoch in self.world.epochs(name)
                assert self.world.rings[name].sealing(GROUP, math.inf)._secret == group.keys[-1].secret

    @invariant()
    def no_one_has_a_key_that_was_in_use_only_outside_its_capabilities(self):
        keys = self.world.group.keys
        for name, ring in self.world.rings.items():
            for held in ring.of(GROUP) or ():
                if keys and held.epoch == keys[-1].epoch:
                    assert any(
                        each.start <= held.start and held.start < each.end for each in self.entitled[name]
                    )


TestComing = Coming.TestCase
TestComing.settings = settings(max_examples=25, stateful_step_count=25)


def test_what_is_told_again_changes_nothing():
    world = World()
    for name in "abc":
        world.join(name, Tenure(0.0))
    world.group.tick(1100.0)
    for _ in range(3):
        world.tell()
    assert world.epochs("a") == [1, 2]


def test_a_member_without_a_place_in_the_tree_asks_for_it():
    world = World()
    world.join("a", Tenure(0.0))
    world.join("b", Tenure(0.0))
    world.group.tick(1100.0)
    with pytest.raises(OutOfStep):
        world.brokers["b"].follow(world.group.change)
    world.brokers["b"].take(world.group.welcome("b"))
    world.group.tick(1200.0)
    world.brokers["b"].follow(world.group.change)
    assert world.epochs("b") == [1, 2, 3]
