"""Whoever is no member in an epoch cannot compute its secret, alone or with others; whoever is, can, in O(log n)."""

import math
import random

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pubsub_core.key_groups import oft_member as member_module
from pubsub_core.key_groups import oft_tree as tree_module
from pubsub_core.key_groups.oft import Rekey, Seat, mix, secret_of
from pubsub_core.key_groups.oft_member import Member
from pubsub_core.key_groups.oft_tree import Tree, TreeRecord
from pubsub_core.keys.errors import OutOfStep
from tests.pubsub_core.keys.groups import Derivations, Group

SEQUENCES = st.tuples(
    st.integers(0, 2**32), st.lists(st.tuples(st.integers(0, 3), st.integers(0, 3)), max_size=12)
)


def run(group: Group, sequence) -> None:
    """So many leave and so many join, at random, former members among them."""
    seed, steps = sequence
    names, chance = [f"m{n}" for n in range(9)], random.Random(seed)
    for leaving, joining in steps:
        present, absent = sorted(group.members), sorted(set(names) - set(group.members))
        leave = chance.sample(present, min(leaving, len(present)))
        join = chance.sample(absent, min(joining, len(absent)))
        group.rekey(leave, join)


@given(SEQUENCES)
def test_all_members_come_to_the_same_secret(sequence):
    group = Group()
    run(group, sequence)
    assert {each.secret for each in group.members.values()} <= {group.tree.secret}
    assert group.tree.members == set(group.members)


@settings(max_examples=25)
@given(SEQUENCES)
def test_all_who_are_not_members_in_an_epoch_together_cannot_compute_its_secret(sequence):
    with pytest.MonkeyPatch.context() as monkeypatch:
        derivations = Derivations(monkeypatch)
        group = Group()
        run(group, sequence)
        for members, secret in group.history:
            coalition = set(group.told) - members
            known = set.union(group.public, *(group.told[each] for each in coalition))
            assert not members or secret not in derivations.closure(known)


@given(SEQUENCES)
def test_each_member_alone_can_compute_the_secrets_since_it_joined(sequence):
    """Else the property above would hold of a closure that derives nothing."""
    with pytest.MonkeyPatch.context() as monkeypatch:
        derivations = Derivations(monkeypatch)
        group = Group()
        run(group, sequence)
        for members, secret in group.history:
            for each in members:
                assert secret in derivations.closure(group.public | group.told[each])


def collude(group: Group) -> bool:
    """The published attack: one is evicted, another joins in the other half of the tree, and they meet.

    The evicted one knows the blind of the other half, the joining one that of the half that has changed since: do
    these two give the secret of a time when neither was a member?
    """
    for name in "abcde":
        group.rekey(join=[name])
    evicted = group.members["a"]._way[-2]
    group.rekey(leave=["a"])
    for name in "fghi":
        group.rekey(join=[name])
        joined = group.tree.seat(name).way[-2]
        left, right = (evicted, joined) if joined.left else (joined, evicted)
        root = mix(left.sibling, right.sibling)
        for version, (members, secret) in enumerate(group.history, start=1):
            if not members & {"a", name} and secret_of(root, version) == secret:
                return True
    return False


def test_the_collusion_of_an_evicted_and_a_joining_member_gives_nothing():
    assert not collude(Group())


def test_the_collusion_succeeds_on_the_tree_as_published(monkeypatch):
    """Without the turning of blinds the same attack works: the test above would notice."""
    for module in (tree_module, member_module):
        monkeypatch.setattr(module, "turn", lambda blinded: blinded)
    assert collude(Group())


@pytest.mark.parametrize("size", [1, 2, 16, 256])
def test_the_cost_of_a_change_is_logarithmic(size):
    group = Tree()
    keys = {f"m{n}": bytes([n % 256]) * 32 for n in range(size + 1)}
    group.rekey(keys, join=[f"m{n}" for n in range(size)])
    levels = math.ceil(math.log2(size)) if size > 1 else 0
    assert group.rekey(keys).cost <= levels + 1
    assert group.rekey(keys, join=[f"m{size}"]).cost <= levels + 1
    assert group.rekey(keys, leave=["m0"]).cost <= levels + 1


def test_a_tree_is_kept_shallow_through_many_changes():
    group = Group()
    group.rekey(join=[f"m{n}" for n in range(64)])
    for n in range(64, 192):
        group.rekey(leave=[group.random.choice(sorted(group.members))])
        group.rekey(join=[f"m{n}"])
    assert max(len(group.tree.seat(name).way) for name in group.members) <= 2 * math.log2(64)


@given(SEQUENCES)
def test_a_stored_tree_goes_on_as_the_one_it_was(sequence):
    group = Group()
    run(group, sequence)
    record = msgspec.msgpack.decode(msgspec.msgpack.encode(group.tree.record()), type=TreeRecord)
    restored = Tree.restore(record, group.random.randbytes)
    assert (restored.version, restored.secret, restored.members) == (
        group.tree.version,
        group.tree.secret,
        group.tree.members,
    )
    for name in group.members:
        assert restored.seat(name) == group.tree.seat(name)
    group.tree = restored
    run(group, sequence)
    assert {each.secret for each in group.members.values()} <= {restored.secret}


def test_a_member_that_missed_a_change_says_so_and_goes_on_from_its_seat():
    group = Group()
    group.rekey(join=["a", "b", "c"])
    behind = Member(group.keys["a"], group.tree.seat("a"))
    group.rekey(leave=["b"])
    missed = group.rekey(join=["d"])
    before = behind.secret
    with pytest.raises(OutOfStep) as error:
        behind.apply(missed)
    assert (error.value.version, error.value.offered) == (1, 3)
    assert behind.secret == before
    travelled = msgspec.msgpack.decode(msgspec.msgpack.encode(group.tree.seat("a")), type=Seat)
    caught_up = Member(group.keys["a"], travelled)
    caught_up.apply(group.rekey())
    assert caught_up.secret == group.tree.secret


@given(st.data())
def test_a_damaged_change_leaves_a_member_as_it_was(data):
    group = Group()
    group.rekey(join=list("abcde"))
    member = Member(group.keys["a"], group.tree.seat("a"))
    before = member.secret
    rekey = group.rekey(leave=["b"])
    encoded = bytearray(msgspec.msgpack.encode(rekey))
    encoded[data.draw(st.integers(0, len(encoded) - 1))] ^= data.draw(st.integers(1, 255))
    try:
        damaged = msgspec.msgpack.decode(encoded, type=Rekey)
    except (msgspec.DecodeError, UnicodeDecodeError):
        return
    try:
        member.apply(damaged)
        assert member.secret == group.tree.secret  # the damage was in what is for others
    except OutOfStep:
        assert member.secret == before


def test_a_refresh_renews_each_leaf_in_its_turn():
    group = Group()
    group.rekey(join=list("abcd"))
    renewed = [group.rekey().leaves[0].node for _ in range(4)]
    assert len(set(renewed)) == 4


def test_the_last_to_leave_leaves_an_empty_group_that_others_can_join():
    group = Group()
    group.rekey(join=["a", "b"])
    group.rekey(leave=["a", "b"])
    assert len(group.tree) == 0
    group.rekey(join=["c"])
    assert group.members["c"].secret == group.tree.secret
