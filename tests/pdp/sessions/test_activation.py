"""Finding proofs: exactly those that trying every value would find."""

from __future__ import annotations

import itertools
from collections.abc import Iterable
from dataclasses import dataclass

from hypothesis import given, settings
from hypothesis import strategies as st

from authz import Entity, Request
from authz.predicate import Order, Path, Predicate, Relate
from pdp.oasis.constraint import Case, compile_constraint
from pdp.oasis.syntax import Activation, Appointed, Condition, Constraint, Fact, Prerequisite
from pdp.oasis.terms import Atom, Bindings, Instance, Variable, ground
from pdp.sessions.activation import Search
from pdp.sessions.appointment import Appointment

VALUES = ["a", "b", 1]
VARIABLES = ["x", "y", "z"]
REQUEST = Request.of(Entity("a"), "o", "activate", {"n": 1})

terms = st.one_of(st.sampled_from(VARIABLES).map(Variable), st.sampled_from(VALUES))
pairs = st.tuples(terms, terms)
contents = st.lists(st.tuples(*[st.sampled_from(VALUES)] * 2), max_size=4, unique=True)
constraints = st.sampled_from(
    [
        Relate(Path.variable("x"), "==", Path("subject")),
        Relate(Path.variable("y"), "<", Path("context", ("n",))),
        Relate(Path.variable("x"), "==", Path.variable("z")),
        Order(Path("context", ("n",)), ">", 0),
    ]
)


@dataclass
class Known:
    """Evidence by plain lists."""

    active: list[Instance]
    held: list[Instance]
    true: list[Instance]

    def roles(self, pattern: Atom) -> Iterable[tuple[Instance, Instance]]:
        return [(each, each) for each in self.active]

    def appointments(self, pattern: Atom) -> Iterable[Appointment]:
        return [Appointment("", "", each.name, each.params, "*", 0, None, "", "") for each in self.held]

    def facts(self, pattern: Atom, bindings: Bindings) -> Iterable[Instance]:
        return self.true

    def holds(self, constraint: Predicate, bindings: Bindings) -> bool:
        return compile_constraint(constraint)(Case(REQUEST, bindings))


def satisfied(condition: Condition, values: Bindings, known: Known) -> bool:
    if isinstance(condition, Constraint):
        return known.holds(condition.predicate, values)
    where = {Prerequisite: known.active, Appointed: known.held, Fact: known.true}[type(condition)]
    return ground(condition.atom, values) in where


@st.composite
def rules(draw: st.DrawFn) -> Activation:
    kinds = st.sampled_from([(Prerequisite, "r"), (Appointed, "c"), (Fact, "f")])
    body: list[Condition] = [
        kind(Atom(name, draw(pairs))) for kind, name in draw(st.lists(kinds, max_size=3))
    ]
    body.append(Fact(Atom("f", (Variable("x"), Variable("y")))))
    body.append(Fact(Atom("f", (Variable("y"), Variable("z")))))
    body += [Constraint(each) for each in draw(st.lists(constraints, max_size=1))]
    return Activation(tuple(draw(st.permutations(body))), Atom("head", draw(pairs)), "rule")


@given(rules(), contents, contents, contents, st.tuples(*[st.sampled_from([*VALUES, Variable("_")])] * 2))
@settings(max_examples=100)
def test_the_roles_proved_are_those_that_trying_every_value_gives(rule, active, held, true, wanted):
    known = Known(
        *(
            [Instance(name, each) for each in group]
            for name, group in zip("rcf", (active, held, true), strict=True)
        )
    )
    every = (dict(zip(VARIABLES, each, strict=True)) for each in itertools.product(VALUES, repeat=3))
    fits = (values for values in every if all(satisfied(each, values, known) for each in rule.conditions))
    expected = {
        role
        for role in (ground(rule.role, values) for values in fits)
        if all(
            isinstance(want, Variable) or want == have for want, have in zip(wanted, role.params, strict=True)
        )
    }
    proofs = list(Search(rule, Atom("head", wanted), known).proofs())
    assert {proof.role for proof in proofs} == expected
    for proof in proofs:
        assert all(satisfied(condition, proof.bindings, known) for condition in rule.conditions)
        assert [condition for condition, _ in proof.supports] == sorted(
            rule.conditions, key=lambda each: isinstance(each, Constraint)
        )


def test_a_search_that_fails_says_what_was_missing_where_it_came_furthest():
    x, y = Variable("x"), Variable("y")
    late = Constraint(Relate(Path.variable("x"), "==", Path("context", ("n",))))
    rule = Activation(
        (late, Prerequisite(Atom("r", (x, "a"))), Appointed(Atom("c", (x, y)))), Atom("head", (x,)), "rule"
    )
    wanted = Atom("head", (Variable("_"),))

    def missing(known: Known) -> str:
        search = Search(rule, wanted, known)
        assert list(search.proofs()) == []
        return str(search.shortfall)

    assert missing(Known([], [], [])) == 'rule lacks `r(x, "a")`'
    assert missing(Known([Instance("r", ("b", "a"))], [], [])) == 'rule lacks `appointment c("b", y)`'
    both = Known([Instance("r", ("b", "a"))], [Instance("c", ("b", 1))], [])
    assert missing(both) == 'rule lacks `[context.n == "b"]`'
