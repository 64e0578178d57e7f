import enum

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from authz import Basis, Decision, Entity, Identity, Inference, InvalidRequest, Reason, Request
from authz.change import PolicyChange, Relabelled, Touched
from authz.predicate import Equal, Literal, Path, Prefix, compile_predicate
from sdp_cache.point.cache_sizes import Recycling
from sdp_cache.point.recycler import Recycler
from sdp_cache.snapshots.snapshot import Origin, Ruling, Snapshot, SnapshotRefused, Tier
from sdp_cache.snapshots.writer import Precomputation, write_snapshot
from tests.authz.predicates import predicates
from tests.authz.predicates import requests as any_requests
from tests.sdp_cache.models import Policy, PolicyWorld, asking

ASKED = Request.of("s", "/o", "read")

requests = any_requests.filter(lambda each: each.subject.id and each.object.id)
policies = st.builds(Policy, st.sampled_from(["p", "q", "r"]), st.booleans(), predicates)
events = st.one_of(
    st.tuples(st.just("ask"), requests),
    st.tuples(st.just("put"), policies),
    st.tuples(st.just("remove"), st.sampled_from(["p", "q", "r"])),
    st.tuples(st.just("replace all"), st.lists(policies, max_size=3)),
)


def take(world, kind, what):
    """Change the policies, and say what that touches."""
    world.epoch += 1
    step = PolicyChange(world.epoch, world.epoch - 1)
    if kind == "replace all":
        world.policies = {policy.id: policy for policy in what}
        return msgspec.structs.replace(step, whole=True)
    old = world.policies.pop(what.id if kind == "put" else what, None)
    forms = [old] if old else []
    if kind == "put":
        world.policies[what.id] = what
        forms.append(what)
    return msgspec.structs.replace(step, effects=tuple(Touched(policy.applies) for policy in forms))


@settings(max_examples=40)
@given(
    st.lists(policies, max_size=3), st.lists(events, max_size=20), st.lists(requests, min_size=1, max_size=8)
)
def test_no_answer_differs_from_the_policies_of_the_epoch_it_names(first, trace, asked):
    world = PolicyWorld({policy.id: policy for policy in first})
    recycler = Recycler()
    for kind, what in trace:
        if kind == "ask":
            recycler.learn(what, world.decide(what), recycler.epoch, "x")
            asked = [*asked, what]
        else:
            recycler.apply(take(world, kind, what))
        for request in asked:
            inferred = recycler.infer(request, 0.0)
            if inferred is not None:
                truth = world.decide(request)
                assert (inferred.allowed, inferred.epoch) == (truth.allowed, truth.epoch)
                assert inferred.inferred is not None


@given(st.lists(policies, max_size=3), st.lists(events, max_size=12), requests)
def test_what_no_change_touches_is_still_answered_and_what_one_touches_is_not(first, trace, request):
    world = PolicyWorld({policy.id: policy for policy in first})
    recycler = Recycler(Recycling(saam_rbac=0, saam_blp=0, certificates=0))
    recycler.learn(request, world.decide(request), 0)
    touched = False
    for kind, what in trace:
        if kind != "ask":
            change = take(world, kind, what)
            recycler.apply(change)
            touched |= change.whole or any(compile_predicate(each.where)(request) for each in change.effects)
        assert (recycler.infer(request, 0.0) is None) is touched


@pytest.mark.parametrize(("asked_at", "decided_at"), [(4, 4), (4, 5), (5, 4), (6, 6), (5, 6)])
def test_an_answer_from_another_epoch_than_the_current_is_not_cached(asked_at, decided_at):
    recycler = Recycler(epoch=5)
    recycler.learn(ASKED, Decision(True, epoch=decided_at), asked_at)
    assert recycler.infer(ASKED, 0.0) is None


def test_an_answer_that_was_under_way_during_a_change_is_not_cached():
    recycler = Recycler(epoch=5)
    asked_at = recycler.epoch
    recycler.apply(PolicyChange(6, 5))
    recycler.learn(ASKED, Decision(True, epoch=6), asked_at)
    assert recycler.infer(ASKED, 0.0) is None
    recycler.learn(ASKED, Decision(True, epoch=6), recycler.epoch)
    assert recycler.infer(ASKED, 0.0).allowed


@pytest.mark.parametrize("reason", sorted(set(Reason) - {Reason.POLICY, Reason.NO_POLICY}))
def test_a_failure_is_not_cached(reason):
    recycler = Recycler()
    recycler.learn(ASKED, Decision(False, reason), 0)
    assert recycler.infer(ASKED, 0.0) is None


@pytest.mark.parametrize("reason", [Reason.ATTRIBUTE_UNAVAILABLE, Reason.POLICY_ERROR])
def test_a_failure_inside_a_pdp_is_cached_for_as_long_as_the_pdp_says(reason):
    recycler = Recycler()
    recycler.learn(ASKED, Decision(False, reason, expires=10.0), 0)
    assert recycler.infer(ASKED, 9.0).reason is reason
    assert recycler.infer(ASKED, 10.0) is None


