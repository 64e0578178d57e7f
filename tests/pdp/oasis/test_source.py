"""Roles as a policy source: equal to a short reference, and certified by what implies the verdict."""

from __future__ import annotations

import re

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from authz import Basis, Entity, Request
from authz.decision import Effect
from authz.predicate import compile_predicate
from pdp.engine.engine import Engine
from pdp.engine.source import PolicySource, Verdict
from pdp.oasis import Domains, Instance, RoleSource, Rulebook, parse
from pdp.oasis.constraint import Case, compile_constraint
from pdp.oasis.errors import InvalidTerm
from pdp.oasis.terms import match

HOSPITAL = """
role clerk, manager, director, doctor(d), treating(d, p), chief(w)
manager > clerk
director > manager
chief(w) > doctor(w)
chief(w) > clerk
file: clerk |- privilege(read|list, "/files/1")
tree: manager |- privilege(read, "/files/**")
all: director |- privilege(*, "**")
record: treating(d, p) |- privilege(read, "/patients/{p}/record")
write: treating(d, p), [context.hour >= 8 and context.hour < 18] |- privilege(write, "/patients/{p}/record")
own: doctor(d), [object.owner == d] |- privilege(read, "/notes/{n}")
named: doctor(d), [n != d] |- privilege(list, "/notes/{n}")
first: doctor("1") |- privilege(read, "/first/{x}/y")
any: doctor(_) |- privilege(read, "/lobby")
late: clerk, [context.hour >= 18 or context.hour < 8] |- privilege(read, "/files/1")
"""


def rulebook(text: str) -> Rulebook:
    return Domains([parse(text)]).everything()


def source(text: str = HOSPITAL) -> RoleSource:
    return RoleSource(rulebook(text))


def applicable(book: Rulebook, request: Request) -> set[str]:
    """The rules that allow a request, by the meaning of the words."""
    sent = request.subject.attributes.get("roles")
    roles: set[Instance] = set()
    for text in sent if isinstance(sent, (list, tuple)) else ():
        try:
            roles |= set(book.implied(Instance.parse(text))) if isinstance(text, str) else set()
        except InvalidTerm:
            continue
    found = set()
    for rule in book.authorisations:
        for role in roles:
            bindings = match(rule.role, role, {})
            if bindings is None or (rule.actions and request.action.id not in rule.actions):
                continue
            filled = {name: str(bindings[name]) for name in rule.pattern.names if name in bindings}
            if not re.search(rule.pattern.regex(filled), request.object.id):
                continue
            parts = zip(rule.pattern.text.split("/"), request.object.id.split("/"), strict=False)
            free = {part[1:-1]: text for part, text in parts if part.startswith("{")}
            case = Case(request, {**free, **bindings})
            if all(compile_constraint(each.predicate)(case) for each in rule.constraints):
                found.add(rule.name)
    return found


roles = st.sampled_from(
    ["clerk", "manager", "director", "doctor(d1)", "doctor(1)", 'doctor("1")', "treating(d1, p1)", "treating(d1, 7)",
     "chief(d1)", "nobody", "clerk()", "doctor(d1", "treating(p1)", 7, None, ["clerk"], {"a": 1}]
)  # fmt: skip
sent = st.one_of(st.lists(roles, max_size=4), st.sampled_from([None, "clerk", {"clerk": 1}, 3]))
objects = st.sampled_from(
    ["/files/1", "/files/2/x", "/files/../x", "/patients/p1/record", "/patients/7/record", "/patients/p2/record",
     "/notes/d1", "/notes/n1", "/first/a/y", "/lobby", "elsewhere"]
)  # fmt: skip
requests = st.builds(
    lambda roles, object_id, owner, action, hour: Request.of(
        Entity("s", {} if roles is None else {"roles": roles}),
        Entity(object_id, {"owner": owner}),
        action,
        {"hour": hour},
    ),
    sent,
    objects,
    st.sampled_from(["d1", "1", 1, None]),
    st.sampled_from(["read", "write", "list", "burn"]),
    st.sampled_from([7, 9, 20, "nine", None]),
)
SOURCE, BOOK = source(), rulebook(HOSPITAL)


@given(requests)
@settings(max_examples=250)
def test_the_source_allows_exactly_what_some_rule_allows(request):
    verdict = SOURCE.judge(request)
    expected = applicable(BOOK, request)
    assert (verdict.effect is Effect.ALLOW) == bool(expected)
    assert set(verdict.policies) <= expected
    assert verdict.effect in (Effect.ALLOW, None)


@given(requests, requests)
@settings(max_examples=250)
def test_whatever_satisfies_a_certificate_gets_the_same_effect(request, other):
    verdict = SOURCE.judge(request, certify=True)
    assert verdict.effect == SOURCE.judge(request).effect
    if verdict.certificate is not None:
        assert all(compile_predicate(each.predicate)(request) for each in verdict.certificate)
        if all(compile_predicate(each.predicate)(other) for each in verdict.certificate):
            assert SOURCE.judge(other).effect == verdict.effect


@given(st.lists(roles, max_size=3), requests)
@settings(max_examples=100)
def test_with_roles_as_its_basis_a_permission_depends_on_single_roles_alone(some, request):
    verdict = SOURCE.judge(request)
    if verdict.basis is Basis.ROLES:
        asked = Request.of(Entity("other", {"roles": some}), request.object.id, request.action)
        alone = [
            Request.of(Entity("x", {"roles": [each]}), request.object.id, request.action) for each in some
        ]
        together = any(SOURCE.judge(each).effect is Effect.ALLOW for each in alone)
        assert (SOURCE.judge(asked).effect is Effect.ALLOW) == together


