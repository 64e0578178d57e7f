"""Conditions told apart: what decision points and brokers judge together is the whole, of random rules too."""

from __future__ import annotations

from hypothesis import given, settings
from hypothesis import strategies as st

from authz import Entity, Request
from authz.predicate import (
    And,
    Equal,
    Exists,
    Layout,
    Not,
    Or,
    Path,
    Predicate,
    Relate,
    comparisons,
    compile_predicate,
    paths,
)
from authz.predicate.filter import opening
from authz.rules import Allow, Asking, Restrict, Rule, parse_rules
from pdp.bundle.policy_set import PolicySet
from pdp.rules import Interaction, RuleFile
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


@settings(max_examples=40)
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
            Or(
                tuple(
                    And((Exists(event(name)), Not(Equal(event(name), n)))) for name, n in (("x", 1), ("y", 2))
                )
            ),
            Or((Equal(event("x"), 3), Equal(event("y"), 4))),
        )
    )


written = conditions.filter(lambda each: bool(list(paths(each))) and _is_written(each))
"""Conditions as text can say them: without empty parts."""


def _is_written(predicate: Predicate) -> bool:
    match predicate:
        case And(terms) | Or(terms):
            return len(terms) > 1 and all(map(_is_written, terms))
        case Not(term):
            return _is_written(term)
    return True


rules = st.lists(
    st.one_of(
        st.builds(Allow, st.just("t"), st.sampled_from(Asking), written.map(opening)),
        st.builds(Restrict, st.just("t"), st.just(Equal(Path("event", ("a",)), 1)), written),
    ),
    max_size=4,
)


def request(world, action: str) -> Request:
    roles = ["nurse"] if world[""].get("credentials(user, nurse)") else []
    subject = Entity(world["id"], {**world["user"], "roles": roles})
    return Request.of(subject, "/types/t", action, {**world["context"], "sub": world["sub"]})


@settings(max_examples=40, deadline=None)
@given(rules, worlds, st.sampled_from(Asking))
def test_nobody_receives_but_by_an_allow_and_every_restriction_that_applies_binds(bodies, world, asking):
    file = RuleFile("x.rules", tuple(Rule(body, f"r{number}") for number, body in enumerate(bodies)))
    engine = PolicySet(interaction=Interaction.of([file])).engine()
    decision = engine.evaluate(request(world, "subscribe" if asking is Asking.SUBSCRIPTION else "replay"))
    duties = [parse_rules(str(duty["interaction"]))[0] for duty in decision.obligations if decision.allowed]
    applying = {duty.label for duty in duties if holds(duty.body.where, world)}
    received = any(isinstance(duty.body, Allow) for duty in duties if duty.label in applying)
    meant = {rule.label for rule in file.rules if holds(rule.body.where, world)}
    allowing = {r.label for r in file.rules if isinstance(r.body, Allow) and r.body.asking is asking}
    restricting = {r.label for r in file.rules if isinstance(r.body, Restrict)}
    assert received is bool(meant & allowing)
    if received:
        assert applying == meant & (allowing | restricting)