@pytest.mark.parametrize(
    "fields",
    [{"obligations": ({"log": True},)}, {"reason": Reason.POLICY_ERROR, "expires": 10.0}],
    ids=["obligations", "a failure"],
)
def test_what_other_requests_might_not_share_is_recycled_for_the_same_request_only(fields):
    recycler = Recycler()
    decision = Decision(False, basis=Basis.ROLES, certificate=(), **fields)
    recycler.learn(asking(["a", "b"]), decision, 0)
    assert recycler.infer(asking(["a", "b"]), 0.0).inferred.method == "precise"
    assert recycler.infer(asking(["a"]), 0.0) is None


def test_what_was_inferred_is_never_learned_from():
    recycler = Recycler()
    recycler.learn(ASKED, Decision(True, inferred=Inference("precise")), 0)
    assert recycler.infer(ASKED, 0.0) is None


ROLES = (asking(["a"]), Decision(True, basis=Basis.ROLES), asking(["a", "b"]))
LABELS = (ASKED, Decision(True, basis=Basis.LABELS), Request.of("s", "/o", "read", {"x": 1}))
FACTS = (ASKED, Decision(True, certificate=()), Request.of("t", "/o", "read"))
SAME = (ASKED, Decision(True), ASKED)
OFF = {"precise": 0, "saam_rbac": 0, "saam_blp": 0, "certificates": 0}


@pytest.mark.parametrize(
    ("way", "method", "case"),
    [
        ("precise", "precise", SAME),
        ("saam_rbac", "saam-rbac", ROLES),
        ("saam_blp", "saam-blp", LABELS),
        ("certificates", "certificate", FACTS),
    ],
)
def test_each_way_can_be_switched_on_its_own(way, method, case):
    learned, decision, asked = case
    alone, without = Recycler(Recycling(**{**OFF, way: 10})), Recycler(Recycling(**{way: 0}))
    for recycler in (alone, without):
        recycler.learn(learned, decision, 0)
    assert alone.infer(asked, 0.0).inferred.method == method
    assert without.infer(asked, 0.0) is None


def test_a_new_hierarchy_makes_what_was_known_of_roles_worthless():
    recycler = Recycler(Recycling(precise=0))
    recycler.restart(0, {"senior": ("junior",)})
    recycler.learn(asking(["junior"]), Decision(True, basis=Basis.ROLES), 0)
    assert recycler.infer(asking(["senior"]), 0.0).allowed
    recycler.apply(PolicyChange(1, 0, juniors={}))
    assert recycler.infer(asking(["senior"]), 0.0) is None
    assert recycler.infer(asking(["junior"]), 0.0) is None


def test_after_a_step_over_something_unknown_no_hierarchy_is_assumed():
    recycler = Recycler(Recycling(precise=0))
    recycler.restart(0, {"senior": ("junior",)})
    recycler.apply(PolicyChange(1, 0, whole=True))
    recycler.learn(asking(["junior"]), Decision(True, epoch=1, basis=Basis.ROLES), 1)
    assert recycler.infer(asking(["senior"]), 0.0) is None
    recycler.apply(PolicyChange(2, 1, whole=True, juniors={"senior": ("junior",)}))
    recycler.learn(asking(["junior"]), Decision(True, epoch=2, basis=Basis.ROLES), 2)
    assert recycler.infer(asking(["senior"]), 0.0).allowed


def test_new_labels_make_what_was_known_of_the_old_ones_worthless():
    recycler = Recycler(Recycling(precise=0))
    recycler.learn(ASKED, Decision(True, basis=Basis.LABELS), 0)
    assert recycler.infer(ASKED, 0.0).allowed
    recycler.apply(PolicyChange(1, 0, (Relabelled("object", "/o"),)))
    assert recycler.infer(ASKED, 0.0) is None


class Status(enum.Enum):
    SUSPENDED = "suspended"


def test_nothing_is_inferred_for_values_that_become_others_on_their_way_to_a_pdp():
    not_suspended = (Literal(Equal(Path("subject", ("status",)), "suspended"), holds=False),)
    recycler = Recycler()
    recycler.learn(
        Request.of(Entity("s", {"status": "ok"}), "/o", "read"), Decision(True, certificate=not_suspended), 0
    )
    assert recycler.infer(Request.of(Entity("t", {"status": "fine"}), "/o", "read"), 0.0).allowed
    for status in (Status.SUSPENDED, [Status.SUSPENDED], {"is": {"suspended"}}):
        assert recycler.infer(Request.of(Entity("t", {"status": status}), "/o", "read"), 0.0) is None


def test_a_step_that_leads_on_from_elsewhere_empties_every_cache():
    recycler = Recycler()
    for learned, decision, _ in (ROLES, LABELS, FACTS, SAME):
        recycler.learn(learned, decision, 0)
    recycler.apply(PolicyChange(3, 2))
    for learned, _, asked in (ROLES, LABELS, FACTS, SAME):
        assert recycler.infer(learned, 0.0) is None
        assert recycler.infer(asked, 0.0) is None


SPARK = Identity.from_seed(bytes(32))