@given(requests)
def test_a_source_that_is_unconcerned_is_silent_whoever_asks(request):
    if SOURCE.judge(request).unconcerned:
        everyone = Entity("boss", {"roles": ["director", "manager", "chief(1)", "treating(d1, p1)"]})
        assert SOURCE.judge(Request.of(everyone, request.object.id, request.action)).effect is None


def ask(
    subject_roles: list[str], object_id: str, action: str, policy: str = HOSPITAL, hour: int = 9
) -> Verdict:
    request = Request.of(Entity("s", {"roles": subject_roles}), object_id, action, {"hour": hour})
    return source(policy).judge(request, certify=True)


def literals(verdict: Verdict) -> list[str]:
    assert verdict.certificate is not None
    return [str(each) for each in verdict.certificate]


def test_an_allow_names_its_rule_and_the_facts_that_imply_it():
    verdict = ask(["treating(d1, p1)"], "/patients/p1/record", "write")
    assert verdict.policies == ("roles#write",)
    assert literals(verdict) == [
        'subject.roles overlaps ["treating(d1, p1)"]',
        'action.id == "write"',
        'object.id == "/patients/p1/record"',
        "context.hour >= 8",
        "context.hour < 18",
    ]
    assert verdict.basis is None


def test_a_certificate_covers_all_objects_of_the_pattern_that_would_do():
    certificate = literals(ask(["manager"], "/files/2/x", "read"))
    assert certificate[2] == r'object.id matches "^/files(?:/(?:[^/.]|\\.[^/.]|\\.\\.[^/])[^/]*)+\\Z"'


def test_silence_names_the_few_roles_that_would_have_done():
    policy = 'role clerk, manager\nclerk |- privilege(read, "/x")\nmanager |- privilege(read, "/x")'
    assert literals(ask(["nobody"], "/x", "read", policy)) == [
        'action.id == "read"',
        'object.id == "/x"',
        'not subject.roles overlaps ["clerk", "manager"]',
    ]
    assert literals(ask(["clerk"], "/x", "burn", policy)) == ['action.id == "burn"']
    many = "".join(f'\nrole r{n}\nr{n} |- privilege(read, "/x")' for n in range(20))
    assert literals(ask(["nobody"], "/x", "read", policy + many))[2] == 'subject.roles subset of ["nobody"]'


def test_a_rule_that_failed_by_its_constraint_is_named_by_the_comparison_that_failed():
    assert "not context.hour < 18" in literals(
        ask(["treating(d1, p1)"], "/patients/p1/record", "write", hour=20)
    )


def test_a_parameter_stands_in_an_objects_name_as_its_text():
    assert ask(["treating(d1, 7)"], "/patients/7/record", "read").effect is Effect.ALLOW


def test_roles_of_other_domains_are_other_roles():
    police = "domain police\nrole clerk"
    met = 'domain met under police\nclerk |- privilege(read, "/met")'
    kent = 'domain kent\nrole clerk\nclerk |- privilege(read, "/kent")'
    both = RoleSource(Domains(parse(text) for text in (police, met, kent)).everything())

    def allowed(role: str, object_id: str) -> bool:
        return (
            both.judge(Request.of(Entity("s", {"roles": [role]}), object_id, "read")).effect is Effect.ALLOW
        )

    assert allowed("police.clerk", "/met")
    assert allowed("kent.clerk", "/kent")
    assert not any(
        allowed(role, object_id) for role in ("clerk", "met.clerk") for object_id in ("/met", "/kent")
    )
    assert not allowed("police.clerk", "/kent")


@pytest.mark.parametrize("role", ["director", "chief(w)", "manager"])
def test_a_senior_role_has_what_its_juniors_have(role):
    assert ask([role], "/files/1", "list").effect is Effect.ALLOW


def test_the_source_is_a_policy_source():
    offered: PolicySource = source()
    assert offered.name == "roles"


def test_an_explanation_says_what_each_rule_about_the_permission_lacks():
    request = Request.of(
        Entity("s", {"roles": ["treating(d1, p1)"]}), "/patients/p1/record", "write", {"hour": 20}
    )
    explained = str(Engine([source()]).explain(request))
    assert explained.splitlines() == [
        "s write /patients/p1/record: deny (no-policy)",
        "allow roles#all does not apply",
        '  would need the role director; subject.roles is ["treating(d1, p1)"]',
        "allow roles#write does not apply",
        "  would need context.hour < 18; context.hour is 20",
        "8 more about other subjects, objects or actions",
    ]
    other = Request.of("s", "/patients/p2/record", "read")
    assert 'would need the role treating(d, "p2"); subject.roles is missing' in str(
        Engine([source()]).explain(other)
    )
    allowed = Request.of(Entity("s", {"roles": ["manager"]}), "/files/2", "read")
    first = Engine([source()]).explain(allowed).policies[0]
    assert (first.policy, first.applies, first.determines) == ("roles#tree", True, True)
    assert str(first).splitlines()[1:] == [
        '  because read of "/files/**" is granted to manager',
        '  because subject.roles overlaps ["manager"]; subject.roles is ["manager"]',
    ]


@given(requests)
def test_a_rule_is_explained_to_apply_exactly_if_it_does(request):
    explained, others = SOURCE.explain(request)
    assert {each.policy for each in explained if each.applies} == applicable(BOOK, request)
    assert len(explained) + others == len(BOOK.authorisations)


@given(
    st.lists(st.one_of(st.text(max_size=12), st.from_regex(r'(doctor|treating)\(("?[\\u0-9d, p"]{0,30})\)'))),
    objects,
)
def test_no_text_of_a_role_makes_it_raise(texts, object_id):
    for action in ("read", "write", "list"):
        verdict = SOURCE.judge(Request.of(Entity("s", {"roles": texts}), object_id, action), certify=True)
        assert hash(verdict.certificate) is not None
