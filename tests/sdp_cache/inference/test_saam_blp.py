from itertools import permutations, product

import pytest
from hypothesis import given
from hypothesis import strategies as st

from authz import Basis, Decision, Request
from authz.change import PolicyChange, Relabelled, RelabelledBelow, Touched
from authz.predicate import And, Equal, Path
from sdp_cache.inference.dominance import Dominance
from sdp_cache.inference.saam_blp import PAIRS_EACH, SaamBlp
from sdp_cache.validity.change_log import ChangeLog
from tests.sdp_cache.models import OBJECTS, SUBJECTS, BlpWorld

ALLOW = Decision(True, basis=Basis.LABELS)
DENY = Decision(False, basis=Basis.LABELS)
ACTIONS = ["read", "append", "write"]

labels = st.frozensets(st.integers(0, 2))
requests = st.builds(
    Request.of, st.sampled_from(SUBJECTS), st.sampled_from(OBJECTS), st.sampled_from(ACTIONS)
)
EVERY_REQUEST = [Request.of(*each) for each in product(SUBJECTS, OBJECTS, ACTIONS)]


def saam():
    log = ChangeLog()
    return log, SaamBlp(log)


def allowed(cache, *request):
    decision = cache.infer(Request.of(*request), 0.0)
    return None if decision is None else decision.allowed


@given(
    st.fixed_dictionaries(dict.fromkeys(SUBJECTS, labels)),
    st.fixed_dictionaries(dict.fromkeys(OBJECTS, labels)),
    st.frozensets(st.tuples(st.sampled_from(OBJECTS), st.sampled_from(ACTIONS)), max_size=2),
    st.lists(
        st.one_of(
            st.tuples(st.just("ask"), requests),
            st.tuples(st.just("relabel"), st.sampled_from([*SUBJECTS, *OBJECTS]), labels),
            st.tuples(st.just("matrix"), st.tuples(st.sampled_from(OBJECTS), st.sampled_from(ACTIONS))),
        ),
        max_size=30,
    ),
)
def test_no_inferred_answer_differs_from_the_policy_through_new_labels_and_policies(
    subjects, objects, discretionary, trace
):
    world = BlpWorld(subjects, objects, discretionary)
    log, cache = saam()
    for kind, what, *label in trace:
        if kind == "ask":
            cache.learn(what, world.decide(what), "x")
        else:
            change = relabel(world, what, *label) if kind == "relabel" else rule(world, *what)
            log.apply(change)
            cache.apply(change)
        for request in EVERY_REQUEST:
            inferred = cache.infer(request, 0.0)
            if inferred is not None:
                truth = world.decide(request)
                assert (inferred.allowed, inferred.epoch) == (truth.allowed, truth.epoch)
    assert cache.contradictions == 0


def relabel(world, name, label):
    kind = "subject" if name in world.subjects else "object"
    (world.subjects if kind == "subject" else world.objects)[name] = label
    world.epoch += 1
    return PolicyChange(world.epoch, world.epoch - 1, (Relabelled(kind, name),))


def rule(world, object_, action):
    """Let the matrix have its say about a permission, or take it away."""
    world.discretionary ^= {(object_, action)}
    world.epoch += 1
    where = And((Equal(Path("object"), object_), Equal(Path("action"), action)))
    return PolicyChange(world.epoch, world.epoch - 1, (Touched(where),))


nodes = st.integers(0, 5)
pairs = st.lists(st.tuples(nodes, nodes, st.booleans()), max_size=14)


@given(pairs)
def test_the_closed_graph_answers_every_pair_as_paths_do(pairs):
    graph = Dominance()
    edges, refused = set(), set()
    for x, y, dominates in pairs:
        expected = naive(edges, refused, x, y)
        taken = graph.learn(x, y, dominates, "x")
        assert taken is (expected in (None, dominates))
        if taken:
            (edges if dominates else refused).add((x, y))
        known = {node for pair in edges | refused for node in pair}
        for a, b in product(known, known):
            assert graph.dominates(a, b) is naive(edges, refused, a, b)


def reach(edges, start):
    found = {start}
    while more := {y for x, y in edges if x in found} - found:
        found |= more
    return found


def naive(edges, refused, x, y):
    if y in reach(edges, x):
        return True
    below = reach(edges, y)
    return False if any(x in reach(edges, a) and b in below for a, b in refused) else None


@given(pairs, st.sets(nodes, max_size=3), pairs)
def test_nodes_taken_out_leave_what_was_learned_of_the_others(pairs, gone, more):
    graph, rest = Dominance(), Dominance()
    for x, y, dominates in pairs:
        if graph.learn(x, y, dominates, "x") and gone.isdisjoint((x, y)):
            rest.learn(x, y, dominates, "x")
    left = graph.without(gone.__contains__)
    assert left.size == rest.size
    assert all(left.dominates(x, y) is rest.dominates(x, y) for x, y in permutations(range(6), 2))
    for x, y, dominates in more:
        assert left.learn(x, y, dominates, "x") is rest.learn(x, y, dominates, "x")
    assert all(left.dominates(x, y) is rest.dominates(x, y) for x, y in permutations(range(6), 2))


def test_a_graph_without_the_nodes_to_be_taken_out_stays_as_it_is():
    graph = Dominance()
    graph.learn("s", "o", True, "x")
    assert graph.without(lambda name: name == "t") is graph