def snapshot(epoch=0, expires=None):
    """A snapshot in which `s` may read `/o`, may not write it, and `ask`ing depends."""
    computed = Precomputation(
        origin=Origin("shop", epoch, ""),
        width=1,
        subjects=["s"],
        subject_masks=b"\x03",
        objects=["/o"],
        actions=["read", "write", "ask"],
        permission_masks=b"\x01\x00\x02",
        tiers=[Tier(Ruling.ASK, b"\x02"), Tier(Ruling.ALLOW, b"\x01")],
        policies=["readers", "depends"],
        expires=expires,
    )
    return Snapshot.open(write_snapshot(computed, SPARK), [SPARK.public], computed.origin)


def test_a_snapshot_answers_what_was_precomputed_and_says_so():
    recycler = Recycler()
    recycler.load(snapshot())
    found = recycler.infer(ASKED, 0.0)
    assert (found.allowed, found.policies) == (True, ("readers",))
    assert found.inferred == Inference("snapshot", (str(SPARK.public),))
    denied = recycler.infer(Request.of("s", "/o", "write"), 0.0)
    assert (denied.allowed, denied.reason) == (False, Reason.NO_POLICY)


@pytest.mark.parametrize(
    "request_",
    [
        Request.of("s", "/o", "ask"),
        Request.of("stranger", "/o", "read"),
        Request.of("s", "/unknown", "read"),
        Request.of("s", "/o", "unknown"),
        Request.of(Entity("s", {"age": 1}), "/o", "read"),
        Request.of("s", Entity("/o", {"age": 1}), "read"),
        Request.of("s", "/o", Entity("read", {"age": 1})),
    ],
    ids=str,
)
def test_a_snapshot_leaves_to_the_pdp_what_it_cannot_know(request_):
    recycler = Recycler()
    recycler.load(snapshot())
    assert recycler.infer(request_, 0.0) is None


def test_a_snapshot_outlives_the_changes_that_do_not_touch_the_request():
    recycler = Recycler()
    recycler.load(snapshot())
    recycler.apply(PolicyChange(1, 0, (Touched(Equal(Path("action"), "write")),)))
    assert recycler.infer(ASKED, 0.0).epoch == 1
    assert recycler.infer(Request.of("s", "/o", "write"), 0.0) is None
    recycler.apply(PolicyChange(2, 1, whole=True))
    assert recycler.infer(ASKED, 0.0) is None


def test_a_snapshot_is_not_used_from_the_instant_it_expires():
    recycler = Recycler()
    recycler.load(snapshot(expires=10.0))
    assert recycler.infer(ASKED, 9.9).expires == 10.0
    assert recycler.infer(ASKED, 10.0) is None


def test_a_snapshot_opened_before_a_change_is_refused_after_it():
    recycler, opened = Recycler(), snapshot()
    recycler.apply(PolicyChange(1, 0))
    with pytest.raises(SnapshotRefused, match="epoch 0"):
        recycler.load(opened)


CYCLE: list[object] = []
CYCLE.append(CYCLE)


@pytest.mark.parametrize(
    ("request_", "field"),
    [
        (Request("a", "b", "c"), "subject"),
        (Request.of("a", None, "c"), "object"),
        (Request.of(Entity(["a"]), "b", "c"), "subject.id"),
        (Request.of("a", Entity("b", [1]), "c"), "object.attributes"),
        (Request.of("a", "b", "c", [1]), "context"),
    ],
)
@pytest.mark.parametrize("ways", [Recycling(), Recycling(precise=0)])
def test_what_is_no_request_is_refused_by_name(ways, request_, field):
    with pytest.raises(InvalidRequest) as raised:
        Recycler(ways).infer(request_, 0.0)
    assert raised.value.field == field


@pytest.mark.parametrize(
    "value", [object(), "\ud800", CYCLE, 2**70], ids=["object", "half", "cycle", "large"]
)
def test_what_cannot_be_sent_to_a_pdp_is_refused(value):
    asked = Request.of(Entity("s", {"x": value}), "/o", "read")
    with pytest.raises(InvalidRequest, match="must hold JSON values only"):
        Recycler().infer(asked, 0.0)
    assert Recycler(Recycling(precise=0)).infer(asked, 0.0) is None


@pytest.mark.parametrize("ways", [Recycling(), Recycling(precise=0)])
def test_attributes_that_are_none_are_left_for_the_asker_to_refuse(ways):
    assert Recycler(ways).infer(Request.of("a", Entity("b", None), "c"), 0.0) is None


@pytest.mark.parametrize("ways", [Recycling(), Recycling(precise=0)])
def test_what_no_pdp_could_be_asked_is_not_inferred(ways):
    recycler = Recycler(ways)
    below = (Literal(Prefix(Path("object"), "/docs/")),)
    recycler.learn(Request.of("s", "/docs/a", "read"), Decision(True, certificate=below), 0)
    assert recycler.infer(Request.of("s", "/docs/b", "read"), 0.0).allowed
    with pytest.raises(InvalidRequest):
        recycler.infer(Request.of("s", "/docs/../hr", "read"), 0.0)
