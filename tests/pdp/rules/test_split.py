"""Conditions told apart: what the decision point and the broker judge together is the whole condition."""

from __future__ import annotations

from hypothesis import given, settings
from hypothesis import strategies as st

from authz.predicate import And, Equal, Exists, Layout, Not, Or, Path, Predicate, Relate, compile_predicate
from authz.rules import parse_rules
from authz.rules.terms import comparisons, paths
from pdp.rules.split import is_judged, split

WORLD = Layout(
    {root: f"it[{root!r}]" for root in ("user", "sub", "context", "event", "")}, {"user": "it['id']"}
)

names = st.sampled_from(["a", "b"])
attributes = st.builds(
    lambda root, name: Path(root, (name,)), st.sampled_from(["user", "sub", "context", "event"]), names
)
facts = st.sampled_from(["credentials(user, nurse)", "treating(user, b)", "isControlled(a)"]).map(
    Path.variable
)
values = st.sampled_from([1, 2, "x"])
tests = st.one_of(
    st.builds(Equal, attributes, values),
    st.builds(Exists, attributes),
    st.builds(Relate, attributes, st.sampled_from(["==", "<"]), attributes),
    facts.map(lambda path: Equal(path, True)),
)
conditions: st.SearchStrategy[Predicate] = st.recursive(
    tests,
    lambda inner: st.one_of(
        st.lists(inner, max_size=3).map(lambda terms: And(tuple(terms))),
        st.lists(inner, max_size=3).map(lambda terms: Or(tuple(terms))),
        inner.map(Not),
    ),
    max_leaves=7,
)
some = st.dictionaries(names, values)
worlds = st.fixed_dictionaries(
    {
        "user": some,
        "sub": some,
        "context": some,
        "event": some,
        "": st.dictionaries(
            st.sampled_from(["credentials(user, nurse)", "treating(user, b)", "isControlled(a)"]),
            st.booleans(),
        ),
        "id": st.just("ann"),
    }
)


def holds(predicate: Predicate, world: object) -> bool:
    return compile_predicate(predicate, WORLD)(world)


@settings(max_examples=300)
@given(conditions, worlds)
def test_an_alternative_holds_exactly_where_the_condition_does(condition, world):
    alternatives = split(condition)
    assert any(holds(each.judged, world) and holds(each.left, world) for each in alternatives) is holds(
        condition, world
    )


@given(conditions)
def test_each_part_speaks_only_of_what_its_judge_knows(condition):
    for each in split(condition):
        assert all(map(is_judged, paths(each.judged)))
        for test in comparisons(each.left):
            seen = (test.path, test.other) if isinstance(test, Relate) else (test.path,)
            assert not all(map(is_judged, seen))


def test_what_need_not_be_told_apart_stays_together():
    text = "(user.a = 1 OR user.b = 2) AND NOT (x = 1 AND y = 2) AND (x = 3 OR y = 4)"
    (rule,) = parse_rules(f"ALLOW REPLAY OF t WHERE {text}")
    (only,) = split(rule.body.where)
    user, event = (lambda name: Path("user", (name,))), (lambda name: Path("event", (name,)))
    assert only.judged == Or((Equal(user("a"), 1), Equal(user("b"), 2)))
    assert only.left == And(
        (
            Not(And((Equal(event("x"), 1), Equal(event("y"), 2)))),
            Or((Equal(event("x"), 3), Equal(event("y"), 4))),
        )
    )
