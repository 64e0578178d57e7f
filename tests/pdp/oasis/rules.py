"""Random rule sets, terms and facts over a small world."""

from __future__ import annotations

from hypothesis import strategies as st

from authz import Identity
from authz.predicate import And, Equal, Exists, In, Not, Or, Order, Path, Prefix, Relate
from pdp.oasis.pattern import ObjectPattern
from pdp.oasis.syntax import (
    Activation,
    Appointed,
    Appointing,
    Authorisation,
    Constraint,
    Declaration,
    Empowering,
    Fact,
    Prerequisite,
    RuleSet,
    Seniority,
    Trust,
)
from pdp.oasis.terms import Atom, Instance, Variable

KEYS = [str(Identity.from_seed(bytes([n]) * 32).public) for n in (1, 2)]
VARIABLES = ["d", "p", "x"]

constants = st.one_of(st.integers(-(2**63), 2**63 - 1), st.text(st.characters(codec="utf-8"), max_size=5))
variables = st.sampled_from(VARIABLES).map(Variable)
instances = st.builds(
    Instance, st.sampled_from(["doctor", "uk.met.clerk", "a-b"]), st.lists(constants, max_size=3).map(tuple)
)

_paths = st.sampled_from(
    [Path("subject"), Path("subject", ("unit",)), Path("context", ("hour",)), Path("context", ("a b", 0))]
)
_bound = st.sampled_from(VARIABLES).map(Path.variable)
_scalars = st.one_of(
    st.integers(-3, 99), st.booleans(), st.text(st.characters(codec="utf-8"), max_size=4), st.just(1.5)
)
_comparisons = st.one_of(
    st.builds(Exists, _paths),
    st.builds(Equal, _paths, _scalars),
    st.builds(
        Order, _paths, st.sampled_from(["<", "<=", ">", ">="]), st.one_of(st.integers(0, 9), st.just("m"))
    ),
    st.builds(In, _paths, st.lists(_scalars, max_size=3).map(tuple)),
    st.builds(Prefix, _paths, st.text("ab/", max_size=3), st.booleans()),
    st.builds(Relate, _bound, st.sampled_from(["==", "<", "in"]), _paths),
    st.builds(Relate, _paths, st.sampled_from(["==", ">="]), _bound),
    st.builds(Relate, _bound, st.just("=="), _bound),
    st.builds(lambda path, value: And((Exists(path), Not(Equal(path, value)))), _paths, _scalars),
)
predicates = st.recursive(
    _comparisons,
    lambda inner: st.one_of(
        st.builds(And, st.lists(inner, min_size=2, max_size=3).map(tuple)),
        st.builds(Or, st.lists(inner, min_size=2, max_size=3).map(tuple)),
    ),
    max_leaves=4,
)

_ALL = tuple(map(Variable, VARIABLES))
"""Stands in each body, so that whatever variable a constraint or head draws is bound."""


def _atoms(names: list[str]) -> st.SearchStrategy[Atom]:
    terms = st.lists(st.one_of(variables, constants), min_size=1, max_size=3).map(tuple)
    return st.builds(Atom, st.sampled_from(names), terms)


_conditions = st.one_of(
    st.builds(Prerequisite, _atoms(["doctor", "nurse"]), st.booleans()),
    st.builds(Appointed, _atoms(["employed", "uk.court.order"]), st.booleans()),
    st.builds(Fact, _atoms(["treats"]), st.booleans()),
    st.builds(Constraint, predicates, st.booleans()),
)
_names = st.sampled_from(["", "ward-read", "r1"])
_patterns = st.sampled_from(["/a", "/p/{p}/record", "/x/*.txt", "/deep/**", "**", 'quo"te/{q}']).map(
    ObjectPattern.parse
)
_constraints = st.lists(st.builds(Constraint, predicates), max_size=2).map(tuple)
_actions = st.lists(st.sampled_from(["read", "write", "http GET", "*x"]), max_size=2, unique=True).map(tuple)

statements = st.one_of(
    st.builds(Declaration, st.sampled_from([Atom("clerk"), Atom("doctor", (Variable("d"),))]), st.booleans()),
    st.builds(Trust, st.sampled_from(KEYS), st.sampled_from([("employed",), ("a.b", "c")])),
    st.builds(lambda junior: Seniority(Atom("chief", _ALL), junior), _atoms(["doctor"])),
    st.builds(
        lambda body, head, name: Activation((Prerequisite(Atom("every", _ALL)), *body), head, name),
        st.lists(_conditions, max_size=3).map(tuple),
        _atoms(["doctor", "nurse"]),
        _names,
    ),
    st.builds(Authorisation, st.just(Atom("every", _ALL)), _constraints, _actions, _patterns, _names),
    st.builds(
        Empowering,
        st.just(Atom("every", _ALL)),
        st.sampled_from([(), ("subscribe",), ("publish", "subscribe")]),
        st.sampled_from(["uk.gov.*", "SportsNews"]),
        st.sampled_from([(), ("time", "a b")]),
        st.sampled_from([None, Relate(Path("event", ("np",)), "==", Path.variable("p"))]),
        _names,
    ),
    st.builds(Appointing, st.just(Atom("every", _ALL)), st.just(()), _atoms(["employed"]), _names),
)
rule_sets = st.builds(
    lambda domain, statements: RuleSet(*domain, tuple(statements)),
    st.sampled_from([("", ""), ("hospital", ""), ("uk.met", "uk")]),
    st.lists(statements, max_size=5),
)