def test_reading_follows_through_what_others_append_and_read():
    _, cache = saam()
    cache.learn(Request.of("s1", "o1", "read"), ALLOW, "1")
    cache.learn(Request.of("s2", "o1", "append"), ALLOW, "2")
    cache.learn(Request.of("s2", "o2", "read"), ALLOW, "3")
    decision = cache.infer(Request.of("s1", "o2", "read"), 0.0)
    assert decision.allowed
    assert decision.inferred.method == "saam-blp"
    assert sorted(decision.inferred.answers) == ["1", "2", "3"]


def test_a_refused_reader_refuses_those_it_dominates():
    _, cache = saam()
    cache.learn(Request.of("high", "secret", "read"), DENY, "1")
    cache.learn(Request.of("high", "note", "read"), ALLOW, "2")
    cache.learn(Request.of("low", "note", "append"), ALLOW, "3")
    decision = cache.infer(Request.of("low", "secret", "read"), 0.0)
    assert not decision.allowed
    assert sorted(decision.inferred.answers) == ["1", "2", "3"]


def test_a_refused_write_teaches_only_what_the_other_half_leaves_no_doubt_of():
    _, cache = saam()
    cache.learn(Request.of("s", "o", "write"), DENY, "1")
    assert allowed(cache, "s", "o", "write") is None
    cache.learn(Request.of("s", "o", "read"), ALLOW, "2")
    cache.learn(Request.of("s", "o", "write"), DENY, "3")
    assert allowed(cache, "s", "o", "write") is False
    assert allowed(cache, "s", "o", "read") is True


@pytest.mark.parametrize(
    "decision",
    [
        Decision(False),
        Decision(False, basis=Basis.ROLES),
        Decision(True, basis=Basis.LABELS, expires=9.0),
    ],
)
def test_nothing_is_learned_from_an_answer_that_may_depend_on_more_than_labels(decision):
    _, cache = saam()
    cache.learn(Request.of("s", "o", "read"), decision, "1")
    assert allowed(cache, "s", "o", "read") is None


def test_a_deny_by_labels_does_not_say_that_labels_alone_allow():
    _, cache = saam()
    cache.learn(Request.of("s1", "o", "append"), ALLOW, "1")
    cache.learn(Request.of("s1", "o", "read"), ALLOW, "2")
    cache.learn(Request.of("s2", "o", "write"), DENY, "3")
    assert allowed(cache, "s1", "o", "write") is None


def test_an_action_that_is_neither_reading_nor_writing_is_left_alone():
    _, cache = saam()
    cache.learn(Request.of("s", "o", "delete"), ALLOW, "1")
    assert len(cache) == 0
    assert allowed(cache, "s", "o", "delete") is None


def test_contradicting_answers_flush_everything_and_are_counted():
    _, cache = saam()
    cache.learn(Request.of("s", "o", "read"), ALLOW, "1")
    cache.learn(Request.of("s", "o", "read"), DENY, "2")
    assert cache.contradictions == 1
    assert len(cache) == 0


def test_it_starts_anew_rather_than_grow_beyond_its_size():
    cache = SaamBlp(ChangeLog(), size=10)
    for n in range(100):
        cache.learn(Request.of(f"s{n}", f"o{n}", "read"), ALLOW, "x")
        assert len(cache) <= 10
    assert allowed(cache, "s99", "o99", "read") is True


def test_it_keeps_no_more_pairs_than_it_has_room_for():
    cache = SaamBlp(ChangeLog(), size=80)
    for n, m in product(range(39), range(39)):  # more than that, though there is room for all of them
        cache.learn(Request.of(f"s{n}", f"o{m}", "read"), ALLOW, "x")
        assert cache.pairs <= PAIRS_EACH * 80
    assert allowed(cache, "s38", "o38", "read") is True
    cache = SaamBlp(ChangeLog(), size=10)
    for number in range(20):
        cache.learn(Request.of("s", "o", "read"), ALLOW, str(number))
    assert cache.pairs == 1


def relabel_all(count, *effects):
    """A graph of so many subjects that may read one object, after these effects."""
    log, cache = saam()
    for n in range(count):
        cache.learn(Request.of(f"s{n}", "/n/x", "read"), ALLOW, "x")
    change = PolicyChange(1, 0, effects)
    log.apply(change)
    cache.apply(change)
    return cache


def test_a_relabelled_prefix_takes_out_all_that_start_so_and_no_others():
    def known(*effects):
        cache = relabel_all(3, *effects)
        return [allowed(cache, f"s{n}", "/n/x", "read") for n in range(3)]

    assert known(RelabelledBelow("object", "/n/")) == [None] * 3
    assert known(RelabelledBelow("object", "/m/"), RelabelledBelow("subject", "/n/")) == [True] * 3
    assert known(RelabelledBelow("subject", "s1")) == [True, None, True]


def test_however_many_are_relabelled_at_once_the_graph_is_closed_once(monkeypatch):
    closings = []
    close = Dominance._close
    monkeypatch.setattr(Dominance, "_close", lambda self: (closings.append(1), close(self)))
    cache = relabel_all(
        50, *(Relabelled("subject", f"s{n}") for n in range(40)), RelabelledBelow("subject", "s1")
    )
    assert len(closings) == 1
    assert allowed(cache, "s39", "/n/x", "read") is None
    assert allowed(cache, "s49", "/n/x", "read") is True
