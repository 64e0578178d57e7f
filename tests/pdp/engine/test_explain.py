"""What a person is told about a decision, and that following the advice works."""

from __future__ import annotations

import msgspec
from hypothesis import assume, given, settings

from authz import Entity, Reason, Request
from authz.decision import Effect
from authz.predicate import (
    And,
    Equal,
    Exists,
    Not,
    Or,
    Order,
    Path,
    Prefix,
    Relate,
    comparisons,
    compile_predicate,
    satisfiable,
)
from pdp.abac import Algorithm, Policy
from pdp.abac.source import AbacSource
from pdp.engine.engine import Engine
from pdp.engine.explain import changes_to
from tests.authz import predicates as some

OBJECT, ACTION = Path("object"), Path("action")
LEVEL, DEPT, STATUS = Path("subject", ("level",)), Path("subject", ("dept",)), Path("object", ("status",))
DOCS = Prefix(OBJECT, "/docs/")
POLICIES = [
    Policy(
        "editors",
        Effect.ALLOW,
        And((DOCS, Equal(ACTION, "write"), Order(LEVEL, ">=", 3), Equal(DEPT, "news"))),
    ),
    Policy("chiefs", Effect.ALLOW, And((DOCS, Order(LEVEL, ">=", 5))), 0, "those who may do anything"),
    Policy("archive", Effect.DENY, And((DOCS, Equal(STATUS, "archived"), Not(Equal(ACTION, "read"))))),
    Policy("elsewhere", Effect.ALLOW, Prefix(OBJECT, "/hr/")),
]
ENGINE = Engine([AbacSource(POLICIES, Algorithm.DENY_OVERRIDES)])


def asking(**attributes: object) -> Request:
    return Request.of(Entity("ann", attributes), Entity("/docs/1", {"status": "open"}), "write")


def test_each_candidate_is_told_with_what_it_lacks_nearest_first():
    assert str(ENGINE.explain(asking(level=2, dept="news"))).splitlines() == [
        "ann write /docs/1: deny (no-policy)",
        "allow editors does not apply",
        "  would need subject.level >= 3; subject.level is 2",
        "allow chiefs (those who may do anything) does not apply",
        "  would need subject.level >= 5; subject.level is 2",
        "deny archive does not apply",
        '  would need object.status == "archived"; object.status is "open"',
        "1 more about other subjects, objects or actions",
    ]


def test_what_determines_comes_first_with_what_would_undo_it():
    request = Request.of(Entity("ann", {"level": 7}), Entity("/docs/1", {"status": "archived"}), "write")
    explanation = ENGINE.explain(request)
    assert [each.policy for each in explanation.policies if each.applies] == ["archive", "chiefs"]
    assert explanation.policies[0].determines
    assert 'would not apply if not object.status == "archived"' in str(explanation)


def test_an_allow_is_told_with_every_condition_that_it_rests_on():
    request = Request.of(
        Entity("ann", {"level": 4, "dept": "news"}), Entity("/docs/1", {"status": "open"}), "write"
    )
    assert str(ENGINE.explain(request)).splitlines()[:5] == [
        "ann write /docs/1: allow (policy: editors)",
        "allow editors determines this",
        '  because object.id starts with "/docs/"; object.id is "/docs/1"',
        '  because action.id == "write"',
        "  because subject.level >= 3; subject.level is 4",
    ]
    assert '  because subject.dept == "news"' in str(ENGINE.explain(request)).splitlines()


def test_what_undoes_a_denial_only_together_is_told_together():
    either = Policy("either", Effect.DENY, Or((Equal(DEPT, "news"), Order(LEVEL, ">", 1))))
    (told,) = (
        Engine([AbacSource([either], Algorithm.DENY_OVERRIDES)])
        .explain(asking(dept="news", level=2))
        .policies
    )
    assert str(told).splitlines() == [
        "deny either determines this",
        '  because subject.dept == "news"',
        '  would not apply if not subject.dept == "news"; subject.dept is "news"',
        "  and if not subject.level > 1; subject.level is 2",
    ]


@given(some.predicates, some.requests)
def test_the_facts_that_a_policy_applies_by_are_told_exactly_if_it_does(predicate, request):
    policy = Policy("p", Effect.ALLOW, predicate)
    explained, _ = AbacSource([policy], Algorithm.DENY_OVERRIDES).explain(request)
    for each in explained:
        assert each.applies is compile_predicate(predicate)(request)
        assert each.applies or not each.because


def test_a_missing_attribute_is_called_missing():
    explanation = ENGINE.explain(asking())
    assert "would need subject.level >= 5; subject.level is missing" in str(explanation)
    assert explanation.policies[0].changes[0].found is None


def test_both_sides_of_a_relation_are_shown():
    policy = Policy("own", Effect.ALLOW, Relate(DEPT, "==", Path("object", ("dept",))))
    request = Request.of(Entity("ann", {"dept": "a"}), Entity("/x", {"dept": "b"}), "read")
    (own,) = Engine([AbacSource([policy], Algorithm.DENY_OVERRIDES)]).explain(request).policies
    assert str(own.changes[0]) == 'subject.dept == object.dept (object.dept is "b"); subject.dept is "a"'


def test_an_explanation_is_data():
    data = msgspec.json.decode(msgspec.json.encode(ENGINE.explain(asking(level=2))))
    assert data["others"] == 1
    assert data["policies"][0]["changes"][0] == {
        "needs": "subject.level >= 5",
        "path": "subject.level",
        "found": 2,
    }


def test_the_nearest_of_several_ways_is_told():
    either = Or((And((Exists(DEPT), Order(LEVEL, ">", 9))), Equal(ACTION, "read")))
    assert list(map(str, changes_to(either, asking(), True))) == ['action.id == "read"']


@given(some.predicates, some.requests)
@settings(max_examples=100)
def test_the_changes_named_are_not_so_now_and_would_do(predicate, request):
    tests = list(comparisons(predicate))
    assume(len(set(tests)) == len(tests))
    wanted = not compile_predicate(predicate)(request)
    changes = changes_to(predicate, request, wanted)
    if changes is None:
        assert satisfiable(predicate) is False or satisfiable(Not(predicate)) is False
        return
    assert not any(compile_predicate(each.predicate)(request) for each in changes)
    assert _after(predicate, {each.comparison: each.holds for each in changes}, request) is wanted


def _after(predicate, changed, request):
    """The truth value, if these comparisons had these outcomes and all others stayed as they are."""
    match predicate:
        case And(terms):
            return all(_after(each, changed, request) for each in terms)
        case Or(terms):
            return any(_after(each, changed, request) for each in terms)
        case Not(term):
            return not _after(term, changed, request)
    return changed.get(predicate, compile_predicate(predicate)(request))


def test_the_decision_explained_is_the_decision():
    assert ENGINE.explain(asking(level=9)).decision == ENGINE.evaluate(asking(level=9))
    assert Engine([]).explain(asking()).decision.reason is Reason.NO_POLICY
